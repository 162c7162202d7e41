"""A datacenter's durable memory, to look at: one SQLite database on its own disk, at one moment.

Its dispatcher alone changes it (`photon.state.dispatcher_state`). Errors of SQLite are said in words here:
a disk without room, and a database that is damaged.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from photon.event_store.segments import SegmentInfo
from photon.logs.files import TrackedFile
from photon.logs.unread_files import UnreadFile
from photon.pipeline.location import Location, location_from_json
from photon.process.errors import FormatTooNew, UserError
from photon.state.lifecycle import Attempts, attempts_from_json
from photon.state.outcomes import Counts
from photon.state.plan import (
    Plan,
    PlanContent,
    advances_from_json,
    content_from_json,
)
from photon.state.rows import (
    left_in,
    marks,
    reading_column,
    segment_info,
    tracked_file,
    unread_file,
)
from photon.state.waiting.retries import Retries
from photon.state.waiting.waiting_view import WaitingView
from photon.state.window import WINDOW_US, CountsWindow, begin_window, window_from_json
from photon.storage.full_disks import why_not
from photon.storage.tokens import Occurrence, PlanKey

STATE_FILE = "dispatcher.sqlite"
STATE_FORMAT = 3  # of SCHEMA: a table or column more is another format
_BEGIN_ANEW = (
    "move {} away: the next start begins a new epoch and reads the logs again, and nothing is joined twice"
)

# The table `files` has the fields of LogFile and TrackedFile in their order, `unread_files` those of
# UnreadFile, `gone_files` when each was first known to be gone (protocol D13); `ordered` has the records that
# the dispatcher took up by order, and after which batch (protocol E4).
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    number INTEGER PRIMARY KEY, side TEXT NOT NULL, path TEXT NOT NULL, inode INTEGER NOT NULL,
    compressed INTEGER NOT NULL, header BLOB NOT NULL, header_bytes INTEGER NOT NULL,
    head_bytes INTEGER NOT NULL, head_hash BLOB NOT NULL, offset_bytes INTEGER NOT NULL,
    tail_hash BLOB NOT NULL, inside_oversized INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    grown_us INTEGER NOT NULL, max_time_us INTEGER, state TEXT NOT NULL,
    disk_bytes INTEGER NOT NULL, seen_hash BLOB NOT NULL, modified_ns INTEGER NOT NULL,
    target TEXT NOT NULL, altered_us INTEGER NOT NULL, in_use INTEGER NOT NULL,
    strangers BLOB NOT NULL, end_unknown INTEGER NOT NULL);
CREATE TABLE gone_files (number INTEGER PRIMARY KEY, since_us INTEGER NOT NULL);
CREATE TABLE unread_files (
    side TEXT NOT NULL, path BLOB NOT NULL, kind TEXT NOT NULL, inode INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL, changed_ns INTEGER NOT NULL, modified_ns INTEGER NOT NULL,
    head_hash BLOB NOT NULL, reason TEXT NOT NULL, since_us INTEGER NOT NULL, grown_us INTEGER NOT NULL,
    state TEXT NOT NULL, PRIMARY KEY (side, path)) WITHOUT ROWID;
CREATE TABLE plan (
    batch INTEGER PRIMARY KEY, plan_id TEXT NOT NULL, content TEXT NOT NULL,
    advances TEXT NOT NULL, requeue_id INTEGER, attempts TEXT NOT NULL);
CREATE TABLE waiting_segments (
    name TEXT PRIMARY KEY, records INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, tally TEXT NOT NULL,
    next_due_us INTEGER NOT NULL, least_primary_us INTEGER NOT NULL,
    is_given_up INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE waiting_pages (
    segment TEXT NOT NULL, page INTEGER NOT NULL, states BLOB NOT NULL, PRIMARY KEY (segment, page));
CREATE TABLE lost (
    file_number INTEGER NOT NULL, offset_bytes INTEGER NOT NULL, event_id TEXT NOT NULL,
    PRIMARY KEY (file_number, offset_bytes)) WITHOUT ROWID;
CREATE TABLE ordered (
    file_number INTEGER NOT NULL, offset_bytes INTEGER NOT NULL, batch INTEGER NOT NULL,
    PRIMARY KEY (file_number, offset_bytes)) WITHOUT ROWID;
CREATE TABLE requeued (id INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE inherited (token TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE segments (name TEXT PRIMARY KEY, events_of TEXT NOT NULL, reused TEXT NOT NULL) WITHOUT ROWID;
"""
ASKED_AT_ONCE = 500  # values of one query; SQLite takes thousands
_CODE_BITS = 0xFF  # SQLite's extended codes name the kind in these bits
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class StateUnavailable(UserError):
    """The state folder can't be read or written; the message names it and the reason."""


