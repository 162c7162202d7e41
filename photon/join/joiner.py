"""The joiner: decide on each foreign record of one join task (paper, section 3.4).

Look up in the registry what somebody may have, look up in the EventStore, adapt, store the rows, and only
then register their ids. Rows of winners alone are committed. No Spark, no files, no tables in here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from typing import Protocol

import numpy as np
import pyarrow as pa

from photon.adapters import Adapter
from photon.clock import Clock, microseconds
from photon.event_store.interface import EventStore, TimeWindows
from photon.faults import fault_point
from photon.join.adapting import RawRecords, adapt_pairs, skip_records
from photon.join.messages import TaskContext
from photon.join.outcomes import (
    AlreadyJoinedHere,
    DeadLetter,
    Final,
    HeldByEarlierPlan,
    Verdict,
    Verdicts,
    Waits,
)
from photon.join.records import Event, Pair, PrimaryEvent, Record, events_among, primary_events
from photon.join.rows import joined_rows
from photon.pipeline.event_key import EventKey, primary_time_us
from photon.registry.interface import (
    BeyondHorizon,
    Claim,
    CommitOutcome,
    Fenced,
    Free,
    Holder,
    IdRegistry,
    Joined,
    Lost,
    Outcomes,
    RegistryUnavailable,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.tokens import Occurrence, PlanKey, Token

EARLIEST_US, LATEST_US = -(2**63), 2**63 - 1

# Which events with one of these ids earlier epochs of the datacenter have joined.
JoinedEarlier = Callable[[Collection[str]], Collection[EventKey]]


class CandidateRows(Protocol):
    """Rows on disk before their ids are registered (`photon.join.candidates`)."""

    row_of: dict[Occurrence, int]  # of earlier runs of the plan

    def of_records(self, records: Iterable[Record]) -> pa.Table: ...

    def store(self, rows: pa.Table) -> None: ...


class EpochFenced(Exception):
    """The registry refuses the plan's tokens: their epoch is over (protocol B18)."""


