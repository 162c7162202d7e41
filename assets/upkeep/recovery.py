"""Recovery: what the newest verification reports name is ordered to be looked at again."""

from __future__ import annotations

from assets.runs import Metadata, table
from assets.upkeep.kinds import Upkeep
from assets.work import DryRunConfig, WorkRun


def _recover(run: WorkRun) -> Metadata:
    from photon.upkeep.plans import carry_out
    from photon.verification.recovery import RecoveryPlan
    from photon.verification.stored_reports import newest

    stored = newest(run.pipeline, run.served.datacenters)
    reports = {name: one.report for name, one in stored.items()}
    done = carry_out(lambda: RecoveryPlan(run.pipeline, reports), run.is_dry)
    for name, one in done.items():
        if one.problem:
            run.context.log.warning(f"{name}: {one.problem}")
    rows: list[dict[str, str | int | float]] = [
        {
            "datacenter": name,
            "ordered": one.ordered,
            "left_to_others": one.left_to.total(),
            "left_for_next_round": one.left_out,
        }
        for name, one in done.items()
    ]
    return {
        "ordered": sum(one.ordered for one in done.values()),
        "left_to_others": sum(one.left_to.total() for one in done.values()),
        "seconds": run.seconds(),
        **({"datacenters": table(rows)} if rows else {}),
    }


RECOVERY = Upkeep(
    name="recover",
    changes="verification_report",
    work=_recover,
    job_description="Has what verification found missing looked at again.",
    description=(
        "What the newest verification reports name as missing, or as given up wrongly, is ordered to be"
        " looked at again. The dispatchers join it; nothing is joined here."
    ),
    config=DryRunConfig,
    cron=lambda pipeline: pipeline.recovery.cron,
)
