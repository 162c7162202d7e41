"""A table of many batches to be compacted, as its dispatcher has left it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from photon.adapters import ROW_COLUMNS
from photon.storage.compaction import Group, compact, groups_of
from photon.storage.data_files import DataFiles
from photon.storage.output_files import write_rows
from photon.storage.tables import OutputTable, app_id

APP, COMPACTION, REBUILD = app_id("east", "e"), "photon:east:compaction", "photon:east:rebuild"
LARGE, WEEK_SECONDS = 2**30, 7 * 86_400
BATCHES = 12


def new_table(folder: Path) -> OutputTable:
    """Make a table with `BATCHES` batches of two rows each."""
    made = OutputTable(folder, "joined_events")
    made.create("clicks", "east")
    for batch in range(1, BATCHES + 1):
        append(made, batch)
    return made


def append(table: OutputTable, batch: int) -> None:
    table.commit([rows_of_batch(table, batch)], APP, batch, batch - 1, plan_of(batch))


def rows_of_batch(table: OutputTable, batch: int) -> Any:
    row = {"_datacenter": "east", "_epoch": "e", "_batch": batch, "_plan": plan_of(batch)}
    rows = [row | {"_occurrence": f"{batch}:{n}", "_event_id": f"{batch}-{n}"} for n in range(2)]
    return write_rows(table.folder.parent, table.name, batch, pa.Table.from_pylist(rows, ROW_COLUMNS))


def plan_of(batch: int) -> str:
    return f"plan{batch}"


def groups(table: OutputTable, least_files: int = 2) -> list[Group]:
    handle = table.load()
    last = {"e": handle.transaction_version(APP) or 0}
    return groups_of(DataFiles(handle).all(), last, LARGE, least_files)


def compact_all(table: OutputTable) -> None:
    for group in groups(table):
        assert compact(table, group, COMPACTION) is not None


def rows(table: OutputTable) -> list[dict[str, Any]]:
    found = table.load().to_pyarrow_table().sort_by([("_batch", "ascending"), ("_occurrence", "ascending")])
    return list(found.to_pylist())


def again(table: OutputTable) -> OutputTable:
    """Open the table as another process does."""
    return OutputTable(table.folder.parent, "joined_events")


def now_us() -> int:
    return time.time_ns() // 1_000
