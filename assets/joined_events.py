"""The asset `joined_events`: a shift joins a datacenter's logs for some time, and reports once a minute."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from contextlib import ExitStack
from datetime import timedelta
from functools import partial

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    Failure,
    MaterializeResult,
    PartitionsDefinition,
    asset,
)

from photon.assets.attributes import freshness
from photon.assets.runs import (
    canceled_with_a_sentence,
    draining,
    failures_with_a_message,
    logs_that_end_no_run,
    told_to_end,
)
from photon.assets.shift_reports import Reporter
from photon.assets.side_tables import table_kinds, table_metadata
from photon.dispatcher.retrying import BatchReport, Callbacks, StoppedWaiting
from photon.dispatcher.shift.ending import ShiftLimits
from photon.dispatcher.shift.lease import lease_status_of
from photon.dispatcher.shift.run import prepare, run_shift
from photon.jobs.batch_job import SparkRunner
from photon.jobs.warming import WarmingRunner
from photon.resources.environment import ServedPipeline
from photon.resources.spark import SparkResource

RELIEF = timedelta(minutes=1)  # how long a shift that is over waits for its successor


def refuse_beside_reports(context: AssetExecutionContext) -> None:
    """Fail in a run that has reports too: it waits in line, and they would wait for the end of the shift."""
    if context.run.run_op_concurrency is not None:
        why = "A shift begins in no run that makes other assets too: materialize joined_events by itself."
        raise Failure(description=why, allow_retries=False)


def joined_events_asset(served: ServedPipeline, partitions: PartitionsDefinition[str]) -> AssetsDefinition:
    """The asset `joined_events` of a pipeline; a datacenter is a partition, a shift a materialization."""

    @asset(
        key=served.asset_key("joined_events"),
        group_name=served.name,
        partitions_def=partitions,
        deps=[served.asset_key("primary_log"), served.asset_key("foreign_log")],
        kinds=table_kinds(served, "pyspark"),
        freshness_policy=freshness(served.pipeline.health.stale),
        metadata=table_metadata(served, "joined_events"),
        description=(
            "One row for each foreign event whose primary exists. A materialization is a shift, which joins "
            "for some time what is in the datacenter's logs and what comes, and reports while it does."
        ),
    )
    def joined_events(context: AssetExecutionContext, spark: SparkResource) -> MaterializeResult[None]:
        # A session takes seconds to stop: a signal in that time must not fail a shift that has ended.
        with (
            canceled_with_a_sentence(context),
            failures_with_a_message(),
            draining() as drain,
            logs_that_end_no_run(),
            ExitStack() as at_the_end,
        ):
            refuse_beside_reports(context)
            at_the_end.callback(spark.stop)
            pipeline = served.load()
            prepare(pipeline)
            state, workers = pipeline.datacenters[context.partition_key].state, pipeline.limits.workers
            runner = WarmingRunner(lambda: SparkRunner(partial(spark.for_joins, pipeline), workers))
            at_the_end.callback(runner.close)
            # Warm up before waiting in line, where the predecessor works on until then.
            runner.get_ready(lambda: lease_status_of(state).is_locked and not drain.asked())
            reporter = Reporter(context, served, pipeline)

            def should_stop() -> bool:
                reporter.report_if_due()  # the shift asks all the time, also while it waits
                return drain.asked()

            times = pipeline.shift
            limits = ShiftLimits(
                context.run.run_id,
                takes_turns=True,
                length=times.length,
                relief=RELIEF,
                idle=times.idle_timeout,
            )

            def on_batch(batch: BatchReport) -> None:
                runner.warm_up()  # the rows of the first batch are there
                reporter.on_batch(batch)

            callbacks = Callbacks(should_stop, on_batch, reporter.on_wait, reporter.on_resume)
            try:
                result = run_shift(pipeline, context.partition_key, "until_idle", runner, limits, callbacks)
            except StoppedWaiting:
                raise told_to_end(context, "It waited in line, and never began.") from None
            except Exception as error:
                if drain.asked_by_dagster(context):  # the run ends for that, not for the error
                    why = f"Its batch could not end: {error}. The next shift ends it."
                    raise told_to_end(context, why) from None
                raise
            metadata = reporter.last_metadata(result)
            if drain.asked_by_dagster(context):
                reporter.materialize(metadata)
                raise told_to_end(context, "It ended its batch, reported and left; nothing is lost.")
            # After another signal, as when the machine goes down, the shift has ended in order: a success.
            return MaterializeResult(metadata=metadata)

    return joined_events
