"""Read releases beside outages: all readers get the same, and it changes only as releases say."""

from __future__ import annotations

import random
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from photon import read
from photon.releases.finding import NoRelease, ReleaseUnreadable
from photon.releases.release import Release
from tests.e2e.outages.checker import Logs

POLL_SECONDS = 0.25
READ_AGAIN_EVERY = 4  # polls
# Traffic writes a line at most 50 ms after its event: lines of the last second may be still to come.
STILL_COMING = timedelta(seconds=1)
ROWS_LEFT = ("retired", "lake put back")

Shown = tuple[Release, read.Rows]  # a release, and the rows that a reader got for it


class Totals(NamedTuple):
    """The rows of a release in short: their number, and a checksum of all their values."""

    rows: int
    checksum: int


def latest(pipeline: Path) -> Shown:
    """Read the newest release, as readers get it."""
    rows = read.joined(pipeline, release="latest")
    assert rows.release is not None
    return rows.release, rows


def tables_now(pipeline: Path) -> Shown:
    """Read wrongly: take the rows of now for those of the newest release."""
    return latest(pipeline)[0], read.joined(pipeline)


def totals_of(connection: duckdb.DuckDBPyConnection, rows: str, columns: Sequence[str]) -> Totals:
    names = ", ".join(f'"{name}"' for name in sorted(columns))
    found = connection.execute(f"select count(*), coalesce(sum(hash({names})), 0) from {rows}").fetchone()
    assert found is not None
    return Totals(*found)


def totals_in_pyarrow(rows: pa.Table) -> Totals:
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        return totals_of(connection, "rows", rows.schema.names)


def totals_in_duckdb(pipeline: Path, number: int, columns: Sequence[str]) -> Totals:
    with read.duckdb(pipeline, number) as connection:
        return totals_of(connection, "joined", columns)


def disagreements(pipeline: Path, release: Release, rows: pa.Table) -> list[str]:
    """Say where two readers of a release disagree with each other, or with the release's own numbers."""
    first = totals_in_pyarrow(rows)
    second = totals_in_duckdb(pipeline, release.number, rows.schema.names)
    events = pc.count_distinct(rows["_event_id"]).as_py()
    if first == second and first.rows == events == release.rows:
        return []
    what = f"release {release.number} says {release.rows} rows"
    return [f"{what}; pyarrow has {first}, DuckDB {second}, and there are {events} events"]


def unexplained(before: pa.Table, now: pa.Table, releases: Sequence[Release]) -> list[str]:
    """Count rows that were there before, and are gone or changed now, where no release says why."""
    notes = [note for release in releases for note in release.notes]
    left = {note.datacenter for note in notes if note.change in ROWS_LEFT}
    rebuilt = {note.datacenter for note in notes if note.change == "rebuilt"} | left
    names = sorted(before.schema.names)
    old, new = (", ".join(f'{rows}."{name}"' for name in names) for rows in ("before", "now"))
    count = "select before._datacenter, count(*) from before"
    with duckdb.connect() as connection:
        connection.register("before", before).register("now", now)
        gone = connection.execute(f"{count} anti join now using (_event_id) group by all").fetchall()
        changed = f"{count} join now using (_event_id) where hash({old}) <> hash({new}) group by all"
        others = connection.execute(changed).fetchall()
    what = f"in releases {releases[0].number} to {releases[-1].number}"
    found = [f"{rows} rows of {name} are gone {what}" for name, rows in gone if name not in left]
    return found + [
        f"{rows} rows of {name} are others {what}" for name, rows in others if name not in rebuilt
    ]


def times_due(logs: Sequence[Logs]) -> dict[str, datetime]:
    """Return the latest time of each click that has its query."""
    return {
        click: max(datetime.fromisoformat(record["time"]) for record in one.clicks[click])
        for one in logs
        for click in one.joinable
    }


def faults_in_newest_release(pipeline: Path, logs: Sequence[Logs]) -> list[str]:
    """Say what is not true in the newest release."""
    release, found_rows = latest(pipeline)
    rows = found_rows.to_table()
    found = disagreements(pipeline, release, rows)
    complete = read.Watermark({}, release).complete_up_to
    ids = set(rows["_event_id"].to_pylist())
    return found + [
        f"release {release.number} is complete up to {complete}, and lacks {click} of {time}"
        for click, time in sorted(times_due(logs).items())
        if complete is not None and time < complete - STILL_COMING and click not in ids
    ]


