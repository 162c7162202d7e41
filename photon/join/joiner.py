"""The joiner: decide on each foreign record of one join task (paper, section 3.4).

Look up in the registry what somebody may have, look up in the EventStore, adapt, store the rows, and only
then register their ids. Rows of winners alone are committed. No Spark, no files, no tables in here.

Records and events are columns all the way; a Python object is made only for an event that is not simply free,
found and won.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import Adapter
from photon.clock import Clock
from photon.event_store.interface import EventStore, Primaries
from photon.faults import fault_point
from photon.join.adapting import adapt_pairs, skip_records
from photon.join.deciding import Decisions, JoinedEarlier, RowsHere
from photon.join.failing import AdapterCalls, Tally, TooManyFail
from photon.join.holding import is_of_plan
from photon.join.home import at_home, count_by_home
from photon.join.messages import TaskContext
from photon.join.outcomes import VERDICT_OF_CLASS, Verdict, Verdicts
from photon.join.primaries import look_up_primaries
from photon.join.records import Events, Ints, Mask, Records, raw_records
from photon.join.rows import joined_rows
from photon.ledger.errors import RegistryUnavailable
from photon.measures import Measures
from photon.registry.interface import (
    BeyondHorizon,
    ClaimColumns,
    CommitOutcome,
    Fenced,
    Free,
    IdRegistry,
    Joined,
    Outcomes,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.tokens import Occurrence

NONE: Ints = np.empty(0, np.int64)


class CandidateRows(Protocol):
    """Rows on disk before their ids are registered (`photon.join.candidates`)."""

    @property
    def row_of(self) -> Mapping[Occurrence, int]:
        """By record, of earlier runs of the plan."""
        ...

    def of_records(self, records: Records, rows: Ints) -> pa.Table: ...

    def store(self, rows: pa.Table) -> None: ...


class EpochFenced(Exception):
    """The registry refuses the plan's tokens: their epoch is over (protocol B18)."""


