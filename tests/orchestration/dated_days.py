"""Days of two datacenters as Dagster stores them: all kinds of rows that Photon makes, fewer of each."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as db
from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetCheckResult,
    AssetCheckSeverity,
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterEventType,
    DagsterInstance,
    DailyPartitionsDefinition,
    MaterializeResult,
    MultiPartitionsDefinition,
    StaticPartitionsDefinition,
    asset,
    asset_check,
    materialize,
)
from dagster._core.definitions.freshness import FreshnessState, FreshnessStateChange
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    ScheduleInstigatorData,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.runs.sql_run_storage import SqlRunStorage
from dagster._core.storage.schedules.sql_schedule_storage import SqlScheduleStorage
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from dagster._core.test_utils import freeze_time
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from photon.assets.releases import HOUR, KEY_FORMAT
from photon.assets.run_history import prune_history
from photon.process.clock import MICROSECONDS

FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
KEEP_DAYS = 3.0  # as PHOTON_KEEP_RUNS_DAYS is by default
PLACES = ("east", "west")
EACH_HOURS = 6  # sensors tell something; Photon's do each hour, and each five minutes of what is red
JOINED, DAYS, RELEASE, REPORT = map(AssetKey, ("joined_events", "daily_joins", "release", "report"))
HEALTH, LOG = AssetKey("health"), AssetKey("primary_log")
WORKS = [AssetCheckKey(HEALTH, f"{name}_works") for name in PLACES]
COMPLETE = AssetCheckKey(REPORT, "complete")
# Partitions that a day adds: each one's materialization stays, since Dagster knows by it that it was made.
PARTITIONS_A_DAY = 24 // EACH_HOURS + len(PLACES)
TAGS_A_DAY = 3 * len(PLACES)  # of these: day, datacenter and version of what a run made
STAY_A_DAY = {"event_logs": PARTITIONS_A_DAY, "asset_event_tags": TAGS_A_DAY}
# A row of such a partition with its tags and its places in indexes takes no more than a page of SQLite.
PARTITION_BYTES = 4_096
SPLIT_PAGES = 4  # of tables and indexes whose last page was full: half of a new one stays free
# After this day no retention keeps more than the days before: dagster.yaml has 7 days for ticks.
LONGEST_RETENTION_DAYS = 7
# Tables that get rows each day, which pruning deletes.
GROW = ("event_logs", "asset_event_tags", "asset_check_executions", "runs", "run_tags", "job_ticks")
KEEP_THEIR_SIZE = {
    "alembic_version": "one row",
    "asset_daemon_asset_evaluations": "conditions of a user's assets: Dagster keeps a month",
    "asset_keys": "one row an asset",
    "backfill_tags": "people's backfills",
    "bulk_actions": "people's backfills",
    "concurrency_limits": "one row a pool",
    "concurrency_slots": "a row a place in a pool",
    "daemon_heartbeats": "one row a daemon",
    "dynamic_partitions": "Photon has none",
    "instance_info": "one row",
    "instigators": "one row a sensor or schedule",
    "jobs": "one row a sensor or schedule",
    "kvs": "one row a cursor of a daemon",
    "pending_steps": "steps that wait for a pool",
    "secondary_indexes": "one row a migration",
    "snapshots": "one row a form of a job",
}


@asset(key=JOINED, partitions_def=StaticPartitionsDefinition(list(PLACES)))
def joined(context: AssetExecutionContext) -> MaterializeResult[None]:
    for report in range(4):
        context.log_event(
            AssetObservation(JOINED, partition=context.partition_key, metadata={"rows": report})
        )
    return MaterializeResult(metadata={"rows": 5})


@asset(
    key=DAYS,
    partitions_def=MultiPartitionsDefinition(
        {"datacenter": StaticPartitionsDefinition(list(PLACES)), "day": DailyPartitionsDefinition(FIRST_DAY)}
    ),
)
def days() -> MaterializeResult[None]:
    return MaterializeResult(metadata={"rows": 5})


@asset(key=REPORT)
def report() -> MaterializeResult[None]:
    print("a line for the log of the run")
    return MaterializeResult(metadata={"late": 0})


@asset_check(asset=REPORT, name=COMPLETE.name)
def complete() -> AssetCheckResult:
    return AssetCheckResult(passed=True)


@asset(key="failing")
def failing() -> None:
    raise ValueError("as each day")


def origin(name: str) -> RemoteInstigatorOrigin:
    location = ManagedGrpcPythonEnvCodeLocationOrigin(
        LoadableTargetOrigin(module_name="photon.orchestration")
    )
    return RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "__repository__"), name)


INSTIGATORS = {InstigatorType.SENSOR: origin("sensor"), InstigatorType.SCHEDULE: origin("schedule")}


def begin(instance: DagsterInstance) -> None:
    """Switch a sensor and a schedule on."""
    data = {
        InstigatorType.SENSOR: SensorInstigatorData(),
        InstigatorType.SCHEDULE: ScheduleInstigatorData("@hourly"),
    }
    for kind, one in INSTIGATORS.items():
        state = InstigatorState(one, kind, InstigatorStatus.DECLARED_IN_CODE, data[kind])
        instance.add_instigator_state(state)


def live(instance: DagsterInstance, number: int) -> None:
    """All that happens in a day: runs at noon, and what sensors tell at its hours."""
    day = FIRST_DAY + number * timedelta(days=1)
    for hour in range(0, 24, EACH_HOURS):
        with freeze_time(day + hour * HOUR):
            _tell(instance, day + hour * HOUR)
        if hour == 12:
            with freeze_time(day + hour * HOUR):
                _run(instance, day)


def _tell(instance: DagsterInstance, hour: datetime) -> None:
    tell, key = instance.report_runless_asset_event, hour.strftime(KEY_FORMAT)
    tell(AssetMaterialization(RELEASE, partition=key, metadata={"release": 1, "rows": 5}))
    for check in WORKS:
        is_red = check is WORKS[0] and hour.day % 2 == 0
        severity, text = AssetCheckSeverity.ERROR, f"nothing was joined since {hour}"
        metadata = {"lag_seconds": 5, "what_to_do": "look at its shift: " + "x" * 800}
        tell(
            AssetCheckEvaluation(
                HEALTH, check.name, not is_red, metadata, severity=severity, description=text
            )
        )
    if hour.hour % 12 == 0:
        tell(AssetObservation(LOG, metadata={"files": 5, "bytes": 5}, tags={"photon/of": "east"}))
        tell(
            FreshnessStateChange(
                key=JOINED,
                new_state=FreshnessState.PASS,
                previous_state=FreshnessState.WARN,
                state_change_timestamp=hour.timestamp(),
            )
        )
    for kind in INSTIGATORS:
        for status in (TickStatus.SKIPPED, TickStatus.SUCCESS):
            add_tick(instance, kind, status, hour.timestamp())


def add_tick(instance: DagsterInstance, kind: InstigatorType, status: TickStatus, at_seconds: float) -> None:
    one = INSTIGATORS[kind]
    selector = one.get_selector().get_id()
    instance.create_tick(
        TickData(
            one.get_id(), one.instigator_name, kind, status, at_seconds, run_ids=[], selector_id=selector
        )
    )


def _run(instance: DagsterInstance, day: datetime) -> None:
    for name in PLACES:
        materialize([joined], instance=instance, partition_key=name)
    keys = [f"{name}|{day - timedelta(days=1):%Y-%m-%d}" for name in PLACES] if day > FIRST_DAY else []
    for key in keys:
        tags = {ASSET_PARTITION_RANGE_START_TAG: key, ASSET_PARTITION_RANGE_END_TAG: key}
        materialize([days], instance=instance, tags=tags)
    materialize([report, complete], instance=instance)
    materialize([failing], instance=instance, raise_on_error=False)


def prune(instance: DagsterInstance, number: int) -> None:
    """Prune as at the end of a day: Photon's job, and Dagster's daemon by its settings."""
    end = FIRST_DAY + (number + 1) * timedelta(days=1)
    prune_history(instance, round(end.timestamp() * MICROSECONDS), KEEP_DAYS, print)
    for kind, one in INSTIGATORS.items():
        for status, kept_days in instance.get_tick_retention_settings(kind).items():
            before = (end - timedelta(days=kept_days)).timestamp()
            instance.purge_ticks(one.get_id(), one.get_selector().get_id(), before, [status])


def rows(instance: DagsterInstance) -> dict[str, int]:
    """How many rows each table of an instance has."""
    events, runs, ticks = instance.event_log_storage, instance.run_storage, instance.schedule_storage
    assert isinstance(events, SqlEventLogStorage)
    assert isinstance(runs, SqlRunStorage)
    assert isinstance(ticks, SqlScheduleStorage)
    counts: dict[str, int] = {}
    for connect in (events.index_connection, runs.connect, ticks.connect):
        with connect() as connection:
            for table in db.inspect(connection).get_table_names():
                counts[table] = connection.scalar(db.text(f"SELECT count(*) FROM {table}")) or 0
    return counts


def shown(instance: DagsterInstance) -> dict[str, object]:
    """What Dagster's pages and Photon's sensors show as the latest, and the partitions that were made."""
    keys = [JOINED, DAYS, RELEASE, REPORT, LOG]
    storage = instance.event_log_storage
    return {
        "checks": storage.get_latest_asset_check_execution_by_key([*WORKS, COMPLETE]),
        "made": {key: instance.get_materialized_partitions(key) for key in keys},
        "latest of partitions": {
            (key, kind): storage.get_latest_storage_id_by_partition(key, kind)
            for key in keys
            for kind in (DagsterEventType.ASSET_MATERIALIZATION, DagsterEventType.ASSET_OBSERVATION)
        },
        "materializations": instance.get_latest_materialization_events(keys),
        "observations": {key: storage.fetch_observations(key, limit=1).records for key in keys},
        "fresh": instance.get_freshness_state_records([JOINED]),
    }


def live_days(instance: DagsterInstance, used_bytes: Callable[[], int], number: int) -> None:
    """Live and prune so many days. It stays as large as after the longest retention, but for partitions."""
    begin(instance)
    ends: list[tuple[dict[str, int], int]] = []  # rows and bytes at the end of each day
    for day in range(number):
        live(instance, day)
        prune(instance, day)
        ends.append((rows(instance), used_bytes()))
    (first, first_bytes), (last, last_bytes) = ends[LONGEST_RETENTION_DAYS], ends[-1]
    later_days, allowed = number - 1 - LONGEST_RETENTION_DAYS, Counter(first)
    allowed.update({name: later_days * count for name, count in STAY_A_DAY.items()})
    grown = {name: count for name, count in last.items() if count > allowed[name]}
    assert grown == {}, first
    added_bytes = last_bytes - first_bytes
    allowed_bytes = (later_days * PARTITIONS_A_DAY + SPLIT_PAGES) * PARTITION_BYTES
    assert added_bytes <= allowed_bytes, [size for _, size in ends]
