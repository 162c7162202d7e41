"""Decide on the events of one task by who holds them, and say whose home they have (docs/adr/0009).

The steps that ask are the joiner's (`photon.join.joiner`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from photon.join.events import Events
from photon.join.messages import TaskContext
from photon.join.records import Ints, Mask, Records
from photon.process.clock import CLOCK_TOLERANCE_US, NO_TIME_US, Clock, in_utc, microseconds
from photon.registry.entry import Claimant, Hashes, ledger_numbers
from photon.registry.lookups import Hold, IdHolders
from photon.registry.register import Register
from photon.state.outcomes import HeldRecord, JoinVerdict, Verdicts
from photon.storage.tokens import Occurrence

NOBODYS = ""  # the home of ids whose ledger has none

# Which of these ids earlier epochs of the datacenter have joined.
JoinedEarlier = Callable[[Collection[str]], Collection[str]]

_DECIDED = {
    Hold.HERE: JoinVerdict.HELD_HERE,
    Hold.ELSEWHERE: JoinVerdict.HELD_ELSEWHERE,
    Hold.JOINED_ELSEWHERE: JoinVerdict.JOINED_ELSEWHERE,
}
_VERDICT_OF = np.array([_DECIDED.get(hold, JoinVerdict.OPEN) for hold in Hold], np.int8)


@dataclass
class JoinDecisions:
    """The verdicts on events, and what they go by. An event is named by its place in `events`.

    Who holds an event is decided for all of its records. That a record has no primary, is dropped, fails or
    comes too late says nothing of the others: it is the verdict on that record alone (protocol A9).
    """

    events: Events
    verdicts: Verdicts  # on records
    context: TaskContext
    joined_earlier: JoinedEarlier
    clock: Clock
    of: npt.NDArray[np.int8] = field(init=False)  # on all records of each event
    is_of_plan: Mask = field(init=False)  # whether one of our records holds an event for this very plan
    holders: list[Claimant] = field(default_factory=list)
    _holder_of: npt.NDArray[np.int32] = field(init=False)  # each event's, among `holders`; -1: nobody
    _holds_at: dict[int, Occurrence] = field(default_factory=dict)  # where another task's record holds one
    _orphans: set[int] = field(default_factory=set)  # events whose row nobody makes again

    def __post_init__(self) -> None:
        count = len(self.events)
        self.of = np.zeros(count, np.int8)
        self.is_of_plan = np.zeros(count, bool)
        self._holder_of = np.full(count, -1, np.int32)

    @property
    def records(self) -> Records:
        return self.events.records

    def is_open(self, rows: Ints) -> Mask:
        """Whether nothing was decided on these records: neither on them nor on their event."""
        of_event = self.of[self.events.of(rows)]
        is_open: Mask = (of_event == JoinVerdict.OPEN) & (self.verdicts.of[rows] == JoinVerdict.OPEN)
        return is_open

    def undecided(self) -> Ints:
        """The records that nothing was decided on."""
        return self.events.rows[self.is_open(self.events.rows)]

    def dead_letters(self, reasons: Mapping[int, str]) -> None:
        """Make records dead letters, each for its reason."""
        for row, reason in reasons.items():
            self.verdicts.of[row] = JoinVerdict.DEAD_LETTER
            self.verdicts.notes[row] = reason

    def take_answers(self, rows: Ints, found: IdHolders) -> Ints:
        """Go by who holds the events of these records, and return the records that may join.

        Of an event that this plan holds that is the record that holds it.
        """
        events, codes = self.events.of(rows), found.codes
        held = found.by >= 0
        self._holder_of[events[held]] = found.by[held] + len(self.holders)
        self.holders += found.holders
        self.of[events] = _VERDICT_OF[codes]
        self._note_elsewhere(events, codes)
        self.too_old(rows[codes == Hold.TOO_OLD])
        free: Ints = rows[codes == Hold.NOBODY]
        own = np.flatnonzero(codes == Hold.THIS_PLAN)
        if not len(own):
            return free
        led = self._led_by_holder(events[own], found.places.files[own], found.places.offsets_bytes[own])
        return np.concatenate((free, led))

    def _led_by_holder(self, events: Ints, files: npt.NDArray[np.int64], offsets_bytes: Ints) -> Ints:
        """The records that hold events for this plan, if they may join.

        Where none of ours holds it, or it can't join any more, the table will say (A8).
        """
        leaders = self.events.leaders
        leads = self.records.file_numbers[leaders[events]] == files
        leads &= self.records.offsets_bytes[leaders[events]] == offsets_bytes
        for index in np.flatnonzero(~leads).tolist():
            event, place = int(events[index]), Occurrence(int(files[index]), int(offsets_bytes[index]))
            row = self.events.member_at(event, place)
            if row is None:
                self._holds_at[event] = place
            else:
                leaders[event] = row
        led = np.setdiff1d(events, list(self._holds_at))
        led = led[self.is_open(leaders[led])]
        self.is_of_plan[led] = True
        self.of[np.setdiff1d(events, led)] = JoinVerdict.HELD_HERE
        rows: Ints = leaders[led]
        return rows

    def _note_elsewhere(self, events: Ints, codes: npt.NDArray[np.int8]) -> None:
        """Take note of which other datacenters are at work, and of joins that recovery misses (E1, E8)."""
        is_joined = codes == Hold.JOINED_ELSEWHERE
        self._orphans |= self._without_a_row(events[is_joined])
        is_orphan = np.isin(events, list(self._orphans))
        self.of[events[is_orphan]] = JoinVerdict.HELD_ELSEWHERE
        # Records that are held for long say nothing of who is at work now.
        lately = (is_joined & ~is_orphan) | ((codes == Hold.ELSEWHERE) & self.events.is_fresh[events])
        at_work = np.unique(self._holder_of[events[lately]]).tolist()
        self.verdicts.registered_elsewhere |= {self.holders[one].epoch.datacenter for one in at_work}

    def _without_a_row(self, events: Ints) -> set[int]:
        """Pick the events joined elsewhere whose row recovery misses, and nobody makes again."""
        if not self.context.given_up:
            return set()
        holders = ((event, self._holder(event)) for event in events.tolist())
        given_up = (e for e, holder in holders if holder and holder.epoch.datacenter in self.context.given_up)
        return {event for event in given_up if self.events.is_ordered(event)}

    def too_old(self, rows: Ints) -> None:
        """Nobody holds what lies below the boundary. A new epoch finds its joined events by their rows."""
        if not len(rows):
            return
        ids = self.records.of("_id", rows).to_pylist()
        joined = self.joined_earlier(set(ids))
        is_joined = np.array([each in joined for each in ids], bool)
        self.of[self.events.of(rows[is_joined])] = JoinVerdict.JOINED_EARLIER
        self.verdicts.of[rows[~is_joined]] = JoinVerdict.TOO_OLD

    def wait_for_clock(self, rows: Ints) -> Ints:
        """Let records wait whose times lie ahead of the clock, while there is time (L13). The others."""
        retry, now_us = self.context.pipeline.retry, self.clock.now_us()
        times_us = self.records.event_times_us(rows)
        is_ahead = (times_us > now_us + CLOCK_TOLERANCE_US) & (times_us != NO_TIME_US)
        ahead = rows[is_ahead]
        if not len(ahead):
            return rows
        first_seen_us = self.records.table["first_seen_us"].to_numpy()[ahead]
        has_time = now_us - first_seen_us < microseconds(retry.unjoinable_after)
        has_time &= ~self.records.is_final[ahead]
        self.verdicts.of[ahead[has_time]] = JoinVerdict.WAITS_FOR_CLOCK
        late = zip(ahead[~has_time].tolist(), times_us[is_ahead][~has_time].tolist(), strict=True)
        self.dead_letters(
            {row: f"the event's time, {in_utc(at_us)}, lies ahead of the clock" for row, at_us in late}
        )
        others: Ints = rows[~is_ahead]
        return others

    def tell_records(self) -> None:
        """Tell records what was decided on their events: the leader alone is joined (A9)."""
        of, rows, of_event = self.verdicts.of, self.events.rows, self.of[self.events.event_of_row]
        is_decided = of_event != JoinVerdict.OPEN
        self._forget_notes(rows[is_decided])
        of[rows[is_decided]] = of_event[is_decided]
        leaders = self.events.leaders[self.events.event_of_row]
        follows = (rows != leaders) & (of_event == JoinVerdict.JOINED)
        of[rows[follows]] = JoinVerdict.DUPLICATE
        self.verdicts.duplicates, self.verdicts.duplicates_of = rows[follows], leaders[follows]
        assert (of != JoinVerdict.OPEN).all(), "a record is left without a verdict"
        self._tell_held()

    def _forget_notes(self, rows: Ints) -> None:
        """Forget why single records failed whose events were decided on after that."""
        with_note = np.array(list(self.verdicts.notes), np.int64)
        for row in with_note[np.isin(with_note, rows)].tolist():
            del self.verdicts.notes[row]

    def _tell_held(self) -> None:
        """Say which records have to be asked for elsewhere, and for whom others wait."""
        here = self.verdicts.rows_with(JoinVerdict.HELD_HERE, JoinVerdict.JOINED_EARLIER)
        self.verdicts.registered_here = self._held_records(here)
        elsewhere = self.verdicts.rows_with(JoinVerdict.HELD_ELSEWHERE)
        is_orphan = np.isin(self.events.of(elsewhere), list(self._orphans))
        self.verdicts.to_free = self._held_records(elsewhere[is_orphan])
        holders, counts = np.unique(
            self._holder_of[self.events.of(elsewhere[~is_orphan])], return_counts=True
        )
        for at, count in zip(holders.tolist(), counts.tolist(), strict=True):
            self.verdicts.held[self.holders[at].epoch] += count

    def _held_records(self, rows: Ints) -> list[HeldRecord]:
        ids, events = self.records.of("_id", rows).to_pylist(), self.events.of(rows).tolist()
        return [
            HeldRecord(event_id, self.records.occurrence(row), self._holder(event), self._holds_at.get(event))
            for row, event_id, event in zip(rows.tolist(), ids, events, strict=True)
        ]

    def _holder(self, event: int) -> Claimant | None:
        return self.holders[self._holder_of[event]] if self._holder_of[event] >= 0 else None


def at_home(hashes: Hashes, register: Register, among: frozenset[str]) -> Mask:
    """Whether the home of each id is one of these datacenters."""
    homes, of_id = _homes(hashes, register)
    return np.array([home in among for home in homes], bool)[of_id]


def count_by_home(hashes: Hashes, register: Register) -> Counter[str]:
    """How many of the ids each datacenter is the home of."""
    homes, of_id = _homes(hashes, register)
    counts: Counter[str] = Counter()
    for home, count in zip(homes, np.bincount(of_id, minlength=len(homes)).tolist(), strict=True):
        counts[home] += count
    del counts[NOBODYS]
    return +counts


def _homes(hashes: Hashes, register: Register) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """The homes of the newest ledgers, and for each id the place of its own among them."""
    newest = register.generations[-1]
    return newest.homes or (NOBODYS,) * newest.ledgers, ledger_numbers(hashes, newest.ledgers)
