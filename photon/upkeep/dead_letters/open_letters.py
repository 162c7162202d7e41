"""The dead letters of a datacenter that nobody has looked at again since, and their orders (protocol E4).

An order for whole records alone, as they are: those that the adapter or a declared type refused, or whose
times lay ahead of the clock. What people have mended is ordered by `mending`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from photon.dispatcher.recovery.orders import MOST_RECORDS, OrderedRecord, already_ordered
from photon.logs.files import ByteRange, Side, TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.readable import readable
from photon.state.database import StateReader
from photon.state.starting import what_starts
from photon.state.view import open_view
from photon.storage.columns import DEAD_LETTER_COLUMNS, text
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence
from photon.upkeep.recovery import OrdersPlan, Recovered, without_ordered

MOST_REASONS = 20  # so many are counted one by one
SHOWN_BYTES = 160  # a longer line is cut

_PLACE = ["file", "offset"]
# Columns that are read of each letter; its bytes are read only where they are asked for.
_COLUMNS = ["_batch", "_occurrence", "event_id", "reason", "path", "length_bytes"]
_LISTED = pa.schema([*(DEAD_LETTER_COLUMNS.field(name) for name in _COLUMNS), ("file", pa.int32())])
_LISTED = _LISTED.append(pa.field("offset", pa.int64()))


def shown(line: bytes | None) -> str:
    """The beginning of a line, for people."""
    if line is None:
        return ""
    return readable(line[:SHOWN_BYTES]) + (" ..." if len(line) > SHOWN_BYTES else "")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A line or record that could not be used, as its table last says."""

    occurrence: Occurrence
    path: str
    reason: str
    event_id: str | None  # None: the line is no record
    length_bytes: int
    batch: int
    raw: bytes = b""  # the line's first 4 KiB, where they were asked for

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "event_id": self.event_id,
            "file": self.path,
            "offset": self.occurrence.offset_bytes,
            "occurrence": str(self.occurrence),
            "reason": self.reason,
            "line": shown(self.raw),
        }


@dataclass(frozen=True)
class OpenLetters:
    """The foreign dead letters of a datacenter that count as such, in the order of its logs."""

    table: OutputTable
    epoch: str = ""
    completed: int = 0
    files: Mapping[int, TrackedFile] = field(default_factory=dict)
    rows: pa.Table = field(default_factory=_LISTED.empty_table)
    problem: str = ""

    def reasons_of_primary(self) -> Counter[str]:
        """How many lines of the primary log are dead letters, by reason. LakeUnavailable."""
        if not self.epoch or not self.table.exists():
            return Counter()
        return _counted(_of_side(self.table, "primary", self.epoch, self.completed, ["reason"]))

    def with_reason(self, reason: str) -> OpenLetters:
        """Keep the letters whose reason has this text."""
        return self.filter(pc.match_substring(self.rows["reason"], reason)) if reason else self

    def whole_records(self) -> OpenLetters:
        """Keep the letters that are events."""
        return self.filter(pc.is_valid(self.rows["event_id"]))

    def filter(self, mask: pa.Array | pa.ChunkedArray) -> OpenLetters:
        return OpenLetters(
            self.table, self.epoch, self.completed, self.files, self.rows.filter(mask), self.problem
        )

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def reasons(self) -> Counter[str]:
        """How many there are, by reason."""
        return _counted(self.rows)

    def as_dict(self, most: int) -> dict[str, Any]:
        """For `--json`: how many there are by reason, and at most so many letters. LakeUnavailable."""
        reasons, others = most_common(self.reasons())
        return {
            "count": len(self),
            "reasons": reasons,
            "other_reasons": others,
            "letters": [one.as_dict() for one in self.first(most, with_raw=True)],
            "problem": self.problem,
        }

    def first(self, most: int, with_raw: bool = False) -> list[DeadLetter]:
        """The first of them, with the beginning of their bytes where that is asked for. LakeUnavailable."""
        rows = self.rows.slice(0, most).to_pylist()
        raws = self._raws(rows) if with_raw and rows else {}
        return [
            DeadLetter(
                Occurrence(row["file"], row["offset"]),
                row["path"],
                row["reason"],
                row["event_id"],
                row["length_bytes"],
                row["_batch"],
                raws.get((row["_occurrence"], row["_batch"]), b""),
            )
            for row in rows
        ]

    def _raws(self, rows: Sequence[Mapping[str, object]]) -> dict[tuple[str, int], bytes]:
        places = pa.array([row["_occurrence"] for row in rows], pa.string())
        wanted = (text("_epoch") == self.epoch) & text("_occurrence").isin(places)
        wanted &= ds.field("_batch").isin(sorted({row["_batch"] for row in rows}))  # type: ignore[type-var]
        columns = ["_occurrence", "_batch", "raw", "side"]
        with self.table.reading():
            found = self.table.load().to_pyarrow_dataset().to_table(columns=columns, filter=wanted)
        return {
            (row["_occurrence"], row["_batch"]): row["raw"] or b""
            for row in found.to_pylist()
            if row["side"] == "foreign"
        }


