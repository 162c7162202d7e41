"""What happened to one event: in the registry, in every datacenter's tables, waiting list and raw logs.

Gathers (`trace`) and says in a paragraph what it means (`verdict`, pure). What can't be asked is named, and
the rest is still there. Searching raw logs is `photon.verification.trace_logs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError

from photon.clock import MICROSECONDS, in_utc
from photon.dispatcher.state import STATE_FILE, DispatcherState, StateUnavailable
from photon.errors import FormatTooNew
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.file import Pipeline
from photon.registry.interface import (
    BeyondHorizon,
    Free,
    IdRegistry,
    Joined,
    LookupOutcome,
    RegistryMismatch,
    RegistryUnavailable,
    TooOld,
)
from photon.registry.open import open_registry
from photon.registry.operations.init import RegistryMissing, find_registry
from photon.storage.tables import TABLE_COLUMNS, LakeUnavailable, OutputTable, TableName
from photon.toolchain.fetch import JavaMissing
from photon.verification.trace_logs import LogRecord, Needle, SearchProgress, search_log

NO_REGISTRY = (
    JavaMissing,
    OSError,
    FormatTooNew,
    RegistryMismatch,
    RegistryMissing,
    RegistryUnavailable,
)
SHOWN = {
    "joined_events": ["_epoch", "_batch", "_occurrence", "_joined_at", "_primary_occurrence"],
    "dead_letters": ["_epoch", "_batch", "_occurrence", "path", "reason"],
    "unjoined": ["_epoch", "_batch", "_occurrence", "key", "event_time"],
    "too_old": ["_epoch", "_batch", "_occurrence", "key", "event_time"],
}
ID_COLUMNS: dict[TableName, str] = {
    "joined_events": "_event_id",
    "dead_letters": "event_id",
    "unjoined": "event_id",
    "too_old": "event_id",
}


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """What the registry says of the event (of each time that it has, where ids carry their time)."""

    standing: str  # held | free | too old | beyond horizon
    time_us: int | None = None
    datacenter: str | None = None
    token: str | None = None  # None: cleared, or nobody holds it


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """A record that the dispatcher still has to deal with. Times in microseconds since 1970 UTC."""

    occurrence: str
    reason: str
    status: str
    attempts: int
    first_seen_us: int
    due_us: int


@dataclass
class DatacenterTrace:
    """What one datacenter knows of the event. `rows` and its like are dicts of the tables' columns."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[WaitingRecord] = field(default_factory=list)
    dead_letters: list[dict[str, Any]] = field(default_factory=list)
    unjoined: list[dict[str, Any]] = field(default_factory=list)
    too_old: list[dict[str, Any]] = field(default_factory=list)
    records: list[LogRecord] = field(default_factory=list)  # of the foreign log
    primaries: list[LogRecord] = field(default_factory=list)  # that the records name


@dataclass
class Trace:
    """All that is known of an event. `problems`: what could not be asked, and why."""

    event_id: str
    logs_searched: bool
    registry: list[RegistryAnswer] = field(default_factory=list)
    datacenters: dict[str, DatacenterTrace] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """What happened, in words."""
        return verdict(self)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {"event_id": self.event_id, "verdict": self.verdict, **asdict(self)}


# -- gathering


def trace(
    pipeline: Pipeline,
    event_id: str,
    search_logs: bool = True,
    progress: SearchProgress = lambda what, done_bytes, all_bytes: None,
    registry: IdRegistry | None = None,
) -> Trace:
    """All that registry, tables, states and (with `search_logs`) raw logs know of `event_id`.

    `registry` takes the place of the one that the pipeline file names.
    """
    found = Trace(event_id, search_logs)
    for name in pipeline.datacenters:
        found.datacenters[name] = DatacenterTrace()
        _attempt(found, partial(_trace_state, pipeline, name, found))
        for table in TABLE_COLUMNS:
            _attempt(found, partial(_trace_table, pipeline, name, table, found))
        if search_logs:
            _trace_logs(pipeline, name, found, progress)
    _attempt(found, partial(_trace_registry, pipeline, found, registry))
    return found


