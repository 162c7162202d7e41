"""The findings of a trace of one event, and the paragraph that says what they mean. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from photon.process.clock import MICROSECONDS, in_utc
from photon.process.readable import counted
from photon.state.waiting.reasons import WHY
from photon.tracing.past import Past

Decision = Literal["", "on hold", "retired", "lake gone"]  # people's, on a datacenter
HolderState = Literal["", "on hold", "retired", "lake gone", "over", "silent", "live"]  # an epoch's
DROPPED = ("the adapter drops it", "it has no key, or the adapter passes over it")  # outcomes of `try_joins`
WHY_REMOVED = {
    "filtered": "the adapter dropped the pair",
    "skipped": "the adapter passed over the event",
    "second row": "another row had its event",
    "altered id": "its record had claimed another event, so somebody had altered the id",
}


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """The claim that holds the event, as the ledgers have it, if any does.

    `id_status`: held until the claim's batch is closed, then joined. `boundary_us`: events before it are too
    old; None: there is none yet.
    """

    id_status: Literal["held", "joined", "free", "too old"]
    boundary_us: int | None = None
    datacenter: str | None = None  # the claimant, with epoch, batch and plan
    epoch: str | None = None
    batch: int | None = None
    plan: str | None = None  # empty: a refill made the claim of a row that named none
    ledger: str | None = None
    position: int | None = None  # entry of the claim in the ledger
    time_us: int | None = None  # time of the event, as it was claimed
    occurrence: str | None = None  # the record that was to join, in its epoch
    holder_state: HolderState = ""  # the holding epoch's
    also_claimed: tuple[str, ...] = ()  # plans that came too late
    is_acknowledged: bool = False  # others took its row, and a person has acknowledged that (protocol E13)

    @property
    def holder(self) -> str | None:
        """The plan that holds the event, as it is written; None: none does."""
        return None if self.datacenter is None else f"{self.datacenter}:{self.epoch}:{self.batch}#{self.plan}"


@dataclass(frozen=True, slots=True)
class TracedWait:
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
    outcome: str = ""  # result of a join of it now, where no table has it

    @property
    def is_dropped(self) -> bool:
        return self.outcome in DROPPED


@dataclass(frozen=True, slots=True)
class SearchedFile:
    """A log file in which the event was looked for."""

    path: str
    searched_bytes: int
    read_bytes: int  # the offset that the dispatcher has committed
    grown_us: int | None  # when a join saw it grow last; None: no join has seen it


@dataclass(frozen=True, slots=True)
class SearchedLog:
    """A log in which the event was looked for."""

    side: str
    files: int
    searched_bytes: int
    read_bytes: int
    grown_us: int | None
    last: tuple[SearchedFile, ...]  # the files that were seen to grow last, the latest first


@dataclass(frozen=True, slots=True)
class OrderOf:
    """A work order that names the event, and that nobody has taken up yet."""

    order_id: str
    why: str
    occurrence: str
    written_us: int
    is_mended: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """A table that may have rows of the event, and could not be read: why, and what to do about it."""

    why: str
    remedy: str


@dataclass
class DatacenterTrace:
    """One datacenter's knowledge of the event. Rows of tables are dicts by column.

    `decision` "lake gone": it is retired, and its rows don't count.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[TracedWait] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # occurrences whose bytes went while they waited
    dead_letters: list[dict[str, Any]] = field(default_factory=list)
    unjoined: list[dict[str, Any]] = field(default_factory=list)
    too_old: list[dict[str, Any]] = field(default_factory=list)
    records: list[LogRecord] = field(default_factory=list)  # records of the foreign log
    primaries: list[LogRecord] = field(default_factory=list)  # primary records that `records` name
    orders: list[OrderOf] = field(default_factory=list)
    mended: list[dict[str, Any]] = field(default_factory=list)  # dead letters that were taken up again
    searched: list[SearchedLog] = field(default_factory=list)
    batch: int | None = None  # the last one that is completed
    watermark_us: int | None = None
    removed: list[dict[str, Any]] = field(default_factory=list)  # rows that rebuilds took out
    past: Past = field(default_factory=Past)
    decision: Decision = ""
    has_joined: bool | None = None  # ever, as registry or state tell; None: neither could be asked
    not_written: str = ""  # why it commits nothing to one of its tables
    started_by: str = ""  # what starts it; empty: it could not be asked

    @property
    def is_retired(self) -> bool:
        return self.decision in ("retired", "lake gone")

    @property
    def rows_count(self) -> bool:
        return self.decision != "lake gone"

    @property
    def counting_rows(self) -> list[dict[str, Any]]:
        return self.rows if self.rows_count else []

    @property
    def counting_letters(self) -> list[dict[str, Any]]:
        """The dead letters that were not taken up again since."""
        return [row for row in self.dead_letters if row.get("taken_up_after") is None]


