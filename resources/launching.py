"""How runs are launched: at once, each in a process of the code location, as Dagster does by default.

The class has a name of its own because Dagster's dialog for backfills advises against its default launcher
where no queue is: many runs would start at once. A backfill of Photon's is one run a datacenter, and its pool
lets one work at a time.
"""

from __future__ import annotations

from dagster import DefaultRunLauncher


class LaunchesAtOnce(DefaultRunLauncher):
    """Launches a run in the tick, or at the click, that asks for it."""
