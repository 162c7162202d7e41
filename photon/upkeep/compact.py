"""Compaction: tables of a datacenter stay fit beside its live appends (docs/adr/0054).

Small files become large ones, the log gets a checkpoint and loses old entries, and data files that nobody
needs leave the folder. Each step may be killed and run again. Where two run at once, one of them may give up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Compaction
from photon.process.clock import MICROSECONDS, Clock, microseconds
from photon.process.pace import pace
from photon.state.view import open_view
from photon.storage.append_table import REPORT_TABLES, compact_report_table
from photon.storage.columns import TABLE_COLUMNS
from photon.storage.compaction import LEAST_FILES, Group, compact, groups_of
from photon.storage.data_files import DataFiles
from photon.storage.table_features import kept_hours
from photon.storage.table_log import checkpoint, clean
from photon.storage.tables import OutputTable, app_id
from photon.storage.vacuum import vacuum
from photon.tokens import PlanKey


@dataclass(frozen=True, slots=True)
class Compacted:
    """The work of one pass over tables."""

    files_before: int = 0
    files_after: int = 0
    commits: int = 0
    rows: int = 0  # rewritten
    log_files_removed: int = 0
    data_files_removed: int = 0

    def __add__(self, other: Compacted) -> Compacted:
        one, two = asdict(self), asdict(other)
        return Compacted(**{name: value + two[name] for name, value in one.items()})


def compact_tables(
    pipeline: Pipeline,
    datacenter: str,
    clock: Clock,
    say: Callable[[str], None] = lambda text: None,
    least_files: int = LEAST_FILES,
) -> dict[str, Compacted]:
    """Keep all tables of one datacenter fit, those of reports too; what was done to each.

    LakeUnavailable, StateUnavailable, NotReplaced, CommitConflict: what was done until then stays done.
    """
    place = pipeline.datacenters[datacenter]
    found: dict[str, Compacted] = {}
    for name in TABLE_COLUMNS:
        table = OutputTable(place.lake, name)
        if table.exists():
            found[name] = _Compaction(table, datacenter, pipeline.compaction, clock, say, least_files).run(
                place.state
            )
    for report in REPORT_TABLES:
        if (done := compact_report_table(place.lake / report)) is not None:
            before, after, removed = done
            found[report] = Compacted(before, after, int(after < before), data_files_removed=removed)
    return found


@dataclass
class _Compaction:
    """One pass over one table."""

    table: OutputTable
    datacenter: str
    settings: Compaction
    clock: Clock
    say: Callable[[str], None]
    least_files: int

    def run(self, state: Path) -> Compacted:
        files_before, rows, commits = self._rewrite()
        checkpoint(self.table.folder)
        entries = clean(self.table.folder, log_kept_since_us(self.table, self.settings, self.clock.now_us()))
        knows_plans, open_plan = open_plan_of(state)
        data_files = vacuum(self.table, open_plan, knows_plans, self.clock.now_us())
        with self.table.reading():
            files_after = len(DataFiles(self.table.load()))
        return Compacted(files_before, files_after, commits, rows, entries, data_files)

    def _rewrite(self) -> tuple[int, int, int]:
        """How many files there were, and how many rows were rewritten in how many commits."""
        files, groups = to_rewrite(self.table, self.datacenter, self.least_files)
        rows = commits = done_bytes = 0
        total_bytes, began_us = sum(group.size_bytes for group in groups), self.clock.elapsed_us()
        for number, group in enumerate(groups, start=1):
            far = pace(done_bytes, total_bytes, (self.clock.elapsed_us() - began_us) / MICROSECONDS)
            of = f"group {number} of {len(groups)}, {len(group.files):,} files"
            self.say(f"{self.table.folder}: {far}; {of}")
            done_bytes += group.size_bytes
            written = compact(self.table, group, f"photon:{self.datacenter}:compaction")
            if written is not None:
                rows, commits = rows + written.rows, commits + 1
        return files, rows, commits


def log_kept_since_us(table: OutputTable, settings: Compaction, now_us: int) -> int:
    """Since when commits stay in a table's log: `keep_log`, or longer where people have set it so."""
    hours_us = kept_hours(table.load(), "log") * 3_600 * MICROSECONDS
    return now_us - max(microseconds(settings.keep_log), hours_us)


def to_rewrite(
    table: OutputTable, datacenter: str, least_files: int = LEAST_FILES
) -> tuple[int, list[Group]]:
    """How many files a table has now, and those that are to be rewritten together. LakeUnavailable."""
    with table.reading():
        handle = table.writable()  # a checkpoint and the log's old entries are at stake too
        files = DataFiles(handle).all()
        epochs = {file.epoch for file in files if file.epoch is not None}
        apps = {epoch: app_id(datacenter, epoch, table.name) for epoch in epochs}
        last = {epoch: handle.transaction_version(app) or 0 for epoch, app in apps.items()}
    return len(files), groups_of(files, last, least_files=least_files)


def open_plan_of(state: Path) -> tuple[bool, PlanKey | None]:
    """Whether the datacenter's state is here, and its open plan. StateUnavailable."""
    with open_view(state) as view:
        plan = view.open_plan() if view is not None else None
        return view is not None, plan.key if plan is not None else None
