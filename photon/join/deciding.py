"""What is decided on the events of one task, by what the registry answers and whose rows there are.

The steps that ask are the joiner's (`photon.join.joiner`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from photon.clock import Clock, microseconds
from photon.join.holding import is_of_plan, is_published
from photon.join.messages import TaskContext
from photon.join.outcomes import Verdict, Verdicts
from photon.join.records import Events, Ints, Records
from photon.pipeline.event_key import EventKey
from photon.registry.interface import BeyondHorizon, Claim, CommitOutcome, Holder, Lost, TooOld
from photon.tokens import Occurrence

# Which events with one of these ids earlier epochs of the datacenter have joined.
JoinedEarlier = Callable[[Collection[str]], Collection[EventKey]]
# By event with one of these ids: the records that have rows here; None: one of an earlier epoch.
RowsHere = Callable[[Collection[str]], Mapping[EventKey, Collection[Occurrence | None]]]


@dataclass
class Decisions:
    """The verdicts on events, and what they go by. An event is named by its place in `events`.

    Who holds an event is decided for all of its records. That a record has no primary, is dropped, fails or
    comes too late says nothing of the others: it is the verdict on that record alone (protocol A9).
    """

    events: Events
    verdicts: Verdicts  # on records
    context: TaskContext
    joined_earlier: JoinedEarlier
    rows_here: RowsHere
    clock: Clock
    of: npt.NDArray[np.int8] = field(init=False)  # by event, of all its records
    notes: dict[int, str] = field(default_factory=dict)  # by event: a token
    held_by_plan: dict[int, str] = field(default_factory=dict)  # tokens of this very plan (protocol A7)
    made_again: set[int] = field(default_factory=set)  # ours and cleared, and their row is gone (protocol E8)

    def __post_init__(self) -> None:
        self.of = np.zeros(len(self.events), np.int8)

    @property
    def records(self) -> Records:
        return self.events.records

    def decide(self, event: int, verdict: Verdict, note: str | None = None) -> None:
        self.of[event] = verdict
        if note is not None:
            self.notes[event] = note

    def dead_letters(self, reasons: Mapping[int, str]) -> None:
        """Make records dead letters, each for its reason."""
        for row, reason in reasons.items():
            self.verdicts.of[row] = Verdict.DEAD_LETTER
            self.verdicts.notes[row] = reason

    def undecided(self) -> Ints:
        """The records that nothing was decided on: neither on them nor on their event."""
        rows = self.events.rows
        is_open = self.of[self.events.event_of_row] == Verdict.OPEN
        left: Ints = rows[is_open & (self.verdicts.of[rows] == Verdict.OPEN)]
        return left

    def take_token(self, event: int, holder: Holder, of_rows: Collection[int] | None = None) -> None:
        """An earlier run of this plan registered the event. If its record is among ours, that one leads."""
        token = holder.token or ""
        row = self.events.holder(event, token)
        if row is not None and (of_rows is None or row in of_rows):
            self.held_by_plan[event] = token
            self.events.leaders[event] = row

    def on_commit(self, event: int, outcome: CommitOutcome) -> None:
        match outcome:
            case Lost(holder) if is_of_plan(holder, self.context.plan):
                # By another record: the table will tell whether that one has the row.
                self.decide(event, Verdict.HELD_BY_EARLIER_PLAN, holder.token)
            case Lost(holder) if event in self.made_again and holder.token is None:
                self.decide(event, Verdict.JOINED)
            case Lost(holder):
                self.on_holder(event, holder)
            case TooOld():  # nobody had joined it: an earlier epoch would have been looked up
                self.verdicts.of[self.events.leaders[event]] = Verdict.TOO_OLD
            case BeyondHorizon():
                self.beyond_horizon(int(self.events.leaders[event]))
            case _:
                raise AssertionError(f"{outcome} is no outcome to decide on")

    def on_holder(self, event: int, holder: Holder) -> None:
        """Another datacenter holds the event, or an earlier plan of this one."""
        if holder.datacenter != self.context.plan.datacenter:
            self._on_other_datacenter(event, holder)
        elif holder.token is None:  # cleared, which is done only for ids whose row is in the output
            self.decide(event, Verdict.ALREADY_JOINED_HERE)
        else:
            self.decide(event, Verdict.HELD_BY_EARLIER_PLAN, holder.token)

    def _on_other_datacenter(self, event: int, holder: Holder) -> None:
        is_joined = is_published(holder, self.context.published) and not self._lost_its_row(event, holder)
        if is_joined or self.events.is_fresh[event]:  # of what is held for long, it says nothing
            self.verdicts.registered_elsewhere.add(holder.datacenter)
        if is_joined:
            self.decide(event, Verdict.JOINED_ELSEWHERE)
        else:
            self.decide(event, Verdict.HELD_ELSEWHERE, holder.token)

    def may_be_made_again(self, event: int, holder: Holder) -> bool:
        """Whether recovery asks for an event that is ours and cleared, so that no token names its row."""
        is_cleared_here = holder.token is None and holder.datacenter == self.context.plan.datacenter
        return is_cleared_here and self.events.is_ordered(event)

    def look_for_rows(self, events: Sequence[int]) -> None:
        """Decide on such events that have a row. The others get it again, without a claim (protocol E8).

        Their plan has one task, and nobody else writes the table: what has no row now has none at the commit.
        """
        if not events:
            return
        keys = self.events.keys(np.array(events, np.int64))
        rows = self.rows_here({key.id for key in keys})
        for event, key in zip(events, keys, strict=True):
            if key not in rows:
                self.made_again.add(event)
                continue
            own = self.records.rows_of(dict.fromkeys(place for place in rows[key] if place is not None))
            members = [row for row in own.values() if row in self.events.members(event)]
            if members:
                self.events.leaders[event] = members[0]
                self.decide(event, Verdict.JOINED)
            else:
                is_of_this_epoch = rows[key] != {None}
                self.decide(event, Verdict.DUPLICATE if is_of_this_epoch else Verdict.ALREADY_JOINED_HERE)

    def _lost_its_row(self, event: int, holder: Holder) -> bool:
        """Whether recovery misses a row of a datacenter that makes none again: its table decides (E1, E8)."""
        is_given_up = holder.token is not None and holder.datacenter in self.context.given_up
        return is_given_up and self.events.is_ordered(event)

    def too_old(self, rows: Ints) -> None:
        """Below the boundary the registry has no ids. A new epoch finds its joined events by their rows."""
        keys = self.records.keys(rows)
        joined = self.joined_earlier({key.id for key in keys}) if len(rows) else ()
        for row, event, key in zip(rows.tolist(), self.events.of(rows).tolist(), keys, strict=True):
            if key in joined:
                self.decide(event, Verdict.ALREADY_JOINED_HERE)
            else:
                self.verdicts.of[row] = Verdict.TOO_OLD

    def beyond_horizon(self, row: int) -> None:
        """Let a record wait for the horizon, while there is time."""
        waited_us = self.clock.now_us() - self.records.table["first_seen_us"][row].as_py()
        longest_wait_us = microseconds(self.context.pipeline.retry.unjoinable_after)
        if waited_us < longest_wait_us and not self.records.is_final[row]:
            self.verdicts.of[row] = Verdict.WAITS_FOR_HORIZON
        else:
            why = f"the event's time {self.records.times_us[row]} us lies beyond the registry's horizon"
            self.dead_letters({row: why})

    def release_what_has_no_row(self, events: Ints) -> None:
        """Registered by an earlier run, but without a row (A7)."""
        for event in events.tolist():
            if event in self.held_by_plan and self.of[event] != Verdict.JOINED:
                (key,) = self.events.keys(np.array([event]))
                self.verdicts.to_release.append(Claim(key, self.held_by_plan[event]))

    def tell_records(self) -> None:
        """Tell records what was decided on their events: the leader alone is joined (A9)."""
        of, rows, of_event = self.verdicts.of, self.events.rows, self.of[self.events.event_of_row]
        is_decided = of_event != Verdict.OPEN
        self._forget_notes(rows[is_decided])
        of[rows[is_decided]] = of_event[is_decided]
        leaders = self.events.leaders[self.events.event_of_row]
        follows = (rows != leaders) & (of_event == Verdict.JOINED)
        of[rows[follows]] = Verdict.DUPLICATE
        self.verdicts.duplicates, self.verdicts.duplicates_of = rows[follows], leaders[follows]
        for event, note in self.notes.items():
            self.verdicts.notes.update(dict.fromkeys(self.events.members(event).tolist(), note))
        assert (of != Verdict.OPEN).all(), "a record is left without a verdict"

    def _forget_notes(self, rows: Ints) -> None:
        """Forget why single records failed whose events were decided on after that."""
        with_note = np.array(list(self.verdicts.notes), np.int64)
        for row in with_note[np.isin(with_note, rows)].tolist():
            del self.verdicts.notes[row]
