"""What runs in verification's tasks: reads raw logs again, joins pairs afresh, asks the registry.

Arrow in, Arrow out, without Spark, so that it is tested without it; `jobs.verification` puts it into a
query. What the answers mean is decided in `photon.verification.classes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import Adapter
from photon.join.adapting import RawRecords, adapt_pairs, load_adapter, skip_records
from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.logs.ranges import RangeGone, Stretch, read_pieces
from photon.pipeline.event_key import event_key, primary_time_us
from photon.pipeline.file import ForeignLog, Pipeline
from photon.registry.address import RegistryAddress
from photon.registry.interface import Joined, LookupOutcome, RegistryUnavailable
from photon.registry.open import open_registry
from photon.storage.joined_rows import joined_beyond
from photon.storage.tables import LakeUnavailable, OutputTable
from photon.verification.classes import EpochStatus, Fact, FreshJoin, Missing, classify, registered
from photon.verification.columns import COMPARED, DECIDED, FOREIGN_RECORDS, PRIMARY_RECORDS

BATCH_ROWS = 2_000
# A JSON record's optional columns may come out under another name beside other records (`adapters.merge`):
# rows that seem to differ are joined once more alone. With more of them, it is not that.
COMPARED_ALONE = 100


@dataclass(frozen=True)
class TaskScope:
    """What every task of a verification knows. Picklable."""

    pipeline: Pipeline
    address: RegistryAddress
    epochs: Mapping[str, EpochStatus]
    headers: Mapping[tuple[str, int], bytes]  # of log files, by datacenter and number
    row_schemas: Mapping[str, pa.Schema]  # of each datacenter's joined events
    requeued: Mapping[str, Sequence[ByteRange]] = field(default_factory=dict)

    def adapter(self) -> Adapter:
        """The user's adapter."""
        return load_adapter(self.pipeline.adapter, self.pipeline.file.parent)


# -- reading logs again


