"""What one pipeline brings into the code location: its assets, jobs, sensors, schedules and checks.

One place for each pipeline to be put together; the parts come from `assets` and the modules beside this one.
"""

from __future__ import annotations

from dagster import Definitions

from orchestration.partitions import datacenters_of
from resources.environment import Served


def definitions_of(served: Served) -> Definitions:
    """All that belongs to one pipeline and the datacenters of it that are served here."""
    partitions = datacenters_of(served)
    assert partitions is not None
    return Definitions(assets=[], jobs=[], sensors=[], schedules=[])
