"""The history of a datacenter's joins: points of its shifts, and marks of what happened.

A shift adds a row to the table `points` of its lake each minute, and a line to a small file of its state each
ten seconds. A row with a `mark` tells of an event, such as a hold: its numbers are null, and it is in the
table alone. Nothing depends on points: where one can't be written, a graph lacks it.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import wait
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.file import Pipeline
from photon.process.clock import SystemClock
from photon.process.errors import FormatTooNew
from photon.process.machine import Machine
from photon.state.outcomes import OUTCOME_CLASSES
from photon.storage.append_table import AppendTable
from photon.storage.delta import LakeUnavailable
from photon.storage.full_disks import why_not
from photon.storage.sync import in_place_of
from photon.storage.tables import OutputTable

Activity = Literal["live", "behind", "waiting"]
Mark = Literal[
    "killed",  # the process that ran the datacenter died; `at` is its last sign of life
    "new epoch",
    "passed over",
    "hold",
    "resume",
    "retired",
    "rebuild",
    "reshard",
    "refill",
    "recovered",
]
FINAL_CLASSES = tuple(name for name in OUTCOME_CLASSES if name != "pending")
_TIME = pa.timestamp("us", "UTC")
POINTS = AppendTable(
    "points",
    pa.schema(
        [
            ("at", _TIME),  # the end of the span
            ("seconds", pa.float64()),  # its length
            ("activity", pa.string()),  # at its end, as the next two
            ("waits_for", pa.string()),
            ("epoch", pa.string()),
            ("batches", pa.int64()),
            ("foreign", pa.int64()),  # records that it read, and those that came into each class
            *((name, pa.int64()) for name in FINAL_CLASSES),
            ("p50_seconds", pa.float64()),  # from two events until their row; null: no row in this span
            ("p90_seconds", pa.float64()),
            ("p99_seconds", pa.float64()),
            ("lag_seconds", pa.float64()),  # at its end, as the next four; null: not known
            ("unread_bytes", pa.int64()),
            ("unread_files", pa.int64()),  # of the logs: they are there, and nothing of them is read
            ("pending", pa.int64()),
            ("complete_up_to", _TIME),
            ("registry_requests", pa.int64()),
            ("registry_seconds", pa.float64()),  # of all of them together
            ("mark", pa.string()),  # null: a point
            ("says", pa.string()),
        ]
    ),
)
Row = dict[str, Any]  # by the names of the columns; times in microseconds

RECENT_FILE = "points.jsonl"
RECENT_LINES = 360  # an hour of them
NOT_OF_THESE_COLUMNS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError)
MARK_SECONDS = 5.0  # a command waits so long for a lake that is to take a mark

log = logging.getLogger(__name__)


def recent_points(state: Path, since_us: int = 0) -> pa.Table:
    """The points of each ten seconds, of an hour at least, earliest first; none where nobody has written any.

    Their columns are those of `POINTS`. OSError.
    """
    rows = [row for row in map(_row_of, _lines(state / RECENT_FILE)) if row is not None]
    try:
        table = pa.Table.from_pylist(rows, POINTS.columns)
    except NOT_OF_THESE_COLUMNS:  # somebody else wrote a line, or another version did
        table = pa.Table.from_pylist([row for row in rows if _fits(row)], POINTS.columns)
    return table.filter(pc.greater_equal(table["at"], pa.scalar(since_us, _TIME))).sort_by("at")


class RecentPoints:
    """Adds to the file of a state folder. One process at a time does: the one that runs the datacenter."""

    def __init__(self, state: Path) -> None:
        self._path = state / RECENT_FILE
        self._kept: deque[str] | None = None  # the lines of the last hour; None: the file was not read yet
        self._in_file: int | None = None  # lines; None: what is there may end in half a line
        self._is_told = False

    def add(self, row: Row) -> None:
        """Add a line; a disk that does not take it is told once."""
        try:
            if self._kept is None:
                lines = (
                    _lines(self._path) if self._path.is_file() else []
                )  # a pipe would keep the join waiting
                found = (line for line in lines if _row_of(line) is not None)
                self._kept = deque(found, maxlen=RECENT_LINES)
            self._kept.append(json.dumps(row))
            in_file, self._in_file = self._in_file, None  # until this one is there as a whole
            self._in_file = self._write(self._kept, in_file)
        except OSError as error:
            if not self._is_told:
                log.warning(
                    "recent points are not stored, and graphs lack them: %s", why_not(error, self._path)
                )
            self._is_told = True

    def _write(self, kept: Sequence[str], in_file: int | None) -> int:
        """Write the last line, or now and then a new file of them all; how many are there. OSError."""
        if in_file is not None and in_file < 2 * RECENT_LINES:
            with self._path.open("a") as file:
                file.write(f"{kept[-1]}\n")
            return in_file + 1
        with in_place_of(self._path) as unfinished:
            unfinished.write_text("".join(f"{line}\n" for line in kept))  # not synced: a graph may lack it
        return len(kept)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _row_of(line: str) -> Row | None:
    """The row of a line; None for one that a killed process has written half."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("at"), int) else None


def _fits(row: Row) -> bool:
    try:
        pa.Table.from_pylist([row], POINTS.columns)
    except NOT_OF_THESE_COLUMNS:
        return False
    return True


def mark_row(kind: Mark, says: str, at_us: int) -> Row:
    """The row of a mark."""
    return {"at": at_us, "mark": kind, "says": says}


def mark(pipeline: Pipeline, datacenters: Iterable[str], kind: Mark, says: str) -> None:
    """Have the tables of these datacenters tell that something happened now.

    One that never joined has no table, and one that was left out of the pipeline file has none here.

    Never fails a command: a lake that takes no mark within a few seconds is told in the log.
    """
    row = mark_row(kind, says, SystemClock().now_us())

    def add(name: str) -> None:
        if OutputTable(pipeline.datacenters[name].lake, "joined_events").exists():
            POINTS.append(pipeline, name, [row])

    jobs = {
        name: Machine().ask(f"mark of {name}", partial(add, name))
        for name in datacenters
        if name in pipeline.datacenters
    }
    wait(jobs.values(), MARK_SECONDS)
    for name, job in jobs.items():
        try:
            job.result(0)
        except TimeoutError:
            log.warning("graphs of %s may lack the mark of this %s: its lake does not answer", name, kind)
        except (LakeUnavailable, FormatTooNew) as error:
            log.warning("graphs of %s lack the mark of this %s: %s", name, kind, error)
