"""Measures what a table costs after many commits, with compaction every five minutes of them and without.

Commits are made quickly: each is a data file and an entry of the log as a live batch leaves them, from a
template, without delta-rs and without a sync. What is measured goes the product's own way, syncs and all.
Each table is compared with a new one, by turns, so that both have the same neighbours on the machine.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from bench.timing import Spent, timed
from photon.adapters import DATE_COLUMN, ROW_COLUMNS
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import SystemClock, microseconds
from photon.storage.candidate_files import candidate_files, write_candidates
from photon.storage.delta import APP_METADATA, BATCH_METADATA, PLAN_METADATA, log_entry, open_table
from photon.storage.table_log import checkpoint
from photon.storage.tables import OutputTable, app_id
from photon.storage.tokens import Occurrence, PlanKey, Token
from photon.upkeep.compact import plan_compaction

DAY, ROWS = datetime(2026, 1, 5, 12, tzinfo=UTC), 20  # rows in a batch
COMMITS_A_SECOND = 250_000 / 86_400
BETWEEN_COMPACTIONS = round(300 * COMMITS_A_SECOND)  # as `compaction.cron` has it
FIRST = 1_000  # commits of a new table, with which the others are compared
TEMPLATE = 0x7ABBCCDD11223344  # the batch in whose place each other is put, in eight bytes or sixteen digits
CHECKPOINT_EVERY = 10_000  # without compaction: a dispatcher writes one every 100, which takes longer here
REPEATS = 25
PIPELINE = """
name: fit
datacenters: {here: {logs: logs}}
primary: {files: "q*.jsonl", format: jsonl, id: id, time: time}
foreign: {files: "c*.jsonl", format: jsonl, id: id, key: key, time: time}
"""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Cost:
    """The cost of a table: milliseconds in the median, and CPU milliseconds of this process on average."""

    commits: int
    files: int
    log_files: int
    open_ms: float
    open_cpu_ms: float
    read_back_ms: float  # the last plan by a new process: its commit, rows, candidates, and an older token
    read_back_cpu_ms: float
    live_ms: float  # candidates stored and committed
    live_cpu_ms: float


@dataclass
class ManyCommits:
    """A table that grows by commits as live batches leave them."""

    folder: Path
    pipeline: Pipeline = field(init=False)
    table: OutputTable = field(init=False)
    batch: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "pipeline.yaml").write_text(PIPELINE)
        self.pipeline = load_pipeline(self.folder / "pipeline.yaml")
        self.table = self.opened()
        self.table.create("fit", "here")
        self.app = app_id("here", "epoch")
        self.live(self.table)  # brings the adapter's columns
        self._version = self.table.load().version()

    def opened(self) -> OutputTable:
        """As a new process has it."""
        return OutputTable(self.pipeline.datacenters["here"].lake, "joined_events")

    @property
    def _folder(self) -> Path:
        assert isinstance(self.table.folder, Path)
        return self.table.folder

    def grow(self, commits: int) -> None:
        """Make so many commits, quickly, and the last checkpoint that a dispatcher makes among them."""
        sink = pa.BufferOutputStream()
        pq.write_table(self._rows(TEMPLATE), sink, compression="none")
        template = sink.getvalue().to_pybytes()
        self._version = open_table(self.table.folder).version()
        for _ in range(commits):
            self.batch += 1
            self._version += 1
            path = f"batch-{self.batch}-{self._plan().plan_id}-0-0.parquet"
            data = template.replace(_in_file(TEMPLATE), _in_file(self.batch))
            data = data.replace(_digits(TEMPLATE).encode(), _digits(self.batch).encode())
            (self._folder / path).write_bytes(data)
            (self._folder / log_entry(self._version)).write_text(self._entry(path))
        checkpoint(self.table.folder)

    def _entry(self, path: str) -> str:
        """The entry of the log that adds a batch's file."""
        now_ms, plan = time.time_ns() // 10**6, self._plan()
        bounds = {"_epoch": plan.epoch, "_batch": plan.batch}
        stats = {"numRecords": ROWS, "minValues": bounds, "maxValues": bounds, "nullCount": {}}
        add = {
            "path": path,
            "partitionValues": {DATE_COLUMN: DAY.date().isoformat()},
            "size": (self._folder / path).stat().st_size,
            "modificationTime": now_ms,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        says = {APP_METADATA: self.app, BATCH_METADATA: str(plan.batch), PLAN_METADATA: plan.plan_id}
        info = {"timestamp": now_ms, "operation": "WRITE", "operationParameters": {}, **says}
        txn = {"appId": self.app, "version": plan.batch}
        return "\n".join(map(json.dumps, [{"commitInfo": info}, {"txn": txn}, {"add": add}]))

    def _plan(self) -> PlanKey:
        return PlanKey("here", "epoch", self.batch, _digits(self.batch))

    def _rows(self, batch: int) -> pa.Table:
        """The rows of a batch, as an adapter of five columns makes them."""
        plan = PlanKey("here", "epoch", batch, _digits(batch))
        columns: dict[str, Any] = {
            "_datacenter": plan.datacenter,
            "_epoch": plan.epoch,
            "_batch": plan.batch,
            "_plan": plan.plan_id,
            "_occurrence": [f"1:{n}" for n in range(ROWS)],
            "_joined_at": DAY,
            "_event_id": [f"event-{plan.plan_id}-{n}" for n in range(ROWS)],
            "_primary_occurrence": "2:1",
            "_event_time": DAY,
        }
        arrays = [
            pa.array(values if isinstance(values, list) else [values] * ROWS, ROW_COLUMNS.field(name).type)
            for name, values in columns.items()
        ]
        own = pa.array([f"value {plan.plan_id} {n}" for n in range(ROWS)])
        return pa.table([*arrays, *[own] * 5], names=[*columns, *(f"c{number}" for number in range(5))])

    def compact(self, cleaned_before_us: int) -> float:
        """A pass that takes checkpoints before this moment for old; how long it took."""
        began = time.perf_counter()
        keep_us = microseconds(self.pipeline.compaction.keep_log)
        plan_compaction(self.pipeline, "here", _At(cleaned_before_us + keep_us)).apply()
        return time.perf_counter() - began

    def sizes(self) -> tuple[int, int]:
        """How many data files the table has, and how many files its log."""
        files = pa.table(open_table(self.table.folder).get_add_actions()).num_rows
        return files, sum(1 for _ in (self._folder / "_delta_log").iterdir())

    def read_back(self) -> None:
        table, plan = self.opened(), self._plan()
        assert table.last_commit(self.app).plan_id == plan.plan_id
        assert len(table.occurrences_of("epoch", plan.batch, plan.plan_id)) == ROWS
        assert candidate_files(table.folder.parent, plan)
        older = PlanKey("here", "epoch", self.batch // 2, _digits(self.batch // 2))
        token = Token(older, Occurrence(1, 0))
        assert table.row_status_of([token]) == {token: "row"}

    def live(self, table: OutputTable) -> None:
        self.batch += 1
        files = write_candidates(table.folder.parent, self._plan(), 0, self._rows(self.batch))
        table.commit(files, self.app, self.batch, self.batch - 1, self._plan().plan_id)


class _At(SystemClock):
    """A clock that stands."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us


def _in_file(batch: int) -> bytes:
    return batch.to_bytes(8, "little")


def _digits(batch: int) -> str:
    return f"{batch:016x}"


def _timed(spent: list[Spent], do: Callable[[], object]) -> None:
    with timed() as one:
        do()
    spent.append(one)


def _milliseconds(spent: Sequence[Spent]) -> tuple[float, float]:
    """The median by the clock, and the mean of CPU."""
    seconds = statistics.median(one.seconds for one in spent)
    return round(seconds * 1_000, 1), round(statistics.mean(one.cpu_seconds for one in spent) * 1_000, 1)


def compared(tables: Sequence[ManyCommits]) -> list[Cost]:
    """Open, read and commit to each of these tables in turn, and say what each costs now."""
    costs: list[list[list[Spent]]] = [[[], [], []] for _ in tables]
    sizes = [one.sizes() for one in tables]
    handles = [one.opened() for one in tables]
    for one, handle in zip(tables, handles, strict=True):
        one.live(handle)  # the first one opens the table
    for _ in range(REPEATS):
        for one, handle, (opening, reading, living) in zip(tables, handles, costs, strict=True):
            _timed(opening, partial(open_table, one.table.folder))
            _timed(reading, one.read_back)
            _timed(living, partial(one.live, handle))
    return [
        Cost(one.batch, *size, *(each for spent in cost for each in _milliseconds(spent)))
        for one, size, cost in zip(tables, sizes, costs, strict=True)
    ]


def measure_tables(folder: Path, commits: int, progress: Progress) -> dict[str, Any]:
    """The costs after `commits` just after a pass, just before one and without any, beside a new table's."""
    found: dict[str, Any] = {"commits": commits, "cores": psutil.cpu_count()}

    def compare(name: str, table: ManyCommits, is_compacted: bool = False) -> None:
        new = ManyCommits(folder / f"new, {name}")
        new.grow(FIRST)
        if is_compacted:
            new.compact(0)  # makes a checkpoint: nothing is old
        costs = compared([new, table])
        found[name] = {"new": asdict(costs[0]), "grown": asdict(costs[1]), "load": psutil.getloadavg()[0]}
        progress(f"{name}: {costs}")

    with _said("with compaction", progress) as say:
        fit, began, passes = ManyCommits(folder / "fit"), list[int](), list[float]()
        while fit.batch < commits:
            fit.grow(min(BETWEEN_COMPACTIONS, commits - fit.batch))
            began.append(time.time_ns() // 1_000)
            # All that was there one pass ago is older than `compaction.keep_log`.
            passes.append(fit.compact(began[-2] if len(began) > 1 else 0))
            if len(passes) % 10 == 0:
                say(f"{fit.batch:,} commits; the last pass took {passes[-1]:.1f} s")
        compare("after a pass", fit, is_compacted=True)
        fit.grow(BETWEEN_COMPACTIONS)
        compare("before a pass", fit)
    with _said("without compaction", progress) as say:
        grown = ManyCommits(folder / "grown")
        while grown.batch < commits:
            grown.grow(min(CHECKPOINT_EVERY, commits - grown.batch))
            say(f"{grown.batch:,} commits")
        compare("never compacted", grown)
    return found | {
        "passes": len(passes),
        "median_pass_seconds": round(statistics.median(passes), 1),
        "longest_pass_seconds": round(max(passes), 1),
    }


@contextmanager
def _said(what: str, progress: Progress) -> Iterator[Progress]:
    began = time.perf_counter()
    yield lambda text: progress(f"{what}: {text}")
    progress(f"{what}: {time.perf_counter() - began:.0f} s")


def lines_of(found: dict[str, Any]) -> list[str]:
    """The measurement for people."""
    lines = [
        f"{found['commits']:,} commits, {found['cores']} cores; {found['passes']} passes, which took"
        f" {found['median_pass_seconds']} s in the median, {found['longest_pass_seconds']} s at most"
    ]
    for name in ("after a pass", "before a pass", "never compacted"):
        new, grown = found[name]["new"], found[name]["grown"]
        lines.append(
            f"{name} (load {found[name]['load']:.1f}): {grown['files']:,} files,"
            f" {grown['log_files']:,} of the log"
        )
        for what in ("open", "read_back", "live"):
            wall, cpu, says = f"{what}_ms", f"{what}_cpu_ms", what.replace("_", " ")
            lines.append(
                f"  {says:10} {grown[wall]} ms, a new table {new[wall]} ms; of CPU {grown[cpu]} and"
                f" {new[cpu]} ms: {grown[cpu] / new[cpu]:.2f} times as much"
            )
    return lines
