"""Compaction: tables of a datacenter stay fit beside its live appends (docs/adr/0054).

Small files become large ones, the log gets a checkpoint and loses old entries, and data files that nobody
needs leave the folder. Each step may be killed and run again. Where two run at once, one of them may give up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.pipeline.sections import Compaction
from photon.process.clock import MICROSECONDS, Clock, microseconds
from photon.process.in_time import behind_others
from photon.process.pace import pace
from photon.process.readable import counted
from photon.releases import copies
from photon.releases.finding import least_rebuilt
from photon.state.view import open_view
from photon.storage.append_table import (
    REPORT_TABLES,
    ReportTable,
    compact_report_table,
    would_compact_report_table,
)
from photon.storage.changes import NO_COMMIT
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.compaction import LEAST_FILES, Group, compact, groups_of
from photon.storage.data_files import DataFiles
from photon.storage.delta import lake_errors
from photon.storage.replaced_files import ReplacedFiles, Replacement
from photon.storage.table_features import kept_hours
from photon.storage.table_log import checkpoint, clean, would_clean
from photon.storage.tables import OutputTable, app_id
from photon.storage.tokens import PlanKey
from photon.storage.vacuum import HOUR_US, KEEP_HOURS, KeptFiles, vacuum, would_remove
from photon.upkeep.plans import Say, silent
from photon.upkeep.unasked_rows import KnownFiles
from photon.upkeep.unasked_rows import rules as rules_of

REBUILT_TABLE = "joined_events"  # rebuilds replace files of this one alone


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

    def sentence(self, dry_run: bool) -> str:
        """The work, for people."""
        become, remove = ("would become", "to be removed") if dry_run else ("became", "removed")
        files = counted(self.files_before, "data file")
        if self.files_after != self.files_before:
            files += f" {become} {self.files_after:,}"
        old = (("old log entry", self.log_files_removed), ("old data file", self.data_files_removed))
        removed = ", ".join(counted(count, thing) for thing, count in old if count)
        return f"{files}; {remove}: {removed or 'nothing'}"


@dataclass(frozen=True)
class TablePlan:
    """The files of one table that are to be rewritten together, and what is expected of the whole pass."""

    table: OutputTable
    groups: Sequence[Group]
    expected: Compacted


@dataclass(frozen=True)
class CompactionPlan:
    """A pass over the tables of one datacenter, those of reports too."""

    pipeline: Pipeline
    datacenter: str
    clock: Clock
    tables: Sequence[TablePlan]
    expected: Mapping[str, Compacted]  # the outcome for each table, those of reports too

    def apply(self, say: Say = silent) -> Mapping[str, Compacted]:
        """Keep the tables fit. A group is left out if one of its files is gone by its turn.

        The open plan is read when old files are removed: a batch may have begun since the plan was made.
        LakeUnavailable, StateUnavailable, NotReplaced, CommitConflict: what was done until then stays done.
        """
        lake = self.pipeline.datacenters[self.datacenter].lake
        done: dict[str, Compacted] = {one.table.name: self._keep_fit(one, say) for one in self.tables}
        with open_view(self.pipeline.datacenters[self.datacenter].state) as view:
            rules = rules_of(KnownFiles.of(view), self.clock.now_us())
        log_since_us = self.clock.now_us() - microseconds(self.pipeline.compaction.keep_log)

        def compact_one(report: ReportTable, at: Location) -> tuple[int, int, int] | None:
            return compact_report_table(at, rules.get(report))

        return {**done, **_of_reports(lake, compact_one, partial(clean, before_us=log_since_us))}

    def _keep_fit(self, plan: TablePlan, say: Say) -> Compacted:
        table, now_us = plan.table, self.clock.now_us
        rows, commits = self._rewrite(plan, say)
        behind_others(partial(checkpoint, table.folder))
        kept_since_us = log_kept_since_us(table, self.pipeline.compaction, now_us())
        entries = behind_others(partial(clean, table.folder, kept_since_us))
        knows_plans, open_plan = open_plan_of(self.pipeline.datacenters[self.datacenter].state)
        looked = looked_up_to(self.pipeline, self.datacenter, table.name)
        kept = replace(kept_for_readers(self.pipeline, replacements_of(table)), looked=looked)
        data_files = behind_others(partial(vacuum, table, open_plan, knows_plans, now_us(), kept))
        if table.name == REBUILT_TABLE:
            self._forget_lists(table, now_us() - kept.hours * HOUR_US)
        with table.reading():
            files_after = len(DataFiles(table.load()))
        return Compacted(plan.expected.files_before, files_after, commits, rows, entries, data_files)

    def _forget_lists(self, table: OutputTable, before_us: int) -> None:
        """Remove old lists of replaced files that no kept release needs: the next pass may have the files."""
        shown = least_rebuilt(self.pipeline, self.datacenter)
        with lake_errors(f"remove old lists of replaced files of {table.folder}"):
            ReplacedFiles(table.folder.parent).forget(shown, before_us)

    def _rewrite(self, plan: TablePlan, say: Say) -> tuple[int, int]:
        """Rewrite the groups of one table; how many rows in how many commits."""
        rows = commits = done_bytes = 0
        total_bytes, began_us = sum(group.size_bytes for group in plan.groups), self.clock.elapsed_us()
        for number, group in enumerate(plan.groups, start=1):
            far = pace(done_bytes, total_bytes, (self.clock.elapsed_us() - began_us) / MICROSECONDS)
            of = f"group {number} of {len(plan.groups)}, {counted(len(group.files), 'file')}"
            say(f"{plan.table.folder}: {far}; {of}")
            done_bytes += group.size_bytes
            written = compact(plan.table, group, f"photon:{self.datacenter}:compaction")
            if written is not None:
                rows, commits = rows + written.rows, commits + 1
        return rows, commits


def plan_compaction(
    pipeline: Pipeline, datacenter: str, clock: Clock, least_files: int = LEAST_FILES
) -> CompactionPlan:
    """Plan a pass over all tables of one datacenter. LakeUnavailable, StateUnavailable."""
    place, now_us = pipeline.datacenters[datacenter], clock.now_us()
    knows_plans, open_plan = open_plan_of(place.state)
    tables = []
    for name in TABLE_COLUMNS:
        table = OutputTable(place.lake, name)
        if not table.exists():
            continue
        files, groups, lists = to_rewrite(table, datacenter, least_files)
        looked = looked_up_to(pipeline, datacenter, table.name)
        kept = replace(kept_for_readers(pipeline, lists), looked=looked)
        expected = Compacted(
            files_before=files,
            files_after=files - sum(len(group.files) for group in groups) + len(groups),
            commits=len(groups),
            rows=sum(group.rows for group in groups),
            log_files_removed=would_clean(
                table.folder, log_kept_since_us(table, pipeline.compaction, now_us)
            ),
            data_files_removed=would_remove(table, open_plan, knows_plans, now_us, kept),
        )
        tables.append(TablePlan(table, groups, expected))
    expected_of: dict[str, Compacted] = {one.table.name: one.expected for one in tables}
    log_since_us = now_us - microseconds(pipeline.compaction.keep_log)
    cleaned = partial(would_clean, before_us=log_since_us)
    reports = _of_reports(place.lake, lambda _, at: would_compact_report_table(at), cleaned)
    return CompactionPlan(pipeline, datacenter, clock, tables, {**expected_of, **reports})


def _of_reports(
    lake: Location,
    compact_one: Callable[[ReportTable, Location], tuple[int, int, int] | None],
    clean_one: Callable[[Location], int],
) -> dict[str, Compacted]:
    """Compact each table of reports and clean its log by these functions, or look what that would do.

    Points are added each minute, and each open table lists its log.
    """
    found: dict[str, Compacted] = {}
    for report in REPORT_TABLES:
        if (done := compact_one(report, lake / report)) is not None:
            before, after, removed = done
            entries = clean_one(lake / report)
            found[report] = Compacted(before, after, int(after < before), 0, entries, removed)
    return found


def log_kept_since_us(table: OutputTable, settings: Compaction, now_us: int) -> int:
    """Since when commits stay in a table's log: `keep_log`, or longer where people have set it so."""
    hours_us = kept_hours(table.load(), "log") * 3_600 * MICROSECONDS
    return now_us - max(microseconds(settings.keep_log), hours_us)


