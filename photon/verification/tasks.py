"""Functions that verification's tasks run: join pairs again, look up holders. `reading` reads their raw logs.

Arrow in, Arrow out, without Spark, so that it is tested without it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import Adapter
from photon.join.adapting import RawRecords, adapt_pairs, adapter_of, pair_by_pair
from photon.logs.files import ByteRange, TrackedFile
from photon.pipeline.event_time import event_times_us
from photon.pipeline.file import Pipeline
from photon.process.clock import in_utc
from photon.registry.entry import Claimant, Epoch
from photon.registry.hashing import hashes_of
from photon.registry.holds import HashSet
from photon.registry.lookups import Hold, IdHolders, ViewSnapshot
from photon.registry.segments import RunDamaged
from photon.storage.own_columns import columns_of_people
from photon.verification.classes import Evidence, MissingEvent, RejoinResult, classify

BATCH_ROWS = 2_000
NO_PLAN = Claimant(Epoch("", 0), 0, "")  # looks holders up and claims nothing

# -- columns

_STRING, _INT32, _INT64, _BINARY = pa.string(), pa.int32(), pa.int64(), pa.binary()
_PLACE = {"datacenter": _STRING, "file": _INT32, "offset": _INT64}
_ROW = {"datacenter": _STRING, "epoch": _STRING, "batch": _INT64, "occurrence": _STRING, "event_id": _STRING}
# A row with `lost_path` is no record: bytes that can't be read again.
_LOST = {"lost_path": _STRING, "lost_bytes": _INT64, "lost_reason": _STRING}
FOREIGN_RECORDS = pa.schema(
    {
        **_PLACE,
        "event_id": _STRING,  # null: the line is no event
        "key": _STRING,
        "time_us": _INT64,
        "event_us": _INT64,  # time of its event for gc: the one in its id, if there is one
        "around_us": _INT64,  # about when its primary was
        "evidence": _INT32,
        "raw": _BINARY,
        **_LOST,
    }
)
PRIMARY_RECORDS = pa.schema(
    {**_PLACE, "key": _STRING, "time_us": _INT64, "digest": _INT64, "path": _STRING, "raw": _BINARY, **_LOST}
)
# Without a key the line is no record.
PRIMARY_KEYS = pa.schema({**_PLACE, "key": _STRING, "time_us": _INT64, **_LOST})
# verdict: same | differs | no primary; outcome: a class | joinable | unavailable
# is_own: the row is compared with the very record that it was made of, as far as can be told.
# row_time_us: the time that the row says its event has.
COMPARED = pa.schema(
    {
        **_ROW,
        "row_time_us": _INT64,
        "is_own": pa.bool_(),
        "primary_file": _INT32,
        "verdict": _STRING,
        "detail": _STRING,
    }
)
_RECORD = {"event_id": _STRING, "time_us": _INT64, "event_us": _INT64, "evidence": _INT32}
# holder: the datacenter that joined the event, of a missing or acknowledged one.
# does_join: the record and its first primary join now.
DECIDED = pa.schema(
    {
        **_PLACE,
        **_RECORD,
        "outcome": _STRING,
        "detail": _STRING,
        "holder": _STRING,
        "does_join": pa.bool_(),
    }
)
PLACE, ROW, RECORD = list(_PLACE), list(_ROW), list(_RECORD)
TO_READ = pa.schema(_PLACE)
_PAIR = ["raw", "primary_file", "primary_raw"]  # primary_raw is null: there is no primary
LISTED_ROWS = pa.schema({**_ROW, "time_us": _INT64})
# A row's own words of its two records: null in one that is older than the columns for them. Then the
# records' words: time_us is the foreign one's; null: nobody knows.
_SAYS = ["row_time_us", "row_primary_id", "row_primary_time_us"]
_SAYS_AND_SHOULD = [*_SAYS, "time_us", "key", "primary_time_us"]
# Columns for `compare_rows`. `values`: a struct of the adapter's values in the row.
TO_COMPARE = [*ROW, "is_own", "file", *_PAIR, *_SAYS_AND_SHOULD, "values"]
# Columns for `classify_records`. `waits`: in any datacenter. `undecided`: else the record is unjoinable.
TO_CLASSIFY = [*PLACE, *RECORD, *_PAIR, "waits", "undecided"]


def filled(columns: Mapping[str, Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of those columns that the schema has, in its order; columns that are not given are null."""
    rows = len(next(iter(columns.values())))
    if rows:
        table = pa.table({f.name: columns.get(f.name, pa.nulls(rows, f.type)) for f in schema}).cast(schema)
        yield from table.combine_chunks().to_batches(BATCH_ROWS)


def _columns(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.column_names, table.columns, strict=True))


