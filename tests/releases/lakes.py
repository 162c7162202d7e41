"""Lakes of two datacenters with real tables, and a plain model of their rows: what each release has to show.

Batches come, rebuilds replace rows, epochs end, people rewrite files. A release remembers the model's rows
when it is made.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from photon import read
from photon.adapters import ROW_COLUMNS
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.location import Location, S3Folder
from photon.releases import copies
from photon.releases.files import rows_within
from photon.releases.release import MOST_GAP_US, Part, Place, Release
from photon.releases.unmatched_runs import last_run, with_last_run
from photon.state.unmatched import UnmatchedProgress, publish
from photon.storage.columns import UNJOINED_COLUMNS, UNMATCHED_COLUMNS
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.output_files import OutputFile, write_rows, write_rows_by_date
from photon.storage.replaced_files import rebuild_app
from photon.storage.replacing import PlannedReplacement, replace_files
from photon.storage.tables import FENCE_VERSION, OutputTable, app_id, fence_epoch
from photon.upkeep.compact import plan_compaction
from tests.support.manual_clock import ManualClock

PIPELINE = """
name: clicks
datacenters:
  east: {logs: logs/east, lake: "LAKES/east"STORAGE}
  west: {logs: logs/west, lake: "LAKES/west"STORAGE}
primary: {files: "q*.csv", format: csv, id: id, time: at}
foreign: {files: "c*.csv", format: csv, id: id, key: key, time: at}
"""
COLUMNS = pa.schema([*ROW_COLUMNS, ("value", pa.int64())])
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
LATER = timedelta(days=9)  # a week is over then

Shown = frozenset[tuple[str, int]]  # events with their values


@dataclass
class Row:
    event: str
    place: Place
    value: int


@dataclass
class Made:
    """A release, with the rows that it showed when it was made."""

    release: Release
    joined: Shown


@dataclass
class Lakes:
    """The datacenters east and west below one folder."""

    pipeline: Pipeline
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    rows: dict[str, list[Row]] = field(default_factory=lambda: {"east": [], "west": []})
    last: dict[str, Place] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)
    events: int = 0

    def __post_init__(self) -> None:
        for name in self.rows:
            for table in ("joined_events", "unjoined", "dead_letters"):
                OutputTable(self.lake(name), table).create("clicks", name)  # type: ignore[arg-type]
            self.begin_epoch(name)

    def lake(self, name: str) -> Location:
        return self.pipeline.datacenters[name].lake

    def table(self, name: str) -> OutputTable:
        return OutputTable(self.lake(name), "joined_events")

    # -- what happens to tables

    def begin_epoch(self, name: str) -> None:
        number = self.last[name].epoch + 1 if name in self.last else 1
        if name in self.last:
            fence_epoch(self.lake(name), name, str(number - 1))
        self.table(name).commit([], app_id(name, str(number)), 0, 0)
        self.last[name] = Place(number, 0)

    def append(self, name: str, count: int = 2) -> None:
        """Commit a batch with so many rows, around midnight."""
        place = Place(self.last[name].epoch, self.last[name].batch + 1)
        new = [Row(f"e{self.events + number}", place, 0) for number in range(count)]
        self.events += count
        files = write_rows_by_date(self.lake(name), "joined_events", place.batch, stored(name, new))
        self.table(name).commit(files, app_id(name, str(place.epoch)), place.batch, place.batch - 1)
        self.rows[name] += new
        self.last[name] = place

    def give_up(self, name: str, events: Iterable[str], at: timedelta = timedelta(0)) -> None:
        """Put events into the side table of the batch that comes next."""
        place = Place(self.last[name].epoch, self.last[name].batch + 1)
        rows = [
            stamp(name, place)
            | {"_occurrence": f"1:{event[1:]}", "event_id": event, "event_time": MIDNIGHT + at}
            for event in events
        ]
        table = OutputTable(self.lake(name), "unjoined")
        file = write_rows(
            self.lake(name), "unjoined", place.batch, pa.Table.from_pylist(rows, UNJOINED_COLUMNS)
        )
        table.commit([file], app_id(name, str(place.epoch), "unjoined"), place.batch, None)

    def look_for_unmatched(
        self, name: str, ids: Iterable[str], up_to: timedelta, is_killed: bool = False
    ) -> None:
        """A run that writes these primaries, and its document unless it is killed before."""
        table, epoch = OutputTable(self.lake(name), "unmatched"), self.last[name].epoch
        table.create("clicks", name)
        app = app_id(name, str(epoch), "unmatched")
        run = table.version_of(app) + 1
        rows = [
            stamp(name, Place(epoch, run)) | {"_occurrence": f"1:{number}", "primary_id": one}
            for number, one in enumerate(ids)
        ]
        file = write_rows(self.lake(name), "unmatched", run, pa.Table.from_pylist(rows, UNMATCHED_COLUMNS))
        table.commit([file] if rows else [], app, run, run - 1, f"p{run}")
        if not is_killed:
            up_to_us = round((MIDNIGHT + up_to).timestamp() * 1e6)
            publish(self.lake(name), UnmatchedProgress(name, epoch, run, f"p{run}", up_to_us, None, 1, 0))

    def rebuild(self, name: str, drops: bool = False) -> None:
        """Make the rows of some files again: their values rise by one; or leave some out."""
        table = self.table(name)
        files = DataFiles(table.load()).all()
        some = self.rng.sample(files, min(len(files), self.rng.randint(1, 3))) if files else []
        gone, outputs, changed = [], [], dict[str, int | None]()
        for file in some:
            with table.store.open(file.path) as source:
                rows = pq.read_table(source)
            left = rows.slice(1) if drops else rows
            changed |= {event: None for event in rows["_event_id"].to_pylist()}
            values = [value + 1 for value in left["value"].to_pylist()]
            changed |= dict(zip(left["_event_id"].to_pylist(), values, strict=True))
            again = left.set_column(
                left.schema.get_field_index("value"), "value", pa.array(values, pa.int64())
            )
            gone.append(file.path)
            outputs += self._files_of_epochs(name, again, file)
        if gone:
            app = rebuild_app(name)
            number = table.version_of(app) + 1
            replace_files(table, PlannedReplacement(frozenset(gone), outputs, app, number, {}))
            kept = [row for row in self.rows[name] if changed.get(row.event, 0) is not None]
            self.rows[name] = [Row(row.event, row.place, changed.get(row.event) or row.value) for row in kept]

    def _files_of_epochs(self, name: str, rows: pa.Table, file: DataFile) -> list[OutputFile]:
        found = []
        for epoch in sorted(set(rows["_epoch"].to_pylist())):
            part = rows.filter(pa.compute.equal(rows["_epoch"], epoch))
            found += write_rows_by_date(self.lake(name), "joined_events", file.first_batch or 0, part)
        return found

    def compact(self, name: str, later: timedelta = timedelta(0)) -> int:
        """The upkeep of a datacenter's tables, as it would be so much later; how many commits it took."""
        clock = ManualClock(int((time.time() + later.total_seconds()) * 1e6))
        done = plan_compaction(self.pipeline, name, clock, least_files=2).apply()
        return sum(each.commits for each in done.values())

    # -- releases

    def release(self, lags: int = 0, into: Iterable[str] = ("east", "west")) -> Made:
        """Make a release of all batches, but for the last ones of each datacenter, and copy it into lakes."""
        number = self.made[-1].release.number + 1 if self.made else 1
        parts = {name: self._part(name, lags) for name in self.rows}
        made_us = int(time.time() * 1e6)
        release = Release(number, max(made_us, 1), "east", parts, elapsed_us=made_us)
        for name in into:
            copies.put(self.lake(name), [release])
        cut = release.cut
        shown = frozenset(
            (row.event, row.value)
            for name, rows in self.rows.items()
            for row in rows
            if row.place <= cut[name]
        )
        self.made.append(Made(release, shown))
        return self.made[-1]

    def _part(self, name: str, lags: int) -> Part:
        table = self.table(name)
        handle = table.load()
        before = self.made[-1].release.cut[name] if self.made else Place(1, 0)
        place = max(before, Place(self.last[name].epoch, max(0, self.last[name].batch - lags)))
        rows = rows_within(table.store, DataFiles(handle).all(), place)
        sides = {
            side: version
            for side in ("unjoined", "dead_letters")
            if (
                version := OutputTable(table.folder.parent, side).version_of(  # type: ignore[arg-type]
                    app_id(name, str(place.epoch), side)  # type: ignore[arg-type]
                )
                % FENCE_VERSION
            )
        }
        rebuilt = handle.transaction_version(rebuild_app(name)) or 0
        part = Part(place, table.table_id(), rows, handle.version(), rebuilt, sides)
        runs = OutputTable(table.folder.parent, "unmatched")
        app = app_id(name, str(place.epoch), "unmatched")
        last = self.made[-1].release.parts[name] if self.made else None
        version = runs.version_of(app) if runs.exists() else 0
        return with_last_run(part, last, name, last_run(self.lake(name)), version)[0]

    def go_on(self, *names: str) -> Lakes:
        """Commit a batch in each of these datacenters, and make a release behind each."""
        for name in names:
            self.append(name)
            self.release()
        return self

    def forget_before(self, number: int) -> None:
        """Drop the copies of older releases."""
        [kept] = [one for one in self.made if one.release.number == number]
        self.made = [one for one in self.made if one.release.number >= number]
        for name in self.rows:
            newest = self.made[-1].release
            age_us = newest.elapsed_us - kept.release.elapsed_us
            copies.tidy(self.lake(name), newest, age_us - MOST_GAP_US)


