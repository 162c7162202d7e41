"""The dispatcher's durable memory: one SQLite database on the datacenter's own disk.

Files and how far they were read, waiting records, the open plan, work to be taken up again, and
counts (protocol A2, A6, D1). Each public method is one transaction, durable when it returns
(synchronous=FULL). What is to be stored is decided elsewhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from photon.dispatcher.plan import (
    Plan,
    PlanContent,
    advances_from_json,
    advances_to_json,
    content_from_json,
    content_to_json,
)
from photon.dispatcher.state_rows import (
    SCHEMA,
    Completion,
    WaitingRow,
    file_values,
    tracked_file,
    waiting_row,
    waiting_values,
)
from photon.errors import FormatTooNew, UserError
from photon.join.outcomes import Counts, OutcomeClass
from photon.logs.files import TrackedFile
from photon.tokens import Occurrence, PlanKey

STATE_FORMAT = 1
STATE_FILE = "dispatcher.sqlite"
# Up to so many ids just read are looked up one by one (5 us each); beyond, all that waits is read once.
FEW_HASHES = 20_000


class StateUnavailable(UserError):
    """The state folder can't be read or written; the message names it and the reason."""


class DispatcherState:
    """The state of one datacenter's dispatcher. One writer; `read_only` for everybody else."""

    def __init__(self, folder: Path, read_only: bool = False) -> None:
        self.folder = folder
        self.path = folder / STATE_FILE
        try:
            if read_only:
                address = self.path.absolute().as_uri()  # a # or ? in the path would end it there
                self._db = sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None, timeout=10)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                self._db = sqlite3.connect(self.path, isolation_level=None, timeout=10)
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
            self._check_format()
        except (OSError, sqlite3.Error) as error:
            raise StateUnavailable(f"cannot open the state {self.path}: {error}") from error

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()

    def _check_format(self) -> None:
        tables = self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]
        if not tables:
            return
        version = int(self.meta("format") or STATE_FORMAT)
        if version > STATE_FORMAT:
            raise FormatTooNew(self.path, version, STATE_FORMAT)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._roll_back()
            raise StateUnavailable(f"cannot write the state {self.path}: {error}") from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    # -- identity

    def begin_epoch(
        self, pipeline: str, datacenter: str, epoch: str, now_us: int, map_id: str, follows: bool
    ) -> None:
        """Make the tables of an empty database: the state of a new epoch, which may follow an earlier one."""
        with self._transaction() as db:
            for statement in SCHEMA.split(";\n"):
                if statement.strip():
                    db.execute(statement)
            values = {
                "format": STATE_FORMAT,
                "pipeline": pipeline,
                "datacenter": datacenter,
                "epoch": epoch,
                "begun_us": now_us,
                "map_id": map_id,
                "completed": 0,
                "follows_an_epoch": int(follows),
            }
            db.executemany("INSERT INTO meta VALUES (?, ?)", [(k, str(v)) for k, v in values.items()])

    def meta(self, key: str) -> str | None:
        """A value of the meta table; None if it is not there, or the database is empty."""
        try:
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        except sqlite3.OperationalError:
            return None
        return row[0] if row else None

    def set_meta(self, key: str, value: str) -> None:
        """Remember a value."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @property
    def epoch(self) -> str | None:
        """The epoch of this state; None in an empty database."""
        return self.meta("epoch")

    @property
    def follows_an_epoch(self) -> bool:
        """Whether an earlier epoch may have joined some of the events that this one reads."""
        return self.meta("follows_an_epoch") == "1"

    @property
    def completed(self) -> int:
        """The number of the last completed batch; 0 before the first."""
        return int(self.meta("completed") or 0)

    @property
    def watermark_us(self) -> int | None:
        """The watermark as of the last completed batch."""
        value = self.meta("watermark_us")
        return int(value) if value is not None else None

    # -- files

    def files(self) -> dict[int, TrackedFile]:
        """All log files ever seen, by number."""
        columns = (
            "number, side, path, inode, compressed, header, header_bytes, head_bytes, head_hash,"
            " offset_bytes, tail_hash, inside_oversized, size_bytes, grown_us, max_time_us, state"
        )
        return {row[0]: tracked_file(row) for row in self._db.execute(f"SELECT {columns} FROM files")}

    def put_files(self, files: Iterable[TrackedFile], lost_bytes: int = 0) -> None:
        """Store files as they are now, new or changed, and count unread bytes that went with them."""
        with self._transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                [file_values(tracked) for tracked in files],
            )
            _add_counts(db, {"lost_bytes": lost_bytes} if lost_bytes else {})

    # -- plans

    def store_plan(self, plan: Plan) -> None:
        """Store a plan, before any work. There is no other open plan."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO plan (batch, plan_id, content, advances, requeue_id) VALUES (?, ?, ?, ?, ?)",
                (
                    plan.key.batch,
                    plan.key.plan_id,
                    content_to_json(plan.content),
                    advances_to_json(plan.advances),
                    plan.requeue_id,
                ),
            )

    def open_plan(self) -> Plan | None:
        """The plan that is stored and not completed, if there is one."""
        row = self._db.execute("SELECT batch, plan_id, content, advances, requeue_id FROM plan").fetchone()
        if row is None:
            return None
        key = PlanKey(self.meta("datacenter") or "", self.epoch or "", row[0], row[1])
        return Plan(key, content_from_json(row[2]), advances_from_json(row[3]), row[4])

    def complete(self, plan: Plan, completion: Completion) -> None:
        """Close the plan: offsets, waiting records, counts, and work to take up again, at once."""
        with self._transaction() as db:
            db.executemany(
                "UPDATE files SET offset_bytes = ?, tail_hash = ?, inside_oversized = ? WHERE number = ?",
                [(a.offset_bytes, a.tail_hash, a.inside_oversized, a.file_number) for a in plan.advances],
            )
            db.executemany(
                "UPDATE files SET max_time_us = max(coalesce(max_time_us, ?), ?) WHERE number = ?",
                [(t, t, number) for number, t in (completion.max_time_us or {}).items()],
            )
            db.executemany(
                "DELETE FROM waiting WHERE file_number = ? AND offset_bytes = ?",
                [(o.file_number, o.offset_bytes) for o in completion.gone],
            )
            db.executemany(
                "INSERT OR REPLACE INTO waiting VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
                [waiting_values(row) for row in completion.waiting],
            )
            for content in completion.requeue:
                db.execute(
                    "INSERT INTO requeued (content) VALUES (?)",
                    (content_to_json(content),),
                )
                _set_status(db, (retry.occurrence for retry in content.retries), "held")
            if plan.requeue_id is not None:
                db.execute("DELETE FROM requeued WHERE id = ?", (plan.requeue_id,))
            db.executemany("INSERT OR IGNORE INTO inherited VALUES (?)", [(t,) for t in completion.inherited])
            _add_counts(db, completion.counts)
            _recount_pending(db)
            meta = {"completed": plan.key.batch}
            if completion.watermark_us is not None:
                meta["watermark_us"] = completion.watermark_us
            db.executemany(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", [(k, str(v)) for k, v in meta.items()]
            )
            db.execute("DELETE FROM plan WHERE batch = ?", (plan.key.batch,))

    # -- waiting records and requeued work

    def due(self, now_us: int, most: int) -> list[WaitingRow]:
        """Open waiting records that are due, longest due first."""
        query = "SELECT * FROM waiting WHERE status = 'open' AND due_us <= ? ORDER BY due_us LIMIT ?"
        return [waiting_row(row) for row in self._db.execute(query, (now_us, most))]

    def count_due(self, now_us: int) -> int:
        """How many open waiting records are due."""
        query = "SELECT count(*) FROM waiting WHERE status = 'open' AND due_us <= ?"
        return int(self._db.execute(query, (now_us,)).fetchone()[0])

    def count_waiting(self, reasons: Sequence[str] = (), include_unjoinable: bool = False) -> int:
        """How many records wait (for any of `reasons`, where given)."""
        query = "SELECT count(*) FROM waiting WHERE " + (
            "1" if include_unjoinable else "status != 'unjoinable'"
        )
        if reasons:
            query += f" AND reason IN ({','.join('?' * len(reasons))})"
        return int(self._db.execute(query, tuple(reasons)).fetchone()[0])

    def waiting_by_reason(self) -> dict[str, int]:
        """How many records wait, by reason (`held`: in work that is taken up again)."""
        query = (
            "SELECT CASE status WHEN 'held' THEN 'held' ELSE reason END AS why, count(*) FROM waiting"
            " WHERE status != 'unjoinable' GROUP BY why"
        )
        return dict(self._db.execute(query))

    def waiting_of(self, event_id: str) -> list[WaitingRow]:
        """The waiting records of one event."""
        found = self._db.execute("SELECT * FROM waiting WHERE event_id = ?", (event_id,))
        return [waiting_row(row) for row in found]

    def waiting_events(self) -> Iterator[tuple[int, int, str, str]]:
        """Of every waiting record: file number, offset, event id, status (open, held, unjoinable)."""
        return self._db.execute("SELECT file_number, offset_bytes, event_id, status FROM waiting")

    def earliest_waiting_us(self) -> int | None:
        """About when the oldest event was that still waits: the time at which its primary is looked for."""
        waits = "SELECT min(primary_time_us) FROM waiting WHERE status != 'unjoinable'"
        (earliest_us,) = self._db.execute(waits).fetchone()
        return None if earliest_us is None else int(earliest_us)

    def wake(self, new_hashes: np.ndarray, now_us: int) -> int:
        """Make records due whose primary may just have come, also those that were given up; how many.

        `new_hashes`: uint64 of primary ids just read. Rare collisions only cost a lookup.
        """
        come = self._waited_for(new_hashes)
        if not come:
            return 0
        with self._transaction() as db:
            update = (
                "UPDATE waiting SET due_us = ? WHERE key_hash = ? AND status = 'open' AND reason = 'primary'"
            )
            woken = db.executemany(update, [(now_us, key_hash) for key_hash in come]).rowcount
            reopen = (
                "UPDATE waiting SET status = 'open', due_us = ? WHERE key_hash = ? AND status = 'unjoinable'"
            )
            reopened = db.executemany(reopen, [(now_us, key_hash) for key_hash in come]).rowcount
            if reopened:
                _add_counts(db, {"unjoinable": -reopened})
                _recount_pending(db)
        return woken + reopened

    def _waited_for(self, new_hashes: np.ndarray) -> list[int]:
        """Which of the ids just read some record waits for."""
        if len(new_hashes) <= FEW_HASHES:
            query = "SELECT 1 FROM waiting WHERE key_hash = ? LIMIT 1"
            hashes = new_hashes.view(np.int64).tolist()
            return [key_hash for key_hash in hashes if self._db.execute(query, (key_hash,)).fetchone()]
        rows = self._db.execute("SELECT DISTINCT key_hash FROM waiting")
        wanted = np.fromiter((row[0] for row in rows), dtype=np.int64)
        return [int(h) for h in wanted[np.isin(wanted.view(np.uint64), new_hashes)]]

    def make_all_due(self, now_us: int, reasons: Sequence[str]) -> None:
        """Make every open waiting record of these reasons due now."""
        marks = ",".join("?" * len(reasons))
        with self._transaction() as db:
            db.execute(
                f"UPDATE waiting SET due_us = ? WHERE status = 'open' AND due_us > ? AND reason IN ({marks})",
                (now_us, now_us, *reasons),
            )

    def reopen_unjoinable(self, now_us: int) -> int:
        """Let records that were declared unjoinable wait again (protocol D4); how many."""
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE waiting SET status = 'open', due_us = ? WHERE status = 'unjoinable'", (now_us,)
            ).rowcount
            _add_counts(db, {"unjoinable": -changed})
            _recount_pending(db)
        return changed

    def requeued(self) -> tuple[int, PlanContent] | None:
        """The oldest work to be taken up again: (id, content, how often it failed)."""
        row = self._db.execute("SELECT id, content FROM requeued ORDER BY id LIMIT 1").fetchone()
        return (row[0], content_from_json(row[1])) if row else None

    def requeued_contents(self) -> list[PlanContent]:
        """All work to be taken up again, the oldest first."""
        return [
            content_from_json(row[0]) for row in self._db.execute("SELECT content FROM requeued ORDER BY id")
        ]

    def count_requeued(self) -> int:
        """How many pieces of work are to be taken up again."""
        return int(self._db.execute("SELECT count(*) FROM requeued").fetchone()[0])

    def spool_files(self) -> set[str]:
        """The spool files that waiting records are in."""
        return {row[0] for row in self._db.execute("SELECT DISTINCT spool_file FROM waiting")}

    def inherited_among(self, events: Iterable[str]) -> set[str]:
        """Which events that earlier epochs have joined were already counted as joined."""
        query = "SELECT 1 FROM inherited WHERE token = ?"  # named when it held tokens
        return {event for event in events if self._db.execute(query, (event,)).fetchone()}

    # -- counts

    def counts(self) -> Counts:
        """The equation of this epoch so far."""
        values = dict(self._db.execute("SELECT name, n FROM counts"))
        own = {"foreign", "primary", "primary_dead_letters", "lost_bytes"}
        classes: dict[OutcomeClass, int] = {k: n for k, n in values.items() if k not in own}
        return Counts(
            foreign=values.get("foreign", 0),
            primary=values.get("primary", 0),
            primary_dead_letters=values.get("primary_dead_letters", 0),
            lost_bytes=values.get("lost_bytes", 0),
            classes=classes,
        )


def _add_counts(db: sqlite3.Connection, increments: Mapping[str, int]) -> None:
    db.executemany(
        "INSERT INTO counts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = n + excluded.n",
        increments.items(),
    )


def _recount_pending(db: sqlite3.Connection) -> None:
    """Pending is what waits: counted, never added up, so that it cannot drift."""
    db.execute(
        "INSERT OR REPLACE INTO counts SELECT 'pending', count(*) FROM waiting WHERE status != 'unjoinable'"
    )


def _set_status(db: sqlite3.Connection, occurrences: Iterable[Occurrence], status: str) -> None:
    db.executemany(
        "UPDATE waiting SET status = ? WHERE file_number = ? AND offset_bytes = ?",
        [(status, o.file_number, o.offset_bytes) for o in occurrences],
    )
