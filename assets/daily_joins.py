"""The asset `daily_joins`: closed days of a datacenter, verified and filled in, or made again."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from dagster import (
    AssetExecutionContext,
    AssetMaterialization,
    AssetObservation,
    AssetsDefinition,
    BackfillPolicy,
    BetaWarning,
    DailyPartitionsDefinition,
    Failure,
    MetadataValue,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    PartitionsDefinition,
    StaticPartitionsDefinition,
    asset,
)
from pydantic import Field

from photon.assets.attributes import freshness
from photon.assets.runs import (
    Metadata,
    canceled_with_a_sentence,
    markdown_table,
    of_a_dry_run,
    pipeline_of_run,
)
from photon.assets.side_tables import table_kinds, table_metadata
from photon.assets.work import BACKFILL_POOL, DryRunConfig
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Durations
from photon.process.readable import typed
from photon.resources.environment import ServedPipeline
from photon.resources.spark import SparkResource
from photon.upkeep.backfill.days import DayCounts, counts_by_day
from photon.upkeep.backfill.fill import Filled
from photon.upkeep.backfill.rebuild import Rebuilt
from photon.upkeep.backfill.yielding import in_line
from photon.verification.days import days_between
from photon.verification.report import equation_table

ASSET, JOB = "daily_joins", "days"
DAY, DATACENTER = "day", "datacenter"  # the dimensions of a partition

Event = AssetMaterialization | AssetObservation
# No day of any datacenter was closed for so long: the freshness policy. A day closes each day.
STALE = Durations(warn=timedelta(hours=36), error=timedelta(days=3))


class DailyJoinsConfig(DryRunConfig):
    """Work on the days of a run."""

    do: Literal["fill", "rebuild"] = Field(
        default="fill",
        description="fill: verify, and have joined what the days lack. rebuild: make their rows again.",
    )


def day_partitions(
    served: ServedPipeline, datacenters: StaticPartitionsDefinition
) -> PartitionsDefinition[str]:
    """The days of each datacenter."""
    days = DailyPartitionsDefinition(served.pipeline.backfill.first_day.isoformat(), timezone="UTC")
    return MultiPartitionsDefinition({DAY: days, DATACENTER: datacenters})


def partition_key(datacenter: str, day: date) -> MultiPartitionKey:
    """The partition of one day of one datacenter."""
    return MultiPartitionKey({DAY: day.isoformat(), DATACENTER: datacenter})


@dataclass(frozen=True)
class DaysRun:
    """One run: some days of one datacenter, one after the other in time."""

    context: AssetExecutionContext
    served: ServedPipeline
    pipeline: Pipeline
    spark: SparkResource
    config: DailyJoinsConfig
    datacenter: str
    days: Sequence[date]

    def events(self, lacking: list[str]) -> Iterator[Event]:
        """The result of each day, as soon as it is known; `lacking` gets what some days lack still."""
        from photon.jobs.backfill import behind_others, fill, rebuild

        say, name = self.context.log.info, self.datacenter
        with in_line(self.pipeline.datacenters[name].state, say):
            session = partial(self.spark.for_checks, self.pipeline, behind_others())
            if self.config.do == "rebuild":
                for day in self.days:
                    window = days_between(day, day)
                    rebuilt = rebuild(
                        self.pipeline, name, window, self.config.dry_run, say, session=session()
                    )
                    yield self._event(day, rebuilt_metadata(rebuilt))
                return
            window = days_between(self.days[0], self.days[-1])
            dry = self.config.dry_run
            filled = fill(self.pipeline, name, window, dry, not dry, say, session=session)
            for day in self.days:
                if dry or is_done(filled, day):
                    yield self._event(day, filled_metadata(filled, day, len(self.days) == 1))
            if not dry:
                lacking += lacking_texts(name, filled, self.pipeline.file)

    def _event(self, day: date, metadata: Metadata) -> Event:
        counts = counts_by_day(self.pipeline, self.datacenter, days_between(day, day))[day]
        what = "would_do" if self.config.dry_run else "did"
        metadata = {**counts_metadata(counts), what: self.config.do, **metadata}
        key, partition = self.served.asset_key(ASSET), partition_key(self.datacenter, day)
        if self.config.dry_run:
            return AssetObservation(key, partition=partition, metadata=of_a_dry_run(metadata))
        return AssetMaterialization(key, partition=partition, metadata=metadata)


def daily_joins_asset(served: ServedPipeline, datacenters: StaticPartitionsDefinition) -> AssetsDefinition:
    """The asset `daily_joins` of a pipeline."""
    key = served.asset_key(ASSET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BetaWarning)  # the policy is beta, and `dagster` is pinned

        @asset(
            key=key,
            group_name=served.name,
            partitions_def=day_partitions(served, datacenters),
            # One run for days that follow one another: each run starts a JVM, and verifies.
            backfill_policy=BackfillPolicy.single_run(),
            deps=[served.asset_key("joined_events")],
            kinds=table_kinds(served, "pyspark"),
            pool=BACKFILL_POOL,
            freshness_policy=freshness(STALE),
            metadata=table_metadata(served, "joined_events"),
            config_schema=cast("Any", DailyJoinsConfig.to_config_schema()),
            output_required=False,  # a dry run makes nothing, and each day is told when it is done
            description=(
                "A closed day of a datacenter, verified and complete. A run fills in what its days lack, or"
                " makes their rows again (config: do). Select days to backfill them; joins come first.\n\n"
                "**Today is no day to choose**: its events still come. What a verification finds missing of"
                f" it, the job `{served.job_name('recover')}` has joined at once. To make its rows again:"
                f" `photon backfill {served.pipeline.typed} -d {served.datacenters[0]} --day $(date -u +%F)"
                " --rebuild`."
            ),
        )
        def daily_joins(context: AssetExecutionContext, spark: SparkResource) -> Iterator[Event]:
            config = DailyJoinsConfig(**context.op_execution_context.op_config)
            lacking: list[str] = []
            with canceled_with_a_sentence(context), pipeline_of_run(served) as pipeline:
                for datacenter, days in chosen_days(context.partition_keys).items():
                    run = DaysRun(context, served, pipeline, spark, config, datacenter, days)
                    yield from run.events(lacking)
            if lacking:
                raise Failure(description="; ".join(lacking), allow_retries=False)

    return daily_joins


def chosen_days(keys: Sequence[str]) -> Mapping[str, Sequence[date]]:
    """The days of partitions, by datacenter, in order."""
    found: dict[str, list[date]] = {}
    for key in keys:
        assert isinstance(key, MultiPartitionKey)
        days = found.setdefault(key.keys_by_dimension[DATACENTER], [])
        days.append(date.fromisoformat(key.keys_by_dimension[DAY]))
    return {datacenter: sorted(days) for datacenter, days in found.items()}


# -- what is told


def counts_metadata(counts: DayCounts) -> Metadata:
    """The day's counts now."""
    return {**asdict(counts), "dagster/partition_row_count": counts.rows}