@dataclass
class Trace:
    """All that is known of an event. `problems`: what could not be asked, and why."""

    event_id: str
    logs_searched: bool
    registry: RegistryAnswer | None = None  # None: it could not be asked
    datacenters: dict[str, DatacenterTrace] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    # Datacenters whose joined events were not read, or not all of them.
    unread: dict[str, Unread] = field(default_factory=dict)
    pipeline: str = "pipeline.yaml"  # file of the pipeline, as it is typed in commands
    what_to_do: str = ""  # `advice`

    @property
    def holder(self) -> RegistryAnswer | None:
        """The claim that holds the event, if any does."""
        return self.registry if self.registry is not None and self.registry.datacenter is not None else None

    @property
    def not_known(self) -> dict[str, Unread]:
        """The datacenters that may have a row of it, for all that is known; empty if a row was found."""
        if self.counting_rows:
            return {}
        if self.holder is not None:
            return {name: unread for name, unread in self.unread.items() if name == self.holder.datacenter}
        is_free = self.registry is not None and self.registry.id_status == "free"
        return {} if is_free else self.unread

    @property
    def counting_rows(self) -> list[tuple[str, dict[str, Any]]]:
        """The rows that count, each with its datacenter."""
        return [(name, row) for name, one in self.datacenters.items() for row in one.counting_rows]

    @property
    def contradiction(self) -> str:
        """The registry's contradiction of the only row; empty where it knows the row, or can't tell."""
        if len(self.counting_rows) != 1 or self.registry is None:
            return ""
        ((name, row),) = self.counting_rows
        if self.registry.id_status == "free":
            # Without a time an id that gc has dropped looks free.
            return "" if row["_event_time"] is None else "nobody has registered the id of its row"
        if not self.registry.plan or row["_plan"] is None:
            return ""
        own, holder = f"{name}:{row['_epoch']}:{row['_batch']}#{row['_plan']}", self.registry.holder
        return "" if own == holder else f"its row says {own}, and its id is registered by {holder}"

    @property
    def verdict(self) -> str:
        """The event's story in one paragraph."""
        verdict = _joined(self) or _not_joined(self)
        if self.contradiction:
            verdict = f"A violation: {self.contradiction}. {verdict}"
        if not self.problems:
            return verdict
        return (
            f"{verdict} Not everything could be asked: {counted(len(self.problems), 'part', 'are')} missing, "
            "named below."
        )

    def as_dict(self) -> dict[str, Any]:
        return {"event_id": self.event_id, "verdict": self.verdict, **asdict(self)}


def _joined(found: Trace) -> str:
    places = [
        f"by datacenter {name} in batch {row['_batch']} of epoch {row['_epoch']}, from its record "
        f"{row['_occurrence']} and the primary record {row['_primary_occurrence']}, at "
        f"{in_words(row['_joined_at'])}"
        for name, row in found.counting_rows
    ]
    if not places:
        return ""
    if len(places) == 1:
        past = dict.fromkeys(said for one in found.datacenters.values() for said in one.past.sentences)
        copies = "".join(_copies(*item) for item in found.datacenters.items())
        return " ".join([f"Joined {places[0]}.", *past]) + copies
    return f"A violation: joined {len(places)} times, {'; and '.join(places)}."


def _copies(name: str, one: DatacenterTrace) -> str:
    count, too_old = len(one.records), len(one.too_old)
    if count < 2:
        return ""
    if not too_old:
        return f" Datacenter {name} has {count} records of it: all but one are duplicates."
    return (
        f" Datacenter {name} has {count} records of it: one that was joined, {too_old} too old, because they"
        f" came after gc, {counted(count - 1 - too_old, 'duplicate')}."
    )


