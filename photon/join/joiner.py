"""The joiner: what becomes of each foreign record of one join unit (paper, section 3.4).

Registers, then writes: lookup in the registry, lookup in the EventStore, adapter, commit to the
registry, and only winners get a row. No Spark, no files, no tables in here: those who read and write are
in `photon.join.tasks`; what happens after the task is in `photon.dispatcher`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from photon.adapters import Adapter
from photon.clock import MICROSECONDS, Clock
from photon.event_store.interface import EventStore, PrimaryEvent, Wanted
from photon.faults import fault_point
from photon.join.adapting import RawRecords, adapt_pairs, skip_records
from photon.join.messages import TaskContext
from photon.join.records import Records, by_event
from photon.join.verdicts import (
    AlreadyJoinedHere,
    DeadLetter,
    Final,
    HeldByEarlierPlan,
    Verdict,
    Verdicts,
    Waits,
)
from photon.pipeline.event_key import EventKey, primary_time_us
from photon.registry.interface import (
    BeyondHorizon,
    Claim,
    Free,
    Holder,
    IdRegistry,
    Joined,
    Lost,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.tokens import Occurrence, Token


class OutcomeUnknown(Exception):
    """The registry did not say, in time, who holds some ids: the plan must stay open (protocol A5)."""


@dataclass
class Event:
    """One event of the unit: the records of it, the smallest occurrence first."""

    key: EventKey
    records: list[int]
    held_by_plan: str | None = None  # a token of this very plan, from an earlier run (protocol A7)

    @property
    def leader(self) -> int:
        """The record that stands for all (protocol A9)."""
        return self.records[0]


@dataclass(frozen=True)
class Pair:
    """An event and the primary event that it belongs to."""

    event: Event
    primary: PrimaryEvent


# Which events with one of these ids earlier epochs of the datacenter have joined.
JoinedEarlier = Callable[[Collection[str]], Collection[EventKey]]


class Joiner:
    """Decides on the records of one unit; every collaborator is handed in."""

    def __init__(
        self,
        context: TaskContext,
        registry: IdRegistry,
        store: EventStore,
        adapter: Adapter,
        joined_earlier: JoinedEarlier,
        clock: Clock,
    ) -> None:
        self.context = context
        self.pipeline = context.pipeline
        self.registry = registry
        self.store = store
        self.adapter = adapter
        self.joined_earlier = joined_earlier
        self.clock = clock

    def join(self, records: Records, headers: Mapping[int, bytes]) -> Verdicts:
        """A verdict on every record, and the rows of those that this plan has won.

        OutcomeUnknown or RegistryUnavailable where the registry can't say: nothing may be committed then.
        """
        verdicts = Verdicts()
        remaining = self._decide_without_lookup(records, headers, verdicts)
        groups = by_event(records, remaining, self.pipeline.foreign)
        events = [Event(key, indices) for key, indices in groups.items()]
        events = self._leave_to_home(events, records, verdicts)
        events = self._ask_registry(events, records, verdicts)
        fault_point("task.after_lookup")
        pairs = self._find_primaries(self._let_die(events, verdicts), records, verdicts)
        pairs, rows = self._adapt(pairs, records, headers, verdicts)
        self._register(pairs, rows, records, verdicts)
        for event in events:
            ended = verdicts.of[event.leader]
            if event.held_by_plan is not None and ended != Final("joined"):
                verdicts.to_release.append(Claim(event.key, event.held_by_plan))
        return verdicts

    def plan_tokens(self, records: Records) -> list[Claim]:
        """What this plan has registered among these records (protocol A11: to be released)."""
        usable = [i for i in range(len(records)) if records.keys[i] is not None]
        events = [Event(k, r) for k, r in by_event(records, usable, self.pipeline.foreign).items()]
        self._ask_registry(events, records, Verdicts())
        held = [event for event in events if event.held_by_plan is not None]
        return [Claim(event.key, event.held_by_plan or "") for event in held]

    # -- steps: each returns what is still open

    def _decide_without_lookup(
        self, records: Records, headers: Mapping[int, bytes], verdicts: Verdicts
    ) -> list[int]:
        remaining: list[int] = []
        for index in range(len(records)):
            already_recorded = self.context.already_recorded.get(records.occurrences[index])
            if already_recorded is not None:
                verdicts.of[index] = Final(already_recorded)
            elif records.keys[index] is None:
                verdicts.of[index] = Final("skipped")
            else:
                remaining.append(index)
        return self._let_adapter_skip(remaining, records, headers, verdicts)

    def _let_adapter_skip(
        self, remaining: list[int], records: Records, headers: Mapping[int, bytes], verdicts: Verdicts
    ) -> list[int]:
        skipped = skip_records(self.adapter, _raw_records(remaining, records, headers), self.pipeline)
        for row, reason in skipped.failures.items():
            verdicts.of[remaining[row]] = DeadLetter(reason)
        for row in skipped.rows:
            verdicts.of[remaining[row]] = Final("skipped")
        return [index for index in remaining if index not in verdicts.of]

    def _leave_to_home(self, events: list[Event], records: Records, verdicts: Verdicts) -> list[Event]:
        """Leave fresh events to their home datacenter for a while, unless that one is quiet."""
        names = list(self.pipeline.datacenters)
        own = self.context.unresponsive_datacenters | {self.context.datacenter}
        if len(own) >= len(names):
            return events
        open_events: list[Event] = []
        for event in events:
            fresh = not any(records.is_retry[index] for index in event.records)
            if fresh and home_of(event.key.id, names) not in own:
                self._judge(event, Waits("home"), verdicts)
            else:
                open_events.append(event)
        return open_events

    def _ask_registry(self, events: list[Event], records: Records, verdicts: Verdicts) -> list[Event]:
        open_events: list[Event] = []
        forgotten: list[Event] = []
        answers = self.registry.lookup([event.key for event in events])
        for event, answer in zip(events, answers, strict=True):
            match answer:
                case Free():
                    open_events.append(event)
                case Joined(holder):
                    if self._is_own_plan(holder):
                        self._note_own_hold(event, holder, records)
                        open_events.append(event)
                    else:
                        self._lose(event, holder, verdicts)
                case TooOld():
                    forgotten.append(event)
                case BeyondHorizon():
                    self._judge(event, self._beyond_horizon(event, records), verdicts)
        self._tell_too_old(forgotten, verdicts)
        return open_events

    def _tell_too_old(self, forgotten: list[Event], verdicts: Verdicts) -> None:
        """Below the boundary the registry knows nobody: a new epoch knows its events by their rows."""
        joined = self.joined_earlier({event.key.id for event in forgotten}) if forgotten else ()
        for event in forgotten:
            self._judge(event, AlreadyJoinedHere() if event.key in joined else Final("too_old"), verdicts)

    def _let_die(self, events: list[Event], verdicts: Verdicts) -> list[Event]:
        """In quarantine, what nobody has joined is a dead letter without being looked at again."""
        if not self.context.quarantine:
            return events
        for event in events:
            self._judge(event, DeadLetter(self.context.quarantine), verdicts)
        return []

    def _find_primaries(self, events: list[Event], records: Records, verdicts: Verdicts) -> list[Pair]:
        found = self._lookup(events, records, anywhere=False)
        last_chance = [e for e in events if e.leader not in found and records.final[e.leader]]
        found |= self._lookup(last_chance, records, anywhere=True)
        pairs: list[Pair] = []
        for event in events:
            primary = found.get(event.leader)
            if primary is not None:
                pairs.append(Pair(event, primary))
            elif records.final[event.leader] and self._may_give_up(records.keys[event.leader]):
                self._judge(event, Final("unjoinable"), verdicts)
            else:
                self._judge(event, Waits("primary"), verdicts)
        return pairs

    def _may_give_up(self, key: str | None) -> bool:
        """Not while a log file that may hold the primary can't be read, unless a later run looks again."""
        return self.context.final or key not in self.store.unanswered

    def _lookup(self, events: Sequence[Event], records: Records, anywhere: bool) -> dict[int, PrimaryEvent]:
        wanted = []
        for event in events:
            key = records.keys[event.leader] or ""
            around = primary_time_us(key, records.times_us[event.leader], self.pipeline.primary)
            wanted.append(Wanted(key, around, anywhere))
        answers = self.store.lookup(wanted) if wanted else []
        return {e.leader: found for e, found in zip(events, answers, strict=True) if found is not None}

    def _adapt(
        self, pairs: list[Pair], records: Records, headers: Mapping[int, bytes], verdicts: Verdicts
    ) -> tuple[list[Pair], pa.Table | None]:
        """Combine or filter; a pair that can't be adapted is a dead letter, alone."""
        if not pairs:
            return [], None
        foreign = _raw_records([pair.event.leader for pair in pairs], records, headers)
        primary = RawRecords([p.primary.raw for p in pairs], [p.primary.header for p in pairs])
        adapted = adapt_pairs(self.adapter, foreign, primary, self.pipeline, self.context.row_schema)
        for row, reason in adapted.failures.items():
            self._judge(pairs[row].event, DeadLetter(reason), verdicts)
        for row in adapted.filtered:
            self._judge(pairs[row].event, Final("filtered"), verdicts)
        return [pairs[row] for row in adapted.kept], adapted.table

    def _register(
        self, pairs: list[Pair], rows: pa.Table | None, records: Records, verdicts: Verdicts
    ) -> None:
        if not pairs or rows is None:
            return
        fault_point("task.before_register")
        claims = [self._claim(pair.event, records) for pair in pairs]
        outcomes = self.registry.commit(claims)
        fault_point("task.after_register")
        # Released: a recovery has taken this plan's token back meanwhile, so that it must not end as it is.
        unknown = [_why_unknown(outcome) for outcome in outcomes if isinstance(outcome, Unknown | Released)]
        if unknown:
            raise OutcomeUnknown(f"{len(unknown)} of {len(outcomes)} ids without an answer: {unknown[0]}")
        won: list[int] = []
        for row, (pair, outcome) in enumerate(zip(pairs, outcomes, strict=True)):
            event = pair.event
            match outcome:
                case Won():
                    won.append(row)
                case Lost(holder) if self._is_own_plan(holder):
                    self._note_own_hold(event, holder, records)
                    if event.held_by_plan is not None:
                        won.append(row)
                    else:  # by a record of another unit: the table will tell whether that has the row
                        self._judge(event, HeldByEarlierPlan(holder.token or ""), verdicts)
                case Lost(holder):
                    self._lose(event, holder, verdicts)
                case TooOld():  # passed since the lookup found it free: nobody had joined it
                    self._judge(event, Final("too_old"), verdicts)
                case BeyondHorizon():
                    self._judge(event, self._beyond_horizon(event, records), verdicts)
        for row in won:
            first, *others = pairs[row].event.records
            verdicts.of[first] = Final("joined")
            verdicts.of.update(dict.fromkeys(others, Final("duplicates")))
        if won:
            winners = [pairs[row] for row in won]
            verdicts.rows = self._rows(winners, rows.take(pa.array(won, pa.int64())), records)
            verdicts.joinable_since_us = [
                max(records.times_us[pair.event.leader], pair.primary.time_us) for pair in winners
            ]

    # -- parts of steps

    def _claim(self, event: Event, records: Records) -> Claim:
        token = self.context.plan.token(records.occurrences[event.leader])
        return Claim(event.key, token)

    def _judge(self, event: Event, verdict: Verdict, verdicts: Verdicts) -> None:
        verdicts.of.update(dict.fromkeys(event.records, verdict))

    def _lose(self, event: Event, holder: Holder, verdicts: Verdicts) -> None:
        """Somebody else holds the event: another datacenter, or an earlier plan of this one."""
        if holder.datacenter != self.context.datacenter:
            verdicts.registered_elsewhere.add(holder.datacenter)
            self._judge(event, Final("joined_elsewhere"), verdicts)
        elif holder.token is None:  # cleared: only done for ids whose row is in the output
            self._judge(event, AlreadyJoinedHere(), verdicts)
        else:
            self._judge(event, HeldByEarlierPlan(holder.token), verdicts)

    def _is_own_plan(self, holder: Holder) -> bool:
        return holder.token is not None and Token.parse(holder.token).plan == self.context.plan

    def _note_own_hold(self, event: Event, holder: Holder, records: Records) -> None:
        """An earlier run of this plan holds the event: a win for that record, where it is among ours."""
        assert holder.token is not None
        occurrence = Token.parse(holder.token).occurrence
        for index in event.records:
            if records.occurrences[index] == occurrence:
                event.held_by_plan = holder.token
                event.records.remove(index)
                event.records.insert(0, index)
                return

    def _beyond_horizon(self, event: Event, records: Records) -> Verdict:
        waited_us = self.clock.now_us() - records.first_seen_us[event.leader]
        patience_us = self.pipeline.retry.unjoinable_after.total_seconds() * MICROSECONDS
        if waited_us < patience_us and not records.final[event.leader]:
            return Waits("horizon")
        return DeadLetter(
            f"the event's time {records.times_us[event.leader]} us lies beyond the registry's horizon"
        )

    def _rows(self, pairs: Sequence[Pair], adapted: pa.Table, records: Records) -> pa.Table:
        """The joined rows: Photon's own columns, then the adapter's."""
        plan, count = self.context.plan, len(pairs)
        primaries = [Occurrence(pair.primary.file_number, pair.primary.offset_bytes) for pair in pairs]
        own = {
            "_datacenter": pa.array([plan.datacenter] * count, pa.string()),
            "_epoch": pa.array([plan.epoch] * count, pa.string()),
            "_batch": pa.array([plan.batch] * count, pa.int64()),
            "_occurrence": pa.array(
                [str(records.occurrences[pair.event.leader]) for pair in pairs], pa.string()
            ),
            "_joined_at": pa.array([self.clock.now_us()] * count, pa.timestamp("us", "UTC")),
            "_event_id": pa.array([pair.event.key.id for pair in pairs], pa.string()),
            "_primary_occurrence": pa.array([str(occurrence) for occurrence in primaries], pa.string()),
            "_event_time": pa.array(
                [records.times_us[pair.event.leader] for pair in pairs], pa.timestamp("us", "UTC")
            ),
        }
        columns = dict(zip(adapted.column_names, adapted.columns, strict=True))
        return pa.table({**own, **columns})


def _raw_records(indices: Sequence[int], records: Records, headers: Mapping[int, bytes]) -> RawRecords:
    """Some of the records as the adapter's columns are parsed from them."""
    return RawRecords(
        [records.raws[index] for index in indices],
        [headers[records.occurrences[index].file_number] for index in indices],
    )


def _why_unknown(outcome: Unknown | Released) -> str:
    return outcome.reason if isinstance(outcome, Unknown) else "the token was released by somebody else"


def home_of(event_id: str, datacenters: Sequence[str]) -> str:
    """The home datacenter of an event: the same in every datacenter, whatever the order of the file."""
    names = sorted(datacenters)
    digest = blake2b(event_id.encode(), digest_size=8, person=b"photon-home").digest()
    return names[int.from_bytes(digest, "big") % len(names)]