class StateDamaged(UserError):
    """The database is not what was written: no wait and no other try will mend it."""


@contextmanager
def damage_is_named(state: Path) -> Iterator[None]:
    """Raise what SQLite finds damaged in this state folder as StateDamaged."""
    try:
        yield
    except (sqlite3.DatabaseError, StateUnavailable) as error:
        cause = error.__cause__ if isinstance(error, StateUnavailable) else error
        if getattr(cause, "sqlite_errorcode", 0) & _CODE_BITS not in _DAMAGED:
            raise
        raise StateDamaged(
            f"the state {state / STATE_FILE} is damaged ({cause}): put a copy of the folder {state} back, or "
            "move it away; then the next start begins a new epoch and reads the logs again, and nothing is "
            "joined twice"
        ) from error


class StateReader:
    """The state of one datacenter's dispatcher, as everybody else sees it."""

    def __init__(self, folder: Path, name: str = STATE_FILE) -> None:
        """StateUnavailable, FormatTooNew. `name`: of its file, where that is set aside."""
        self.folder = folder
        self.path = folder / name
        try:
            self._db = self._open()
            self.waiting = WaitingView(self._db, lambda: self.work)
            stored_format = int(self.meta("format") or STATE_FORMAT)
        except (OSError, sqlite3.Error) as error:
            why = why_not(error, folder)
            raise StateUnavailable(f"cannot open the state {self.path}: {why}") from error
        if stored_format > STATE_FORMAT:
            raise FormatTooNew(self.path, stored_format, STATE_FORMAT)
        if stored_format < STATE_FORMAT:
            raise FormatTooNew(self.path, stored_format, STATE_FORMAT, _BEGIN_ANEW.format(folder))

    def _open(self) -> sqlite3.Connection:
        address = self.path.absolute().as_uri()  # a # or ? in the path would end it there
        db = sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None, timeout=10)
        db.execute("BEGIN")  # every query sees the database of one moment
        return db

    def close(self) -> None:
        self._db.close()

    # -- identity

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
    def settings(self) -> Mapping[str, object]:
        """The settings that the epoch was begun with (`photon.pipeline.remembered`)."""
        with reading_column("meta, settings,"):
            return dict(json.loads(self.meta("settings") or "{}"))

    @property
    def follows_an_epoch(self) -> bool:
        return self.meta("follows_an_epoch") == "1"

    @property
    def skips_backlog(self) -> bool:
        """Whether foreign lines that are there are still to be passed over."""
        return self.meta("skips_backlog") == "1"

    @property
    def work(self) -> Location:
        """Where index segments and waiting records are."""
        stored = self.meta("work")
        return location_from_json(stored) if stored is not None else self.folder

    @property
    def completed(self) -> int:
        """The number of the last completed batch; 0 before the first."""
        return int(self.meta("completed") or 0)

    @property
    def passed(self) -> int:
        """How many batches of the epoch others passed over while its process was silent (protocol A25)."""
        return int(self.meta("passed") or 0)

    @property
    def ended_us(self) -> int:
        """When the latest batch ended, by the clock of its process; 0: none has."""
        return int(self.meta("ended_us") or 0)

    @property
    def watermark_us(self) -> int | None:
        value = self.meta("watermark_us")
        return int(value) if value is not None else None

    # -- logs, and the index of primary events

    def files(self) -> dict[int, TrackedFile]:
        return {row[0]: tracked_file(row) for row in self._db.execute("SELECT * FROM files")}

    def gone_since_us(self) -> dict[int, int]:
        """When each file that is gone was first known to be, by its number."""
        return dict(self._db.execute("SELECT number, since_us FROM gone_files"))

    @property
    def forgotten(self) -> dict[str, int]:
        """How many files were forgotten: of each side, and foreign ones that were never `unverified`."""
        with reading_column("meta, forgotten,"):
            return dict(json.loads(self.meta("forgotten") or "{}"))

    def named_files(self) -> set[int]:
        """The numbers of files that a record or the index names, without plans. WaitingDamaged, OSError."""
        rows = self._db.execute("SELECT file_number FROM lost UNION SELECT file_number FROM ordered")
        of_index = {number for each in self.segments() for number in each.events_of}
        return {number for (number,) in rows} | of_index | self.waiting.files_left()

    def unread_files(self) -> list[UnreadFile]:
        """The files that were there and were not read at the last look."""
        with reading_column("unread_files"):
            return [unread_file(row) for row in self._db.execute("SELECT * FROM unread_files")]

    def segments(self) -> list[SegmentInfo]:
        """The segments that make up the index."""
        rows = self._db.execute("SELECT name, events_of, reused FROM segments")
        with reading_column("segments, events_of,"):
            return [segment_info(*row) for row in rows]

    @property
    def index_lost(self) -> bool:
        """Whether primary logs have to be indexed again."""
        return self.meta("index_lost") == "1"

    # -- plans

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

    def attempts(self) -> Attempts:
        """The attempts at the open plan."""
        (text,) = self._db.execute("SELECT attempts FROM plan").fetchone()
        with reading_column("plan, attempts,"):
            return attempts_from_json(text)

    def requeued(self, most: int = -1) -> list[tuple[int, PlanContent]]:
        """Requeued plans with their ids, oldest first, at most `most` of them."""
        rows = self._db.execute("SELECT id, content FROM requeued ORDER BY id LIMIT ?", (most,))
        with reading_column("requeued, content,"):
            return [(requeue_id, content_from_json(content)) for requeue_id, content in rows]

    def count_requeued(self) -> int:
        return self._count("requeued")

    def plans_refer_to(self, waiting_segments: Iterable[str]) -> bool:
        """Whether the open plan, or one that is taken up again, needs one of these waiting segments."""
        return not {each.segment for each in self._retries_of_plans()}.isdisjoint(waiting_segments)

    def _retries_of_plans(self) -> list[Retries]:
        plan = self.open_plan()
        contents = [content for _, content in self.requeued()] + ([plan.content] if plan is not None else [])
        return [each for content in contents for each in content.retries]

    # -- records

    def lost_records(self, most: int, event_id: str | None = None) -> list[tuple[Occurrence, str]]:
        """Records that were lost while they waited, with the ids of their events: of one event, or of all."""
        of_event = "WHERE event_id = coalesce(?, event_id) LIMIT ?"
        columns = "file_number, offset_bytes, event_id"
        rows = self._db.execute(f"SELECT {columns} FROM lost {of_event}", (event_id, most))
        return [(Occurrence(number, offset), found) for number, offset, found in rows]

    def ordered(self) -> dict[Occurrence, int]:
        """The records that were taken up by order, and which batch was completed then."""
        rows = self._db.execute("SELECT file_number, offset_bytes, batch FROM ordered")
        return {Occurrence(number, offset): batch for number, offset, batch in rows}

    def ordered_at(self, places: Collection[Occurrence]) -> dict[Occurrence, int]:
        """Which of these records were taken up by order, and which batch was completed then."""
        wanted = json.dumps([[place.file_number, place.offset_bytes] for place in places])
        rows = self._db.execute(
            "SELECT file_number, offset_bytes, batch FROM json_each(?) AS each JOIN ordered "
            "ON file_number = each.value ->> 0 AND offset_bytes = each.value ->> 1",
            (wanted,),
        )
        return {Occurrence(number, offset): batch for number, offset, batch in rows}

    @property
    def out_of_reach(self) -> dict[str, str]:
        """Why the holds of a silent datacenter can't be freed here, by its name."""
        with reading_column("meta, out_of_reach,"):
            return dict(json.loads(self.meta("out_of_reach") or "{}"))

    def inherited_among(self, events: Iterable[str]) -> set[str]:
        """The events among these that earlier epochs joined and that are already counted as joined."""
        wanted, found = list(events), set[str]()
        for first in range(0, len(wanted), ASKED_AT_ONCE):
            some = wanted[first : first + ASKED_AT_ONCE]
            rows = self._db.execute(f"SELECT token FROM inherited WHERE token IN ({marks(some)})", some)
            found |= {token for (token,) in rows}
        return found

    def counts(self) -> Counts:
        classes = dict(self._db.execute("SELECT name, n FROM counts"))
        others = [field.name for field in fields(Counts) if field.name != "classes"]
        return Counts(**{name: classes.pop(name, 0) for name in others}, classes=classes)

    def left(self) -> dict[str, int]:
        """How many records have left each class again, as those that were mended have."""
        return left_in(self._db)

    @property
    def window(self) -> CountsWindow | None:
        """The counts from which the latest records are counted; None before the first batch."""
        stored = self.meta("window")
        with reading_column("meta, window,"):
            return window_from_json(stored) if stored is not None else None

    def window_at(self, now_us: int, window_us: int = WINDOW_US) -> CountsWindow:
        """The window once a batch ends now, of whose records nothing is counted yet."""
        gained = self.counts().gained(self.left())
        return (self.window or begin_window(now_us)).after(gained, now_us, window_us)

    def _count(self, what: str, *values: object) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {what}", values).fetchone()[0])

    def _has(self, what: str, value: object) -> bool:
        return self._db.execute(f"SELECT 1 FROM {what} LIMIT 1", (value,)).fetchone() is not None
