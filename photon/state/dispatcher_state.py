"""Change a dispatcher's durable memory: epoch, files, plans, index, waiting records (protocol A2, A6, D1).

Each public method is one transaction, durable when it returns (synchronous=FULL); `begin_epoch` is two.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

from photon.event_store.segments import SegmentInfo
from photon.logs.files import Side, TrackedFile
from photon.logs.unread_files import UnreadFile
from photon.pipeline.location import Location, location_to_json
from photon.process.operating_system import private_file, private_folder
from photon.state.database import SCHEMA, STATE_FORMAT, StateReader, StateUnavailable
from photon.state.failing import AdapterCalls, calls_to_json
from photon.state.lifecycle import Attempts, attempts_to_json
from photon.state.plan import (
    Plan,
    PlanContent,
    advances_to_json,
    content_to_json,
)
from photon.state.rows import (
    add_counts,
    file_values,
    put,
    put_sizes,
    segment_values,
    unread_values,
)
from photon.state.waiting.merging import Merged
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import WaitingSegment
from photon.state.waiting.states import WaitingState
from photon.state.waiting.waiting_list import WaitingList
from photon.state.window import CountsWindow, window_to_json
from photon.storage.full_disks import LEAST_BYTES, why_not
from photon.storage.sync import keep_transactions, write_synced
from photon.storage.tokens import PASSED_PLAN, Occurrence

log = logging.getLogger(__name__)

TRIAL_FILE = "trial"  # written and removed to learn whether the disk takes writes again


def _fill(sink: BinaryIO) -> None:
    sink.write(bytes(LEAST_BYTES))


@dataclass(frozen=True)
class Completion:
    """Everything that changes when a batch is completed, in one transaction (protocol F11)."""

    counts: Mapping[str, int] = field(default_factory=dict)  # increments, by the names of the table `counts`
    lost: Iterable[tuple[Occurrence, str]] = ()  # waiting records whose bytes are gone, and event ids
    waiting: Sequence[WaitingSegment] = ()  # new segments, of records that begin to wait or wait on
    ended: Collection[Occurrence] = ()  # records in these segments that are decided by now (protocol A8)
    released: Collection[Occurrence] = ()  # others in them whose id is free again: due at once
    new_hashes: Sequence[np.ndarray] = ()  # hashes of primary ids just read, each array sorted
    requeue: Sequence[PlanContent] = ()  # plans to be taken up again
    is_passed: bool = False  # others have passed over the batch (protocol A25)
    max_time_us: Mapping[int, int] = field(default_factory=dict)  # highest event time, by file number
    watermark_us: int | None = None
    inherited: Iterable[str] = ()  # events that earlier epochs joined, counted as joined in this one
    segments: Iterable[SegmentInfo] = ()  # new segments of the primary index (protocol D7)
    adapter_calls: AdapterCalls | None = None  # the sum over batches in a row of too many failures (A21)
    window: CountsWindow | None = None  # marks from which the latest records are counted
    ended_us: int | None = None  # the clock then, from which due times were counted


class DispatcherState(StateReader):
    """The state of one datacenter's dispatcher, for this dispatcher alone: a state has one writer."""

    waiting: WaitingList

    def __init__(self, folder: Path) -> None:
        """Open the state, and make its folder if there is none. StateUnavailable, FormatTooNew."""
        super().__init__(folder)
        self.waiting = WaitingList(self._db, lambda: self.work)

    def _open(self) -> sqlite3.Connection:
        private_folder(self.folder)
        private_file(self.path)
        db = sqlite3.connect(self.path, isolation_level=None, timeout=10)
        keep_transactions(db)
        return db

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        is_done = False
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
            is_done = True
        except sqlite3.OperationalError as error:
            why = why_not(error, self.folder)
            raise StateUnavailable(f"cannot write the state {self.path}: {why}") from error
        finally:
            if not is_done:
                self.waiting.forget()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def try_to_write(self) -> None:
        """Write a trial file and a transaction, to learn whether a batch could. OSError, StateUnavailable."""
        trial = self.folder / TRIAL_FILE
        trial.unlink(missing_ok=True)
        try:
            write_synced(trial, _fill)
        finally:
            trial.unlink(missing_ok=True)
        with self._transaction() as db:
            put(db, "meta", [("completed", str(self.completed))])

    # -- identity

    def begin_epoch(
        self,
        pipeline: str,
        datacenter: str,
        epoch: str,
        now_us: int,
        follows: bool,
        work: Location | None = None,
        skips_backlog: bool = False,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Make the tables of an empty database: the state of a new epoch.

        `follows`: there was an epoch before. `skips_backlog`: the dispatcher first passes over the foreign
        lines that are there. `settings`: values of the pipeline file to remember.
        """
        values = {
            "format": STATE_FORMAT,
            "pipeline": pipeline,
            "datacenter": datacenter,
            "epoch": epoch,
            "begun_us": now_us,
            "completed": 0,
            "follows_an_epoch": int(follows),
            "skips_backlog": int(skips_backlog),
            "settings": json.dumps(dict(settings)),
        }
        with self._transaction() as db:
            for statement in SCHEMA.split(";\n"):
                db.execute(statement)
            put(db, "meta", [(key, str(value)) for key, value in values.items()])
        self.put_work(work or self.folder)

    def note_settings(self, settings: Mapping[str, object]) -> None:
        """Remember changed settings. Everything that is stored means the same under them."""
        with self._transaction() as db:
            put(db, "meta", [("settings", json.dumps(dict(settings)))])

    def note_place(self, place: str) -> None:
        """Remember where the state is (`photon.dispatcher.shared_places`)."""
        if self.meta("place") != place:
            with self._transaction() as db:
                put(db, "meta", [("place", place)])

    def note_backlog_skipped(self) -> None:
        """Note that the backlog was passed over: from now on each foreign line counts."""
        with self._transaction() as db:
            put(db, "meta", [("skips_backlog", "0")])

    def note_watermark(self, watermark_us: int) -> None:
        """Note that primary logs are read up to this time, where no batch says so."""
        with self._transaction() as db:
            put(db, "meta", [("watermark_us", str(watermark_us))])

    def put_work(self, work: Location) -> None:
        """Note where index segments and waiting records are.

        The state folder is not noted by its path: it may be moved.
        """
        with self._transaction() as db:
            if work == self.folder:
                db.execute("DELETE FROM meta WHERE key = 'work'")
            else:
                put(db, "meta", [("work", location_to_json(work))])
        self.waiting.forget()

    # -- files

    def put_files(
        self,
        files: Iterable[TrackedFile],
        lost_bytes: int = 0,
        unread: Mapping[Side, Iterable[UnreadFile]] = MappingProxyType({}),
    ) -> None:
        """Store new or changed files, and count `lost_bytes`: unread bytes of files that are gone.

        `unread`: by log its entries of files that are not read, in the place of those stored. An entry ends
        in the transaction that stores its file (protocol D11).
        """
        with self._transaction() as db:
            put(db, "files", map(file_values, files))
            for side, entries in unread.items():
                db.execute("DELETE FROM unread_files WHERE side = ?", (side,))
                put(db, "unread_files", map(unread_values, entries))
            add_counts(db, {"lost_bytes": lost_bytes} if lost_bytes else {})

    def note_gone(self, since_us: Mapping[int, int], back: Iterable[int]) -> None:
        """Note since when files are gone, and which are `back`."""
        with self._transaction() as db:
            put(db, "gone_files", since_us.items())
            db.executemany("DELETE FROM gone_files WHERE number = ?", [(number,) for number in back])

    def forget_files(
        self, numbers: Collection[int], changed: Iterable[TrackedFile], counts: Mapping[str, int]
    ) -> None:
        """Forget files (protocol D13), and store what others took over of them. `counts`: as `forgotten`."""
        forgotten = json.dumps(dict(Counter(self.forgotten) + Counter(counts)))
        with self._transaction() as db:
            for table in ("files", "gone_files"):
                db.executemany(f"DELETE FROM {table} WHERE number = ?", [(number,) for number in numbers])
            put(db, "files", map(file_values, changed))
            put(db, "meta", [("forgotten", forgotten)])

    def put_sizes(self, grown: Iterable[TrackedFile]) -> None:
        """Store how big files are now: if one disappears, its unread bytes are counted (protocol D5)."""
        with self._transaction() as db:
            put_sizes(db, grown)

    # -- plans

    def store_plan(self, plan: Plan, grown: Iterable[TrackedFile] = ()) -> None:
        """Store a plan with its first attempt, before any work, and the sizes of files that have grown.

        No other plan is open.
        """
        content, advances = content_to_json(plan.content), advances_to_json(plan.advances)
        with self._transaction() as db:
            db.execute(
                "INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?)",
                (
                    plan.key.batch,
                    plan.key.plan_id,
                    content,
                    advances,
                    plan.requeue_id,
                    attempts_to_json(plan.content.attempts),
                ),
            )
            put_sizes(db, grown)

    def note_attempts(self, attempts: Attempts) -> None:
        """Store the attempts at the open plan, before the next begins (protocol A17)."""
        with self._transaction() as db:
            db.execute("UPDATE plan SET attempts = ?", (attempts_to_json(attempts),))

    def note_out_of_reach(self, out_of_reach: Mapping[str, str]) -> None:
        """Store which silent datacenters hold events that this one can't free, and why (protocol E6)."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('out_of_reach', ?)", (json.dumps(out_of_reach),))

    def complete(self, plan: Plan, completion: Completion) -> None:
        """Close the plan: store offsets, waiting records, counts and requeued plans in one transaction."""
        with self._transaction() as db:
            db.executemany(
                "UPDATE files SET offset_bytes = ?, tail_hash = ?, inside_oversized = ? WHERE number = ?",
                [(a.offset_bytes, a.tail_hash, a.inside_oversized, a.file_number) for a in plan.advances],
            )
            db.executemany(
                "UPDATE files SET max_time_us = max(coalesce(max_time_us, ?), ?) WHERE number = ?",
                [(time_us, time_us, number) for number, time_us in completion.max_time_us.items()],
            )
            put(db, "lost", [(o.file_number, o.offset_bytes, event) for o, event in completion.lost])
            self._move_waiting(plan, completion)
            for content in completion.requeue:
                db.execute("INSERT INTO requeued (content) VALUES (?)", (content_to_json(content),))
            if plan.requeue_id is not None:
                db.execute("DELETE FROM requeued WHERE id = ?", (plan.requeue_id,))
            db.executemany("INSERT OR IGNORE INTO inherited VALUES (?)", [(e,) for e in completion.inherited])
            put(db, "segments", map(segment_values, completion.segments))
            add_counts(db, completion.counts)
            meta = {
                "completed": plan.key.batch,
                "completed_plan": PASSED_PLAN if completion.is_passed else plan.key.plan_id,
                "passed": self.passed + completion.is_passed,
                "watermark_us": completion.watermark_us,
                "adapter_calls": completion.adapter_calls and calls_to_json(completion.adapter_calls),
                "window": completion.window and window_to_json(completion.window),
                "ended_us": completion.ended_us,
            }
            put(db, "meta", [(key, str(value)) for key, value in meta.items() if value is not None])
            db.execute("DELETE FROM plan WHERE batch = ?", (plan.key.batch,))

    def _move_waiting(self, plan: Plan, completion: Completion) -> None:
        """Mark the plan's retries as gone or requeued, wake records, and list the new segments."""
        waiting = self.waiting
        if completion.requeue:
            for content in completion.requeue:
                waiting.mark(content.retries, WaitingState.REQUEUED)
        else:
            waiting.mark(plan.content.retries, WaitingState.GONE)
        reopened = waiting.wake(completion.new_hashes)
        add_counts(self._db, {"unjoinable": -reopened} if reopened else {})
        waiting.add(completion.waiting)
        names = [info.name for info in completion.waiting]
        waiting.mark_records(names, completion.ended, WaitingState.GONE)
        waiting.mark_records(names, completion.released, WaitingState.WOKEN)
        waiting.store()

    # -- the index of primary events

    def replace_segments(self, old: Iterable[str], new: Iterable[SegmentInfo], reused: int = 0) -> None:
        """List `new` segments in place of `old` ones. `reused`: how many reused ids only these show."""
        with self._transaction() as db:
            add_counts(db, {"reused_primaries": reused})
            db.executemany("DELETE FROM segments WHERE name = ?", [(name,) for name in old])
            put(db, "segments", map(segment_values, new))
            db.execute("DELETE FROM meta WHERE key = 'index_lost'")

    def lose_index(self) -> None:
        """Note that index segments are missing or damaged, until `replace_segments`."""
        with self._transaction() as db:
            put(db, "meta", [("index_lost", "1")])

    # -- waiting records, and work orders (protocol E4)

    def make_all_due(self, reasons: Sequence[str]) -> None:
        """Make every open waiting record of these reasons due now."""
        with self._transaction():
            self.waiting.wake_all(reasons)
            self.waiting.store()

    def reopen_unjoinable(self) -> int:
        """Let records that were given up as unjoinable wait again (protocol D4), and return how many."""
        with self._transaction() as db:
            reopened = self.waiting.wake_all(("unjoinable",))
            add_counts(db, {"unjoinable": -reopened} if reopened else {})
            self.waiting.store()
        return reopened

    def take_order(
        self,
        segment: WaitingSegment | None,
        plans: Sequence[PlanContent],
        woken: Collection[Occurrence],
        leaves: Mapping[str, int],
    ) -> None:
        """Take up an order: its records leave their classes, and only these plans look at them again.

        `segment`: the ordered records that did not wait, stored anew. `woken`: records that were given up and
        are due now. `leaves`: increments of the classes' counts, below 0.
        """
        places = {place for content in plans for each in content.retries for place in each.occurrences()}
        ordered = [(place.file_number, place.offset_bytes, self.completed) for place in {*places, *woken}]
        with self._transaction() as db:
            put(db, "ordered", ordered)
            self.waiting.add([segment] if segment is not None else [])
            for content in plans:
                db.execute("INSERT INTO requeued (content) VALUES (?)", (content_to_json(content),))
                self.waiting.mark(content.retries, WaitingState.REQUEUED)
            reopened = self.waiting.wake_given_up(woken)
            add_counts(db, leaves)
            add_counts(db, {"unjoinable": -reopened})
            self.waiting.store()

    def replace_waiting(self, merged: Merged) -> None:
        """List a merged waiting segment in place of its sources."""
        with self._transaction():
            self.waiting.replace(merged)
            self.waiting.store()

    def lose_waiting(self, segment: str) -> Sequence[Retries]:
        """Count a waiting segment's records as lost, but for those that plans refer to; return these."""
        kept = [each for each in self._retries_of_plans() if each.segment == segment]
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *(each.rows.to_numpy() for each in kept)]))
        with self._transaction() as db:
            add_counts(db, {"lost": self.waiting.lose(segment, rows)})
            self.waiting.store()
        return kept

    def recount_waiting(self) -> None:
        """Count all waiting records anew."""
        if self.waiting.recount():
            log.warning("the counts of waiting records were wrong, and are counted anew")
            with self._transaction():
                self.waiting.store()
