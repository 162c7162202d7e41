"""Make segments of the waiting records of a state of format 2 or 1, with a row for each and spool files.

A spool file becomes two segments at most: of records that wait, and of those that were given up. One that
can't be read becomes segments without their records, which are then read from their logs again (A19).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.state.plan import content_from_json, content_to_json
from photon.state.waiting import segments
from photon.state.waiting.reasons import CODE_OF, NEVER_US
from photon.state.waiting.retries import Retries
from photon.state.waiting.segments import RECORD_COLUMNS, RECORDS, SegmentInfo, write_segment
from photon.state.waiting.states import State
from photon.state.waiting_list import WaitingList
from photon.tokens import new_id

SPOOL_FOLDER = "spool"
Place = tuple[int, int]  # file number and offset of a record


def move_waiting_rows(db: sqlite3.Connection, state: Path) -> None:
    """Move all rows of the table `waiting` to segments, and the plans that refer to them too. OSError."""
    waiting = WaitingList(db, lambda: state)
    moved: dict[Place, tuple[str, int]] = {}
    names = db.execute("SELECT DISTINCT spool_file FROM waiting ORDER BY spool_file").fetchall()
    for (spool_file,) in names:
        rows = _rows_of(db, spool_file)
        spooled = _read_spool(state / SPOOL_FOLDER / spool_file, rows)
        given_up = pc.equal(rows["status"], "unjoinable")
        for which in (given_up, pc.invert(given_up)):
            part = rows.filter(which)
            if part.num_rows:
                records = spooled.filter(which) if spooled is not None else None
                info, places = _write(state / segments.FOLDER, part, records)
                waiting.add([info])
                moved |= {place: (info.name, row) for row, place in enumerate(places)}
    db.execute("DROP TABLE waiting")
    _move_plans(db, waiting, moved)
    waiting.store()


def _rows_of(db: sqlite3.Connection, spool_file: str) -> pa.Table:
    found = db.execute("SELECT * FROM waiting WHERE spool_file = ? ORDER BY spool_row", (spool_file,))
    names = [column[0] for column in found.description]
    columns = zip(*found.fetchall(), strict=True)
    return pa.table({name: list(values) for name, values in zip(names, columns, strict=True)})


def _read_spool(path: Path, rows: pa.Table) -> pa.Table | None:
    """The records of these rows; None if the file is gone, or is not what was written."""
    try:
        records = pq.read_table(path, page_checksum_verification=True).take(rows["spool_row"])
        is_same = records["_file"].cast(pa.int64()).equals(rows["file_number"])
        return records if is_same and records["_offset"].equals(rows["offset_bytes"]) else None
    except (OSError, pa.ArrowException, IndexError, KeyError):
        return None


def _write(folder: Path, rows: pa.Table, spooled: pa.Table | None) -> tuple[SegmentInfo, list[Place]]:
    """Write a segment of these rows; where each of its records is in the log, in their order."""
    reasons = [CODE_OF[reason] for reason in rows["reason"].to_pylist()]
    hashes = rows["key_hash"].to_numpy().view(np.uint64)
    nothing = pa.nulls(rows.num_rows)
    gone: dict[str, Any] = {
        "_raw": nothing,
        "_key": pa.array([""] * rows.num_rows),
        "_time_us": rows["primary_time_us"],
        "recorded": pa.array([False] * rows.num_rows),
    }
    is_given_up = pc.equal(rows["status"], "unjoinable")
    columns = {
        "_file": rows["file_number"],
        "_offset": rows["offset_bytes"],
        "_id": rows["event_id"],
        **{name: spooled[name] if spooled is not None else values for name, values in gone.items()},
        "attempts": rows["attempts"],
        "first_seen_us": rows["first_seen_us"],
        "key_hash": pa.array(hashes),
        "primary_time_us": rows["primary_time_us"],
        "reason": pa.array(reasons, pa.int8()),
        "due_us": pc.if_else(is_given_up, NEVER_US, rows["due_us"]),
    }
    records = pa.table(columns).select(RECORD_COLUMNS.names).cast(RECORD_COLUMNS)
    records = records.sort_by("due_us")
    info = write_segment(folder, new_id(), records)
    if spooled is None:
        (folder / (info.name + RECORDS)).unlink()
    places = zip(records["_file"].to_pylist(), records["_offset"].to_pylist(), strict=True)
    return info, list(places)


def _move_plans(db: sqlite3.Connection, waiting: WaitingList, moved: Mapping[Place, tuple[str, int]]) -> None:
    for table, key in (("plan", "batch"), ("requeued", "id")):
        for number, text in db.execute(f"SELECT {key}, content FROM {table}").fetchall():
            content = content_from_json(text)
            content = replace(content, retries=_moved(content.retries, moved))
            if table == "requeued":
                waiting.mark(content.retries, State.REQUEUED)
            update = f"UPDATE {table} SET content = ? WHERE {key} = ?"
            db.execute(update, (content_to_json(content), number))


def _moved(retries: Iterable[Retries], moved: Mapping[Place, tuple[str, int]]) -> tuple[Retries, ...]:
    """The same records by their segments."""
    by_segment: dict[str, list[tuple[int, int, int, bool]]] = {}
    for each in retries:
        finals = each.finals.to_pylist()
        for place, final in zip(each.occurrences(), finals, strict=True):
            name, row = moved[place.file_number, place.offset_bytes]
            by_segment.setdefault(name, []).append((row, place.file_number, place.offset_bytes, final))
    return tuple(Retries.of(name, *zip(*items, strict=True)) for name, items in by_segment.items())
