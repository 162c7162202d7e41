"""Tables of joined rows as a dispatcher of east writes them: a row has its id and its place, and no more."""

from __future__ import annotations

import pyarrow as pa

from photon.adapters import ROW_COLUMNS
from photon.pipeline.location import Location
from photon.storage.output_files import OutputFile, write_rows
from photon.storage.tables import OutputTable, app_id

APP = app_id("east", "e")


def new_table(folder: Location) -> OutputTable:
    """The joined events of a new lake."""
    table = OutputTable(folder, "joined_events")
    table.create("clicks", "east")
    return table


def rows_of(batch: int, *ids: str) -> pa.Table:
    """Rows of these events in a batch of plan `p`."""
    plan = {"_datacenter": "east", "_epoch": "e", "_batch": batch, "_plan": "p"}
    rows = [plan | {"_occurrence": f"1:{n}", "_event_id": event} for n, event in enumerate(ids)]
    return pa.Table.from_pylist(rows, ROW_COLUMNS)


def written(table: OutputTable, batch: int, *ids: str) -> OutputFile:
    """A file with such rows beside the table, which is not committed yet."""
    return write_rows(table.folder.parent, table.name, batch, rows_of(batch, *ids))


def ids_in(table: OutputTable) -> list[str]:
    return sorted(table.load().to_pyarrow_table(columns=["_event_id"])["_event_id"].to_pylist())
