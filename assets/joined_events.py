"""The shift as an asset: one bounded run that joins a datacenter's logs, and tells once a minute how it goes.

What a shift does is `photon.shift.run`, for this as for the commands; when one begins is for `orchestration`.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from datetime import timedelta

from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    DagsterExecutionInterruptedError,
    MaterializeResult,
    PartitionsDefinition,
    asset,
)

from assets.draining import draining, is_canceled
from assets.failures import failures_with_a_message
from assets.logs import log_key
from assets.reporting import Reporter
from jobs.batch_job import SparkRunner
from photon.dispatcher.batch import Callbacks
from photon.pipeline.file import Pipeline
from photon.shift.lease import StoppedWaiting
from photon.shift.run import ShiftLimits, prepare, run_shift
from resources.environment import Served
from resources.pipelines import PipelineFiles
from resources.spark import SparkResource

RELIEF = timedelta(minutes=1)  # a successor that is not ready so long after the end is not waited for


def joined_events_key(served: Served) -> AssetKey:
    """The asset that a pipeline's shifts materialize."""
    return AssetKey([served.name, "joined_events"])


def joined_events_asset(served: Served, partitions: PartitionsDefinition[str]) -> AssetsDefinition:
    """The asset `joined_events` of a pipeline; a datacenter is a partition, a shift a materialization."""
    key = joined_events_key(served)

    @asset(
        key=key,
        group_name=served.name,
        partitions_def=partitions,
        deps=[log_key(served, "primary_log"), log_key(served, "foreign_log")],
        kinds={"pyspark", "deltalake"},
        description=(
            "One row for each foreign event whose primary exists. A materialization is a shift, which joins "
            "for some time what is in the datacenter's logs and what comes, and reports while it does."
        ),
    )
    def joined_events(
        context: AssetExecutionContext, pipelines: PipelineFiles, spark: SparkResource
    ) -> MaterializeResult[None]:
        with failures_with_a_message(), draining() as drain:
            pipeline = pipelines.load(served.pipeline.name)
            prepare(pipeline)
            # Warm before it waits in line: its predecessor works on until then.
            runner = SparkRunner(spark.spark_session)
            runner.warm_up()
            reporter = Reporter(context, key, served, pipeline)

            def should_stop() -> bool:
                reporter.look()  # asked all the time, also while the shift waits for something
                return drain.asked()

            callbacks = Callbacks(should_stop, reporter.on_batch, reporter.on_wait)
            limits = _limits(context.run.run_id, pipeline)
            try:
                result = run_shift(
                    pipeline,
                    context.partition_key,
                    "until_idle",
                    runner,
                    limits,
                    callbacks,
                )
            except StoppedWaiting:
                raise DagsterExecutionInterruptedError from None  # it did nothing that could be told
            except Exception as error:
                if drain.asked() and is_canceled(context):  # what it waited for is not why it ends
                    raise DagsterExecutionInterruptedError from error
                raise
            metadata = reporter.last_metadata(result)
            if drain.asked() and is_canceled(context):
                reporter.materialized(metadata)
                raise DagsterExecutionInterruptedError
            # A signal from elsewhere, as when the machine goes down: the shift ended in order all the same.
            return MaterializeResult(metadata=metadata)

    return joined_events


def _limits(run_id: str, pipeline: Pipeline) -> ShiftLimits:
    shift = pipeline.shift
    return ShiftLimits(run_id, takes_turns=True, length=shift.length, relief=RELIEF, idle=shift.idle_timeout)
