"""Duplicates of what earlier batches or other tasks have joined: whether their content is another one.

Both records are read again at their places in the logs, so nothing of what joined need be remembered. Healthy
logs have few duplicates; where an id is none, nearly all records are, so only some of a batch are compared.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from photon.dispatcher.completion import Duplicate, Resolved, Results
from photon.join.comparing import Compared, Conflict, compared, sample_of
from photon.join.records import raw_records
from photon.logs.files import TrackedFile
from photon.logs.one_record import read_records_of
from photon.logs.source import LogsUnavailable
from photon.pipeline.file import Pipeline
from photon.state.dispatcher_state import DispatcherState
from photon.state.plan import Plan
from photon.storage.columns import CONFLICT_COLUMNS, TableName
from photon.storage.delta import LakeUnavailable
from photon.storage.output_files import write_rows
from photon.storage.own_columns import SchemaConflict
from photon.storage.tables import CommitConflict, OutputTable
from photon.storage.tokens import Occurrence

log = logging.getLogger(__name__)

MOST_COMPARED = 500  # records a batch: it waits for this, some 20 ms where their lines are in memory
MOST_FILES = (
    16  # in which the records that joined are looked for; a compressed one is read to the last of them
)
MOST_SAMPLES = 1_000  # rows an epoch: the table has examples, not all there are


@dataclass(frozen=True)
class Conflicts:
    """Compares duplicates of one datacenter, and keeps examples in the table `conflicting`."""

    pipeline: Pipeline
    datacenter: str
    state: DispatcherState
    tables: Mapping[TableName, OutputTable]

    def count(
        self, plan: Plan, results: Results, resolved: Resolved, files: Mapping[int, TrackedFile]
    ) -> Counter[str]:
        """How many duplicates of a batch are conflicting, and how many were not compared, by count."""
        found = sum((result.compared for result in results.join), Compared())
        of_other_tasks = [
            Duplicate(one.event_id, one.occurrence, one.holds_at)
            for result in results.join
            for one in result.joined_by_another_task
            if one.holds_at is not None
        ]
        found += self._of_other_tasks([*resolved.duplicates, *of_other_tasks], files)
        found += Compared(not_compared=resolved.not_compared)
        if found.conflicts:
            try:
                self._keep(plan, found.conflicts, files)
            except (LakeUnavailable, CommitConflict, SchemaConflict) as error:
                log.warning("examples of conflicting records are not kept: %s", error)
        return Counter(conflicting=found.conflicting, not_compared=found.not_compared)

    def _of_other_tasks(self, duplicates: Sequence[Duplicate], files: Mapping[int, TrackedFile]) -> Compared:
        joined_at = {one.occurrence: one.joined for one in duplicates}
        if not duplicates:
            return Compared()
        chosen = _some({one.occurrence: one.event_id for one in duplicates}, joined_at)
        wanted = {**chosen, **{joined_at[place]: event_id for place, event_id in chosen.items()}}
        logs, log_of = self.pipeline.datacenters[self.datacenter].logs, self.pipeline.foreign
        try:
            read = read_records_of(logs, wanted.items(), files, log_of, self.pipeline.limits)
        except LogsUnavailable:
            return Compared(not_compared=len(duplicates))
        places = map(Occurrence, read["_file"].to_pylist(), read["_offset"].to_pylist())
        row_of = {place: row for row, place in enumerate(places)}
        pairs = [(place, joined_at[place]) for place in chosen if {place, joined_at[place]} <= row_of.keys()]
        rows = [row_of[place] for place, _ in pairs] + [row_of[joined] for _, joined in pairs]
        chosen_rows = read.take(pa.array(rows, pa.int64())).combine_chunks()
        raws = chosen_rows["_raw"].chunk(0) if rows else pa.array([], pa.binary())
        known = {number: tracked.file for number, tracked in files.items()}
        found = compared(
            raw_records(raws, chosen_rows["_file"].to_numpy(), known),
            [chosen[place] for place, _ in pairs],
            [place for place, _ in pairs],
            [joined for _, joined in pairs],
            self.pipeline,
        )
        found += Compared(not_compared=len(chosen) - len(pairs))
        return found.of_sample(len(chosen), len(duplicates))

    def _keep(self, plan: Plan, conflicts: Sequence[Conflict], files: Mapping[int, TrackedFile]) -> None:
        """Put examples into the table. LakeUnavailable, CommitConflict, SchemaConflict."""
        left = MOST_SAMPLES - self.state.counts().conflicting
        if left <= 0:
            return
        table = self.tables["conflicting"]
        kept = conflicts[:left]
        places, comes_again = [each.occurrence for each in kept], bool(plan.content.lineage.origins)
        there = set(table.occurrences_of_epoch(plan.key.epoch, places)) if comes_again else set()
        rows = [_row(plan, each, files) for each in kept if each.occurrence not in there]
        if rows:
            written = write_rows(
                table.folder.parent,
                "conflicting",
                plan.key.batch,
                pa.Table.from_pylist(rows, CONFLICT_COLUMNS),
            )
            table.commit_missing([written], self.datacenter, plan.key)


def _some(ids: Mapping[Occurrence, str], joined_at: Mapping[Occurrence, Occurrence]) -> dict[Occurrence, str]:
    """As many of these records as are compared, in few files."""
    numbers = sorted({joined_at[place].file_number for place in ids})[-MOST_FILES:]
    among = [place for place in sorted(ids) if joined_at[place].file_number in numbers]
    return {among[at]: ids[among[at]] for at in sample_of(among, MOST_COMPARED).tolist()}


def _row(plan: Plan, conflict: Conflict, files: Mapping[int, TrackedFile]) -> dict[str, object]:
    other, joined = conflict.occurrence, conflict.joined
    return {
        "_datacenter": plan.key.datacenter,
        "_epoch": plan.key.epoch,
        "_batch": plan.key.batch,
        "_plan": plan.key.plan_id,
        "_occurrence": str(other),
        "event_id": conflict.event_id,
        "path": files[other.file_number].file.path,
        "offset_bytes": other.offset_bytes,
        "joined_path": files[joined.file_number].file.path,
        "joined_offset_bytes": joined.offset_bytes,
        "differs": conflict.differs,
    }
