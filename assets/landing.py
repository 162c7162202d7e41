"""The asset `landing`: a shift makes logs of topics and objects for some time, and reports once a minute."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
import logging

from dagster import (
    AssetExecutionContext,
    AssetMaterialization,
    AssetObservation,
    AssetsDefinition,
    MaterializeResult,
    StaticPartitionsDefinition,
    asset,
)

from photon.assets.attributes import freshness, places
from photon.assets.joined_events import RELIEF, refuse_beside_reports
from photon.assets.runs import (
    Metadata,
    canceled_with_a_sentence,
    draining,
    failures_with_a_message,
    logs_that_end_no_run,
    told_to_end,
)
from photon.assets.series import numbers_of_others, of_datacenter
from photon.assets.shift_reports import COMPLETE_EVERY, REPORT_SECONDS
from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.dispatcher.shift.ending import ShiftLimits
from photon.dispatcher.shift.landing import run_landing
from photon.health.landing import look_at_landing
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.resources.environment import ServedPipeline

ASSET = "landing"

log = logging.getLogger(__name__)


class LandingReporter:
    """Reports how far a datacenter's sources are landed, in the events of a shift's run."""

    def __init__(
        self, context: AssetExecutionContext, served: ServedPipeline, clock: Clock | None = None
    ) -> None:
        self._context, self._served, self._clock = context, served, clock or SystemClock()
        self._pipeline, self._datacenter = served.load(), context.partition_key
        self._reports, self._due_us = 0, 0

    def report_if_due(self) -> None:
        """Report if it is time; a storage of Dagster's that is busy or full must not end a shift."""
        if (now_us := self._clock.elapsed_us()) < self._due_us:
            return
        self._due_us = now_us + round(REPORT_SECONDS * MICROSECONDS)
        kind = AssetObservation if self._reports % COMPLETE_EVERY else AssetMaterialization
        self._reports += 1
        try:
            key, partition = self._served.asset_key(ASSET), self._datacenter
            self._context.log_event(kind(key, partition=partition, metadata=self.metadata()))
        except Exception:
            log.exception("datacenter %s: a report of its landing could not be stored", self._datacenter)

    def metadata(self) -> Metadata:
        """How far each source is: in words, and in numbers for the plots."""
        now_us = self._clock.now_us()
        seen = look_at_landing(self._pipeline, self._datacenter, now_us)
        key, served = self._served.asset_key(ASSET), self._served.landing
        numbers: Metadata = {f"{one.into}_losses": one.losses for one in seen}
        for one in seen:
            if one.lag is not None and one.behind_us is not None:
                numbers[f"{one.into}_lag"] = one.lag
                numbers[f"{one.into}_behind_seconds"] = round(one.behind_us / MICROSECONDS, 3)
        return {
            **numbers_of_others(self._context.instance, key, served, self._datacenter, now_us),
            "says": "; ".join(one.sentence() for one in seen),
            **of_datacenter(self._datacenter, numbers),
        }


def landing_asset(served: ServedPipeline) -> AssetsDefinition:
    """The asset `landing`; a datacenter with `land` is a partition, a shift a materialization."""
    landing_places = {name: served.pipeline.datacenters[name] for name in served.landing}
    sources = {key for place in landing_places.values() for one in place.land for key in one.model_fields_set}

    @asset(
        key=served.asset_key(ASSET),
        group_name=served.name,
        partitions_def=StaticPartitionsDefinition(list(served.landing)),
        kinds={"json", *(sources - {"into"})},
        freshness_policy=freshness(served.pipeline.health.stale),
        metadata=places({name: place.logs for name, place in landing_places.items()}, "folder"),
        description=(
            "Log files that are made of a broker's topics, or of objects. A materialization is a shift, "
            "which lands what is there and what comes, beside joins, and reports while it does."
        ),
    )
    def landing(context: AssetExecutionContext) -> MaterializeResult[None]:
        with (
            canceled_with_a_sentence(context),
            failures_with_a_message(),
            draining() as drain,
            logs_that_end_no_run(),
        ):
            refuse_beside_reports(context)
            reporter, pipeline = LandingReporter(context, served), served.load()

            def should_stop() -> bool:
                reporter.report_if_due()
                return drain.asked()

            def on_resume(reason: str, seconds: float) -> None:
                context.log.info("goes on: for %.0f s it has waited: %s", seconds, reason)

            limits = ShiftLimits(
                context.run.run_id, takes_turns=True, length=pipeline.shift.length, relief=RELIEF
            )
            callbacks = Callbacks(
                should_stop, on_wait=lambda why: context.log.warning("waits: %s", why), on_resume=on_resume
            )
            try:
                ended = run_landing(pipeline, context.partition_key, limits, callbacks)
            except StoppedWaiting:
                raise told_to_end(context, "It waited in line, and never began.") from None
            if drain.asked_by_dagster(context):
                raise told_to_end(context, "It said how far it has landed, and left; nothing is lost.")
            return MaterializeResult(metadata={**reporter.metadata(), "ended": ended})

    return landing
