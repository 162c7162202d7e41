"""Measures what a table costs after many commits, with compaction every five minutes of them and without.

Commits are made quickly: each is a data file and an entry of the log as a live batch leaves them, written
without delta-rs and without a sync. What is measured goes the product's own way, syncs and all.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from photon.adapters import DATE_COLUMN, ROW_COLUMNS
from photon.clock import SystemClock, microseconds
from photon.pipeline.file import Pipeline, load_pipeline
from photon.storage.candidate_files import candidate_files, write_candidates
from photon.storage.delta import log_entry, open_table
from photon.storage.table_log import checkpoint
from photon.storage.tables import APP_METADATA, BATCH_METADATA, PLAN_METADATA, OutputTable, app_id
from photon.tokens import Occurrence, PlanKey, Token
from photon.upkeep.compact import compact_tables

DAY, ROWS = datetime(2026, 1, 5, 12, tzinfo=UTC), 20  # of a batch
COMMITS_A_SECOND = 250_000 / 86_400
BETWEEN_COMPACTIONS = round(300 * COMMITS_A_SECOND)  # as `compaction.cron` has it
FIRST = 1_000  # commits of a new table, with which the others are compared
CHECKPOINT_EVERY = 10_000  # without compaction: a dispatcher writes one every 100, which takes longer here
REPEATS, LIVE_BATCHES = 9, 40
MOST_TASKS = 64
PIPELINE = """
name: fit
datacenters: {here: {logs: logs}}
primary: {files: "q*.jsonl", format: jsonl, id: id, time: time}
foreign: {files: "c*.jsonl", format: jsonl, id: id, key: key, time: time}
"""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Cost:
    """What a table costs, in milliseconds; medians."""

    commits: int
    files: int
    log_files: int
    open_ms: float
    read_back_ms: float  # the last plan by a new process: its commit, rows, candidates, and an older token
    first_commit_ms: float  # of a new process
    live_ms: float  # candidates stored and committed
    live_p90_ms: float


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
        self.table = self._opened()
        self.table.create("fit", "here")
        self.app = app_id("here", "epoch")
        self._version = self.table.load().version()

    def _opened(self) -> OutputTable:
        """As a new process has it."""
        return OutputTable(self.pipeline.datacenters["here"].lake, "joined_events")

    @property
    def _folder(self) -> Path:
        assert isinstance(self.table.folder, Path)
        return self.table.folder

    def grow(self, commits: int) -> None:
        """Make so many commits, quickly."""
        self._version = open_table(self.table.folder).version()
        for _ in range(commits):
            self.batch += 1
            self._version += 1
            path = f"batch-{self.batch}-{self._plan().plan_id}-0-0.parquet"
            pq.write_table(self._rows(), self._folder / path, compression="zstd")
            (self._folder / log_entry(self._version)).write_text(self._entry(path))

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
        return PlanKey("here", "epoch", self.batch, f"{self.batch:016x}")

    def _rows(self) -> pa.Table:
        """The rows of the last batch, as an adapter of five columns makes them."""
        plan = self._plan()
        columns: dict[str, Any] = {
            "_datacenter": plan.datacenter,
            "_epoch": plan.epoch,
            "_batch": plan.batch,
            "_plan": plan.plan_id,
            "_occurrence": [f"1:{n}" for n in range(ROWS)],
            "_joined_at": DAY,
            "_event_id": [f"event-{plan.batch}-{n}" for n in range(ROWS)],
            "_primary_occurrence": "2:1",
            "_event_time": DAY,
        }
        arrays = [
            pa.array(values if isinstance(values, list) else [values] * ROWS, ROW_COLUMNS.field(name).type)
            for name, values in columns.items()
        ]
        own = pa.array([f"value {plan.batch + n}" for n in range(ROWS)])
        return pa.table([*arrays, *[own] * 5], names=[*columns, *(f"c{number}" for number in range(5))])

    def compact(self, cleaned_before_us: int) -> float:
        """A pass that takes checkpoints before this moment for old; how long it took."""
        began = time.perf_counter()
        keep_us = microseconds(self.pipeline.compaction.keep_log)
        compact_tables(self.pipeline, "here", _At(cleaned_before_us + keep_us))
        return time.perf_counter() - began

    def cost(self) -> Cost:
        """What the table costs now."""
        files = pa.table(open_table(self.table.folder).get_add_actions()).num_rows
        open_ms = [_ms(lambda: open_table(self.table.folder)) for _ in range(REPEATS)]
        read_back_ms = [_ms(self._read_back) for _ in range(REPEATS)]
        table = self._opened()
        first_ms = _ms(lambda: self._live(table))
        live_ms = [_ms(lambda: self._live(table)) for _ in range(LIVE_BATCHES)]
        self._version = table.load().version()
        return Cost(
            commits=self.batch,
            files=files,
            log_files=sum(1 for _ in (self._folder / "_delta_log").iterdir()),
            open_ms=_median(open_ms),
            read_back_ms=_median(read_back_ms),
            first_commit_ms=round(first_ms, 1),
            live_ms=_median(live_ms),
            live_p90_ms=round(statistics.quantiles(live_ms, n=10)[-1], 1),
        )

    def _read_back(self) -> None:
        table, plan = self._opened(), self._plan()
        assert table.last_commit(self.app).plan_id == plan.plan_id
        assert len(table.occurrences_of("epoch", plan.batch, plan.plan_id)) == ROWS
        assert candidate_files(table.folder.parent, plan, MOST_TASKS)
        older = PlanKey("here", "epoch", self.batch // 2, f"{self.batch // 2:016x}")
        token = Token(older, Occurrence(1, 0))
        assert table.row_status_of([token]) == {token: "row"}

    def _live(self, table: OutputTable) -> None:
        self.batch += 1
        files = write_candidates(table.folder.parent, self._plan(), 0, self._rows())
        table.commit(files, self.app, self.batch, self.batch - 1, self._plan().plan_id)


class _At(SystemClock):
    """A clock that stands."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        return self._now_us