def _attempt(found: Trace, ask: Callable[[], None]) -> None:
    try:
        ask()
    except (*NO_REGISTRY, DeltaError, LakeUnavailable, FormatTooNew, StateUnavailable) as error:
        found.problems.append(str(error))


def _trace_state(pipeline: Pipeline, datacenter: str, found: Trace) -> None:
    folder = pipeline.datacenters[datacenter].state
    if not (folder / STATE_FILE).exists():
        found.problems.append(f"datacenter {datacenter}: no state in {folder}: it never ran, or it was lost")
        return
    state = DispatcherState(folder, read_only=True)
    try:
        found.datacenters[datacenter].waiting += [
            WaitingRecord(
                str(row.occurrence), row.reason, row.status, row.attempts, row.first_seen_us, row.due_us
            )
            for row in state.waiting_of(found.event_id)
        ]
    finally:
        state.close()


def _trace_table(pipeline: Pipeline, datacenter: str, name: TableName, found: Trace) -> None:
    lake = pipeline.datacenters[datacenter].lake
    table = OutputTable(lake, name)
    if not table.exists():
        found.problems.append(f"datacenter {datacenter}: no table {name} in {lake}")
        return
    of_event = ds.field(ID_COLUMNS[name]) == found.event_id
    if name == "dead_letters":  # a line that is no event may hold the id all the same
        of_event |= ds.field("event_id").is_null() & pc.match_substring(ds.field("raw"), found.event_id)
    rows = table.load().to_pyarrow_dataset().to_table(columns=SHOWN[name], filter=of_event)
    here = found.datacenters[datacenter]
    kept = {
        "joined_events": here.rows,
        "dead_letters": here.dead_letters,
        "unjoined": here.unjoined,
        "too_old": here.too_old,
    }
    kept[name] += rows.to_pylist()


def _trace_logs(pipeline: Pipeline, datacenter: str, found: Trace, progress: SearchProgress) -> None:
    here = found.datacenters[datacenter]
    records, problems = search_log(pipeline, datacenter, "foreign", Needle((found.event_id,)), progress)
    here.records += records
    keys = tuple(dict.fromkeys(record.key for record in records if record.key is not None))
    if keys:
        primaries, more = search_log(pipeline, datacenter, "primary", Needle(keys), progress)
        here.primaries += primaries
        problems += more
    found.problems += [f"datacenter {datacenter}: {problem}" for problem in problems]


def _trace_registry(pipeline: Pipeline, found: Trace, registry: IdRegistry | None) -> None:
    keys = _keys(pipeline, found)
    if not keys:
        found.problems.append("registry: not asked, for the event's time belongs to its id and is not known")
        return
    registry = registry or open_registry(find_registry(pipeline))
    answers = registry.lookup(keys)
    found.registry += [_answer(key, outcome) for key, outcome in zip(keys, answers, strict=True)]


def _keys(pipeline: Pipeline, found: Trace) -> list[EventKey]:
    log = pipeline.foreign
    traces = found.datacenters.values()
    times = {record.time_us for one in traces for record in one.records}
    times |= {
        int(row["event_time"].timestamp()) * MICROSECONDS + row["event_time"].microsecond
        for one in traces
        for row in (*one.unjoined, *one.too_old)
    }
    if not log.time_in_id:
        return [event_key(found.event_id, min(times, default=None), log)]
    return [event_key(found.event_id, time_us, log) for time_us in sorted(times)]


def _answer(key: EventKey, outcome: LookupOutcome) -> RegistryAnswer:
    match outcome:
        case Joined(holder):
            return RegistryAnswer("held", key.time_us, holder.datacenter, holder.token)
        case Free():
            return RegistryAnswer("free", key.time_us)
        case TooOld():
            return RegistryAnswer("too old", key.time_us)
        case BeyondHorizon():
            return RegistryAnswer("beyond horizon", key.time_us)


# -- saying


