"""Schedules: one verification at a time, and nothing that has to be turned on by hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultScheduleStatus,
    RunRequest,
    ScheduleDefinition,
    SkipReason,
    build_schedule_context,
)

from tests.orchestration.location import Location

VERIFICATION = "clicks__verification"


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location(tmp_path, more='verification: {cron: "5 4 * * *"}\n')


@pytest.fixture
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterInstance]:
    with DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as opened:
        yield opened


def schedule(location: Location) -> ScheduleDefinition:
    return location.defs.get_repository_def().get_schedule_def(f"{VERIFICATION}__schedule")


def in_progress(
    location: Location,
    instance: DagsterInstance,
    job_name: str,
    status: DagsterRunStatus,
    by_hand: bool = False,
) -> str:
    chosen = frozenset({location.served.asset_key("verification_report")}) if by_hand else None
    run = instance.create_run_for_job(
        location.defs.resolve_job_def(job_name),
        run_id=str(uuid.uuid4()),
        status=status,
        asset_selection=chosen,
    )
    return run.run_id


def tick(location: Location, instance: DagsterInstance) -> RunRequest | SkipReason:
    answer = schedule(location)(build_schedule_context(instance))
    assert isinstance(answer, RunRequest | SkipReason)
    return answer


def test_every_schedule_runs_from_the_start_in_utc(location: Location) -> None:
    schedules = list(location.defs.get_repository_def().schedule_defs)
    assert {s.name for s in schedules} == {
        "clicks__verification__schedule",
        "clicks__clearing__schedule",
        "clicks__registry_report__schedule",
        "prune_run_history_schedule",
    }
    assert all(s.default_status is DefaultScheduleStatus.RUNNING for s in schedules)
    assert all(s.execution_timezone == "UTC" for s in schedules)


def test_verification_runs_when_the_pipeline_file_says(location: Location) -> None:
    assert schedule(location).cron_schedule == "5 4 * * *"


def test_a_verification_is_requested_when_none_is_in_progress(
    location: Location, instance: DagsterInstance
) -> None:
    in_progress(location, instance, VERIFICATION, DagsterRunStatus.FAILURE)
    in_progress(location, instance, location.job, DagsterRunStatus.STARTED)
    assert isinstance(tick(location, instance), RunRequest)


@pytest.mark.parametrize("status", [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED])
def test_none_is_requested_while_one_is_in_progress(
    location: Location, instance: DagsterInstance, status: DagsterRunStatus
) -> None:
    run_id = in_progress(location, instance, VERIFICATION, status)
    answer = tick(location, instance)
    assert isinstance(answer, SkipReason)
    assert run_id in str(answer.skip_message)


def test_a_verification_started_by_hand_counts_as_one(location: Location, instance: DagsterInstance) -> None:
    in_progress(location, instance, "__ASSET_JOB", DagsterRunStatus.STARTED, by_hand=True)
    assert isinstance(tick(location, instance), SkipReason)


def test_a_verification_whose_process_is_gone_is_given_up_in_the_end(location: Location) -> None:
    job = location.defs.resolve_job_def(VERIFICATION)
    assert 0 < float(job.run_tags["dagster/max_runtime"]) <= 86_400
