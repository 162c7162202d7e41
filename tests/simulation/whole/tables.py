"""Handles of Delta tables, lent to one process after another, as most of a seed was spent in opening them.

One whose process has ended is brought up to date, as the product does with its own: it is as good as new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from deltalake import DeltaTable

from photon.storage.delta import open_table
from tests.simulation.whole.processes import Worker, this_process


def lent_tables(put_back: Mapping[Path, int]) -> Callable[[Path], DeltaTable]:
    """Return the function that opens tables in place of `open_table`, for one simulation.

    `put_back`: how often each lake was put back, by its folder. A handle from before knows commits that went.
    """
    handles: dict[tuple[Path, int], list[tuple[DeltaTable, Worker]]] = defaultdict(list)

    def lend(folder: Path) -> DeltaTable:
        borrower = this_process()
        if borrower is None or not is_table(folder):
            return open_table(folder)
        lent = handles[folder, put_back.get(folder.parent, 0)]
        for at, (handle, owner) in enumerate(lent):
            if owner.is_over:
                lent[at] = handle, borrower
                if _commit(folder, handle.version() + 1).exists():
                    handle.update_incremental()
                return handle
        lent.append((open_table(folder), borrower))
        return lent[-1][0]

    return lend


def is_table(folder: Path) -> bool:
    """Say whether anything was ever committed there."""
    return _commit(folder, 0).exists()


def _commit(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020d}.json"
