"""Pure decisions at the end of a batch: from the tasks' results to what the state stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from photon.dispatcher.fed_log import fed_watermark_us
from photon.dispatcher.log_reader import LogReader
from photon.join.messages import (
    AdapterFailing,
    DamagedWaiting,
    Failed,
    IndexDamaged,
    IndexResult,
    JoinResult,
    TaskOutcome,
    TimedOut,
    Unavailable,
    ViewDamaged,
)
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.clock import CLOCK_TOLERANCE_US, microseconds
from photon.process.errors import ADAPTER_FAILED, UserError
from photon.process.measures import Measures
from photon.registry.entry import Claimant
from photon.registry.segments import RunDamaged
from photon.state.failing import AdapterCalls
from photon.state.outcomes import HeldRecord
from photon.state.waiting.segments import WaitingDamaged, WaitingSegment
from photon.storage.columns import TableName
from photon.storage.delta import LakeUnavailable
from photon.storage.output_files import OutputFile
from photon.storage.tokens import Occurrence, PlanKey

MOST_QUARANTINED_IN_A_ROW = 20  # with more of them the fault is not in the events


class Superseded(UserError):
    """Another process commits for this datacenter: this one must not go on (protocol A3)."""


class IndexLost(Exception):
    """Segments are missing or damaged: primary logs have to be indexed again before anything else."""


class CannotEnd(Exception):
    """A task met something that every run of the batch will meet again."""


class AdapterFails(UserError):
    """The adapter fails on more than a share of the pairs: their events are not to become dead letters."""

    exit_status = ADAPTER_FAILED


class TooManyDeaths(UserError):
    """Many events in a row kept their batches from ending: the fault is not in the events."""


class DeadlineExceeded(Exception):
    """A task took longer than its deadline: the attempt did not return (protocol A17)."""


@dataclass
class Results:
    """The outcomes of a batch that went through."""

    index: list[IndexResult] = field(default_factory=list)
    join: list[JoinResult] = field(default_factory=list)
    failing: list[AdapterFailing] = field(default_factory=list)

    @property
    def all_files(self) -> list[OutputFile]:
        written = [*(r.files for r in self.index), *(r.files for r in self.join)]
        return [file for files in written for file in files]

    def files(self, table: TableName) -> list[OutputFile]:
        return [file for file in self.all_files if file.table == table]

    @property
    def lost_bytes(self) -> int:
        """Bytes of planned ranges that are not there any more."""
        return sum(r.lost_bytes for r in self.index) + sum(r.lost_bytes for r in self.join)

    @property
    def measures(self) -> list[Measures]:
        return [*(r.measures for r in self.index), *(r.measures for r in self.join)]

    @property
    def unneeded_files(self) -> list[str]:
        return [name for result in self.join for name in result.unneeded_files]

    @property
    def adapter_calls(self) -> AdapterCalls:
        stopped = (task.calls for task in self.failing)
        return sum([*stopped, *(result.adapter_calls for result in self.join)], AdapterCalls())

    @property
    def registered_here(self) -> list[HeldRecord]:
        return [record for result in self.join for record in result.registered_here]

    @property
    def waiting(self) -> list[WaitingSegment]:
        return [info for result in self.join for info in result.waiting]

    @property
    def to_free(self) -> list[HeldRecord]:
        return [record for result in self.join for record in result.to_free]


def collect_results(outcomes: Sequence[TaskOutcome]) -> Results:
    """The results of a batch. Raises what keeps it from being committed.

    LakeUnavailable first: it may have caused what else raises RunDamaged, IndexLost (a segment that a full
    disk did not take), WaitingDamaged, DeadlineExceeded or CannotEnd.
    """
    for outcome in outcomes:
        if isinstance(outcome, Unavailable):
            raise LakeUnavailable(f"{outcome.what}: {outcome.reason}")
    for outcome in outcomes:
        if isinstance(outcome, ViewDamaged):
            raise RunDamaged(outcome.reason)
    for outcome in outcomes:
        if isinstance(outcome, IndexDamaged):
            raise IndexLost(outcome.reason)
    damaged = {
        name for outcome in outcomes if isinstance(outcome, DamagedWaiting) for name in outcome.segments
    }
    if damaged:
        raise WaitingDamaged(sorted(damaged))
    results = Results()
    for outcome in outcomes:
        match outcome:
            case TimedOut(reason):
                raise DeadlineExceeded(reason)
            case Failed(reason):
                raise CannotEnd(reason)
            case AdapterFailing():
                results.failing.append(outcome)
            case IndexResult():
                results.index.append(outcome)
            case JoinResult():
                results.join.append(outcome)
    return results


def adapter_refusal(results: Results, before: AdapterCalls) -> str:
    """On what share of the pairs the adapter fails, if the batch must not end so; else empty (A21).

    Of the batch, with those `before` in a row that were over the share too, or of one of its tasks.
    """
    batch = results.adapter_calls
    refusals = [batch.refusal(), batch.in_a_row(before).refusal()]
    refusals += [task.calls.refusal() for task in results.failing]
    return next(filter(None, refusals), "")


def check_adapter(results: Results, before: AdapterCalls, pipeline: Pipeline, plan: PlanKey) -> None:
    """Raise AdapterFails if the batch must not end so, with what to do."""
    if refusal := adapter_refusal(results, before):
        raise AdapterFails(
            f"datacenter {plan.datacenter}: adapter {pipeline.adapter}: {refusal}. Batch {plan.batch} stays "
            "open, and nothing is lost: mend the adapter, and the next start joins it. A pair that is to "
            "have no row: return None for it"
        )


def check_deaths(quarantined_in_a_row: int, reason: str) -> None:
    """Raise TooManyDeaths if so many events kept their batches from ending, the last one for this reason."""
    if quarantined_in_a_row > MOST_QUARANTINED_IN_A_ROW:
        raise TooManyDeaths(
            f"{MOST_QUARANTINED_IN_A_ROW} events in a row kept their batch from ending, the last time: "
            f"{reason}; mend the adapter or the machine, and the next start joins it: nothing is lost"
        )


@dataclass(frozen=True, slots=True)
class OwnHold:
    """An own claimant's hold of an event, as the table says when a batch ends.

    `joined_at`: the record that has the row, None: there is no row. `is_join`: the hold is closed (L9), so
    that no row comes any more. `is_own_epoch`: records are numbered as they are now.
    """

    claimant: Claimant
    joined_at: Occurrence | None
    is_join: bool
    is_own_epoch: bool = True


@dataclass(frozen=True, slots=True)
class GivenUpHold:
    """A join of a datacenter that never runs again, by one snapshot of its table."""

    claimant: Claimant
    has_row: bool


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A record of an event that another record of this epoch has joined."""

    event_id: str
    occurrence: Occurrence
    joined: Occurrence


