"""Check what must hold of tables and states after every step (protocol F).

`tests.registry.simulation` checks ledgers alone. Tables are looked at right after each commit, states after
each transaction that stores or completes a plan.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from photon.logs.files import LogFile
from photon.registry.entry import Claimant, Epoch
from photon.registry.errors import RegistryMismatch
from photon.registry.id_registry import IdRegistry
from photon.registry.view import View
from photon.state.database import STATE_FILE, StateReader
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.tables import FENCE_VERSION
from photon.storage.tokens import Occurrence, PlanKey
from tests.simulation.rules import must
from tests.simulation.whole.processes import this_process
from tests.simulation.whole.releases import ReleaseRules
from tests.simulation.whole.site import Site
from tests.simulation.world import hashed
from tests.support.memory_ledgers import MemoryLedgers

JOINED = "joined_events"
AFTER_A_COMMIT = ("lake.after_commit",)
AFTER_A_RELEASE, AFTER_A_COPY = "release.after_decided", "release.after_copy"
AFTER_A_TRANSACTION = ("plan.after_store", "complete.after_transaction", "order.after_taken")
OPERATIONAL = ["_datacenter", "_epoch", "_batch", "_plan", "_occurrence", "_event_id"]
Row = dict[str, Any]


@dataclass
class Table:
    """One Delta table, as far as its log was read: each entry is read once."""

    folder: Path
    files: dict[str, list[Row]] = field(default_factory=dict)
    seen: int = 0  # versions

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.files.values() for row in rows]

    def look(self) -> list[Row]:
        """The rows that are new since the last time. F12."""
        new: list[Row] = []
        while (entry := self.folder / "_delta_log" / f"{self.seen:020d}.json").exists():
            self.seen += 1
            for action in map(json.loads, entry.read_text().splitlines()):
                if "txn" in action:
                    self.follow(action["txn"]["appId"], action["txn"]["version"])
                if "add" in action:
                    new += self._read(action["add"]["path"], action["add"]["size"])
                if "remove" in action:
                    self.files.pop(action["remove"]["path"], None)
        return new

    def follow(self, app: str, version: int) -> None:
        """Take notice of an app's version."""

    def _read(self, path: str, size_bytes: int) -> list[Row]:
        file = self.folder / path
        must(file.exists() and file.stat().st_size == size_bytes, f"F12: a commit names {path}, cut or gone")
        self.files[path] = rows = pq.ParquetFile(file).read(OPERATIONAL, use_threads=False).to_pylist()
        return rows


@dataclass
class Lake(Table):
    """One table of joined rows."""

    batches: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    tokens: set[str] = field(default_factory=set)  # the tokens of all rows that were ever there

    def look(self) -> list[Row]:
        """Return the rows that were never there before; check F7 and F12."""
        new = [row for row in super().look() if _token(row) not in self.tokens]
        self.tokens.update(map(_token, new))
        return new

    def follow(self, app: str, version: int) -> None:
        """Check F7: an application's versions follow each other."""
        batches = self.batches[app]
        first = 1 if app.endswith(":passed") else 0  # an epoch begins with batch 0
        before = batches[-1] if batches else first - 1
        is_next = version == before + 1 and before < FENCE_VERSION
        is_fence = version == FENCE_VERSION + max(before, 0)
        must(is_next or is_fence, f"F7: {app} commits {version} after {before}")
        batches.append(version)


class Registry:
    """Reads the ledgers of a site as an observer to whom no fault happens."""

    def __init__(self, ledgers: MemoryLedgers) -> None:
        self._ledgers = ledgers
        self._reader: IdRegistry | None = None

    def as_it_is(self) -> IdRegistry:
        """Read all ledgers to their ends; anew after a copy was put back, or the registry was refilled."""
        way_in = self._ledgers.another_way_in()
        with suppress(RegistryMismatch):
            if self._reader is not None:
                self._reader.read_on()
                return self._reader
        self._reader = IdRegistry(way_in, View(way_in.register, "observer"))
        self._reader.read_on()
        return self._reader


