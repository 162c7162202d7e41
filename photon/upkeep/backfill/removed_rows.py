"""The table `removed_rows` of a lake: which rows a rebuild took out of `joined_events`, why and when.

The ids of these rows stay registered, and this table says why they have no row: so its records stay for ever
(protocol D14), and nobody reads all of them. A record counts if its row is not in the table: a rebuild that
died may have recorded what it did not remove.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.pipeline.location import Location
from photon.storage.append_table import append_rows, create_append_table
from photon.storage.columns import text
from photon.storage.delta import is_table, lake_errors, open_table
from photon.storage.output_files import OutputFile
from photon.storage.store import store_of
from photon.upkeep.backfill.messages import REMOVED, REMOVED_COLUMNS


def record_removed(lake: Location, datacenter: str, files: Sequence[OutputFile]) -> int:
    """Record the rows of these files, each once, and remove the files; how many are new. LakeUnavailable."""
    if not files:
        return 0
    folder = lake / REMOVED
    with lake_errors(f"record removed rows in {folder}"):
        store = store_of(folder)
        rows = pa.concat_tables([pq.read_table(store.open(file.path)) for file in files])
        create_append_table(folder, REMOVED_COLUMNS, f"rows that rebuilds removed, datacenter {datacenter}")
        table = open_table(folder)
        paths = pc.unique(rows["file"]).to_pylist()
        known = table.to_pyarrow_dataset().to_table(columns=["file", "row"], filter=text("file").isin(paths))
        new = rows.join(known, ["file", "row"], join_type="left anti").select(REMOVED_COLUMNS.names)
        if new.num_rows:
            append_rows(table, folder, new)
        for file in files:
            store.remove(file.path)
    return int(new.num_rows)


def removed_rows(lake: Location, event_id: str) -> pa.Table:
    """The records of an event (`REMOVED_COLUMNS`). LakeUnavailable."""
    folder = lake / REMOVED
    with lake_errors(f"read {folder}"):
        if not is_table(folder):
            return REMOVED_COLUMNS.empty_table()
        return open_table(folder).to_pyarrow_dataset().to_table(filter=text("_event_id") == event_id)
