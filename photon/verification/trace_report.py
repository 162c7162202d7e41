"""What a trace found of one event, and the paragraph that says what it means. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from photon.clock import in_utc


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """What the registry says of the event (for each of its times, where ids carry their time)."""

    id_status: str  # held | free | too old | beyond horizon
    time_us: int | None = None
    datacenter: str | None = None
    token: str | None = None  # None: cleared, or nobody holds it


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """A record that waits in the dispatcher's state. Times in microseconds since 1970 UTC."""

    occurrence: str
    reason: str
    status: str
    attempts: int
    first_seen_us: int
    due_us: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record in a raw log. `was_read`: it lies before the offset that the dispatcher has committed."""

    path: str
    file_number: int
    offset_bytes: int
    time_us: int
    key: str | None
    was_read: bool


@dataclass
class DatacenterTrace:
    """What one datacenter knows of the event. Rows of tables are dicts by column."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[WaitingRecord] = field(default_factory=list)
    lost: list[str] = field(
        default_factory=list
    )  # occurrences of records that waited, and whose bytes are gone
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
        """What happened to the event, in one paragraph."""
        verdict = _joined(self) or _not_joined(self)
        if not self.problems:
            return verdict
        return (
            f"{verdict} Not everything could be asked: {len(self.problems)} parts are missing, named below."
        )

    def as_dict(self) -> dict[str, Any]:
        return {"event_id": self.event_id, "verdict": self.verdict, **asdict(self)}


def _joined(found: Trace) -> str:
    places = [
        f"by datacenter {name} in batch {row['_batch']} of epoch {row['_epoch']}, from its record "
        f"{row['_occurrence']} and the primary record {row['_primary_occurrence']}, at {row['_joined_at']}"
        for name, one in found.datacenters.items()
        for row in one.rows
    ]
    if not places:
        return ""
    if len(places) == 1:
        return f"Joined {places[0]}." + "".join(_copies(*item) for item in found.datacenters.items())
    if len({answer.time_us for answer in found.registry}) >= len(places):
        return f"{len(places)} events of different times have this id. Joined {'; and '.join(places)}."
    return (
        f"Joined {len(places)} times, which must not be: {'; and '.join(places)}. If one of these epochs "
        "is retired, its row does not count; run photon verify to find out."
    )


def _copies(name: str, one: DatacenterTrace) -> str:
    count, too_old = len(one.records), len(one.too_old)
    if count < 2:
        return ""
    if not too_old:
        return f" Datacenter {name} has {count} records of it: all but one are duplicates."
    return (
        f" Datacenter {name} has {count} records of it: one that was joined, {too_old} too old, because they"
        f" came after gc, {count - 1 - too_old} duplicates."
    )


def _not_joined(found: Trace) -> str:
    sentences = [f"{name}: {said}" for name, one in found.datacenters.items() if (said := _fate(one))]
    sentences += filter(None, [_registry_sentence(found.registry)])
    if sentences:
        return f"Not joined. {' '.join(sentences)}"
    if found.logs_searched:
        return "Unknown: no table, no waiting list, no log and no registry knows this id."
    return "Unknown: nobody asked knows this id. The logs were not searched."


def _fate(one: DatacenterTrace) -> str:
    """What became of the event in a datacenter without a row of it; empty if it has no record either."""
    for record in one.waiting:
        if record.status != "unjoinable":
            return (
                f"it waits ({record.reason}), looked for {record.attempts} times since "
                f"{moment(record.first_seen_us)}, due again {moment(record.due_us)}.{_primaries(one)}"
            )
    if one.lost:
        return f"it is lost: its record {one.lost[0]} waited, and went from its log and from where it waited."
    if one.dead_letters:
        return f"it is a dead letter: {one.dead_letters[-1]['reason']}."
    if one.too_old:
        return "too old: it may have been joined; ids of its age are deleted by gc."
    if one.unjoined or one.waiting:
        return f"given up as unjoinable.{_primaries(one)}"
    if not one.records:
        return ""
    if not any(record.was_read for record in one.records):
        return "it is in the log, not yet read."
    if all(record.key is None for record in one.records):
        return "it was read and skipped: it has no key."
    return (
        "it was read, and no table has it: filtered, skipped, or missing; run photon verify to find out."
        + _primaries(one)
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


def _registry_sentence(answers: Sequence[RegistryAnswer]) -> str:
    for answer in answers:
        if answer.id_status == "held":
            by = f"by {answer.token}" if answer.token else f"by datacenter {answer.datacenter}, and cleared"
            return (
                f"The registry says it is registered {by}, but there is no row: its batch is not committed "
                "yet, or the row is missing; run photon verify to find out."
            )
        if answer.id_status != "free":
            return f"The registry says its time is {answer.id_status}."
    return ""


def moment(time_us: int) -> str:
    """A time for people."""
    return in_utc(time_us, "milliseconds")