@dataclass(frozen=True)
class TaskScope:
    """The knowledge that every task of a verification has. Picklable."""

    pipeline: Pipeline
    headers: Mapping[tuple[str, int], bytes]  # log files by datacenter and number
    row_schemas: Mapping[str, pa.Schema]  # joined events of each datacenter
    requeued: Mapping[str, Sequence[ByteRange]] = field(default_factory=dict)
    # Lines that people have put in the places of others, by datacenter, file number and offset.
    mended: Mapping[tuple[str, int], Mapping[int, bytes]] = field(default_factory=dict)
    files: Mapping[tuple[str, int], TrackedFile] = field(default_factory=dict)  # datacenter, number
    taken: HashSet | None = None  # events that count as joined without a row (protocol E13)

    @cached_property
    def adapter(self) -> Adapter:
        """The user's adapter, loaded in the task."""
        return adapter_of(self.pipeline)

    def mended_in(self, datacenter: str, part: ByteRange) -> dict[int, bytes]:
        """The lines that people have put in the places of others in a range."""
        lines = self.mended.get((datacenter, part.file_number), {})
        return {at: line for at, line in lines.items() if part.start_bytes <= at < part.end_bytes}


# -- joining pairs again


def compare_rows(batches: Iterable[pa.RecordBatch], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """Whether rows are equal to a join of their two records made now. `TO_COMPARE` in, `COMPARED` out."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        verdicts = ["no primary"] * table.num_rows
        details = ["no primary event of its key is at the row's _primary_occurrence"] * table.num_rows
        for datacenter, rows, pairs in _pairs_by_datacenter(table):
            for row, detail in zip(rows, _differences_of(pairs, datacenter, scope), strict=True):
                verdicts[row] = "differs" if detail else "same"
                details[row] = detail
        yield from filled({**_columns(table), "verdict": verdicts, "detail": details}, COMPARED)


def _differences_of(pairs: pa.Table, datacenter: str, scope: TaskScope) -> list[str]:
    results, rows = _join_again(pairs, datacenter, scope)
    details = [
        f"the adapter now {'drops' if one.outcome == 'drops' else 'fails on'} the pair {one.reason}".strip()
        for one in results
    ]
    kept = [row for row, one in enumerate(results) if one.outcome == "joins"]
    stored = pa.Table.from_struct_array(pairs["values"].combine_chunks()).take(pa.array(kept, _INT64))
    theirs = columns_of_people(scope.row_schemas.get(datacenter, pa.schema([])), rows.column_names)
    stored = stored.drop_columns([name for name in theirs if name in stored.column_names])
    own = [_own_difference(pair) for pair in pairs.select(_SAYS_AND_SHOULD).to_pylist()]
    for row, detail in zip(kept, differences(rows, stored), strict=True):
        details[row] = "; ".join(filter(None, (own[row], detail)))
    return details


def _own_difference(pair: Mapping[str, Any]) -> str:
    """How what a row says of its two records differs from what they say; empty where it does not."""
    found = [_time_difference("_event_time", pair["row_time_us"], pair["time_us"])]
    says_id, says_us = pair["row_primary_id"], pair["row_primary_time_us"]
    if says_id is not None and says_id != pair["key"]:
        found.append(f"_primary_id is {says_id!r}, its record has {pair['key']!r}")
    if says_us is not None:
        found.append(_time_difference("_primary_time", says_us, pair["primary_time_us"]))
    return "; ".join(filter(None, found))


def _time_difference(column: str, says_us: int | None, should_us: int | None) -> str:
    """How a time in a row differs from that of its record; empty where it does not."""
    if should_us is None or says_us == should_us:
        return ""
    says = "null" if says_us is None else in_utc(says_us, "microseconds")
    return f"{column} is {says}, its record has {in_utc(should_us, 'microseconds')}"


def differences(fresh: pa.Table, stored: pa.Table) -> list[str]:
    """For each row the columns that differ, with both values; empty where all are equal.

    A column that one of them does not have is null in it. So is a list without items in rows that are older
    than what told its type.
    """
    found: list[list[str]] = [[] for _ in range(stored.num_rows)]
    for name in dict.fromkeys([*stored.column_names, *fresh.column_names]):
        if name in stored.column_names and name in fresh.column_names and stored[name].equals(fresh[name]):
            continue
        says, should = (
            table[name].to_pylist() if name in table.column_names else [None] * table.num_rows
            for table in (stored, fresh)
        )
        for row, (old, new) in enumerate(zip(says, should, strict=True)):
            both_are_nan = old != old and new != new
            if old != new and not both_are_nan and not (_is_nothing(old) and _is_nothing(new)):
                found[row].append(f"{name} is {old!r}, a join now gives {new!r}")
    return ["; ".join(columns) for columns in found]


def _is_nothing(value: object) -> bool:
    """Whether a value alone does not tell its column's type."""
    if isinstance(value, dict):
        return all(map(_is_nothing, value.values()))
    return value is None or (isinstance(value, list) and all(map(_is_nothing, value)))


def _pairs_by_datacenter(table: pa.Table) -> Iterator[tuple[str, list[int], pa.Table]]:
    """The rows that have a primary: for each datacenter their numbers, and the rows."""
    numbers: dict[str, list[int]] = defaultdict(list)
    has_primary = pc.is_valid(table["primary_raw"]).to_pylist()
    for row, (name, wanted) in enumerate(zip(table["datacenter"].to_pylist(), has_primary, strict=True)):
        if wanted:
            numbers[name].append(row)
    for name, rows in numbers.items():
        yield name, rows, table.take(pa.array(rows, _INT64))


def _join_again(pairs: pa.Table, datacenter: str, scope: TaskScope) -> tuple[list[RejoinResult], pa.Table]:
    """The adapter's results for pairs of one datacenter now; the rows of those that join, in order."""
    foreign, primary = (
        _raw_records(pairs[raw], pairs[file].to_numpy(), datacenter, scope)
        for raw, file in (("raw", "file"), ("primary_raw", "primary_file"))
    )
    row_schema = scope.row_schemas.get(datacenter, pa.schema([]))
    combined = adapt_pairs(
        pair_by_pair(scope.adapter, scope.pipeline), foreign, primary, scope.pipeline, row_schema
    )
    results = [RejoinResult("joins")] * pairs.num_rows
    for row, reason in combined.failures.items():
        results[row] = RejoinResult("fails", reason)
    for row in combined.filtered:
        results[row] = RejoinResult("drops")
    return results, combined.table


def _raw_records(
    raws: pa.ChunkedArray, file_numbers: np.ndarray, datacenter: str, scope: TaskScope
) -> RawRecords:
    numbers, file_of = np.unique(file_numbers, return_inverse=True)
    headers = [scope.headers[datacenter, number] for number in numbers.tolist()]
    return RawRecords(raws.combine_chunks(), headers, file_of)


# -- records that no table knows


def classify_records(
    batches: Iterable[pa.RecordBatch], scope: TaskScope, view: ViewSnapshot
) -> Iterator[pa.RecordBatch]:
    """The class of undecided records, and whether unjoinable ones could be joined now.

    `TO_CLASSIFY` in, with the first primary of each record; `DECIDED` out. `view`: says who holds what.
    """
    for batch in batches:
        table = pa.Table.from_batches([batch])
        results = [RejoinResult("no primary")] * table.num_rows
        for datacenter, rows, pairs in _pairs_by_datacenter(table):
            for row, result in zip(rows, _join_again(pairs, datacenter, scope)[0], strict=True):
                results[row] = result
        yield from filled({**_columns(table), **_outcomes(table, results, scope, view)}, DECIDED)


def _outcomes(
    table: pa.Table, results: Sequence[RejoinResult], scope: TaskScope, view: ViewSnapshot
) -> dict[str, Any]:
    undecided, waits = table["undecided"].to_pylist(), table["waits"].to_pylist()
    words = {"joins": "joinable", "drops": "filtered"}
    outcomes = [words.get(result.outcome, "unjoinable") for result in results]
    details = [""] * len(results)
    holders: list[str | None] = [None] * len(results)
    # Nobody claims what the adapter drops: look it up only if it was recorded as too old.
    evidence = table["evidence"].to_pylist()
    asked = [
        row
        for row, result in enumerate(results)
        if undecided[row] and (result.outcome != "drops" or evidence[row] & Evidence.TOO_OLD)
    ]
    try:
        found = _look_up(table.take(pa.array(asked, _INT64)), scope, view)
    except (RunDamaged, OSError) as error:
        return {"outcome": ["unavailable"] * len(results), "detail": [str(error)] * len(results)}
    ids = table["event_id"].take(pa.array(asked, _INT64))
    listed = [False] * len(asked) if scope.taken is None else scope.taken.has(hashes_of(ids)).tolist()
    for index, row in enumerate(asked):
        holder = found.holder(index).epoch.datacenter if found.by[index] >= 0 else None
        match classify(results[row], Hold(found.codes[index]), holder, waits[row]):
            case MissingEvent(_, joined_by) if listed[index]:
                outcomes[row], holders[row] = "joined", joined_by
            case MissingEvent(why, joined_by):
                outcomes[row], details[row], holders[row] = "missing", why, joined_by
            case outcome:
                outcomes[row] = outcome
    does_join = [result.outcome == "joins" for result in results]
    return {
        "outcome": outcomes,
        "detail": details,
        "holder": pa.array(holders, _STRING),
        "does_join": does_join,
    }


def listed_rows(batches: Iterable[pa.RecordBatch], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """Keep the rows of events that a person has acknowledged as taken (E13). `LISTED_ROWS` in and out."""
    for batch in batches:
        if scope.taken is not None and batch.num_rows:
            yield batch.filter(pa.array(scope.taken.has(hashes_of(batch["event_id"]))))


def _look_up(asked: pa.Table, scope: TaskScope, view: ViewSnapshot) -> IdHolders:
    """Who holds the events of these records. RunDamaged, OSError."""
    ids, foreign = asked["event_id"], scope.pipeline.foreign
    return view.open(NO_PLAN).look_up(hashes_of(ids), event_times_us(ids, asked["time_us"], foreign))