@dataclass
class Resolved:
    """The decisions on events that this datacenter has claimed before."""

    counts: Counter[str] = field(default_factory=Counter)
    ended: set[Occurrence] = field(default_factory=set)  # in a final class: they wait no more
    released: set[Occurrence] = field(default_factory=set)  # nobody of ours holds their event: due at once
    to_free: dict[str, Claimant] = field(default_factory=dict)  # joins without a row, by event
    inherited: set[str] = field(default_factory=set)  # events joined by earlier epochs, now counted as joined
    # Another record of this epoch joined their events.
    duplicates: list[Duplicate] = field(default_factory=list)
    not_compared: int = 0  # other duplicates: nobody knows which record joined

    def count_inherited(self, event_id: str, before: Collection[str]) -> None:
        """Count a record of an event that an earlier epoch has joined.

        The first one counts as joined: files are numbered anew, so nobody knows which record it was.
        """
        first = event_id not in before and event_id not in self.inherited
        self.inherited.add(event_id)
        self.counts["joined" if first else "duplicates"] += 1
        self.not_compared += not first

    def end_without_row(self, record: HeldRecord, hold: OwnHold, before: Collection[str]) -> None:
        """Count a record of an event whose row others may have taken: it brings no row back (E12)."""
        self.ended.add(record.occurrence)
        if not hold.is_own_epoch:
            self.count_inherited(record.event_id, before)
            return
        self.counts["duplicates"] += 1
        self.not_compared += 1


def resolve(
    records: Iterable[HeldRecord],
    holds: Mapping[str, OwnHold],
    inherited_before: Collection[str],
    may_free: Collection[Occurrence] | None = None,
) -> Resolved:
    """Decide on records of events that this datacenter has claimed before (protocol A8).

    With a row: joined by this very record, read again after a crash; or by another one, and this is a
    duplicate. Without a row: a closed hold is to be freed, and what is not closed yet waits for its close.
    Of an event that nobody holds any more, and that the boundary has passed, an earlier epoch has the row.
    `may_free`: the only records for which a hold is freed, as others took rows; the others end as if the row
    were there (E12). None: others took none.
    """
    resolved = Resolved()
    for record in sorted(records, key=lambda record: record.occurrence):
        if record.holder is None:
            resolved.count_inherited(record.event_id, inherited_before)
            continue
        hold = holds.get(record.event_id)
        if hold is None:
            resolved.released.add(record.occurrence)
        elif hold.joined_at is None:
            if hold.is_join and (may_free is None or record.occurrence in may_free):
                resolved.to_free[record.event_id] = hold.claimant
            elif hold.is_join:
                resolved.end_without_row(record, hold, inherited_before)
        elif not hold.is_own_epoch:
            resolved.count_inherited(record.event_id, inherited_before)
            resolved.ended.add(record.occurrence)
        else:
            same = hold.joined_at == record.occurrence
            resolved.counts["joined" if same else "duplicates"] += 1
            if not same:
                resolved.duplicates.append(Duplicate(record.event_id, record.occurrence, hold.joined_at))
            resolved.ended.add(record.occurrence)
    return resolved


