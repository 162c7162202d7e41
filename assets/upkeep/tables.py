"""Compaction of each datacenter's tables."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from assets.runs import Metadata, table
from assets.upkeep.kinds import Upkeep
from assets.work import DryRunConfig, WorkRun


def _compact(run: WorkRun) -> Metadata:
    from photon.process.operating_system import come_after_others
    from photon.upkeep.compact import Compacted, plan_compaction
    from photon.upkeep.plans import carry_out

    come_after_others()
    pipeline, names, clock, say = run.pipeline, run.served.datacenters, run.clock, run.context.log.info
    done = {
        name: carry_out(partial(plan_compaction, pipeline, name, clock), run.is_dry, say) for name in names
    }
    rows = [
        {"datacenter": name, "table": table_name, **asdict(one)}
        for name, tables in done.items()
        for table_name, one in tables.items()
    ]
    total = sum((one for tables in done.values() for one in tables.values()), Compacted())
    return {
        "files_before": total.files_before,
        "files_after": total.files_after,
        "data_files_removed": total.data_files_removed,
        "seconds": run.seconds(),
        **({"tables": table(rows)} if rows else {}),
    }


COMPACTION = Upkeep(
    name="compaction",
    changes="joined_events",
    work=_compact,
    job_description="Keeps the tables fit: files, log and what nobody needs any more.",
    description=(
        "Small files of each datacenter's tables rewritten as large ones, a checkpoint of each table, and old"
        " entries of its log and old data files removed. No row changes; joins go on."
    ),
    technology="deltalake",
    config=DryRunConfig,
    cron=lambda pipeline: pipeline.compaction.cron,
)