def _ms(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return (time.perf_counter() - began) * 1_000


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 1)


def measure_tables(folder: Path, commits: int, progress: Progress) -> dict[str, Any]:
    """The costs after `FIRST` commits; after `commits` just after a pass and just before one; without any."""
    with _said("with compaction", progress) as say:
        fit = ManyCommits(folder / "fit")
        fit.grow(FIRST)
        fit.compact(0)  # its checkpoint: nothing is old
        first = fit.cost()
        say(str(first))
        began: list[int] = []
        passes: list[float] = []
        while fit.batch < commits:
            fit.grow(min(BETWEEN_COMPACTIONS, commits - fit.batch))
            began.append(time.time_ns() // 1_000)
            # The checkpoint of two passes ago is older than `compaction.keep_log`.
            passes.append(fit.compact(began[-2] if len(began) > 1 else 0))
            if len(passes) % 10 == 0:
                say(f"{fit.batch:,} commits; the last pass took {passes[-1]:.1f} s")
        compacted = fit.cost()
        say(str(compacted))
        fit.grow(BETWEEN_COMPACTIONS)
        due = fit.cost()
        say(str(due))
    with _said("without compaction", progress) as say:
        grown = ManyCommits(folder / "grown")
        while grown.batch < commits:
            grown.grow(min(CHECKPOINT_EVERY, commits - grown.batch))
            checkpoint(grown.table.folder)
            say(f"{grown.batch:,} commits")
        without = grown.cost()
    return {
        "commits": commits,
        "load": [round(one, 1) for one in psutil.getloadavg()],
        "cores": psutil.cpu_count(),
        "passes": len(passes),
        "median_pass_seconds": round(statistics.median(passes), 1),
        "longest_pass_seconds": round(max(passes), 1),
        "first": asdict(first),
        "compacted": asdict(compacted),
        "due": asdict(due),
        "without": asdict(without),
    }


@contextmanager
def _said(what: str, progress: Progress) -> Iterator[Progress]:
    began = time.perf_counter()
    yield lambda text: progress(f"{what}: {text}")
    progress(f"{what}: {time.perf_counter() - began:.0f} s")


def lines_of(found: dict[str, Any]) -> list[str]:
    """What was measured, for people."""
    names = {
        "first": "a new table",
        "compacted": "just compacted",
        "due": "before a pass",
        "without": "never compacted",
    }
    lines = [
        f"{found['cores']} cores, load {found['load']}; {found['passes']} passes, which took"
        f" {found['median_pass_seconds']} s in the median, {found['longest_pass_seconds']} s at most"
    ]
    for name, says in names.items():
        cost = found[name]
        lines.append(
            f"{says:16} {cost['commits']:>9,} commits, {cost['files']:>8,} files, {cost['log_files']:>8,} of "
            f"the log: open {cost['open_ms']} ms, read back {cost['read_back_ms']} ms, first commit "
            f"{cost['first_commit_ms']} ms, live commit {cost['live_ms']} ms (p90 {cost['live_p90_ms']})"
        )
    return lines
