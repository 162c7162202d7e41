"""Pass over the batch for which a silent epoch holds something: it is free then, and the epoch stays (A25).

The batch is committed without rows for it, and counted; nothing comes into its side tables any more; it is
closed by a snapshot that has it. Its process, once it is back, finds all of that and has its work come again.
A survivor may die anywhere: the next one, or that process, looks anew and goes on.
"""

from __future__ import annotations

from typing import Literal

from photon.dispatcher.committing import furthest_side
from photon.pipeline.location import Location
from photon.registry.entry import Epoch
from photon.storage.tables import (
    FENCE_VERSION,
    RAISED_TABLES,
    LastCommit,
    OutputTable,
    app_id,
    raise_side_tables,
)

Step = Literal["end", "pass", "raise", "close"]


def step_for(claimed: int, closed: int, table: LastCommit, is_fenced: bool) -> Step:
    """The next step with a silent epoch that holds something up to batch `claimed`. Pure.

    `closed`: the last batch that a ledger calls closed, read before `table`, its joined rows. Where the table
    lacks more than one batch, or one that is closed, it was put back, and the epoch is to be ended (E1).
    """
    if is_fenced or table.batch < max(claimed - 1, closed):
        return "end"
    if table.batch < claimed:
        return "pass"
    return "raise" if table.batch == claimed else "close"


def pass_over(lake: Location, epoch: Epoch, claimed: int, closed: int) -> Step:
    """Commit the batch if that is due; the step that is left. CommitConflict, LakeUnavailable."""
    datacenter, number = epoch.datacenter, str(epoch.number)
    sides = [OutputTable(lake, name) for name in RAISED_TABLES]
    joined, app = OutputTable(lake, "joined_events"), app_id(datacenter, number)
    table, side = joined.reached(app), furthest_side(sides, datacenter, number)
    step = step_for(claimed, closed, table, max(table.batch, side) >= FENCE_VERSION)
    if step == "pass":
        joined.pass_over(app, claimed)
        return "raise"
    return step


def make_final(lake: Location, epoch: Epoch, claimed: int, step: Step) -> None:
    """Have the batch's side rows change no more, and all of it on disk. CommitConflict, LakeUnavailable."""
    if step == "raise":
        raise_side_tables(lake, epoch.datacenter, str(epoch.number), claimed)
    OutputTable(lake, "joined_events").sync()
