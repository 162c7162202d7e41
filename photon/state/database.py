"""The dispatcher's durable memory: one SQLite database on the datacenter's own disk (protocol A2, A6, D1).

Each public method is one transaction, durable when it returns (synchronous=FULL).
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from photon.errors import FormatTooNew, UserError
from photon.event_store.segments import SegmentInfo
from photon.join.failing import AdapterCalls, calls_to_json
from photon.join.outcomes import Counts
from photon.logs.files import TrackedFile
from photon.pipeline.location import Location, location_from_json, location_to_json
from photon.state.disk_room import why_not
from photon.state.lifecycle import Attempts, attempts_from_json, attempts_to_json
from photon.state.plan import (
    Plan,
    PlanContent,
    advances_from_json,
    advances_to_json,
    content_from_json,
    content_to_json,
)
from photon.state.rows import (
    add_counts,
    file_values,
    put,
    put_sizes,
    reading_column,
    segment_values,
    tracked_file,
)
from photon.state.schema import MIGRATIONS, SCHEMA, STATE_FORMAT
from photon.state.waiting_list import WaitingList
from photon.state.waiting_migration import move_waiting_rows
from photon.tokens import Occurrence, PlanKey
from photon.waiting.merging import Merged
from photon.waiting.retries import Retries
from photon.waiting.segments import SegmentInfo as WaitingSegment
from photon.waiting.states import State as WaitingState

STATE_FILE = "dispatcher.sqlite"

log = logging.getLogger(__name__)


class StateUnavailable(UserError):
    """The state folder can't be read or written; the message names it and the reason."""


@dataclass(frozen=True)
class Completion:
    """Everything that changes when a batch is completed, in one transaction (protocol F11)."""

    counts: Mapping[str, int] = field(default_factory=dict)  # increments, by the names of the table `counts`
    lost: Iterable[tuple[Occurrence, str]] = ()  # records whose bytes are gone, with their events
    waiting: Sequence[WaitingSegment] = ()  # of records that wait from now on, or longer
    ended: Collection[Occurrence] = ()  # those of them that are decided by now (protocol A8)
    released: Collection[Occurrence] = ()  # and those whose id is free again: they are due at once
    new_hashes: Sequence[np.ndarray] = ()  # of primary ids just read, each array sorted
    requeue: Sequence[PlanContent] = ()  # plans to be taken up again
    max_time_us: Mapping[int, int] = field(default_factory=dict)  # by file number
    watermark_us: int | None = None
    inherited: Iterable[str] = ()
    segments: Iterable[SegmentInfo] = ()  # new ones of the primary index (protocol D7)
    adapter_calls: AdapterCalls | None = None  # of batches in a row that were over the share (protocol A21)