def most_common(reasons: Counter[str]) -> tuple[dict[str, int], int]:
    """The most common reasons, and how many letters have others."""
    common = dict(reasons.most_common(MOST_REASONS))
    return common, reasons.total() - sum(common.values())


def open_letters(pipeline: Pipeline, datacenter: str) -> OpenLetters:
    """The dead letters that no order has taken up since they were recorded.

    Not those of a batch that is taken up again: they are not counted yet. StateUnavailable, LakeUnavailable.
    """
    place = pipeline.datacenters[datacenter]
    table = OutputTable(place.lake, "dead_letters")
    with open_view(place.state) as state:
        if state is None:
            first = f"start the datacenter first: {what_starts(pipeline, datacenter)}"
            why = f"{place.state}: no state of datacenter {datacenter} is here: {first}"
            return OpenLetters(table, problem=why)
        found = OpenLetters(table, state.epoch or "", state.completed, state.files(), _rows(table, state))
        taken_up = state.ordered()
        again = [part for _, content in state.requeued() for part in content.foreign]
    return found.filter(_is_open(found.rows, taken_up, again))


def _rows(table: OutputTable, state: StateReader) -> pa.Table:
    if not table.exists():
        return _LISTED.empty_table()
    rows = _of_side(table, "foreign", state.epoch or "", state.completed, _COLUMNS)
    parts = pc.split_pattern(rows["_occurrence"].cast(pa.string()), ":")
    rows = rows.append_column("file", pc.list_element(parts, 0)).append_column(
        "offset", pc.list_element(parts, 1)
    )
    return rows.cast(_LISTED).sort_by([(name, "ascending") for name in (*_PLACE, "_batch")])


def _of_side(table: OutputTable, side: Side, epoch: str, completed: int, columns: list[str]) -> pa.Table:
    wanted = (text("_epoch") == epoch) & (ds.field("_batch") <= completed) & (text("side") == side)
    with table.reading():
        return table.load().to_pyarrow_dataset().to_table(columns=columns, filter=wanted)


def _counted(rows: pa.Table) -> Counter[str]:
    counted = pc.value_counts(rows["reason"].combine_chunks())
    return Counter({each["values"]: each["counts"] for each in counted.to_pylist()})


def _is_open(rows: pa.Table, taken_up: Mapping[Occurrence, int], again: Sequence[ByteRange]) -> pa.Array:
    """Whether each letter is one now: not taken up since, nor of a range that is read again."""
    files, offsets, batches = (rows[name].to_numpy() for name in (*_PLACE, "_batch"))
    is_open = np.ones(rows.num_rows, bool)
    for row in np.flatnonzero(np.isin(offsets, [place.offset_bytes for place in taken_up])).tolist():
        is_open[row] = batches[row] > taken_up.get(Occurrence(int(files[row]), int(offsets[row])), -1)
    for part in again:
        is_inside = (offsets >= part.start_bytes) & (offsets < part.end_bytes)
        is_open &= ~((files == part.file_number) & is_inside)
    return pa.array(is_open)


def plan_recovery_of_letters(pipeline: Pipeline, datacenter: str, reason: str = "") -> OrdersPlan:
    """Plan orders for dead letters whose reason has this text, as they are.

    StateUnavailable, LakeUnavailable.
    """
    every = open_letters(pipeline, datacenter)
    found = every.whole_records().with_reason(reason)
    letters = found.first(MOST_RECORDS)
    records = [OrderedRecord(each.occurrence, each.event_id or "", "dead_letters") for each in letters]
    return orders_plan(pipeline, datacenter, found, letters, records)


def orders_plan(
    pipeline: Pipeline,
    datacenter: str,
    found: OpenLetters,
    letters: Sequence[DeadLetter],
    records: Sequence[OrderedRecord],
    left_out: int | None = None,
) -> OrdersPlan:
    """The plan of orders for these records. `left_out`: letters for the next run; None: all but `letters`."""
    state = pipeline.datacenters[datacenter].state
    ordered = already_ordered(state, found.epoch)
    new, waiting = without_ordered(records, ordered)
    expected = Recovered(
        ordered=len(new),
        kinds=Counter(each.reason for each in letters if each.occurrence not in ordered),
        waiting=waiting,
        left_out=len(found) - len(letters) if left_out is None else left_out,
        problem=found.problem,
    )
    return OrdersPlan(pipeline, datacenter, found.epoch, found.completed, new, expected)