def settle_given_up(records: Iterable[HeldRecord], holds: Mapping[str, GivenUpHold | None]) -> Resolved:
    """Decide on ordered records of events that a datacenter joined which never runs again (E8).

    With a row after all: joined there. Without one: the join is to be freed. Nobody can tell (None): the
    record waits. Who else holds the event by now decides at the next look.
    """
    settled = Resolved()
    for record in records:
        if record.event_id not in holds:
            settled.released.add(record.occurrence)
        elif (hold := holds[record.event_id]) is None:
            continue
        elif hold.has_row:
            settled.counts["joined_elsewhere"] += 1
            settled.ended.add(record.occurrence)
        else:
            settled.to_free[record.event_id] = hold.claimant
    return settled


def sums(results: Results, resolved: Resolved) -> Counter[str]:
    """The increments of all counts of a batch, by name."""
    total: Counter[str] = Counter(resolved.counts)
    for result in results.index:
        total.update(primary=result.indexed.events, primary_dead_letters=result.dead_letters)
        total.update(lost_bytes=result.lost_bytes, reused_primaries=result.indexed.reused.count)
    for joined in results.join:
        total.update(joined.classes)
        total.update(foreign=joined.foreign, lost_bytes=joined.lost_bytes, ambiguous=joined.ambiguous)
    return total


def latest_times_us(results: Results) -> dict[int, int]:
    """The latest event time that a batch has read in each file, by file number."""
    latest: dict[int, int] = {}
    of_tasks = [each.indexed.max_time_us for each in results.index]
    for times_us in of_tasks + [each.max_time_us for each in results.join]:
        for number, time_us in times_us.items():
            latest[number] = max(time_us, latest.get(number, time_us))
    return latest


def watermark_us(
    files: Collection[TrackedFile],
    now_us: int,
    idle_after_us: int,
    previous_us: int | None,
    clock_tolerance_us: int = 2**62,
) -> int | None:
    """The event time up to which primary logs are read: the least over files that still grow.

    A file that is idle for longer than `idle_after_us` counts only while it has unread bytes. Without such
    a file the log is silent, and the watermark stays. It never goes back, except from a time further ahead
    of the clock than is tolerated, which an earlier Photon took for one. A file that was read to its end and
    has no time within the tolerance says nothing (protocol C6).
    """
    latest_us = now_us + clock_tolerance_us
    if previous_us is not None and previous_us > latest_us:
        previous_us = None
    counted = []
    for tracked in files:
        has_more = tracked.size_bytes > tracked.offset_bytes
        if tracked.state != "open" or not (has_more or now_us - tracked.grown_us < idle_after_us):
            continue
        if tracked.max_time_us is not None and tracked.max_time_us <= latest_us:
            counted.append(tracked.max_time_us)
        elif has_more:
            return previous_us
    if not counted:
        return previous_us
    return max(min(counted), previous_us if previous_us is not None else min(counted))


def watermark_of(
    reader: LogReader, pipeline: Pipeline, now_us: int, previous_us: int | None, has_requeued: bool
) -> int | None:
    """The watermark of the primary logs as far as they are read; while a file is not, the previous one.

    `has_requeued`: some of what counts as read is to be indexed yet.
    """
    # A waiting record may have its primary there, and before the first look nobody knows what is there.
    if reader.unread("primary") or not reader.has_looked:
        return previous_us
    files = reader.awaited_of("primary", now_us)
    if reader.fed is not None:
        if has_requeued:
            return previous_us
        return fed_watermark_us(reader.fed.marker, files, now_us, previous_us, CLOCK_TOLERANCE_US)
    idle_after_us = microseconds(pipeline.tailing.idle_after)
    read_us = watermark_us(files, now_us, idle_after_us, previous_us, CLOCK_TOLERANCE_US)
    return reader.settled_us("primary", read_us, previous_us)
