"""Tells why a primary is unmatched: side tables have the foreign events that name it, but were not joined."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.location import Location
from photon.storage.columns import TableName, text
from photon.storage.data_files import DataFiles, pages_of_rows
from photon.storage.tables import OutputTable
from photon.unmatched.lakes import ROWS_AT_ONCE

NO_FOREIGN_EVENT = "no foreign event"
# If a primary has foreign events in several tables, the last of these counts. None: the row has the reason.
_TABLES: tuple[tuple[TableName, str | None], ...] = (
    ("left_out", None),  # filtered, skipped
    ("too_old", "too old"),
    ("dead_letters", "dead letter"),
)
_COLUMNS = pa.schema([("key", pa.string()), ("reason", pa.string())])


def reasons_of(event_ids: pa.ChunkedArray, lakes: Iterable[Location]) -> pa.Array:
    """The reason of each unmatched primary, by what the tables have now. LakeUnavailable."""
    wanted = event_ids.combine_chunks()
    found = np.full(len(wanted), NO_FOREIGN_EVENT, object)
    places = list(lakes)
    for name, reason in _TABLES:
        for lake in places:
            table = OutputTable(lake, name)
            if not table.exists():
                continue
            with table.reading():
                files = DataFiles(table.load()).all()
                pages = pages_of_rows(table.store, files, _COLUMNS, text("key").isin(wanted), ROWS_AT_ONCE)
                for page in pages:
                    at = pc.index_in(page["key"], value_set=wanted).to_numpy()
                    found[at] = reason or page["reason"].to_numpy()
    return pa.array(found, pa.string())
