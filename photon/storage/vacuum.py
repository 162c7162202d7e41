"""Data files that nobody needs any more leave the folder of a table, after a week (protocol A10)."""

from __future__ import annotations

from photon.faults import fault_point
from photon.storage.candidate_files import prefix_of
from photon.storage.delta import lake_errors, open_table
from photon.storage.tables import OutputTable
from photon.tokens import PlanKey

# Readers may have opened a version so long ago; candidates of a plan may wait to be committed.
KEEP_HOURS = 7 * 24
MOST_REMOVED = 1_000  # in one request


def vacuum(table: OutputTable, open_plan: PlanKey | None, knows_plans: bool) -> int:
    """Remove files that left the table at least a week ago, and such as it never had; how many.

    Candidates of `open_plan` stay however old they are. Unless `knows_plans`, what was never committed
    stays: it may be of a plan whose state is elsewhere. LakeUnavailable.
    """
    with lake_errors(f"remove old data files of {table.folder}"):
        handle = open_table(table.folder)  # one that was open before may lack entries that are gone
        removed = handle.vacuum(KEEP_HOURS, dry_run=True)
        if knows_plans:
            prefix = prefix_of(open_plan) if open_plan is not None else None
            found = handle.vacuum(KEEP_HOURS, dry_run=True, full=True)
            removed = [path for path in found if prefix is None or not path.startswith(prefix)]
        for start in range(0, len(removed), MOST_REMOVED):
            table.store.remove(*removed[start : start + MOST_REMOVED])
            fault_point("compact.after_vacuumed")
    return len(removed)