class ReleaseReader(threading.Thread):
    """Reads the newest release four times a second, all of it where it is new, and older ones again.

    `wrong`: all that no release explains. `lost`: a datacenter whose lake is gone, which may be refused.
    """

    def __init__(self, pipeline: Path, read_latest: Callable[[Path], Shown] = latest) -> None:
        super().__init__(daemon=True)
        self.wrong: list[str] = []
        self.lost = ""
        self.polls = self.refused = self.read_again = 0
        self.pausing = threading.Lock()  # held while files are removed that a reader may have open
        self.seen: dict[int, Totals] = {}
        self.complete: dict[int, tuple[datetime, int]] = {}  # a time, and how many rows are before it
        self._pipeline, self._read_latest = pipeline, read_latest
        self._last: tuple[Release, pa.Table] | None = None
        self._ends = threading.Event()
        self._chance = random.Random(0)

    def run(self) -> None:
        wait_seconds = 0.0
        while not self._ends.wait(wait_seconds):
            with self.pausing:
                began = time.monotonic()
                self.poll()
            wait_seconds = max(0.0, began + POLL_SECONDS - time.monotonic())

    def end(self) -> None:
        self._ends.set()
        self.join()

    def poll(self) -> None:
        self.polls += 1
        try:
            release, rows = self._read_latest(self._pipeline)
            if self._last is not None and release.number < self._last[0].number:
                self.wrong.append(f"release {release.number} comes after {self._last[0].number}")
            if release.number not in self.seen:
                self._take(release, rows.to_table())
            elif (found := rows.count_rows()) != release.rows:
                self.wrong.append(f"release {release.number} has {found} rows, and says {release.rows}")
            if self.polls % READ_AGAIN_EVERY == 0:
                self._read_an_older_one()
        except ReleaseUnreadable as error:
            self.refused += 1
            self.wrong += [str(error)] * (error.datacenter != self.lost)
        except NoRelease as error:
            self.wrong += [str(error)] * (self._last is not None)
        except Exception as error:  # an error of a thread would be lost
            self.wrong.append(repr(error))

    def _take(self, release: Release, rows: pa.Table) -> None:
        before, self._last = self._last, (release, rows)
        self.seen[release.number] = totals_in_pyarrow(rows)
        complete_up_to = read.Watermark({}, release).complete_up_to
        if complete_up_to is not None:
            until = complete_up_to - STILL_COMING
            self.complete[release.number] = until, pc.sum(pc.less(rows["_event_time"], until)).as_py() or 0
        if before is not None:
            numbers = range(before[0].number + 1, release.number + 1)
            kept = read.releases(self._pipeline)
            self.wrong += unexplained(before[1], rows, [one for one in kept if one.number in numbers])
            if not release.set_back and (before[0].complete_up_to_us or 0) > (release.complete_up_to_us or 0):
                self.wrong.append(f"release {release.number} is complete up to less than {before[0].number}")
        self.wrong += disagreements(self._pipeline, release, rows)

    def _read_an_older_one(self) -> None:
        number = self._chance.choice(list(self.seen))
        assert self._last is not None
        columns = self._last[1].schema.names
        if self._chance.random() < 0.5:
            found = totals_in_duckdb(self._pipeline, number, columns)
        else:
            found = totals_in_pyarrow(read.joined(self._pipeline, release=number).to_table(columns))
        self.read_again += 1
        if found != self.seen[number]:
            self.wrong.append(f"release {number} was {self.seen[number]}, and is {found}")

    def incomplete(self, logs: Sequence[Logs]) -> list[str]:
        """Name releases that called more complete than they had, by all that came in the end."""
        due = sorted(times_due(logs).values())
        return [
            f"release {number} has {rows} rows before {until}, and {bisect_left(due, until)} are due"
            for number, (until, rows) in self.complete.items()
            if rows != bisect_left(due, until)
        ]


@contextmanager
def reading(pipeline: Path, read_latest: Callable[[Path], Shown] = latest) -> Iterator[ReleaseReader]:
    """Run a reader that polls until the end."""
    reader = ReleaseReader(pipeline, read_latest)
    reader.start()
    try:
        yield reader
    finally:
        reader.end()
