"""A dispatcher's database and spool as an older Photon left them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from photon.state.database import STATE_FILE
from photon.state.dispatcher_state import DispatcherState
from photon.state.plan import content_from_json
from photon.state.waiting import segments
from photon.state.waiting.reasons import REASONS, UNJOINABLE
from photon.state.waiting.segments import read_all_records
from photon.state.waiting.states import State

WAITING = """CREATE TABLE waiting (
    file_number INTEGER NOT NULL, offset_bytes INTEGER NOT NULL, event_id TEXT NOT NULL,
    key_hash INTEGER NOT NULL, primary_time_us INTEGER NOT NULL, attempts INTEGER NOT NULL,
    first_seen_us INTEGER NOT NULL, due_us INTEGER NOT NULL, reason TEXT NOT NULL,
    spool_file TEXT NOT NULL, spool_row INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'open',
    PRIMARY KEY (file_number, offset_bytes)) WITHOUT ROWID"""
SPOOLED = ["_file", "_offset", "_raw", "_id", "_key", "_time_us", "attempts", "first_seen_us", "recorded"]


def make_it_of_0_1_0(state: Path) -> None:
    """Take from a database what came after Photon 0.1.0."""
    make_it_of_format_2(state, requeued="held")
    with closing(sqlite3.connect(state / STATE_FILE)) as db:
        db.execute("ALTER TABLE plan DROP COLUMN attempts")
        db.execute("ALTER TABLE files DROP COLUMN disk_bytes")
        db.execute("DROP TABLE segments")
        db.execute("DROP TABLE lost")
        db.execute("UPDATE meta SET value = '1' WHERE key = 'format'")
        db.commit()


def make_it_of_format_2(state: Path, requeued: str = "requeued") -> None:
    """Make rows and spool files of the waiting segments. `requeued`: the name of that status."""
    with closing(DispatcherState(state)) as now:
        rows = [row for name in sorted(now.waiting.names) for row in _spool(now, name, requeued)]
    with closing(sqlite3.connect(state / STATE_FILE)) as db:
        db.execute(WAITING)
        db.executemany(f"INSERT INTO waiting VALUES ({','.join('?' * 12)})", rows)
        for table, key in (("plan", "batch"), ("requeued", "id")):
            for number, text in db.execute(f"SELECT {key}, content FROM {table}").fetchall():
                db.execute(f"UPDATE {table} SET content = ? WHERE {key} = ?", (_older_plan(text), number))
        db.execute("DROP TABLE waiting_segments")
        db.execute("DROP TABLE waiting_pages")
        db.execute("DROP TABLE ordered")
        for column in ("seen_hash", "modified_ns", "target", "altered_us", "in_use", "end_unknown"):
            db.execute(f"ALTER TABLE files DROP COLUMN {column}")
        db.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
        db.commit()
    shutil.rmtree(state / segments.FOLDER, ignore_errors=True)


def _spool(state: DispatcherState, name: str, requeued: str) -> list[tuple[Any, ...]]:
    """Write the spool file of a segment: its records the other way round, for segments are in order."""
    records = read_all_records(state.waiting.folder, name)
    records = records.take(pa.array(range(len(records) - 1, -1, -1)))
    spool = state.folder / "spool"
    spool.mkdir(exist_ok=True)
    pq.write_table(records.select(SPOOLED), spool / name, compression="zstd", write_page_checksum=True)
    states = state.waiting.listed(name).states[::-1].tolist()
    return [
        (
            *(record["_file"], record["_offset"], record["_id"]),
            pa.scalar(record["key_hash"], pa.uint64()).cast(pa.int64(), safe=False).as_py(),
            *(record["primary_time_us"], record["attempts"], record["first_seen_us"]),
            min(record["due_us"], 2**60),
            *(REASONS[record["reason"]].name, name, row),
            requeued if its == State.REQUEUED else _status(record["reason"], its),
        )
        for row, (record, its) in enumerate(zip(records.to_pylist(), states, strict=True))
        if its != State.GONE
    ]


def _status(reason: int, state: int) -> str:
    return "unjoinable" if reason == UNJOINABLE and state == State.OPEN else "open"


def _older_plan(text: str) -> str:
    """A stored plan with an item for each retry."""
    content, stored = content_from_json(text), json.loads(text)
    stored["format"] = 2
    stored["retries"] = [
        [*place, each.segment, -1, final]
        for each in content.retries
        for *place, final in zip(
            each.files.to_pylist(), each.offsets_bytes.to_pylist(), each.finals.to_pylist(), strict=True
        )
    ]
    return json.dumps(stored)
