"""Candidate rows of one task: those that earlier runs of its plan have stored, and its own (protocol A14).

What a run that died has stored may be claimed, and the log may be gone since. So a later run proposes the
stored rows again, as they are, instead of making them anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from photon.join.messages import JoinTask, TaskContext
from photon.join.records import RECORD_COLUMNS, Ints, Records
from photon.state.waiting import retries as retrying
from photon.storage.candidate_files import (
    list_of,
    own_candidate_files,
    read_candidates,
    write_candidates,
)
from photon.storage.columns import fit
from photon.storage.output_files import OutputFile
from photon.storage.tokens import Occurrence


@dataclass
class Candidates:
    """The candidate rows of a task, by the occurrences of their records."""

    context: TaskContext
    task: JoinTask
    rows: pa.Table = field(default_factory=lambda: pa.table({}))  # earlier runs stored them
    row_of: dict[Occurrence, int] = field(default_factory=dict)
    stored: list[OutputFile] = field(default_factory=list)  # this run's files
    # Files of earlier runs, of which none is committed, and this run's list.
    unneeded: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, task: JoinTask, context: TaskContext) -> Candidates:
        """With what earlier runs have stored of the task's own records, however they shared out the work."""
        lake, found = context.folders.lake, cls(context, task)
        found.unneeded = own_candidate_files(lake, context.plan, task.number)
        names = sorted({*context.candidate_files, *found.unneeded})
        rows = read_candidates(lake, names) if names else None
        if rows is not None:
            found.rows = fit(rows, context.row_schema)
            occurrences = [Occurrence.parse(text) for text in rows["_occurrence"].to_pylist()]
            own = task.own_among(occurrences)
            found.row_of = {o: row for row, o in enumerate(occurrences) if o in own}
        return found

    def of_records(self, records: Records, rows: Ints) -> pa.Table:
        """The stored rows of these records, in their order."""
        places = [self.row_of[records.occurrence(row)] for row in rows.tolist()]
        return self.rows.take(pa.array(places, pa.int64()))

    def lost_records(self, read: Records, now_us: int) -> pa.Table:
        """Records whose rows are stored and whose bytes are gone, as `RECORD_COLUMNS`: they were not read."""
        gone = sorted(set(self.row_of) - set(read.rows_of(self.row_of)))
        rows = self.rows.take(pa.array([self.row_of[occurrence] for occurrence in gone], pa.int64()))
        if not gone:
            return RECORD_COLUMNS.empty_table()
        retries, count = retrying.occurrences(self.task.retries), len(gone)
        columns = {
            "_file": [occurrence.file_number for occurrence in gone],
            "_offset": [occurrence.offset_bytes for occurrence in gone],
            "_raw": [None] * count,
            "_id": rows["_event_id"],
            "_time_us": rows["_event_time"].cast(pa.int64()),
            "_key": [""] * count,
            "attempts": [0] * count,
            "first_seen_us": [now_us] * count,
            "final": [self.context.final] * count,
            "recorded": [False] * count,
            "is_retry": [occurrence in retries for occurrence in gone],
            "is_ordered": [occurrence in retries for occurrence in gone],  # an order may ask for it
        }
        return pa.table(columns, schema=RECORD_COLUMNS)

    def store(self, rows: pa.Table) -> None:
        """Put the rows of this run on disk, before the first of their events is claimed. LakeUnavailable."""
        self.stored = write_candidates(self.context.folders.lake, self.context.plan, self.task.number, rows)
        self.unneeded += sorted({list_of(file) for file in self.stored})