@dataclass
class Joiner:
    """Decides on the records of one task. Every collaborator is handed in.

    An event is named by its place in `events`, a record by its row.
    """

    records: Records
    context: TaskContext
    registry: IdRegistry
    store: EventStore
    adapter: Adapter
    candidates: CandidateRows
    joined_earlier: JoinedEarlier
    rows_here: RowsHere
    clock: Clock
    events: Events = field(init=False)
    verdicts: Verdicts = field(init=False)
    decisions: Decisions = field(init=False)
    measures: Measures = field(default_factory=Measures)

    def join(self) -> Verdicts:
        """A verdict on every record, and the rows of those that this plan has won.

        RegistryUnavailable where the registry can't say: nothing may be committed then.
        """
        self.verdicts = Verdicts(np.zeros(len(self.records), np.int8))
        self.events = Events(self.records, self._to_look_up())
        self.decisions = Decisions(
            self.events, self.verdicts, self.context, self.joined_earlier, self.rows_here, self.clock
        )
        stored, events = self._with_candidates()
        self._count(AdapterCalls(combine=Tally(len(stored))))  # or a re-run would see failures alone
        self._take_turn(self._leaders(events), stored)
        while len(rows := self.decisions.undecided()):  # the leader of their event can't join, so they may
            self._take_turn(rows)
        self.decisions.release_what_has_no_row(events)
        self.decisions.tell_records()
        return self.verdicts

    def _take_turn(self, rows: Ints, stored: Ints = NONE) -> None:
        """Join the records `rows`, of each event the first that can; and events whose rows are `stored`."""
        asked = self._to_join_here(rows)
        fault_point("task.after_lookup")
        found_of, found, of_record = self._find_primaries(self._quarantine(asked))
        own, of_record, adapted = self._adapt(found_of, found, of_record)
        first = self.events.first_of_each(own)
        if len(first) < len(own):
            own, of_record, adapted = own[first], of_record[first], adapted.take(pa.array(first))
        events = self.events.of(own)
        self.events.leaders[events] = own
        primaries = found.events.select(["_file", "_offset", "_time_us"]).take(pa.array(of_record))
        made = joined_rows(self.records, own, primaries, adapted, self.clock, self.context)
        if len(stored):
            again = self.candidates.of_records(self.records, self._leaders(stored))
            made = pa.concat_tables([made, again], promote_options="default")
        self._register(np.concatenate((events, stored)), made)
        times_us = np.maximum(self.records.times_us[own], primaries["_time_us"].to_numpy())
        self.verdicts.add_joinable_since(times_us[self.decided[events] == Verdict.JOINED])

    @property
    def decided(self) -> npt.NDArray[np.int8]:
        """The verdict on all records of each event, by event."""
        return self.decisions.of

    # -- the steps: each decides on some records, or on their events, and returns the others

    def _to_look_up(self) -> Ints:
        """The records whose events are looked up."""
        of = self.verdicts.of
        recorded = self.context.already_recorded
        for occurrence, row in self.records.rows_of(recorded).items():
            of[row] = VERDICT_OF_CLASS[recorded[occurrence]]
        is_lost = self.records.is_gone & (of == Verdict.OPEN)
        is_lost[self._stored_rows] = False
        of[is_lost] = Verdict.LOST
        has_no_key = pc.is_null(self.records.table["_key"]).to_numpy()
        of[has_no_key & (of == Verdict.OPEN)] = Verdict.SKIPPED
        asked = np.setdiff1d(np.flatnonzero(of == Verdict.OPEN), self._stored_rows)
        skipped = skip_records(self.adapter, self.records.raws(asked), self.context.pipeline)
        self._count(AdapterCalls(skip=skipped.tally))
        of[asked[skipped.rows]] = Verdict.SKIPPED
        for row, reason in skipped.failures.items():
            of[asked[row]] = Verdict.DEAD_LETTER
            self.verdicts.notes[int(asked[row])] = reason
        return np.flatnonzero(of == Verdict.OPEN)

    def _with_candidates(self) -> tuple[Ints, Ints]:
        """The events whose rows an earlier run of this plan has stored, and the others (protocol A14).

        Each of the former is led by a record with a stored row; of several by the one that holds the id.
        """
        every = np.arange(len(self.events))
        rows = self._stored_rows
        if not rows:
            return every[:0], every
        has_row = np.isin(self.events.rows, rows)
        stored = np.unique(self.events.event_of_row[has_row])
        cleared = []
        for event, outcome in zip(
            stored.tolist(), self.registry.lookup(self.events.keys(stored)), strict=True
        ):
            members = self.events.members(event)
            self.events.leaders[event] = members[np.isin(members, rows)][0]
            if isinstance(outcome, Joined) and is_of_plan(outcome.holder, self.context.plan):
                self.decisions.take_token(event, outcome.holder, of_rows=rows)
            elif isinstance(outcome, Joined) and self.decisions.may_be_made_again(event, outcome.holder):
                cleared.append(event)
        self.decisions.look_for_rows(cleared)
        return stored, np.setdiff1d(every, stored)

    @cached_property
    def _stored_rows(self) -> list[int]:
        """The records whose rows an earlier run of this plan has stored."""
        return list(self.records.rows_of(self.candidates.row_of).values())

    def _to_join_here(self, rows: Ints) -> Ints:
        """The records whose events nobody has, as far as that is asked, and are not left to their home."""
        if self.context.looks_up_all:  # others may be ahead: what a home has joined need not wait for it
            return self._leave_to_home(self._look_up_ids(rows))
        return self._look_up_ids(self._leave_to_home(rows))

    def _leave_to_home(self, rows: Ints) -> Ints:
        """Leave fresh events to their home datacenter for a while, unless that one does not respond."""
        names = list(self.context.pipeline.datacenters)
        joined_here = self.context.unresponsive_datacenters | {self.context.plan.datacenter}
        if joined_here.issuperset(names):
            return rows
        events = self.events.of(rows)
        goes_on = ~self.events.is_fresh[events] | at_home(self.records.of("_id", rows), names, joined_here)
        goes_on |= np.isin(events, list(self.decisions.held_by_plan))
        self.decided[events[~goes_on]] = Verdict.WAITS_FOR_HOME
        return rows[goes_on]

    def _look_up_ids(self, rows: Ints) -> Ints:
        asked = rows[self._looks_up(rows)]
        self.measures.count("registry_spared_ids", by=len(rows) - len(asked))
        outcomes = self.registry.lookup(self.records.keys(asked))
        free, events = outcomes.are(Free), self.events.of(asked)
        self._note_fresh(events, free)
        too_old: list[int] = []
        cleared: dict[int, None] = {}
        for index in np.flatnonzero(~free).tolist():
            row, event = int(asked[index]), int(events[index])
            match outcomes[index]:
                case Joined(holder) if is_of_plan(holder, self.context.plan):
                    self.decisions.take_token(event, holder)
                case Joined(holder) if self.decisions.may_be_made_again(event, holder):
                    cleared[event] = None
                case Joined(holder):
                    self.decisions.on_holder(event, holder)
                case TooOld():
                    too_old.append(row)
                case BeyondHorizon():
                    self.decisions.beyond_horizon(row)
        self.decisions.too_old(np.array(too_old, np.int64))
        self.decisions.look_for_rows(list(cleared))
        return self._led_by_holders(rows[self._is_open(rows)])

    def _is_open(self, rows: Ints) -> Mask:
        of_event = self.decided[self.events.of(rows)]
        is_open: Mask = (of_event == Verdict.OPEN) & (self.verdicts.of[rows] == Verdict.OPEN)
        return is_open

    def _led_by_holders(self, rows: Ints) -> Ints:
        """The records; of an event that this plan has registered the one that holds it, if that is open."""
        held = np.array(list(self.decisions.held_by_plan), np.int64)
        if not len(held):
            return rows
        is_held = np.isin(self.events.of(rows), held[self._is_open(self._leaders(held))])
        return np.concatenate((rows[~is_held], self._leaders(np.unique(self.events.of(rows[is_held])))))

    def _quarantine(self, rows: Ints) -> Ints:
        """In quarantine, a record whose event nobody has joined is a dead letter without another look."""
        if not self.context.quarantine:
            return rows
        self.decisions.dead_letters(dict.fromkeys(rows.tolist(), self.context.quarantine))
        return rows[:0]

    def _find_primaries(self, rows: Ints) -> tuple[Ints, Primaries, Ints]:
        """The records with a primary, what was found, and for each of these records its row of that."""
        final = self.records.is_final[rows]
        found = look_up_primaries(self.store, self.records, rows, final, self.context.pipeline)
        is_found = found.rows >= 0
        self._measure_lookup(is_found, found)
        # Not while a log file that may hold it can't be read, unless a later run looks again.
        given_up = ~is_found & final & (self.context.final | ~found.unanswered)
        of = self.verdicts.of
        of[rows[given_up]] = Verdict.UNJOINABLE
        of[rows[~is_found & ~given_up]] = Verdict.WAITS_FOR_PRIMARY
        is_missing = ~is_found & np.isin(self.events.of(rows), list(self.decisions.made_again))
        of[rows[is_missing]] = Verdict.MISSING
        return rows[is_found], found, found.rows[is_found]

    def _measure_lookup(self, is_found: Mask, found: Primaries) -> None:
        self.measures.count("primary_lookups", "found", by=int(np.count_nonzero(is_found)))
        self.measures.count("primary_lookups", "not_found", by=int(np.count_nonzero(~is_found)))
        read_bytes = pc.sum(pc.binary_length(found.events["_raw"])).as_py()
        self.measures.count("primary_read_bytes", by=read_bytes or 0)

    def _adapt(self, rows: Ints, found: Primaries, of_record: Ints) -> tuple[Ints, Ints, pa.Table]:
        """Combine or filter. A pair that can't be adapted is a dead letter, alone."""
        primaries = found.events.take(pa.array(of_record))
        raws = primaries["_raw"].combine_chunks()
        adapted = adapt_pairs(
            self.adapter,
            self.records.raws(rows),
            raw_records(raws, primaries["_file"].to_numpy(), found.files),
            self.context.pipeline,
            self.context.row_schema,
        )
        self._count(AdapterCalls(combine=adapted.tally))
        self.decisions.dead_letters({int(rows[row]): why for row, why in adapted.failures.items()})
        self.verdicts.of[rows[adapted.filtered]] = Verdict.FILTERED
        return rows[adapted.kept], of_record[adapted.kept], adapted.table

    def _count(self, calls: AdapterCalls) -> None:
        """Stop before anything is registered if the adapter fails on too much of the task alone (A21)."""
        self.verdicts.adapter_calls += calls
        if self.verdicts.adapter_calls.refusal(self.context.pipeline.limits):
            raise TooManyFail(self.verdicts.adapter_calls)

    def _register(self, events: Ints, rows: pa.Table) -> None:
        """Claim the events of these rows, once the rows are on disk (protocol A14)."""
        if not len(events):
            return
        fault_point("task.before_register")
        self.candidates.store(rows)
        fault_point("task.after_candidates")
        outcomes = self._commit_ids(events)
        won = outcomes.are(Won)
        self._note_fresh(events, won)
        self.decided[events[won]] = Verdict.JOINED
        self._note_taken_over(events[won])
        for index in np.flatnonzero(~won).tolist():
            self.decisions.on_commit(int(events[index]), outcomes[index])
        self.verdicts.add_rows(rows, self.decided[events] == Verdict.JOINED)

    # -- columns of some events

    def _leaders(self, events: Ints) -> Ints:
        return self.events.leaders[events]

    def _ids(self, events: Ints) -> pa.Array:
        return self.records.of("_id", self._leaders(events))

    # -- whether somebody has an event

    def _looks_up(self, rows: Ints) -> Mask:
        """Whether somebody may have the events (docs/adr/0028). For others the commit tells as much."""
        if self.context.looks_up_all:
            return np.ones(len(rows), bool)
        events = self.events.of(rows)
        is_later = self._leaders(events) != rows  # its leader could not join, which may be for its time alone
        looks_up: Mask = self.records.is_final[rows] | ~self._is_fresh_at_home[events] | is_later
        return looks_up

    @cached_property
    def _is_fresh_at_home(self) -> Mask:
        here, names = frozenset({self.context.plan.datacenter}), list(self.context.pipeline.datacenters)
        return self.events.is_fresh & at_home(self._ids(np.arange(len(self.events))), names, here)

    def _note_fresh(self, events: Ints, is_free: Mask) -> None:
        """Take note of whether somebody had an event that is fresh and at home here."""
        free = is_free[self._is_fresh_at_home[events]]
        if len(free):
            self.verdicts.fresh_were_free = bool(free.all()) and self.verdicts.fresh_were_free is not False

    def _note_taken_over(self, events: Ints) -> None:
        """Take note of whose events were left to it and then joined here: that one may be dead."""
        left = events[self.records.was_left[self._leaders(events)]]
        if len(left):
            homes = count_by_home(self._ids(left), list(self.context.pipeline.datacenters))
            homes.pop(self.context.plan.datacenter, None)
            self.verdicts.taken_over += homes

    def _commit_ids(self, events: Ints) -> Outcomes[CommitOutcome]:
        """Register the events.

        RegistryUnavailable if it leaves one open: the plan stays open too (A5). EpochFenced.
        """
        occurrences = self.records.occurrences(self._leaders(events))
        tokens = pc.binary_join_element_wise(f"{self.context.plan}", occurrences, ":")
        outcomes = self.registry.commit(ClaimColumns(self.events.keys(events), tokens))
        fault_point("task.after_register")
        for outcome in outcomes.distinct:
            if isinstance(outcome, Fenced):
                raise EpochFenced(
                    f"epoch {outcome.epoch} of datacenter {self.context.plan.datacenter} is over in the "
                    "registry: another process has begun a new one, or the datacenter was retired; "
                    "this one ends"
                )
        # Released: a recovery has since released this plan's token, so this plan must not end as it is.
        open_ = np.flatnonzero(outcomes.are(Unknown) | outcomes.are(Released))
        if len(open_):
            first = outcomes[int(open_[0])]
            why = first.reason if isinstance(first, Unknown) else "the token was released by somebody else"
            raise RegistryUnavailable(f"{len(open_)} of {len(outcomes)} ids without an answer: {why}")
        return outcomes