@dataclass
class Joiner:
    """Decides on the records of one task. Every collaborator is handed in."""

    records: Sequence[Record]
    context: TaskContext
    registry: IdRegistry
    store: EventStore
    adapter: Adapter
    candidates: CandidateRows
    joined_earlier: JoinedEarlier
    clock: Clock
    verdicts: Verdicts = field(default_factory=Verdicts)

    def join(self) -> Verdicts:
        """A verdict on every record, and the rows of those that this plan has won.

        RegistryUnavailable where the registry can't say: nothing may be committed then.
        """
        stored, events = self._with_candidates(events_among(self._to_look_up()))
        events = self._leave_to_home(events)
        events = self._look_up_ids(events)
        fault_point("task.after_lookup")
        pairs = self._find_primaries(self._quarantine(events))
        pairs, adapted = self._adapt(pairs)
        rows = joined_rows(pairs, adapted, self.clock.now_us(), self.context)
        if stored:
            again = self.candidates.of_records([event.leader for event in stored])
            rows = pa.concat_tables([rows, again], promote_options="default")
        self._register([*(pair.event for pair in pairs), *stored], rows)
        self.verdicts.joinable_since_us = [
            max(pair.event.leader.time_us, pair.primary.time_us)
            for pair in pairs
            if self.verdicts.of[pair.event.leader] == Final("joined")
        ]
        for event in events:  # registered by an earlier run, but without a row (A7)
            if event.held_by_plan is not None and self.verdicts.of[event.leader] != Final("joined"):
                self.verdicts.to_release.append(Claim(event.key, event.held_by_plan))
        return self.verdicts

    # -- the steps: each decides on some events and returns the others

    def _to_look_up(self) -> list[Record]:
        remaining: list[Record] = []
        for record in self.records:
            already_recorded = self.context.already_recorded.get(record.occurrence)
            if already_recorded is not None:
                self.verdicts.of[record] = Final(already_recorded)
            elif record.is_gone and record.occurrence not in self.candidates.row_of:
                self.verdicts.of[record] = Final("lost")
            elif record.key is None:
                self.verdicts.of[record] = Final("skipped")
            else:
                remaining.append(record)
        asked = [record for record in remaining if record.occurrence not in self.candidates.row_of]
        skipped = skip_records(self.adapter, _raw_records(asked), self.context.pipeline)
        for row, reason in skipped.failures.items():
            self.verdicts.of[asked[row]] = DeadLetter(reason)
        for row in skipped.rows:
            self.verdicts.of[asked[row]] = Final("skipped")
        return [record for record in remaining if record not in self.verdicts.of]

    def _with_candidates(self, events: list[Event]) -> tuple[list[Event], list[Event]]:
        """The events whose rows an earlier run of this plan has stored, and the others (protocol A14).

        Each of the former is led by a record with a stored row; of several by the one that holds the id.
        """
        row_of = self.candidates.row_of
        if not row_of:
            return [], events
        stored: list[Event] = []
        others: list[Event] = []
        for event in events:
            known = any(record.occurrence in row_of for record in event.records)
            (stored if known else others).append(event)
        answers = self.registry.lookup([event.key for event in stored])
        for event, answer in zip(stored, answers, strict=True):
            event.lead(next(record for record in event.records if record.occurrence in row_of))
            if isinstance(answer, Joined) and is_of_plan(answer.holder, self.context.plan):
                event.take_token(answer.holder.token, of=row_of)
        return stored, others

    def _leave_to_home(self, events: list[Event]) -> list[Event]:
        """Leave fresh events to their home datacenter for a while, unless that one does not respond."""
        names = list(self.context.pipeline.datacenters)
        joined_here = self.context.unresponsive_datacenters | {self.context.plan.datacenter}
        if joined_here.issuperset(names):
            return events
        remaining: list[Event] = []
        for event in events:
            fresh = not any(record.is_retry for record in event.records)
            if fresh and home_of(event.key.id, names) not in joined_here:
                self._decide(event, Waits("home"))
            else:
                remaining.append(event)
        return remaining

    def _look_up_ids(self, events: list[Event]) -> list[Event]:
        free: list[Event] = []
        too_old: list[Event] = []
        asked = [event.key for event in events if self._looks_up(event)]
        answers = dict(zip(asked, self.registry.lookup(asked), strict=True))
        for event in events:
            answer = answers.get(event.key)
            if answer is not None:
                self._note_fresh(event, isinstance(answer, Free))
            match answer:
                case None | Free():  # not asked for, or nobody's
                    free.append(event)
                case Joined(holder) if is_of_plan(holder, self.context.plan):
                    event.take_token(holder.token)
                    free.append(event)
                case Joined(holder):
                    self._decide(event, self._held_by_another(holder))
                case TooOld():
                    too_old.append(event)
                case BeyondHorizon():
                    self._decide(event, self._beyond_horizon(event))
        # Below the boundary the registry has no ids. A new epoch finds its joined events by their rows.
        joined = self.joined_earlier({event.key.id for event in too_old}) if too_old else ()
        for event in too_old:
            self._decide(event, AlreadyJoinedHere() if event.key in joined else Final("too_old"))
        return free

    def _looks_up(self, event: Event) -> bool:
        """Whether somebody may have the event (docs/adr/0028). For others the commit tells as much."""
        return self.context.looks_up_all or event.leader.final or not self._is_fresh_at_home(event)

    def _is_fresh_at_home(self, event: Event) -> bool:
        is_fresh = not any(record.is_retry for record in event.records)
        names = list(self.context.pipeline.datacenters)
        return is_fresh and home_of(event.key.id, names) == self.context.plan.datacenter

    def _note_fresh(self, event: Event, is_free: bool) -> None:
        """Take note of whether somebody had an event that is fresh and at home here."""
        if self._is_fresh_at_home(event):
            self.verdicts.fresh_were_free = is_free and self.verdicts.fresh_were_free is not False

    def _quarantine(self, events: list[Event]) -> list[Event]:
        """In quarantine, an event that nobody has joined is a dead letter without another look."""
        if not self.context.quarantine:
            return events
        for event in events:
            self._decide(event, DeadLetter(self.context.quarantine))
        return []

    def _find_primaries(self, events: list[Event]) -> list[Pair]:
        # Without a window, which is the default, the first lookup is the last one too (protocol C7).
        found, unanswered = self._look_up_primaries(events, self.context.pipeline.retry.lookup_window)
        if self.context.pipeline.retry.lookup_window is not None:
            last_chance = [event for event in events if event.leader.final and event.leader not in found]
            later, more = self._look_up_primaries(last_chance, None)
            found, unanswered = found | later, unanswered | more
        pairs: list[Pair] = []
        for event in events:
            primary = found.get(event.leader)
            # Not while a log file that may hold it can't be read, unless a later run looks again.
            may_give_up = self.context.final or event.leader not in unanswered
            if primary is not None:
                pairs.append(Pair(event, primary))
            elif event.leader.final and may_give_up:
                self._decide(event, Final("unjoinable"))
            else:
                self._decide(event, Waits("primary"))
        return pairs

    def _adapt(self, pairs: list[Pair]) -> tuple[list[Pair], pa.Table]:
        """Combine or filter. A pair that can't be adapted is a dead letter, alone."""
        adapted = adapt_pairs(
            self.adapter,
            _raw_records([pair.event.leader for pair in pairs]),
            _raw_records([pair.primary for pair in pairs]),
            self.context.pipeline,
            self.context.row_schema,
        )
        for row, reason in adapted.failures.items():
            self._decide(pairs[row].event, DeadLetter(reason))
        for row in adapted.filtered:
            self._decide(pairs[row].event, Final("filtered"))
        return [pairs[row] for row in adapted.kept], adapted.table

    def _register(self, events: Sequence[Event], rows: pa.Table) -> None:
        """Claim the events of these rows, once the rows are on disk (protocol A14)."""
        if not events:
            return
        fault_point("task.before_register")
        self.candidates.store(rows)
        fault_point("task.after_candidates")
        won: list[int] = []
        for row, (event, outcome) in enumerate(zip(events, self._commit_ids(events), strict=True)):
            self._note_fresh(event, isinstance(outcome, Won))
            verdict = self._verdict_on_commit(event, outcome)
            self._decide(event, verdict)
            if verdict == Final("joined"):
                won.append(row)
        if len(won) == len(events):
            self.verdicts.rows = rows
        elif won:
            self.verdicts.rows = rows.take(pa.array(won, pa.int64()))

    # -- parts of steps

    def _decide(self, event: Event, verdict: Verdict) -> None:
        """The verdict on an event. Its first record alone is joined, the others are duplicates (A9)."""
        others = Final("duplicates") if verdict == Final("joined") else verdict
        self.verdicts.of.update(dict.fromkeys(event.records, others))
        self.verdicts.of[event.leader] = verdict

    def _look_up_primaries(
        self, events: Sequence[Event], window: timedelta | None
    ) -> tuple[dict[Record, PrimaryEvent], set[Record]]:
        """The primary events that the EventStore has, by the leader of their foreign event.

        And the leaders whose primary may be in a log file that can't be read now.
        """
        leaders = [event.leader for event in events]
        keys = pa.array([leader.key for leader in leaders], pa.string())
        windows = None if window is None else self._windows(leaders, microseconds(window))
        answer = self.store.lookup(keys, windows)
        found = zip(leaders, primary_events(answer), strict=True)
        unanswered = {leaders[row] for row in np.flatnonzero(answer.unanswered).tolist()}
        return {leader: primary for leader, primary in found if primary is not None}, unanswered

    def _windows(self, leaders: Sequence[Record], window_us: int) -> TimeWindows:
        """The times around the expected one of each leader's primary."""
        log = self.context.pipeline.primary
        expected_us = [primary_time_us(leader.key or "", leader.time_us, log) for leader in leaders]
        return TimeWindows(
            np.array([max(time_us - window_us, EARLIEST_US) for time_us in expected_us], np.int64),
            np.array([min(time_us + window_us, LATEST_US) for time_us in expected_us], np.int64),
        )

    def _commit_ids(self, events: Sequence[Event]) -> Outcomes[CommitOutcome]:
        """Register the events.

        RegistryUnavailable if it leaves one open: the plan stays open too (A5). EpochFenced.
        """
        tokens = (self.context.plan.token(event.leader.occurrence) for event in events)
        claims = [Claim(event.key, token) for event, token in zip(events, tokens, strict=True)]
        outcomes = self.registry.commit(claims)
        fault_point("task.after_register")
        # Released: a recovery has since released this plan's token, so this plan must not end as it is.
        unknown = [outcome for outcome in outcomes if isinstance(outcome, Unknown | Released)]
        fenced = next((outcome for outcome in outcomes if isinstance(outcome, Fenced)), None)
        if fenced is not None:
            raise EpochFenced(
                f"epoch {fenced.epoch} of datacenter {self.context.plan.datacenter} is over in the registry: "
                "another process has begun a new one, or the datacenter was retired; this one ends"
            )
        if unknown:
            released = "the token was released by somebody else"
            why = unknown[0].reason if isinstance(unknown[0], Unknown) else released
            raise RegistryUnavailable(f"{len(unknown)} of {len(outcomes)} ids without an answer: {why}")
        return outcomes

    def _verdict_on_commit(self, event: Event, outcome: CommitOutcome) -> Verdict:
        match outcome:
            case Won():
                return Final("joined")
            case Lost(holder) if is_of_plan(holder, self.context.plan):
                # By another record: the table will tell whether that one has the row.
                return HeldByEarlierPlan(holder.token or "")
            case Lost(holder):
                return self._held_by_another(holder)
            case TooOld():  # nobody had joined it: an earlier epoch would have been looked up
                return Final("too_old")
            case BeyondHorizon():
                return self._beyond_horizon(event)
            case Unknown() | Released() | Fenced():
                raise AssertionError(f"{outcome} is no outcome to decide on")

    def _held_by_another(self, holder: Holder) -> Verdict:
        """Another datacenter holds the event, or an earlier plan of this one."""
        if holder.datacenter != self.context.plan.datacenter:
            self.verdicts.registered_elsewhere.add(holder.datacenter)
            return Final("joined_elsewhere")
        if holder.token is None:  # cleared, which is done only for ids whose row is in the output
            return AlreadyJoinedHere()
        return HeldByEarlierPlan(holder.token)

    def _beyond_horizon(self, event: Event) -> Verdict:
        waited_us = self.clock.now_us() - event.leader.first_seen_us
        longest_wait_us = microseconds(self.context.pipeline.retry.unjoinable_after)
        if waited_us < longest_wait_us and not event.leader.final:
            return Waits("horizon")
        return DeadLetter(f"the event's time {event.leader.time_us} us lies beyond the registry's horizon")


def _raw_records(records: Sequence[Record | PrimaryEvent]) -> RawRecords:
    raws = pa.array([record.raw for record in records], pa.binary())
    return RawRecords(raws, [record.header for record in records])


def is_of_plan(holder: Holder, plan: PlanKey) -> bool:
    """Whether a run of this plan holds the event."""
    return holder.token is not None and Token.parse(holder.token).plan == plan


def home_of(event_id: str, datacenters: Sequence[str]) -> str:
    """The home datacenter of an event: the same in every datacenter, whatever the order of the file."""
    names = sorted(datacenters)
    digest = blake2b(event_id.encode(), digest_size=8, person=b"photon-home").digest()
    return names[int.from_bytes(digest, "big") % len(names)]
