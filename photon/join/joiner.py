"""The joiner: decide on each foreign record of one join task (paper, section 3.4).

Look up who holds what, find the primaries in the EventStore, adapt, store the rows, and propose their events
to the driver, which claims them. No registry, no Spark, no files, no tables in here.

Records and events are columns all the way; a Python object is made only for an event that is not simply free
and found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import Adapter
from photon.event_store.interface import Around, EventStore, Primaries
from photon.join.adapting import adapt_pairs, may_skip, skip_records
from photon.join.comparing import MOST_COMPARED, Compared, compared, sample_of
from photon.join.deciding import JoinDecisions, JoinedEarlier, at_home, count_by_home
from photon.join.events import Events
from photon.join.messages import TaskContext
from photon.join.records import Ints, Mask, Records, joined_rows, raw_records
from photon.pipeline.event_time import primary_time_us
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.faults import fault_point
from photon.process.measures import Measures
from photon.registry.entry import Claims
from photon.registry.lookups import Hold, Lookups, claimant_of
from photon.registry.register import Register
from photon.state.failing import AdapterCalls, CallTally, TooManyFail
from photon.state.outcomes import VERDICT_OF_CLASS, JoinVerdict, Verdicts
from photon.storage.tokens import Occurrence


class CandidateRows(Protocol):
    """Rows on disk before their events are claimed (`photon.join.candidates`)."""

    @property
    def row_of(self) -> Mapping[Occurrence, int]:
        """The row of each record that earlier runs of the plan have stored."""
        ...

    def of_records(self, records: Records, rows: Ints) -> pa.Table: ...

    def store(self, rows: pa.Table) -> None: ...


@dataclass
class Joiner:
    """Decides on the records of one task. Every collaborator is handed in.

    A further run of the same plan is no different: it finds the rows that are stored, and who holds their
    events by now. An event is named by its place in `events`, a record by its row.
    """

    records: Records
    context: TaskContext
    lookups: Lookups
    register: Register  # says which home each event has
    store: EventStore
    adapter: Adapter
    candidates: CandidateRows
    joined_earlier: JoinedEarlier
    clock: Clock
    events: Events = field(init=False)
    verdicts: Verdicts = field(init=False)
    decisions: JoinDecisions = field(init=False)
    measures: Measures = field(default_factory=Measures)
    _leaders: list[Ints] = field(default_factory=list)  # rows of records that are proposed
    _rows: list[pa.Table] = field(default_factory=list)  # theirs, in the same order

    def join(self) -> Verdicts:
        """A verdict on every record, and claims for the events of those that have a stored row."""
        self.verdicts = Verdicts(np.zeros(len(self.records), np.int8))
        self.events = Events(self.records, self._to_look_up())
        self.decisions = JoinDecisions(
            self.events, self.verdicts, self.context, self.joined_earlier, self.clock
        )
        self.events.lead(self.events.rows[self._is_stored[self.events.rows]])
        rows = self.events.leaders.copy()
        while len(rows):
            self._take_turn(rows)
            rows = self.decisions.undecided()  # the leader of their event can't join, so they may
        self._store_rows()
        self.decisions.tell_records()
        return self.verdicts

    def _take_turn(self, rows: Ints) -> None:
        """Propose the events of the records `rows`, of each event the first record that can join."""
        rows = self._look_up(rows)
        fault_point("task.after_lookup")
        is_ours = self.decisions.is_of_plan[self.events.of(rows)] | self._is_stored[rows]
        others = self._leave_to_home(self.decisions.wait_for_clock(rows[~is_ours]))
        rows = self._quarantine(np.concatenate((rows[is_ours], others)))
        self._propose_stored(rows[self._is_stored[rows]])
        self._make_rows(rows[self.decisions.is_open(rows)])

    # -- the steps: each decides on some records, or on their events, and returns the others

    def _to_look_up(self) -> Ints:
        """The records whose events are looked up."""
        of = self.verdicts.of
        recorded = self.context.already_recorded
        for occurrence, row in self.records.rows_of(recorded).items():
            of[row] = VERDICT_OF_CLASS[recorded[occurrence]]
        self._count_ambiguous(self.verdicts.rows_with(JoinVerdict.JOINED))
        of[self.records.is_gone & ~self._is_stored & (of == JoinVerdict.OPEN)] = JoinVerdict.LOST
        has_no_key = pc.is_null(self.records.table["_key"]).to_numpy()
        of[has_no_key & (of == JoinVerdict.OPEN)] = JoinVerdict.SKIPPED
        if may_skip(self.adapter):
            self._skip(np.flatnonzero((of == JoinVerdict.OPEN) & ~self._is_stored))
        return np.flatnonzero(of == JoinVerdict.OPEN)

    def _skip(self, rows: Ints) -> None:
        """Ask the adapter which of these records to pass over."""
        skipped = skip_records(self.adapter, self.records.raws(rows), self.context.pipeline)
        self._count(AdapterCalls(skip=skipped.tally))
        self.verdicts.of[rows[skipped.rows]] = JoinVerdict.SKIPPED
        for row, reason in skipped.failures.items():
            self.verdicts.of[rows[row]] = JoinVerdict.DEAD_LETTER
            self.verdicts.notes[int(rows[row])] = reason

    @cached_property
    def _is_stored(self) -> Mask:
        """The records whose rows an earlier run of this plan has stored (protocol A14)."""
        is_stored = np.zeros(len(self.records), bool)
        is_stored[list(self.records.rows_of(self.candidates.row_of).values())] = True
        return is_stored

    def _look_up(self, rows: Ints) -> Ints:
        """Ask who holds the events of these records."""
        events = self.events.of(rows)
        found = self.lookups.look_up(self.events.hashes[events], self.records.event_times_us(rows))
        at_home_here = self.events.is_fresh[events] & at_home(
            self.events.hashes[events], self.register, frozenset({self.context.plan.datacenter})
        )
        if at_home_here.any():
            are_free = bool(found.are(Hold.NOBODY, Hold.THIS_PLAN)[at_home_here].all())
            self.verdicts.fresh_were_free = are_free and self.verdicts.fresh_were_free is not False
        return self.decisions.take_answers(rows, found)

    def _leave_to_home(self, rows: Ints) -> Ints:
        """Leave fresh events to their home datacenter for a while, unless that one does not respond.

        With a delay of nothing nobody is waited for.
        """
        others = frozenset(self.context.pipeline.datacenters) - {self.context.plan.datacenter}
        others -= self.context.unresponsive_datacenters
        if not (others and self.context.pipeline.home.takeover_delay):
            return rows
        events = self.events.of(rows)
        is_left = self.events.is_fresh[events] & at_home(self.events.hashes[events], self.register, others)
        self.decisions.of[events[is_left]] = JoinVerdict.WAITS_FOR_HOME
        return rows[~is_left]

    def _quarantine(self, rows: Ints) -> Ints:
        """In quarantine, a record whose event nobody has joined is a dead letter without another look."""
        if not self.context.quarantine:
            return rows
        self.decisions.dead_letters(dict.fromkeys(rows.tolist(), self.context.quarantine))
        return rows[:0]

    def _propose_stored(self, rows: Ints) -> None:
        """Propose events with the rows that an earlier run has stored, as they are (protocol A14)."""
        if not len(rows):
            return
        rows = rows[self.events.first_of_each(rows)]
        self._count(AdapterCalls(combine=CallTally(len(rows))))  # or a re-run would see failures alone
        self._propose(rows, self.candidates.of_records(self.records, rows))
        self._count_ambiguous(rows)

    def _make_rows(self, rows: Ints) -> None:
        """Propose events with rows that are made of records and their primaries."""
        rows, found, of_record = self._find_primaries(rows)
        rows, of_record, adapted = self._adapt(rows, found, of_record)
        first = self.events.first_of_each(rows)
        if len(first) < len(rows):
            rows, of_record, adapted = rows[first], of_record[first], adapted.take(pa.array(first))
        if not len(rows):
            return
        primaries = found.events.select(["_file", "_offset", "_id", "_time_us"]).take(pa.array(of_record))
        self._propose(rows, joined_rows(self.records, rows, primaries, adapted, self.clock, self.context))
        times_us = np.maximum(self.records.times_us[rows], primaries["_time_us"].to_numpy())
        self.verdicts.add_joinable_since(times_us)

    def _find_primaries(self, rows: Ints) -> tuple[Ints, Primaries, Ints]:
        """The records with a primary, what was found, and for each of these records its row of that."""
        final = self.records.is_final[rows]
        found = self._look_up_primaries(rows)
        is_found = found.rows >= 0
        self._measure_lookup(is_found, found)
        # Not while a log file that may hold it can't be read.
        given_up = ~is_found & final & ~found.unanswered
        of = self.verdicts.of
        of[rows[given_up]] = JoinVerdict.UNJOINABLE
        of[rows[~is_found & ~given_up]] = JoinVerdict.WAITS_FOR_PRIMARY
        return rows[is_found], found, found.rows[is_found]

    def _count_ambiguous(self, rows: Ints) -> None:
        """Count rows of an earlier run, which ended before it told which of them are ambiguous."""
        if len(rows):
            self._look_up_primaries(rows)

    def _look_up_primaries(self, rows: Ints) -> Primaries:
        found = look_up_primaries(self.store, self.records, rows, self.context.pipeline)
        self.verdicts.is_ambiguous[rows] = found.is_ambiguous
        self.verdicts.unread_files |= found.unread
        return found

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
        self.verdicts.of[rows[adapted.filtered]] = JoinVerdict.FILTERED
        return rows[adapted.kept], of_record[adapted.kept], adapted.table

    def _count(self, calls: AdapterCalls) -> None:
        """Stop before anything is claimed if the adapter fails on too much of the task alone (A21)."""
        self.verdicts.adapter_calls += calls
        if self.verdicts.adapter_calls.refusal():
            raise TooManyFail(self.verdicts.adapter_calls)

    def compared(self) -> Compared:
        """Compare the duplicates of this task with the records of their events that joined in it."""
        rows, joined, is_gone = self.verdicts.duplicates, self.verdicts.duplicates_of, self.records.is_gone
        readable = np.flatnonzero(~is_gone[rows] & ~is_gone[joined])
        sample = readable[sample_of(readable, MOST_COMPARED)]
        if not len(sample):
            return Compared(not_compared=len(rows))
        some, ours = rows[sample], joined[sample]
        found = compared(
            self.records.raws(np.concatenate((some, ours))),
            self.records.of("_id", some).to_pylist(),
            [self.records.occurrence(row) for row in some.tolist()],
            [self.records.occurrence(row) for row in ours.tolist()],
            self.context.pipeline,
        )
        return found.of_sample(len(sample), len(readable)) + Compared(not_compared=len(rows) - len(readable))

    # -- what is proposed

    def _propose(self, leaders: Ints, rows: pa.Table) -> None:
        """Propose the events of these records, one for each, with their rows."""
        events = self.events.of(leaders)
        self.events.leaders[events] = leaders
        self.decisions.of[events] = JoinVerdict.JOINED
        self._leaders.append(leaders)
        self._rows.append(rows)
        self._note_taken_over(leaders)

    def _note_taken_over(self, rows: Ints) -> None:
        """Take note of whose events were left to it and are joined here now: that one may be dead."""
        left = rows[self.records.was_left[rows]]
        if len(left):
            homes = count_by_home(self.events.hashes[self.events.of(left)], self.register)
            homes.pop(self.context.plan.datacenter, None)
            self.verdicts.taken_over += homes

    def _store_rows(self) -> None:
        """Put the rows on disk before anybody claims their events (protocol A14)."""
        if not self._rows:
            return
        fault_point("task.before_candidates")
        self.candidates.store(pa.concat_tables(self._rows, promote_options="permissive"))
        fault_point("task.after_candidates")
        leaders = np.concatenate(self._leaders)
        self.verdicts.claims = Claims(
            claimant_of(self.context.plan),
            self.events.hashes[self.events.of(leaders)],
            self.records.event_times_us(leaders),
            self.records.file_numbers[leaders].astype(np.uint32),
            self.records.offsets_bytes[leaders],
        )


def look_up_primaries(store: EventStore, records: Records, rows: Ints, pipeline: Pipeline) -> Primaries:
    """The primaries of the records `rows`. A window that is set is final (protocol C7)."""
    ids, times_us = records.of("_key", rows), records.times_us[rows]
    if pipeline.primary.id_codec is not None:
        each = zip(ids.to_pylist(), times_us.tolist(), strict=True)
        times_us = np.array([primary_time_us(key, at_us, pipeline.primary) for key, at_us in each], np.int64)
    return store.lookup(ids, Around.within(times_us, pipeline.retry.lookup_window))
