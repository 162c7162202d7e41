"""Dry run of a compaction."""

from __future__ import annotations

from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.storage.append_table import REPORT_TABLES, would_compact_report_table
from photon.storage.columns import TABLE_COLUMNS
from photon.storage.compaction import LEAST_FILES
from photon.storage.table_log import would_clean
from photon.storage.tables import OutputTable
from photon.storage.vacuum import would_remove
from photon.upkeep.compact import Compacted, log_kept_since_us, open_plan_of, to_rewrite


def would_compact(
    pipeline: Pipeline, datacenter: str, clock: Clock, least_files: int = LEAST_FILES
) -> dict[str, Compacted]:
    """The work that `compact_tables` would do on each table now. LakeUnavailable, StateUnavailable."""
    place, now_us = pipeline.datacenters[datacenter], clock.now_us()
    knows_plans, open_plan = open_plan_of(place.state)
    found: dict[str, Compacted] = {}
    for name in TABLE_COLUMNS:
        table = OutputTable(place.lake, name)
        if not table.exists():
            continue
        files, groups = to_rewrite(table, datacenter, least_files)
        found[name] = Compacted(
            files_before=files,
            files_after=files - sum(len(group.files) for group in groups) + len(groups),
            commits=len(groups),
            rows=sum(group.rows for group in groups),
            log_files_removed=would_clean(
                table.folder, log_kept_since_us(table, pipeline.compaction, now_us)
            ),
            data_files_removed=would_remove(table, open_plan, knows_plans, now_us),
        )
    for report in REPORT_TABLES:
        if (would := would_compact_report_table(place.lake / report)) is not None:
            before, after, removed = would
            found[report] = Compacted(before, after, int(after < before), data_files_removed=removed)
    return found