class DispatcherState:
    """The state of one datacenter's dispatcher. One writer; `read_only` for everybody else."""

    def __init__(self, folder: Path, read_only: bool = False) -> None:
        self.folder = folder
        self.path = folder / STATE_FILE
        try:
            if read_only:
                address = self.path.absolute().as_uri()  # a # or ? in the path would end it there
                self._db = sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None, timeout=10)
                self._db.execute("BEGIN")  # every query sees the database of one moment
            else:
                folder.mkdir(parents=True, exist_ok=True)
                self._db = sqlite3.connect(self.path, isolation_level=None, timeout=10)
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
            self.waiting = WaitingList(self._db, lambda: self.work)
            version = int(self.meta("format") or STATE_FORMAT)
        except (OSError, sqlite3.Error) as error:
            why = why_not(error, folder)
            raise StateUnavailable(f"cannot open the state {self.path}: {why}") from error
        if version > STATE_FORMAT:
            raise FormatTooNew(self.path, version, STATE_FORMAT)
        if not read_only:
            self._migrate(version)

    def close(self) -> None:
        self._db.close()

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

    def _migrate(self, version: int) -> None:
        """Bring a state of an older Photon to the present format, step by step."""
        for older in range(version, STATE_FORMAT):
            with self._transaction() as db:
                for statement in MIGRATIONS[older]:
                    db.execute(statement)
                if older == 2:
                    move_waiting_rows(db, self.folder)
                    self.waiting.forget()
                put(db, "meta", [("format", str(older + 1))])

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
    ) -> None:
        """Make the tables of an empty database: the state of a new epoch, which may follow an earlier one.

        `skips_backlog`: the foreign lines that are there are to be passed over first.
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
        }
        with self._transaction() as db:
            for statement in SCHEMA.split(";\n"):
                db.execute(statement)
            put(db, "meta", [(key, str(value)) for key, value in values.items()])
        self.put_work(work or self.folder)

    @property
    def skips_backlog(self) -> bool:
        """Whether foreign lines that are there are still to be passed over."""
        return self.meta("skips_backlog") == "1"

    def note_backlog_skipped(self) -> None:
        """From now on each foreign line counts."""
        with self._transaction() as db:
            put(db, "meta", [("skips_backlog", "0")])

    def put_work(self, work: Location) -> None:
        """Note where index segments and waiting records are; in the state folder, wherever that is moved."""
        with self._transaction() as db:
            if work == self.folder:
                db.execute("DELETE FROM meta WHERE key = 'work'")
            else:
                put(db, "meta", [("work", location_to_json(work))])
        self.waiting.forget()

    @property
    def work(self) -> Location:
        """Where index segments and waiting records are."""
        stored = self.meta("work")
        return location_from_json(stored) if stored is not None else self.folder

    def meta(self, key: str) -> str | None:
        """A value of the meta table; None if it is not there, or the database is empty. StateUnavailable."""
        try:
            if not self._has("sqlite_master WHERE name = ?", "meta"):
                return None
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        except sqlite3.OperationalError as error:
            raise StateUnavailable(f"cannot read the state {self.path}: {error}") from error
        return row[0] if row else None

    @property
    def epoch(self) -> str | None:
        """The epoch of this state; None in an empty database."""
        return self.meta("epoch")

    @property
    def follows_an_epoch(self) -> bool:
        return self.meta("follows_an_epoch") == "1"

    @property
    def is_older(self) -> bool:
        """Whether an older Photon wrote the state, and this one has only looked at it."""
        return int(self.meta("format") or STATE_FORMAT) < STATE_FORMAT

    @property
    def completed(self) -> int:
        """The number of the last completed batch; 0 before the first."""
        return int(self.meta("completed") or 0)

    @property
    def watermark_us(self) -> int | None:
        value = self.meta("watermark_us")
        return int(value) if value is not None else None

    # -- files

    def files(self) -> dict[int, TrackedFile]:
        return {row[0]: tracked_file(row) for row in self._db.execute("SELECT * FROM files")}

    def put_files(self, files: Iterable[TrackedFile], lost_bytes: int = 0) -> None:
        """Store new or changed files, and count `lost_bytes`: unread bytes of files that are gone."""
        with self._transaction() as db:
            put(db, "files", map(file_values, files))
            add_counts(db, {"lost_bytes": lost_bytes} if lost_bytes else {})

    def put_sizes(self, grown: Iterable[TrackedFile]) -> None:
        """Store how big files are now, so that what of them is lost can be counted (protocol D5)."""
        with self._transaction() as db:
            put_sizes(db, grown)

    # -- plans

    def store_plan(self, plan: Plan, grown: Iterable[TrackedFile] = ()) -> None:
        """Store a plan with its first attempt, before any work, and the sizes of files that have grown.

        There is no other open plan.
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
                    attempts_to_json(Attempts()),
                ),
            )
            put_sizes(db, grown)

    def attempts(self) -> Attempts:
        """The attempts at the open plan."""
        (text,) = self._db.execute("SELECT attempts FROM plan").fetchone()
        with reading_column("plan, attempts,"):
            return attempts_from_json(text)

    def note_attempts(self, attempts: Attempts) -> None:
        """Store the attempts at the open plan, before the next begins (protocol A17)."""
        with self._transaction() as db:
            db.execute("UPDATE plan SET attempts = ?", (attempts_to_json(attempts),))

    def note_out_of_reach(self, out_of_reach: Mapping[str, str]) -> None:
        """Store which silent datacenters hold events that nobody can release here, and why (protocol E6)."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('out_of_reach', ?)", (json.dumps(out_of_reach),))

    @property
    def out_of_reach(self) -> dict[str, str]:
        """By silent datacenter: why what it holds can't be released here."""
        with reading_column("meta, out_of_reach,"):
            return dict(json.loads(self.meta("out_of_reach") or "{}"))

    @property
    def has_open_plan(self) -> bool:
        """Whether a plan is stored and not completed; known without reading it."""
        return self._count("plan") > 0

    def open_plan(self) -> Plan | None:
        """The plan that is stored and not completed, if there is one."""
        row = self._db.execute("SELECT batch, plan_id, content, advances, requeue_id FROM plan").fetchone()
        if row is None:
            return None
        key = PlanKey(self.meta("datacenter") or "", self.epoch or "", row[0], row[1])
        with reading_column("plan"):
            return Plan(key, content_from_json(row[2]), advances_from_json(row[3]), row[4])

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
                "completed_plan": plan.key.plan_id,
                "watermark_us": completion.watermark_us,
                "adapter_calls": completion.adapter_calls and calls_to_json(completion.adapter_calls),
            }
            put(db, "meta", [(key, str(value)) for key, value in meta.items() if value is not None])
            db.execute("DELETE FROM plan WHERE batch = ?", (plan.key.batch,))

    def _move_waiting(self, plan: Plan, completion: Completion) -> None:
        """The retries of a plan leave their segments, unless the plan is taken up again."""
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

    def segments(self) -> list[SegmentInfo]:
        """The segments that make up the index."""
        rows = self._db.execute("SELECT name, events_of FROM segments")
        with reading_column("segments, events_of,"):
            return [
                SegmentInfo(name, {int(n): e for n, e in json.loads(text).items()}) for name, text in rows
            ]

    def replace_segments(self, old: Iterable[str], new: Iterable[SegmentInfo]) -> None:
        """List `new` segments in place of `old` ones."""
        with self._transaction() as db:
            db.executemany("DELETE FROM segments WHERE name = ?", [(name,) for name in old])
            put(db, "segments", map(segment_values, new))
            db.execute("DELETE FROM meta WHERE key = 'index_lost'")

    @property
    def index_lost(self) -> bool:
        """Whether primary logs have to be indexed again."""
        return self.meta("index_lost") == "1"

    def lose_index(self) -> None:
        """Note that segments are missing or damaged, until they are replaced."""
        with self._transaction() as db:
            put(db, "meta", [("index_lost", "1")])

    # -- waiting records and requeued plans

    def lost_records(self, most: int, event_id: str | None = None) -> list[tuple[Occurrence, str]]:
        """Records that were lost while they waited, with the ids of their events: of one event, or of all."""
        if not self._has("sqlite_master WHERE name = ?", "lost"):  # a state of Photon 0.1.0, not migrated
            return []
        of_event = "WHERE event_id = coalesce(?, event_id) LIMIT ?"
        columns = "file_number, offset_bytes, event_id"
        rows = self._db.execute(f"SELECT {columns} FROM lost {of_event}", (event_id, most))
        return [(Occurrence(number, offset), found) for number, offset, found in rows]

    def make_all_due(self, reasons: Sequence[str]) -> None:
        """Make every open waiting record of these reasons due now."""
        with self._transaction():
            self.waiting.wake_all(reasons)
            self.waiting.store()

    def reopen_unjoinable(self) -> int:
        """Let records that were declared unjoinable wait again (protocol D4); how many."""
        with self._transaction() as db:
            reopened = self.waiting.wake_all(("unjoinable",))
            add_counts(db, {"unjoinable": -reopened} if reopened else {})
            self.waiting.store()
        return reopened

    # -- work orders (protocol E4)

    def ordered(self) -> dict[Occurrence, int]:
        """The records that were taken up by order, and which batch was completed then."""
        rows = self._db.execute("SELECT file_number, offset_bytes, batch FROM ordered")
        return {Occurrence(number, offset): batch for number, offset, batch in rows}

    def ordered_at(self, places: Collection[Occurrence]) -> dict[Occurrence, int]:
        """Which of these records were taken up by order, and which batch was completed then."""
        at = self.ordered()
        return {place: at[place] for place in places if place in at}

    def take_order(
        self,
        segment: WaitingSegment | None,
        plans: Sequence[PlanContent],
        woken: Collection[Occurrence],
        leaves: Mapping[str, int],
    ) -> None:
        """Take up an order: the records of `segment` leave their classes and are due in these plans alone."""
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
        """Count the records of a waiting segment as lost; return those that plans refer to, which are not."""
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

    def plans_refer_to(self, waiting_segments: Iterable[str]) -> bool:
        """Whether the open plan, or one that is taken up again, needs one of these waiting segments."""
        return not {each.segment for each in self._retries_of_plans()}.isdisjoint(waiting_segments)

    def _retries_of_plans(self) -> list[Retries]:
        plan = self.open_plan()
        contents = [content for _, content in self.requeued()] + ([plan.content] if plan is not None else [])
        return [each for content in contents for each in content.retries]

    def requeued(self, most: int = -1) -> list[tuple[int, PlanContent]]:
        """Requeued plans with their ids, oldest first, at most `most` of them."""
        rows = self._db.execute("SELECT id, content FROM requeued ORDER BY id LIMIT ?", (most,))
        with reading_column("requeued, content,"):
            return [(requeue_id, content_from_json(content)) for requeue_id, content in rows]

    def count_requeued(self) -> int:
        return self._count("requeued")

    def inherited_among(self, events: Iterable[str]) -> set[str]:
        """The events among these that earlier epochs joined and that are already counted as joined."""
        return {event for event in events if self._has("inherited WHERE token = ?", event)}

    def _count(self, what: str, *values: object) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {what}", values).fetchone()[0])

    def _has(self, what: str, value: object) -> bool:
        return self._db.execute(f"SELECT 1 FROM {what} LIMIT 1", (value,)).fetchone() is not None

    # -- counts

    def counts(self) -> Counts:
        classes = dict(self._db.execute("SELECT name, n FROM counts"))
        others = ("foreign", "primary", "primary_dead_letters", "lost_bytes")
        return Counts(**{name: classes.pop(name, 0) for name in others}, classes=classes)
