"""Garbage collection (gc): ids of old events leave the registry with their generation of ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assets.evaluations import Evaluation, sizes
from assets.runs import Metadata
from assets.work import DryRunConfig, WorkRun
from photon.process.clock import MICROSECONDS, in_utc

if TYPE_CHECKING:
    from photon.upkeep.gc import GcResult

_DAY_US = 86_400 * MICROSECONDS


def _collect(run: WorkRun) -> Metadata:
    from photon.registry.opening import open_reader
    from photon.upkeep.gc import plan_gc
    from photon.upkeep.plans import carry_out

    done = carry_out(
        lambda: plan_gc(run.pipeline, open_reader(run.pipeline), run.clock), run.is_dry, run.telling()
    )
    if done.problem:
        run.context.log.warning("%s; the next run takes what is left there", done.problem)
    return gc_metadata(done, run.clock.now_us())


def gc_metadata(done: GcResult, now_us: int) -> Metadata:
    """The boundary and why it is there, what was dropped, and the registry before and after.

    The age of the boundary is a number, so that it plots: while it rises, nothing is verified or dropped.
    """
    metadata: Metadata = {
        "says": _says(done),
        "because": done.because,
        "boundary_before": _time(done.boundary_before_us),
        "boundary": _time(done.boundary_us),
        "generation": done.generation,
        "generations_begun": int(done.rolled),
        "generations_dropped": len(done.dropped),
        **sizes(done.before, "before"),
        **sizes(done.after, "after"),
    }
    if done.boundary_us is not None:
        metadata["boundary_age_days"] = round((now_us - done.boundary_us) / _DAY_US, 3)
    if done.problem:
        metadata["problem"] = done.problem
    return metadata


def _says(done: GcResult) -> str:
    """The work of one evaluation, in a sentence."""
    what = []
    if done.boundary_us != done.boundary_before_us:
        what.append(f"the boundary is {_time(done.boundary_us)} now")
    if done.rolled:
        what.append(f"generation {done.generation} of ledgers was begun")
    if done.dropped:
        ids, numbers = done.before.ids - done.after.ids, ", ".join(map(str, done.dropped))
        what.append(f"{ids:,} ids were dropped, with all of generation {numbers}")
    return "; ".join(what) if what else f"nothing was due: {done.because}"


def _time(at_us: int | None) -> str:
    return "none" if at_us is None else in_utc(at_us, "seconds")


GARBAGE_COLLECTION = Evaluation(
    name="gc",
    asset="garbage_collection",
    work=_collect,
    job_description="Drops ids that are older than the pipeline keeps them.",
    description=(
        "What gc found and did: ids of events older than registry.keep_days leave the registry, never past"
        " what the last verification of every datacenter has seen. What is older is too old to be joined. An"
        " id goes with all of its generation of ledgers; a full generation is followed by the next one."
    ),
    of=["verification_report"],
    config=DryRunConfig,
    cron=lambda pipeline: pipeline.registry.collection.cron,
)
