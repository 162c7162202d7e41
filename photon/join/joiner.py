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
    RegistryUnavailable,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.tokens import Occurrence


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

    An event is named by its place in `events`.
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
        asked = events = self._to_join_here(events)
        fault_point("task.after_lookup")
        events, found, of_event = self._find_primaries(self._quarantine(events))
        events, of_event, adapted = self._adapt(events, found, of_event)
        primaries = found.events.select(["_file", "_offset", "_time_us"]).take(pa.array(of_event))
        rows = joined_rows(self.records, self._leaders(events), primaries, adapted, self.clock, self.context)
        if len(stored):
            again = self.candidates.of_records(self.records, self._leaders(stored))
            rows = pa.concat_tables([rows, again], promote_options="default")
        self._register(np.concatenate((events, stored)), rows)
        joined = self.decided[events] == Verdict.JOINED
        times_us = np.maximum(self.records.times_us[self._leaders(events)], primaries["_time_us"].to_numpy())
        self.verdicts.joinable_since_us = times_us[joined]
        self.decisions.release_what_has_no_row(asked)
        self.decisions.tell_records()
        return self.verdicts

    @property
    def decided(self) -> npt.NDArray[np.int8]:
        """By event: the verdict."""
        return self.decisions.of

    # -- the steps: each decides on some events and returns the others

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

    def _to_join_here(self, events: Ints) -> Ints:
        """The events that nobody has, as far as that is asked, and that are not left to their home."""
        if self.context.looks_up_all:  # others may be ahead: what a home has joined need not wait for it
            return self._leave_to_home(self._look_up_ids(events))
        return self._look_up_ids(self._leave_to_home(events))

    def _leave_to_home(self, events: Ints) -> Ints:
        """Leave fresh events to their home datacenter for a while, unless that one does not respond."""
        names = list(self.context.pipeline.datacenters)
        joined_here = self.context.unresponsive_datacenters | {self.context.plan.datacenter}
        if joined_here.issuperset(names):
            return events
        goes_on = ~self.events.is_fresh[events] | at_home(self._ids(events), names, joined_here)
        goes_on |= np.isin(events, list(self.decisions.held_by_plan))
        self.decided[events[~goes_on]] = Verdict.WAITS_FOR_HOME
        return events[goes_on]

    def _look_up_ids(self, events: Ints) -> Ints:
        asked = events[self._looks_up(events)]
        self.measures.count("registry_spared_ids", by=len(events) - len(asked))
        outcomes = self.registry.lookup(self.events.keys(asked))
        free = outcomes.are(Free)
        self._note_fresh(asked, free)
        too_old: list[int] = []
        cleared: list[int] = []
        for index in np.flatnonzero(~free).tolist():
            event = int(asked[index])
            match outcomes[index]:
                case Joined(holder) if is_of_plan(holder, self.context.plan):
                    self.decisions.take_token(event, holder)
                case Joined(holder) if self.decisions.may_be_made_again(event, holder):
                    cleared.append(event)
                case Joined(holder):
                    self.decisions.on_holder(event, holder)
                case TooOld():
                    too_old.append(event)
                case BeyondHorizon():
                    self.decisions.beyond_horizon(event)
        self.decisions.too_old(np.array(too_old, np.int64))
        self.decisions.look_for_rows(cleared)
        still_open: Ints = events[self.decided[events] == Verdict.OPEN]
        return still_open

    def _quarantine(self, events: Ints) -> Ints:
        """In quarantine, an event that nobody has joined is a dead letter without another look."""
        if not self.context.quarantine:
            return events
        self.decisions.dead_letters(dict.fromkeys(events.tolist(), self.context.quarantine))
        return events[:0]

    def _find_primaries(self, events: Ints) -> tuple[Ints, Primaries, Ints]:
        """The events with a primary, what was found, and for each of these events its row of that."""
        leaders = self._leaders(events)
        final = self.records.is_final[leaders]
        found = look_up_primaries(self.store, self.records, leaders, final, self.context.pipeline)
        is_found = found.rows >= 0
        self._measure_lookup(is_found, found)
        # Not while a log file that may hold it can't be read, unless a later run looks again.
        given_up = ~is_found & final & (self.context.final | ~found.unanswered)
        self.decided[events[given_up]] = Verdict.UNJOINABLE
        self.decided[events[~is_found & ~given_up]] = Verdict.WAITS_FOR_PRIMARY
        is_missing = ~is_found & np.isin(events, list(self.decisions.made_again))
        self.decided[events[is_missing]] = Verdict.MISSING
        return events[is_found], found, found.rows[is_found]

    def _measure_lookup(self, is_found: Mask, found: Primaries) -> None:
        self.measures.count("primary_lookups", "found", by=int(np.count_nonzero(is_found)))
        self.measures.count("primary_lookups", "not_found", by=int(np.count_nonzero(~is_found)))
        read_bytes = pc.sum(pc.binary_length(found.events["_raw"])).as_py()
        self.measures.count("primary_read_bytes", by=read_bytes or 0)

    def _adapt(self, events: Ints, found: Primaries, of_event: Ints) -> tuple[Ints, Ints, pa.Table]:
        """Combine or filter. A pair that can't be adapted is a dead letter, alone."""
        primaries = found.events.take(pa.array(of_event))
        raws = primaries["_raw"].combine_chunks()
        adapted = adapt_pairs(
            self.adapter,
            self.records.raws(self._leaders(events)),
            raw_records(raws, primaries["_file"].to_numpy(), found.files),
            self.context.pipeline,
            self.context.row_schema,
        )
        self._count(AdapterCalls(combine=adapted.tally))
        self.decisions.dead_letters({int(events[row]): why for row, why in adapted.failures.items()})
        self.decided[events[adapted.filtered]] = Verdict.FILTERED
        return events[adapted.kept], of_event[adapted.kept], adapted.table

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
        won = self.decided[events] == Verdict.JOINED
        if won.all():
            self.verdicts.rows = rows
        elif won.any():
            self.verdicts.rows = rows.filter(pa.array(won))

    # -- columns of some events

    def _leaders(self, events: Ints) -> Ints:
        return self.events.leaders[events]

    def _ids(self, events: Ints) -> pa.Array:
        return self.records.of("_id", self._leaders(events))

    # -- whether somebody has an event

    def _looks_up(self, events: Ints) -> Mask:
        """Whether somebody may have the event (docs/adr/0028). For others the commit tells as much."""
        if self.context.looks_up_all:
            return np.ones(len(events), bool)
        return self.records.is_final[self._leaders(events)] | ~self._is_fresh_at_home[events]

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