class Invariants:
    """All that must hold, for one site."""

    def __init__(self, site: Site, incomplete: Collection[str] = ()) -> None:
        self.site = site
        self._incomplete = incomplete  # datacenters that have lost a log
        self.lakes = {name: Lake(place.lake / JOINED) for name, place in site.pipeline.datacenters.items()}
        self._side_tables = {
            (name, table): Table(place.lake / table)
            for name, place in site.pipeline.datacenters.items()
            for table in TABLE_COLUMNS
        }
        self.looks = Counter[str]()
        self.registry = Registry(site.ledgers)
        self.releases = ReleaseRules(site.pipeline, self.lakes)

    def passed(self, point: str, path: Path | None) -> None:
        """A process has passed a fault point. RuleBroken."""
        with self.site.network.noting():
            if point in AFTER_A_COMMIT and path is not None and path.name == JOINED:
                self.look_at_tables()
            if point == AFTER_A_RELEASE:
                self.looks["releases"] += 1
                self.releases.look_at_decided(self.registry.as_it_is())
            if point == AFTER_A_COPY:
                self.releases.look_at_copies()
            worker = this_process()
            if point in AFTER_A_TRANSACTION and worker is not None and worker.home is not None:
                self.look_at_state(*worker.home)

    # -- tables

    def look_at_tables(self) -> None:
        """F1, F2, F7, F12."""
        self.looks["tables"] += 1
        for lake in self.lakes.values():
            self._must_be_held(lake.look())
        rows = self.rows()
        for what, values in {
            "an event": [row["_event_id"] for row in rows],
            "a token": [_token(row) for row in rows],
        }.items():
            twice = [value for value, count in Counter(values).items() if count > 1]
            must(not twice, f"F1: {what} has two rows: {twice[:3]}")

    def look_at_side_rows(self) -> None:
        """A12: a record that never wakes has one row in a side table, whoever passed its batch over (A25)."""
        for (name, table), rows in self._side_tables.items():
            if table in ("dead_letters", "too_old"):
                rows.look()
                places = Counter((row["_epoch"], row["_occurrence"]) for row in rows.rows)
                twice = [place for place, count in places.items() if count > 1]
                must(not twice, f"A12: {name} has two rows in {table} of {twice[:3]}")

    @property
    def passed_batches(self) -> int:
        """How many batches were passed over, as the tables count them now."""
        counts = (lake.batches for lake in self.lakes.values())
        return sum(max(of) for each in counts for app, of in each.items() if app.endswith(":passed"))

    def forget_lake(self, datacenter: str) -> None:
        """Read a lake anew that was put back from a copy; remember the tokens of rows that were there."""
        self.releases.lake_is_put_back(datacenter)
        tokens, folder = self.lakes[datacenter].tokens, self.lakes[datacenter].folder
        self.lakes[datacenter] = Lake(folder, tokens=tokens)
        for name, table in self._side_tables:
            if name == datacenter:
                self._side_tables[name, table] = Table(self._side_tables[name, table].folder)

    def rows(self) -> list[Row]:
        """The rows that readers see."""
        gone = self.site.ledgers.register.lakes_gone
        return [row for name, lake in self.lakes.items() if name not in gone for row in lake.rows]

    def rows_of(self, datacenter: str, table: TableName) -> list[Row]:
        """The rows of any table of a datacenter, as they are now."""
        if table == JOINED:
            self.look_at_tables()
            return self.lakes[datacenter].rows
        rows = self._side_tables[datacenter, table]
        rows.look()
        return rows.rows

    def _must_be_held(self, rows: Sequence[Row]) -> None:
        """F2: the plan that commits a row holds the row's id, at that very moment."""
        if not rows:
            return
        found = self.registry.as_it_is().holders(hashed(*(row["_event_id"] for row in rows)))
        for index, row in enumerate(rows):
            plan = Claimant(Epoch(row["_datacenter"], int(row["_epoch"])), row["_batch"], row["_plan"])
            must(found.are_of(plan)[index], f"F2: {_token(row)} has a row, and does not hold its id")

    # -- states

    def look_at_state(self, datacenter: str, folder: Path) -> None:
        """F8 to F11, of one state folder."""
        if not (folder / STATE_FILE).exists():
            return
        self.looks["states"] += 1
        state = StateReader(folder)
        try:
            if state.epoch is None:
                return
            self._must_have_rows(state, datacenter)
            self._must_be_in_one_place(state)
            self._must_count_each_line(state, folder, datacenter)
        finally:
            state.close()

    def _must_have_rows(self, state: StateReader, datacenter: str) -> None:
        tokens = self.lakes[datacenter].tokens
        rows = sum(token.startswith(f"{datacenter}:") for token in tokens)
        joined = state.counts().of("joined")
        must(joined <= rows, f"F8: {datacenter} counts {joined} records as joined, and has {rows} rows")

    def _must_be_in_one_place(self, state: StateReader) -> None:
        """F10: one open plan, and no record in two places."""
        with sqlite3.connect(state.path) as db:
            must(db.execute("SELECT count(*) FROM plan").fetchone()[0] <= 1, "F10: two plans are open")
        db.close()
        plan = state.open_plan()
        work = [content for number, content in state.requeued() if plan is None or number != plan.requeue_id]
        work += [plan.content] if plan is not None else []
        retries = Counter(
            place for content in work for each in content.retries for place in each.occurrences()
        )
        events = state.waiting.events()
        waiting = set(map(Occurrence, events["file"].to_pylist(), events["offset"].to_pylist()))
        must(len(waiting) == len(events), "F10: a record waits twice")
        must(set(retries.values()) <= {1} and retries.keys() <= waiting, "F10: a retry is in two plans")
        ranges = sorted(
            (part.file_number, part.start_bytes, part.end_bytes)
            for content in work
            for part in (*content.primary, *content.foreign)
        )
        for before, after in pairwise(ranges):
            must(before[0] != after[0] or before[2] <= after[1], "F10: bytes are in two plans")
        for file, start, end in ranges:
            twice = [w for w in waiting if w.file_number == file and start <= w.offset_bytes < end]
            must(not twice, "F10: a record waits and is in a plan")

    def _must_count_each_line(self, state: StateReader, folder: Path, datacenter: str) -> None:
        """F9: offsets never go back. F11: each line before them is counted once, or requeued."""
        lines = 0
        is_whole = datacenter not in self._incomplete
        for number, tracked in state.files().items():
            known = (folder, state.epoch, number)
            before = self.site.offsets.get(known, 0)
            must(tracked.offset_bytes >= before, f"F9: the offset of {tracked.file.path} goes back")
            self.site.offsets[known] = tracked.offset_bytes
            if tracked.file.side == "foreign" and is_whole:
                path = self._found_again(datacenter, tracked.file)
                read = slice(tracked.file.header_bytes, tracked.offset_bytes)
                lines += path.read_bytes()[read].count(b"\n")
        requeued = sum(part.lines for _, content in state.requeued() for part in content.foreign)
        counts = state.counts()
        must(counts.adds_up, f"F11: the classes of {datacenter} do not add up: {counts.as_dict()}")
        # A log that was moved away under a plan may have lines that nobody can read: they are lost bytes.
        is_lost = counts.lost_bytes > 0 and self.site.out_of_sight(datacenter).exists()
        left_out = lines - requeued - counts.foreign
        must(
            not is_whole or left_out == 0 or (left_out > 0 and is_lost),
            f"F11: {datacenter} read {lines} lines, {requeued} are requeued, {counts.foreign} counted",
        )

    def _found_again(self, datacenter: str, file: LogFile) -> Path:
        """A log file, which may have been renamed since it was seen, or moved away."""
        path = self.site.pipeline.datacenters[datacenter].logs / file.path
        folders = (path.parent, self.site.out_of_sight(datacenter))
        files = (each for folder in folders if folder.exists() for each in folder.iterdir())
        return next(each for each in files if each.stat().st_ino == file.inode)


def _token(row: Row) -> str:
    plan = PlanKey(row["_datacenter"], row["_epoch"], row["_batch"], row["_plan"])
    return f"{plan.token(Occurrence.parse(row['_occurrence']))}"