def _not_joined(found: Trace) -> str:
    not_known = found.not_known
    is_known = not not_known
    fates = {name: _fate(one, is_known) for name, one in found.datacenters.items()}
    told = {
        name: [said] * bool(said) + found.datacenters[name].past.sentences for name, said in fates.items()
    }
    sentences = [f"{name}: {' '.join(said)}" for name, said in told.items() if said]
    if not any(one.removed for one in found.datacenters.values()):
        said = _registry_sentence(found.registry, is_known) if found.registry is not None else ""
        sentences += [said] if said else []
    if not_known:
        whose = [f"the joined events of {name} can't be read: {one.why}" for name, one in not_known.items()]
        return f"Not known whether it is joined, for {'; '.join(whose)}. {' '.join(sentences)}".strip()
    if sentences:
        return f"Not joined. {' '.join(sentences)}"
    if found.logs_searched:
        looked = " ".join(_searched(*item) for item in found.datacenters.items())
        return f"Unknown: no table, no waiting list, no log and no registry knows this id. {looked}".strip()
    return "Unknown: nobody asked knows this id. The logs were not searched."


def _searched(name: str, one: DatacenterTrace) -> str:
    """How far a datacenter's foreign log was searched, and how far its dispatcher has read it."""
    log = next((log for log in one.searched if log.side == "foreign"), None)
    if log is None:
        return f"The foreign log of {name} could not be searched."
    if not log.files:
        return f"The foreign log of {name} has no file."
    newest = f", and was seen to grow last at {moment(log.grown_us)}" if log.grown_us is not None else ""
    batch = f" up to batch {one.batch}" if one.batch else ""
    return (
        f"The foreign log of {name} was searched to its end: {counted(log.files, 'file')} with "
        f"{counted(log.searched_bytes, 'byte')}, of which {log.read_bytes:,} are read{batch}{newest}."
    )


def _fate(one: DatacenterTrace, is_known: bool) -> str:
    """The fate of the event in a datacenter without a row of it; empty if it has no record either.

    `is_known`: that there is no row elsewhere either.
    """
    for record in one.waiting:
        if record.status != "unjoinable":
            return (
                f"it waits ({record.reason}) {WHY[record.reason]}, looked for "
                f"{counted(record.attempts, 'time')} since {moment(record.first_seen_us)}, due "
                f"again {moment(record.due_us)}.{_primaries(one)}"
            )
    if one.lost:
        return f"it is lost: its record {one.lost[0]} waited, and went from its log and from where it waited."
    if one.counting_letters:
        return f"it is a dead letter: {one.counting_letters[-1]['reason']}."
    if one.too_old:
        return "too old: it may have been joined; ids of its age are deleted by gc."
    if one.rows:  # none of them counts
        return "it has a row that does not count, for the datacenter is retired and its lake was given up."
    if one.removed:
        last = one.removed[-1]
        return f"a rebuild took its row out at {in_words(last['at'])}: {WHY_REMOVED[last['why']]}."
    if one.unjoined or one.waiting:
        return f"given up as unjoinable.{_primaries(one)}"
    if not one.records:
        return ""
    if not any(record.was_read for record in one.records):
        never = ", for this datacenter has never joined" if one.has_joined is False else ""
        return f"it is in the log, not yet read{never}."
    if all(record.key is None for record in one.records):
        return "it was read and skipped: it has no key."
    if not is_known:
        return "it was read."
    if drops := [record.outcome for record in one.records if record.is_dropped]:
        return f"it was read and is in no table: {drops[0]}."
    return (
        "it was read, and no table has it: filtered, skipped, or missing; a verification finds out."
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


def _registry_sentence(answer: RegistryAnswer, is_known: bool) -> str:
    if answer.id_status == "too old":
        return f"The registry says it is too old: before {moment(answer.boundary_us or 0)}."
    if answer.datacenter is None:
        return ""
    no_row = f", but there is no row: {_why_no_row(answer)}" if is_known else ""
    return f"The registry says it is {answer.id_status} by {answer.holder}{no_row}."


def _why_no_row(answer: RegistryAnswer) -> str:
    if answer.is_acknowledged:
        return "others took it, and a person has acknowledged that: it stays away"
    if answer.holder_state == "lake gone":
        return f"datacenter {answer.datacenter} is retired, and its lake is gone with its rows"
    if answer.id_status == "joined":
        return "it was joined, and its row is gone"
    epoch = f"epoch {answer.epoch} of datacenter {answer.datacenter}"
    return f"{epoch} is {answer.holder_state or 'not known'}, and has not closed batch {answer.batch}"


def moment(time_us: int) -> str:
    """A time for people."""
    return in_utc(time_us, "milliseconds")


def in_words(value: object) -> str:
    """A value of a table for people: a time as all others are told."""
    return moment(round(value.timestamp() * MICROSECONDS)) if isinstance(value, datetime) else str(value)
