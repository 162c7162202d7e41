"""orchestration/dagster.yaml: Dagster reads it, and it makes the instance that its comments speak of.

infra/production/dagster.yaml is the same but for its storage, which tests/services tries.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import yaml
from dagster import DagsterInstance, DefaultRunLauncher
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.run_coordinator import QueuedRunCoordinator
from dagster._core.scheduler.instigation import TickStatus

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "orchestration" / "dagster.yaml"


def test_the_instance_opens_without_a_warning(home: Path) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with DagsterInstance.from_config(str(home)) as opened:
            assert opened.get_runs(limit=1) == []
    assert warned == []


def test_everything_is_stored_below_the_home(instance: DagsterInstance, home: Path) -> None:
    instance.run_storage.get_runs(limit=1)
    instance.event_log_storage.get_logs_for_run("none")
    instance.schedule_storage.all_instigator_state()
    stored = {path.relative_to(home).as_posix() for path in home.rglob("*.db")}
    assert stored == {"event_log.db", "history/runs.db", "schedules/schedules.db"}
    assert instance.compute_log_manager.get_log_metadata(["a"]).stdout_location.startswith(str(home))


def test_shifts_count_for_no_limit_of_runs(instance: DagsterInstance) -> None:
    assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert queue.max_concurrent_runs == -1


def test_the_dialog_for_backfills_advises_against_nothing(instance: DagsterInstance) -> None:
    """Dagster warns where no queue is: it looks for a class of this name."""
    assert isinstance(instance.run_launcher, DefaultRunLauncher)
    assert type(instance.run_launcher).__name__ != "DefaultRunLauncher"


def test_only_daemons_that_have_something_to_do_run(instance: DagsterInstance) -> None:
    assert set(instance.get_required_daemon_types()) == {
        *("SENSOR", "SCHEDULER", "BACKFILL", "MONITORING", "FRESHNESS_DAEMON", "ASSET"),
        "QUEUED_RUN_COORDINATOR",
    }


def test_a_run_that_never_starts_or_never_ends_is_given_up(instance: DagsterInstance) -> None:
    assert instance.run_monitoring_enabled
    assert 0 < instance.run_monitoring_start_timeout_seconds <= 300
    assert 0 < instance.run_monitoring_cancel_timeout_seconds <= 300
    assert instance.run_monitoring_max_runtime_seconds == 0  # a shift may be long


def test_no_tick_is_kept_for_ever(instance: DagsterInstance) -> None:
    for kind in (InstigatorType.SENSOR, InstigatorType.SCHEDULE):
        days = instance.get_tick_retention_settings(kind)
        assert all(days[status] > 0 for status in TickStatus), kind


def test_nothing_is_told_to_others(instance: DagsterInstance) -> None:
    assert not instance.telemetry_enabled
    assert not instance.nux_enabled


def test_production_differs_in_where_it_stores_and_in_nothing_else() -> None:
    local = yaml.safe_load(SETTINGS.read_text())
    production = yaml.safe_load((ROOT / "infra" / "production" / "dagster.yaml").read_text())
    assert local.pop("event_log_storage")["class"] == "ConsolidatedSqliteEventLogStorage"
    assert list(production.pop("storage")) == ["postgres"]
    assert production == local
