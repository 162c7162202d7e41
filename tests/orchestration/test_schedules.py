"""Schedules: when the pipeline file says, one run at a time, and nothing that has to be turned on by hand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    RunRequest,
    ScheduleDefinition,
    SkipReason,
    build_schedule_context,
)

from photon.assets.evaluations import EVALUATIONS
from photon.assets.reports import REPORTS
from photon.assets.upkeep import UPKEEP
from photon.orchestration.schedules import schedules_of
from photon.resources.environment import location_settings
from tests.orchestration.location import Location

VERIFICATION = "clicks__verification"


@pytest.fixture
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterInstance]:
    with DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as opened:
        yield opened


# -- when


def crons(folder: Path, settings: str) -> dict[str, str]:
    """Return the cron of each kind's schedule."""
    file = Location(folder, ("east",)).file
    file.write_text(file.read_text() + settings)
    (served,) = location_settings({"PHOTON_PIPELINES": str(file)}).served
    return {
        schedule.name.removeprefix("clicks__").removesuffix("__schedule"): str(schedule.cron_schedule)
        for schedule in schedules_of(served)
    }


ALWAYS = {"verification", "recover", "registry_report", "compact"}


@pytest.mark.parametrize(
    ("settings", "scheduled"),
    [
        pytest.param("", ALWAYS, id="nothing is repaired, retired or acknowledged by the clock"),
        pytest.param("registry: {keep_days: 30}\n", ALWAYS | {"gc"}, id="ids that have an end are dropped"),
        pytest.param(
            "unmatched: {}\n",
            ALWAYS | {"find_unmatched"},
            id="who asks for unmatched primaries has them looked for",
        ),
    ],
)
def test_upkeep_that_has_something_to_find_out_is_scheduled(
    tmp_path: Path, settings: str, scheduled: set[str]
) -> None:
    assert set(crons(tmp_path, settings)) == scheduled


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("verification", 'verification: {cron: "5 4 * * *"}\n'),
        ("recover", 'recovery: {cron: "5 4 * * *"}\n'),
        ("registry_report", 'registry: {state: {cron: "5 4 * * *"}}\n'),
        ("compact", 'compaction: {cron: "5 4 * * *"}\n'),
        ("gc", 'registry: {keep_days: 30, collection: {cron: "5 4 * * *"}}\n'),
        ("reshard", 'registry: {resharding: {cron: "5 4 * * *"}, endpoints: [{url: "http://a"}]}\n'),
    ],
)
def test_a_schedule_runs_when_the_pipeline_file_says(tmp_path: Path, kind: str, settings: str) -> None:
    assert crons(tmp_path, settings)[kind] == "5 4 * * *"


def test_by_default_what_is_lost_is_recovered_before_gc(tmp_path: Path) -> None:
    found = crons(tmp_path, "registry: {keep_days: 30}\n")
    minutes = [int(found[kind].split()[0]) for kind in ("verification", "recover", "gc")]
    assert minutes == sorted(minutes)


# -- one at a time


def in_progress(
    location: Location,
    job_name: str,
    status: DagsterRunStatus,
    by_hand: bool = False,
) -> str:
    chosen = frozenset({location.served.asset_key("verification_report")}) if by_hand else None
    run = location.instance.create_run_for_job(
        location.defs.resolve_job_def(job_name),
        run_id=str(uuid.uuid4()),
        status=status,
        asset_selection=chosen,
    )
    return run.run_id


def tick(schedule: ScheduleDefinition, instance: DagsterInstance) -> RunRequest | SkipReason:
    answer = schedule(build_schedule_context(instance))
    assert isinstance(answer, RunRequest | SkipReason)
    return answer


@pytest.mark.parametrize(
    ("job", "status", "by_hand", "requested"),
    [
        pytest.param(VERIFICATION, DagsterRunStatus.FAILURE, False, True, id="one that is over"),
        pytest.param("clicks__shift", DagsterRunStatus.STARTED, False, True, id="a run of another job"),
        pytest.param(VERIFICATION, DagsterRunStatus.STARTING, False, False, id="one that starts"),
        pytest.param(VERIFICATION, DagsterRunStatus.STARTED, False, False, id="one that runs"),
        pytest.param("__ASSET_JOB", DagsterRunStatus.STARTED, True, False, id="one started by hand"),
    ],
)
def test_a_verification_is_requested_unless_one_is_in_progress(
    location: Location,
    job: str,
    status: DagsterRunStatus,
    by_hand: bool,
    requested: bool,
) -> None:
    run_id = in_progress(location, job, status, by_hand)
    schedule = location.defs.get_repository_def().get_schedule_def(f"{VERIFICATION}__schedule")
    answer = tick(schedule, location.instance)
    assert isinstance(answer, RunRequest if requested else SkipReason)
    if isinstance(answer, SkipReason):
        assert run_id in str(answer.skip_message)


def test_no_upkeep_is_requested_while_it_is_in_progress(location: Location) -> None:
    for schedule in schedules_of(location.served):
        assert isinstance(tick(schedule, location.instance), RunRequest)
        in_progress(location, schedule.job_name, DagsterRunStatus.STARTED)
        assert isinstance(tick(schedule, location.instance), SkipReason)


def test_upkeep_whose_process_is_gone_is_given_up_in_the_end(location: Location) -> None:
    for kind in (kind for kind in (*REPORTS, *EVALUATIONS, *UPKEEP) if kind.can_work(location.pipeline)):
        job = location.defs.resolve_job_def(location.served.job_name(kind.name))
        assert 0 < float(job.run_tags["dagster/max_runtime"]) <= 2 * 86_400
    verification = location.defs.resolve_job_def(VERIFICATION)
    assert float(verification.run_tags["dagster/max_runtime"]) <= 86_400