def replacements_of(table: OutputTable) -> list[Replacement]:
    """The replacements that readers of a kept release may undo. LakeUnavailable.

    Read it after the table: what is there by a rebuild has its list by then.
    """
    if table.name != REBUILT_TABLE:
        return []
    with lake_errors(f"read the lists of replaced files of {table.folder}"):
        return ReplacedFiles(table.folder.parent).all()


def kept_for_readers(pipeline: Pipeline, lists: Sequence[Replacement]) -> KeptFiles:
    """Tell vacuum what it leaves to readers: all for a week, or as long as releases, and what these need."""
    hours = -(-microseconds(pipeline.releases.keep) // HOUR_US)
    return KeptFiles(max(KEEP_HOURS, hours), {file.path for one in lists for file in one.went})


def looked_up_to(pipeline: Pipeline, datacenter: str, table: TableName) -> int | None:
    """Up to which commit the newest release has looked for those of others (E11); None: it has not."""
    try:
        newest = copies.latest(pipeline.datacenters[datacenter].lake)
    except OSError:
        return NO_COMMIT  # all entries stay
    part = None if newest is None else newest.parts.get(datacenter)
    looked = None if part is None else part.looked.get(table)
    return None if looked is None else looked.version


def to_rewrite(
    table: OutputTable, datacenter: str, least_files: int
) -> tuple[int, list[Group], list[Replacement]]:
    """How many files a table has now, and those that are to be rewritten together. LakeUnavailable.

    Files that a rebuild brought stay as they are while a reader may undo it: the replacements are told too.
    """
    with table.reading():
        handle = table.writable()  # a checkpoint and the log's old entries are at stake too
        files = DataFiles(handle).all()
        epochs = {file.epoch for file in files if file.epoch is not None}
        apps = {epoch: app_id(datacenter, epoch, table.name) for epoch in epochs}
        last = {epoch: handle.transaction_version(app) or 0 for epoch, app in apps.items()}
    lists = replacements_of(table)
    came = {path for one in lists for path in one.came}
    free = [file for file in files if file.path not in came]
    return len(files), groups_of(free, last, least_files=least_files), lists


def open_plan_of(state: Path) -> tuple[bool, PlanKey | None]:
    """Whether the datacenter's state is here, and its open plan. StateUnavailable."""
    with open_view(state) as view:
        plan = view.open_plan() if view is not None else None
        return view is not None, plan.key if plan is not None else None