def joined_in(lakes: Lakes, number: int) -> Shown:
    """The rows of a release as a reader gets them now; none may be doubled."""
    rows = read.joined(lakes.pipeline, release=number)
    if "value" not in rows.schema.names:  # no row has come yet
        return frozenset[tuple[str, int]]()
    found = rows.to_table(columns=["_event_id", "value"])
    pairs = list(zip(found["_event_id"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return frozenset(pairs)


def stamp(name: str, place: Place) -> Mapping[str, object]:
    return {
        "_datacenter": name,
        "_epoch": str(place.epoch),
        "_batch": place.batch,
        "_plan": f"p{place.batch}",
    }


def stored(name: str, rows: Iterable[Row]) -> pa.Table:
    found = [
        {
            **stamp(name, row.place),
            "_occurrence": f"1:{row.event[1:]}",
            "_event_id": row.event,
            "_primary_id": f"q{row.event[1:]}",
            "_event_time": MIDNIGHT + timedelta(seconds=-1 if number % 2 else 1),
            "value": row.value,
        }
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(found, COLUMNS)


def new_lakes(folder: Location, tmp_path: Path, seed: int = 0) -> Lakes:
    """Empty lakes below a folder of this machine or of S3."""
    endpoint = folder.endpoint_url if isinstance(folder, S3Folder) else None
    storage = f", storage: {{endpoint_url: {endpoint}}}" if endpoint else ""
    text = PIPELINE.replace("LAKES", str(folder)).replace("STORAGE", storage)
    (tmp_path / "pipeline.yaml").write_text(text)
    return Lakes(load_pipeline(tmp_path / "pipeline.yaml"), random.Random(seed))