def read_foreign(stretches: Iterable[tuple[str, Stretch]], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """All foreign records that begin in the stretches (`FOREIGN_RECORDS`)."""
    adapter = scope.adapter()
    log, limits = scope.pipeline.foreign, scope.pipeline.limits
    for datacenter, stretch in stretches:
        file = stretch.tracked.file
        read_bytes = 0
        try:
            for byte_range, data in _pieces(datacenter, stretch, scope):
                parsed = read_events(data, file, byte_range, log, limits)
                yield from _batches(_foreign_table(parsed.events, datacenter, file, adapter, scope))
                yield from _batches(_bad_lines(parsed.dead_letters, datacenter))
                read_bytes = byte_range.end_bytes - stretch.start_bytes
        except RangeGone as error:
            yield from _lost(datacenter, stretch, read_bytes, error, FOREIGN_RECORDS)


def read_primary(stretches: Iterable[tuple[str, Stretch]], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """All primary records that begin in the stretches (`PRIMARY_RECORDS`)."""
    log, limits = scope.pipeline.primary, scope.pipeline.limits
    for datacenter, stretch in stretches:
        file = stretch.tracked.file
        read_bytes = 0
        try:
            for byte_range, data in _pieces(datacenter, stretch, scope):
                events = read_events(data, file, byte_range, log, limits).events
                columns = _place(events, datacenter)
                columns |= {"key": events["_id"], "time_us": events["_time_us"], "raw": events["_raw"]}
                columns["path"] = pa.array([file.path] * events.num_rows, pa.string())
                yield from _batches(_filled(columns, events.num_rows, PRIMARY_RECORDS))
                read_bytes = byte_range.end_bytes - stretch.start_bytes
        except RangeGone as error:
            yield from _lost(datacenter, stretch, read_bytes, error, PRIMARY_RECORDS)


def _pieces(datacenter: str, stretch: Stretch, scope: TaskScope) -> Iterator[tuple[ByteRange, bytes]]:
    pipeline = scope.pipeline
    logs = pipeline.datacenters[datacenter].logs
    return read_pieces(logs, stretch, pipeline.verification.piece_bytes, pipeline.limits.line_bytes)


def _foreign_table(
    events: pa.Table, datacenter: str, file: LogFile, adapter: Adapter, scope: TaskScope
) -> pa.Table:
    log = scope.pipeline.foreign
    ids, times = events["_id"], events["_time_us"]
    facts = np.where(pc.is_null(events["_key"]).to_numpy(), int(Fact.SKIPPED), 0).astype(np.int32)
    records = RawRecords(events["_raw"].to_pylist(), [file.header] * events.num_rows)
    facts[skip_records(adapter, records, scope.pipeline).rows] |= Fact.SKIPPED
    offsets = events["_offset"].to_numpy()
    for again in scope.requeued.get(datacenter, ()):
        if again.file_number == file.number:
            facts[(offsets >= again.start_bytes) & (offsets < again.end_bytes)] |= Fact.PENDING
    timed = pc.binary_join_element_wise(times.cast(pa.string()), ids, ":") if log.time_in_id else ids
    columns = _place(events, datacenter)
    columns |= {"event_id": ids, "event": timed, "key": events["_key"], "time_us": times}
    columns["event_us"] = times if log.id_codec is None else _event_times(events, log)
    columns |= {"around_us": _around(events, scope), "facts": pa.array(facts), "raw": events["_raw"]}
    return _filled(columns, events.num_rows, FOREIGN_RECORDS)


def _event_times(events: pa.Table, log: ForeignLog) -> pa.Array:
    pairs = zip(events["_id"].to_pylist(), events["_time_us"].to_pylist(), strict=True)
    return pa.array([event_key(event_id, time_us, log).event_us for event_id, time_us in pairs], pa.int64())


def _around(events: pa.Table, scope: TaskScope) -> Any:
    log = scope.pipeline.primary
    if log.id_codec is None:
        return events["_time_us"]
    pairs = zip(events["_key"].to_pylist(), events["_time_us"].to_pylist(), strict=True)
    return pa.array([primary_time_us(key or "", time_us, log) for key, time_us in pairs], pa.int64())


def _bad_lines(letters: pa.Table, datacenter: str) -> pa.Table:
    columns = _place(letters, datacenter)
    columns["facts"] = pa.array([int(Fact.BAD_LINE)] * letters.num_rows, pa.int32())
    return _filled(columns, letters.num_rows, FOREIGN_RECORDS)


def _lost(
    datacenter: str, stretch: Stretch, read_bytes: int, error: RangeGone, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    file = stretch.tracked.file
    lost_bytes = max(0, stretch.length_bytes - read_bytes)
    columns = {
        "datacenter": [datacenter],
        "file": [file.number],
        "offset": [stretch.start_bytes + read_bytes],
        "lost_path": [file.path],
        "lost_bytes": [lost_bytes],
        "lost_reason": [error.reason],
    }
    return _batches(_filled(columns, 1, schema))


def _place(events: pa.Table, datacenter: str) -> dict[str, Any]:
    names = pa.array([datacenter] * events.num_rows, pa.string())
    return {"datacenter": names, "file": events["_file"], "offset": events["_offset"]}


def _columns_of(table: pa.Table, schema: pa.Schema) -> dict[str, Any]:
    return {name: table[name] for name in schema.names if name in table.column_names}


def _filled(columns: Mapping[str, Any], rows: int, schema: pa.Schema) -> pa.Table:
    """The columns in the order of the schema; those that are not given are null."""
    return pa.table({f.name: columns.get(f.name, pa.nulls(rows, f.type)) for f in schema}).cast(schema)


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    return iter(table.combine_chunks().to_batches(BATCH_ROWS)) if table.num_rows else iter(())


# -- joining pairs afresh


def compare_rows(batches: Iterable[pa.RecordBatch], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """Whether rows say what a join of their two records says now (`COMPARED`).

    In: the columns of `COMPARED` but the last two, with file and raw of the foreign record, raw and
    primary_file of the primary (raw null: it is not at the row's place), and `values`, a struct.
    """
    adapter = scope.adapter()
    for batch in batches:
        table = pa.Table.from_batches([batch])
        verdicts = ["no primary"] * table.num_rows
        details = ["no primary event of its key is at the row's _primary_occurrence"] * table.num_rows
        for datacenter, rows in _by_datacenter(table, pc.is_valid(table["primary_raw"])).items():
            part = table.take(pa.array(rows, pa.int64()))
            for row, detail in zip(rows, _differences_of(part, datacenter, adapter, scope), strict=True):
                verdicts[row] = "differs" if detail else "same"
                details[row] = detail
        made = {"verdict": verdicts, "detail": details}
        yield from _batches(_filled(_columns_of(table, COMPARED) | made, len(batch), COMPARED))


def _differences_of(part: pa.Table, datacenter: str, adapter: Adapter, scope: TaskScope) -> list[str]:
    stored = pa.Table.from_struct_array(part["values"].combine_chunks())
    found = _differences_together(part, stored, datacenter, adapter, scope)
    suspicious = [row for row, detail in enumerate(found) if detail]
    for row in suspicious[:COMPARED_ALONE]:
        alone = part.slice(row, 1), stored.slice(row, 1)
        (found[row],) = _differences_together(*alone, datacenter, adapter, scope)
    return found


def _differences_together(
    part: pa.Table, stored: pa.Table, datacenter: str, adapter: Adapter, scope: TaskScope
) -> list[str]:
    fresh, rows = _join_afresh(part, datacenter, adapter, scope)
    details = [
        f"the adapter now {'drops' if join.outcome == 'drops' else 'fails on'} the pair {join.reason}".strip()
        for join in fresh
    ]
    kept = [row for row, join in enumerate(fresh) if join.outcome == "joins"]
    for row, detail in zip(kept, differences(rows, stored.take(pa.array(kept, pa.int64()))), strict=True):
        details[row] = detail
    return details


def differences(fresh: pa.Table, stored: pa.Table) -> list[str]:
    """For each row the columns that differ, with both values; empty where all are equal.

    A column that one of them does not have is null in it.
    """
    found: list[list[str]] = [[] for _ in range(stored.num_rows)]
    for name in dict.fromkeys([*stored.column_names, *fresh.column_names]):
        expected = _column(fresh, name, stored)
        present = _column(stored, name, fresh)
        for row in _unequal(expected, present):
            says, should = present[row].as_py(), expected[row].as_py()
            found[row].append(f"{name} is {says!r}, a join now gives {should!r}")
    return ["; ".join(columns) for columns in found]


def _column(table: pa.Table, name: str, other: pa.Table) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(other.num_rows, other.column(name).type)
    column = table.column(name).combine_chunks()
    if name in other.column_names and column.type != other.column(name).type:
        try:
            return column.cast(other.column(name).type)
        except pa.ArrowException:
            return column  # compared as Python values
    return column


def _unequal(left: pa.Array, right: pa.Array) -> list[int]:
    """The rows where two columns differ. Null equals null, and NaN equals NaN."""
    if left.equals(right):
        return []
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return [row for row, (a, b) in enumerate(pairs) if a != b and not (a != a and b != b)]


def _join_afresh(
    part: pa.Table, datacenter: str, adapter: Adapter, scope: TaskScope
) -> tuple[list[FreshJoin], pa.Table]:
    """What the adapter makes of pairs of one datacenter now; the rows of those that join, in order."""
    foreign, primary = (
        RawRecords(part[raw].to_pylist(), [scope.headers[datacenter, n] for n in part[file].to_pylist()])
        for raw, file in (("raw", "file"), ("primary_raw", "primary_file"))
    )
    row_schema = scope.row_schemas.get(datacenter, pa.schema([]))
    combined = adapt_pairs(adapter, foreign, primary, scope.pipeline, row_schema)
    joins = [FreshJoin("joins")] * part.num_rows
    for row, reason in combined.failures.items():
        joins[row] = FreshJoin("fails", reason)
    for row in combined.filtered:
        joins[row] = FreshJoin("drops")
    return joins, combined.table


def _by_datacenter(table: pa.Table, mask: Any) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, (name, wanted) in enumerate(zip(table["datacenter"].to_pylist(), mask.to_pylist(), strict=True)):
        if wanted:
            rows.setdefault(name, []).append(row)
    return rows


# -- records of which no table knows


def classify_records(batches: Iterable[pa.RecordBatch], scope: TaskScope) -> Iterator[pa.RecordBatch]:
    """The class of open records, and whether unjoinable ones could be joined now (`DECIDED`).

    In: place, event_id, time_us, event_us, facts, file and raw of the record, primary_file and primary_raw of
    its first primary (null: there is none), `waits` (somewhere), `open` (else the record is unjoinable).
    """
    adapter = scope.adapter()
    for batch in batches:
        table = pa.Table.from_batches([batch])
        fresh = [FreshJoin("no primary")] * table.num_rows
        for datacenter, rows in _by_datacenter(table, pc.is_valid(table["primary_raw"])).items():
            part = table.take(pa.array(rows, pa.int64()))
            joins, _ = _join_afresh(part, datacenter, adapter, scope)
            for row, join in zip(rows, joins, strict=True):
                fresh[row] = join
        outcomes, details = _settled(table, fresh, scope)
        made = {"outcome": outcomes, "detail": details}
        yield from _batches(_filled(_columns_of(table, DECIDED) | made, len(batch), DECIDED))


def _settled(table: pa.Table, fresh: Sequence[FreshJoin], scope: TaskScope) -> tuple[list[str], list[str]]:
    is_open, waits = table["open"].to_pylist(), table["waits"].to_pylist()
    words = {"joins": "joinable", "drops": "filtered"}
    outcomes = [words.get(join.outcome, "unjoinable") for join in fresh]
    details = [""] * len(fresh)
    # What the adapter drops was never registered: there is nothing to ask, unless that was asked first.
    too_old = [bool(facts & Fact.TOO_OLD) for facts in table["facts"].to_pylist()]
    drops = [join.outcome == "drops" for join in fresh]
    asked = [row for row in range(len(fresh)) if is_open[row] and (too_old[row] or not drops[row])]
    try:
        answers = _ask(table, asked, scope)
        since = _joined_since(table, asked, answers, scope)
    except (RegistryUnavailable, LakeUnavailable) as error:
        return ["unavailable"] * len(fresh), [str(error)] * len(fresh)
    for row, answer in zip(asked, answers, strict=True):
        match classify(fresh[row], registered(answer, scope.epochs, row in since), waits[row]):
            case Missing(why, kind):
                outcomes[row], details[row] = kind, why
            case outcome:
                outcomes[row] = outcome
    return outcomes, details


def _joined_since(
    table: pa.Table, rows: Sequence[int], answers: Sequence[LookupOutcome], scope: TaskScope
) -> set[int]:
    """Of rows whose ids are cleared, those that their owner has joined since its table was looked at."""
    cleared: dict[str, dict[int, str]] = {}
    for row, answer in zip(rows, answers, strict=True):
        if isinstance(answer, Joined) and answer.holder.token is None:
            cleared.setdefault(answer.holder.datacenter, {})[row] = table["event_id"][row].as_py()
    found: set[int] = set()
    for datacenter, ids in cleared.items():
        if datacenter in scope.pipeline.datacenters:
            lake = scope.pipeline.datacenters[datacenter].lake
            last = {name: e.table_version for name, e in scope.epochs.items() if e.datacenter == datacenter}
            joined = joined_beyond(OutputTable(lake, "joined_events"), last, set(ids.values()))
            found |= {row for row, event_id in ids.items() if event_id in joined}
    return found


def _ask(table: pa.Table, rows: Sequence[int], scope: TaskScope) -> list[LookupOutcome]:
    ids, times = table["event_id"].to_pylist(), table["time_us"].to_pylist()
    keys = [event_key(ids[row], times[row], scope.pipeline.foreign) for row in rows]
    return open_registry(scope.address).lookup(keys)