def filled_metadata(filled: Filled, day: date, is_alone: bool) -> Metadata:
    """The findings of a fill on one day; `ordered` and below count all its days.

    Where the day `is_alone` in its run, the last verification has the day's own equation.
    """
    equation: Metadata = {}
    if is_alone:
        rows = equation_table({"records": filled.report.equation()})
        equation = {**filled.report.equation(), "equation": MetadataValue.md(markdown_table(rows))}
    return {
        **equation,
        "missing": filled.left_by_day[str(day)],
        "ordered": filled.recovered.ordered,
        "left_to_others": filled.recovered.left_to.total(),
        "verifications": filled.rounds,
    }


def rebuilt_metadata(rebuilt: Rebuilt) -> Metadata:
    """The rows that a rebuild has made of one day, or would make."""
    tally = rebuilt.tally
    reasons = [*tally.dropped.items(), *((f"can't be made again: {why}", n) for why, n in tally.kept.items())]
    metadata: Metadata = {
        "same": tally.same,
        "replaced": tally.replaced,
        "removed": sum(tally.dropped.values()),
        "stayed": sum(tally.kept.values()),
        "files_read": rebuilt.plan.files,
        "commits": rebuilt.commits,
        "seconds": round(rebuilt.seconds, 1),
    }
    if reasons:
        rows = [["why", "rows"], *([why, f"{count:,}"] for why, count in reasons)]
        metadata["reasons"] = MetadataValue.md(markdown_table(rows))
    return metadata


def is_done(filled: Filled, day: date) -> bool:
    """Whether nothing is wrong with a day that was filled; of what is broken nobody knows the day."""
    return not filled.broken and (filled.is_whole or not filled.left_by_day[str(day)])


def lacking_texts(datacenter: str, filled: Filled, pipeline_file: Path | str) -> list[str]:
    """Why days are not complete, and what to do."""
    texts = [
        f"{datacenter}: {one.count:,} {one.meaning.says}. What to do: "
        + typed(one.remedy, pipeline_file, datacenter)
        for one in filled.broken
    ]
    if not filled.is_whole:
        days = ", ".join(f"{day} ({count:,})" for day, count in sorted(filled.left_by_day.items()))
        in_vain = "the dispatcher has looked at them and did not join them"
        why = filled.waits or filled.recovered.problem or in_vain
        texts.append(
            f"{datacenter}: records are missing of {days or 'some day'}: {why}. "
            "When that is mended, launch these days again; a trace tells of one event"
        )
    return texts
