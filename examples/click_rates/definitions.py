"""A code location of Photon's assets and those of a user: `dagster dev -m examples.click_rates.definitions`.

`clicks_a_query` has the clicks a query, hour by hour; `click_through_rate` the share of each country's
queries that were clicked. Each has a partition for each day, and is made when a release is complete up to the
end of that day, from that release or a later one. Both are Delta tables beside the lakes, in `lake/NAME`.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from dataclasses import dataclass
from typing import Literal

from dagster import (
    AssetCheckResult,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetsDefinition,
    AssetSelection,
    AutomationConditionSensorDefinition,
    DailyPartitionsDefinition,
    DefaultSensorStatus,
    Definitions,
    MaterializeResult,
    asset,
)
from pyspark.sql import DataFrame, SparkSession

from photon.assets.attributes import freshness
from photon.assets.daily_joins import STALE
from photon.assets.releases import when_complete
from photon.assets.runs import canceled_with_a_sentence
from photon.jobs.release_rows import release_rows
from photon.orchestration.code_location import build_defs
from photon.pipeline.file import Pipeline, dagster_name
from photon.releases.reading import OpenRelease, open_release
from photon.resources.environment import LocationSettings, ServedPipeline, location_settings

TICK_SECONDS = 60
POOL = "click_rates"  # one at a time, and apart from Photon's upkeep

CLICKS_A_QUERY = """
SELECT DATE '{day}' AS day, hour(_event_time) AS hour, count(*) AS clicks,
       count(DISTINCT query_id) AS clicked_queries, count(*) / count(DISTINCT query_id) AS clicks_a_query
FROM joined WHERE _event_date = DATE '{day}'
GROUP BY hour
"""
CLICK_THROUGH_RATE = """
SELECT DATE '{day}' AS day, country, count(*) AS queries, count(clicked.query_id) AS clicked_queries,
       count(clicked.query_id) / count(*) AS rate
FROM (SELECT DISTINCT query_id, country FROM queries WHERE to_date(to_timestamp(time)) = DATE '{day}')
LEFT JOIN (SELECT DISTINCT query_id FROM joined WHERE _event_date = DATE '{day}') clicked USING (query_id)
GROUP BY country
"""
# Before anybody goes on with a day, its hours must have each joined row once.
ADDS_UP = """
SELECT (SELECT count(DISTINCT _event_id) FROM joined WHERE _event_date = DATE '{day}') AS events,
       (SELECT coalesce(sum(clicks), 0) FROM made) AS clicks
"""
# No country has more queries that were clicked than were asked.
IS_A_SHARE = "SELECT count(*) AS countries, count_if(rate BETWEEN 0 AND 1) AS sound FROM made"


@dataclass(frozen=True)
class Rate:
    """A table of one day's numbers, and the promise that has to hold before others go on with them."""

    name: Literal["clicks_a_query", "click_through_rate"]
    description: str
    query: str
    check: str
    check_query: str  # two numbers that have to be equal
    after: tuple[str, ...]


RATES = (
    Rate(
        "clicks_a_query",
        "Clicks for each clicked query, by the hour of the click.",
        CLICKS_A_QUERY,
        "adds_up",
        ADDS_UP,
        after=("release",),
    ),
    Rate(
        "click_through_rate",
        "The share of a day's queries that were clicked on that day, by country.",
        CLICK_THROUGH_RATE,
        "is_a_share",
        IS_A_SHARE,
        after=("release", "clicks_a_query"),
    ),
)


def rate_asset(rate: Rate, served: ServedPipeline) -> AssetsDefinition:
    """The asset of a rate."""
    first_day = served.pipeline.backfill.first_day.isoformat()

    @asset(
        key=served.asset_key(rate.name),
        group_name=served.group_name("rates"),
        partitions_def=DailyPartitionsDefinition(first_day, timezone="UTC"),
        deps=[served.asset_key(name) for name in rate.after],
        automation_condition=when_complete(),
        freshness_policy=freshness(STALE),  # as that of the days that it follows
        check_specs=[AssetCheckSpec(rate.check, asset=served.asset_key(rate.name), blocking=True)],
        kinds={"spark", "deltalake"},
        pool=POOL,
        required_resource_keys={"spark"},
        description=rate.description,
    )
    def made(context: AssetExecutionContext) -> MaterializeResult:  # type: ignore[type-arg]  # Dagster refuses MaterializeResult[None] with checks
        pipeline, day = served.load(), context.partition_key
        with canceled_with_a_sentence(context):
            spark = context.resources.spark.for_checks(pipeline)
            opened = open_release(pipeline)  # one release for all that is computed
            one, other, rows = make(rate, day, opened, spark)
        check = AssetCheckResult(
            check_name=rate.check, passed=one == other, metadata={"of": one, "and": other}
        )
        return MaterializeResult(
            metadata={"dagster/partition_row_count": rows, "release": opened.release.number},
            check_results=[check],
        )

    return made


def make(rate: Rate, day: str, opened: OpenRelease, spark: SparkSession) -> tuple[int, int, int]:
    """Write one day of a rate; the two numbers of its check, and its rows."""
    pipeline = opened.pipeline
    release_rows(spark, opened).createOrReplaceTempView("joined")
    read_queries(spark, pipeline).createOrReplaceTempView("queries")
    made = spark.sql(rate.query.format(day=day)).cache()
    made.createOrReplaceTempView("made")
    one, other = spark.sql(rate.check_query.format(day=day)).collect()[0]
    table = str(pipeline.file.parent / "lake" / rate.name)
    made.write.format("delta").mode("overwrite").option("replaceWhere", f"day = '{day}'").save(table)
    return one, other, made.count()


def read_queries(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """All queries, from the first datacenter's log: each has a full copy."""
    place = next(iter(pipeline.datacenters.values()))
    columns = "query_id STRING, time STRING, country STRING"
    return spark.read.schema(columns).json(f"{place.logs}/{pipeline.primary.files}")


def with_rates(settings: LocationSettings) -> Definitions:
    """Photon's definitions, and these beside them."""
    return Definitions.merge(build_defs(settings), *map(_rates_of, settings.served))


def _rates_of(served: ServedPipeline) -> Definitions:
    conditions = AutomationConditionSensorDefinition(
        dagster_name(served.pipeline.name, "rates"),
        target=AssetSelection.assets(*(served.asset_key(rate.name) for rate in RATES)),
        minimum_interval_seconds=TICK_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
    )
    return Definitions(assets=[rate_asset(rate, served) for rate in RATES], sensors=[conditions])


defs = with_rates(location_settings())
