"""Why nothing was joined with a primary: by what side tables say of foreign events that name it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.location import Location
from photon.storage.columns import TABLE_COLUMNS, TableName, text
from photon.storage.data_files import DataFiles, pages_of_rows
from photon.storage.tables import OutputTable
from photon.unmatched.lakes import ROWS_AT_ONCE

Reason = Literal["no foreign event", "dead letter", "too old"]
NO_FOREIGN_EVENT: Reason = "no foreign event"
# The first one counts, where a primary has several foreign events.
_TABLES: tuple[tuple[TableName, Reason], ...] = (("dead_letters", "dead letter"), ("too_old", "too old"))


def reasons_of(event_ids: pa.ChunkedArray, lakes: Iterable[Location]) -> pa.Array:
    """The reason of each primary, as tables are now. LakeUnavailable."""
    wanted = event_ids.combine_chunks()
    found = np.full(len(wanted), NO_FOREIGN_EVENT, object)
    places = list(lakes)
    for name, reason in reversed(_TABLES):
        column = pa.schema([TABLE_COLUMNS[name].field("key")])
        for lake in places:
            table = OutputTable(lake, name)
            if not table.exists():
                continue
            with table.reading():
                files = DataFiles(table.load()).all()
                for page in pages_of_rows(table.store, files, column, text("key").isin(wanted), ROWS_AT_ONCE):
                    found[pc.is_in(wanted, value_set=page["key"].combine_chunks()).to_numpy(False)] = reason
    return pa.array(found, pa.string())
