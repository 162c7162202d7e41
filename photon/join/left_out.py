"""Two tasks of one batch that have records of one event: it is joined by one of them (protocol A9).

The other task's row is left out of its files, and its record is a duplicate. That is cheaper than another run
of the task, and healthy logs have such records: what is logged again comes in a later file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.join.messages import JoinResult, TaskContext
from photon.join.records import occurrence_texts
from photon.registry.entry import Mask
from photon.state.outcomes import HeldRecord
from photon.storage.columns import TableName
from photon.storage.delta import lake_errors
from photon.storage.output_files import OutputFile, write_rows_by_date
from photon.storage.store import store_of
from photon.storage.tokens import Occurrence

TABLE: TableName = "joined_events"


def leave_out(
    result: JoinResult, which: Mask, joined_at: Sequence[Occurrence], context: TaskContext
) -> JoinResult:
    """The result of a task without those of its claims. LakeUnavailable.

    `joined_at`: for each of them the record that joins its event.
    """
    claims = result.claims
    assert claims is not None, "there is nothing to leave out"
    left = claims.take(which)
    places = occurrence_texts(left.files, left.offsets_bytes)
    joined = dict(zip(places.to_pylist(), joined_at, strict=True))
    files: list[OutputFile] = []
    unneeded: list[str] = []
    duplicates: list[HeldRecord] = []
    for file in result.files:
        rows = _rows_of(file, context) if file.table == TABLE else None
        is_left = pc.is_in(rows["_occurrence"], places) if rows is not None else None
        if rows is None or not pc.any(is_left).as_py():
            files.append(file)
            continue
        gone = rows.filter(is_left).select(["_event_id", "_occurrence"])
        for event_id, place in zip(*(column.to_pylist() for column in gone.columns), strict=True):
            duplicates.append(HeldRecord(event_id, Occurrence.parse(place), claims.claimant, joined[place]))
        kept = rows.filter(pc.invert(is_left))
        if kept.num_rows:
            files += write_rows_by_date(context.folders.lake, TABLE, context.plan.batch, kept)
        unneeded.append(file.path)
    assert len(duplicates) == len(left), f"{len(left)} rows to leave out, and {len(duplicates)} found"
    classes = Counter(result.classes)
    classes.update(joined=-len(duplicates), duplicates=len(duplicates))
    return replace(
        result,
        claims=claims.take(~np.asarray(which)),
        classes={name: count for name, count in classes.items() if count},
        files=tuple(files),
        unneeded_files=(*result.unneeded_files, *unneeded),
        joined_by_another_task=(*result.joined_by_another_task, *duplicates),
    )


def _rows_of(file: OutputFile, context: TaskContext) -> pa.Table:
    """The rows of a file that the task has just written."""
    folder = context.folders.lake / TABLE
    with lake_errors(f"read candidate rows from {folder}"):
        return pq.read_table(store_of(folder).open(file.path))