def verdict(found: Trace) -> str:
    """What happened to the event, in one paragraph."""
    said = _joined(found) or _not_joined(found)
    if found.problems:
        said += f" Not everything could be asked: {len(found.problems)} parts are missing, named below."
    return said


def _joined(found: Trace) -> str:
    rows = [(name, row) for name, one in found.datacenters.items() for row in one.rows]
    if not rows:
        return ""
    places = [
        f"by datacenter {name} in batch {row['_batch']} of epoch {row['_epoch']}, from its record "
        f"{row['_occurrence']} and the primary record {row['_primary_occurrence']}, at {row['_joined_at']}"
        for name, row in rows
    ]
    more = [_and_records(name, one) for name, one in found.datacenters.items() if len(one.records) > 1]
    if len(rows) == 1:
        return f"Joined {places[0]}." + "".join(more)
    times = {answer.time_us for answer in found.registry}
    if len(times) >= len(rows):
        return f"{len(rows)} events of different times have this id. Joined " + "; and ".join(places) + "."
    return (
        f"Joined {len(rows)} times, which must not be: " + "; and ".join(places) + ". If one of these epochs "
        "is retired, its row does not count; photon verify tells."
    )


def _and_records(name: str, one: DatacenterTrace) -> str:
    count, too_old = len(one.records), len(one.too_old)
    if not too_old:
        return f" Datacenter {name} has {count} records of it: all but one are duplicates."
    return (
        f" Datacenter {name} has {count} records of it: one that was joined, {too_old} too old, because they"
        f" came after collection, {count - 1 - too_old} duplicates."
    )


def _not_joined(found: Trace) -> str:
    each = [f"{name}: {said}" for name, one in found.datacenters.items() if (said := _here(one, found))]
    registry = _in_registry(found.registry)
    if not each and not registry:
        where = "no table, no waiting list, no log and no registry" if found.logs_searched else "nobody asked"
        return f"Unknown: {where} knows this id." + (
            "" if found.logs_searched else " The logs were not searched."
        )
    said = "Not joined. " + " ".join(each)
    return f"{said} {registry}".strip()


def _here(one: DatacenterTrace, found: Trace) -> str:
    waiting = [record for record in one.waiting if record.status != "unjoinable"]
    if waiting:
        first = waiting[0]
        return (
            f"it waits ({first.reason}), looked for {first.attempts} times since "
            f"{moment(first.first_seen_us)}, due again {moment(first.due_us)}.{_primaries(one)}"
        )
    if one.dead_letters:
        return f"it is a dead letter: {one.dead_letters[-1]['reason']}."
    if one.too_old:
        return "too old: its id is below the boundary of collection, and may have been joined and forgotten."
    if one.unjoined or one.waiting:
        return f"given up as unjoinable.{_primaries(one)}"
    if not one.records:
        return ""
    if not any(record.was_read for record in one.records):
        return "it is in the log, not yet read."
    if all(record.key is None for record in one.records):
        return "it was read and skipped: it has no key."
    return (
        f"it was read, and no table of it has it: filtered, skipped, or missing; photon verify tells."
        f"{_primaries(one)}"
    )


def _primaries(one: DatacenterTrace) -> str:
    keys = sorted({record.key for record in one.records if record.key is not None})
    if not keys:
        return ""
    if not one.primaries:
        return f" No primary event with its key {', '.join(keys)} is in this datacenter's logs."
    first = one.primaries[0]
    read = "read" if first.was_read else "not yet read"
    return f" Its primary event is in {first.path} at offset {first.offset_bytes} ({read})."


def _in_registry(answers: Sequence[RegistryAnswer]) -> str:
    for answer in answers:
        if answer.standing == "held":
            by = f"by {answer.token}" if answer.token else f"by datacenter {answer.datacenter}, and cleared"
            return (
                f"The registry says it is registered {by}, but there is no row: its batch is not committed "
                "yet, or the row is missing; photon verify tells."
            )
        if answer.standing != "free":
            return f"The registry says its time is {answer.standing}."
    return ""


def moment(time_us: int) -> str:
    """A time for people."""
    return in_utc(time_us, "milliseconds")
