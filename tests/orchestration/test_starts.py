"""Which runs start at once, which wait in line without a process, and which yield: on a real code server."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter
from dagster._core.events import EngineEventData
from dagster._core.launcher import LaunchRunContext, WorkerStatus
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    MAX_RUNTIME_SECONDS_TAG,
)
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.monitoring.run_monitoring import execute_run_monitoring_iteration
from dagster._daemon.run_coordinator import QueuedRunCoordinatorDaemon

from photon.assets.daily_joins import partition_key
from photon.assets.work import UPKEEP_POOL
from photon.dispatcher.shift.run import prepare
from photon.process.operating_system import NICENESS, Begun
from photon.resources.launching import PROCESS_TAG
from photon.upkeep.backfill.days import day_of
from photon.upkeep.backfill.yielding import in_line
from tests.e2e.process_marks import soon
from tests.orchestration.location import Location

PROJECT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120.0  # a busy machine takes so long to start a process


@dataclass(frozen=True)
class Dagster:
    """An instance with a code server, whose queue looks when a test says so."""

    instance: DagsterInstance
    workspace: WorkspaceProcessContext
    location: Location

    def submit(self, job: str, tags: Mapping[str, str] | None = None) -> str:
        """Ask for a run, as a click or a tick does; its id."""
        context = self.workspace.create_request_context()
        repository = context.get_code_location("photon").get_repository("__repository__")
        remote = repository.get_full_job(f"clicks__{job}")
        run = self.instance.create_run_for_job(
            self.location.defs.resolve_job_def(f"clicks__{job}"),
            run_config={"ops": {"clicks__hold": {"config": {"datacenter": "west"}}}}
            if job == "hold"
            else None,
            tags=tags,
            remote_job_origin=remote.get_remote_origin(),
            job_code_origin=remote.get_python_origin(),
        )
        self.instance.submit_run(run.run_id, context)
        return run.run_id

    def look(self) -> None:
        """Have the queue's daemon look once."""
        list(QueuedRunCoordinatorDaemon(interval_seconds=1).run_iteration(self.workspace))

    def run(self, run_id: str) -> DagsterRun:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run

    def statuses(self, *runs: str) -> list[str]:
        return [self.run(run).status.value for run in runs]

    def ends(self, run_id: str) -> bool:
        return soon(lambda: self.run(run_id).is_finished, PATIENCE_SECONDS)

    def said_of(self, run_id: str) -> str:
        return " ".join(entry.message for entry in self.instance.all_logs(run_id))

    def process_of(self, run_id: str) -> psutil.Process:
        """The process of a run that is launched, as the run's log names it."""
        found: list[int] = []

        def is_told() -> bool:
            said = self.said_of(run_id)
            found.extend(map(int, re.findall(r"Started process for run \(pid: (\d+)\)", said)))
            return bool(found)

        assert soon(is_told, PATIENCE_SECONDS)
        return psutil.Process(found[0])


def processes_below() -> int:
    return len(psutil.Process().children(recursive=True))


@pytest.fixture(scope="module")
def served(new_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dagster]:
    """One code server for all tests: its start takes as long as a test."""
    home, folder = tmp_path_factory.mktemp("served"), tmp_path_factory.mktemp("pipeline")
    shutil.copytree(new_home, home, dirs_exist_ok=True)
    location = Location(folder, more="registry: {keep_days: 30}\n")
    prepare(location.pipeline)  # makes the registry
    target = ModuleTarget("photon.orchestration.definitions", None, str(PROJECT), "photon")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        patch.setenv("PHOTON_PIPELINES", str(location.file))
        with (
            DagsterInstance.from_config(str(home)) as instance,
            create_test_daemon_workspace_context(target, instance) as workspace,
        ):
            yield Dagster(instance, workspace, location)


@pytest.fixture
def dagster(served: Dagster) -> Iterator[Dagster]:
    """Yield a Dagster without runs and limits of pools, in which nobody is at work."""
    yield served
    for run in served.instance.get_runs():
        assert run.status is DagsterRunStatus.QUEUED or served.ends(run.run_id)
        served.instance.delete_run(run.run_id)
    for pool in served.instance.event_log_storage.get_concurrency_keys():
        served.instance.event_log_storage.delete_concurrency_limit(pool)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_in_a_pool_waits_without_a_process_and_what_is_in_none_starts_at_once(
    dagster: Dagster,
) -> None:
    before = processes_below()
    reports = [dagster.submit(job) for job in ("compact", "gc", "registry_report")]
    assert dagster.statuses(*reports) == ["QUEUED"] * 3
    assert processes_below() == before
    hold = dagster.submit("hold")
    assert dagster.statuses(hold, *reports)[1:] == ["QUEUED"] * 3
    assert dagster.process_of(hold).nice() == os.nice(0)
    assert dagster.ends(hold)

    dagster.look()  # the very first look at this pool
    launched = [run for run in reports if dagster.run(run).status is not DagsterRunStatus.QUEUED]
    assert len(launched) == 1
    dagster.look()
    waiting = dagster.instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.QUEUED]))
    assert len(waiting) == 2 or dagster.run(launched[0]).is_finished
    assert dagster.ends(launched[0])
    assert dagster.run(hold).status is dagster.run(launched[0]).status is DagsterRunStatus.SUCCESS
    dagster.look()
    assert len(dagster.instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.QUEUED]))) == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_in_a_pool_yields_and_frees_its_pool_when_its_process_is_gone(dagster: Dagster) -> None:
    first, second = dagster.submit("compact"), dagster.submit("gc")
    dagster.look()
    process = dagster.process_of(first)
    assert process.nice() == max(NICENESS, os.nice(0))
    launcher, run = dagster.instance.run_launcher, dagster.run(first)
    assert [tag for tag in run.tags if tag.startswith(PROCESS_TAG)] == [f"{PROCESS_TAG}{process.pid}"]
    process.send_signal(signal.SIGSTOP)
    assert launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
    process.kill()
    assert soon(lambda: not psutil.pid_exists(process.pid) or process.status() == "zombie", PATIENCE_SECONDS)
    gone = launcher.check_run_worker_health(run)
    assert gone.status is WorkerStatus.FAILED
    assert str(process.pid) in str(gone.msg)
    assert dagster.ends(first)
    dagster.look()
    assert dagster.run(second).status is not DagsterRunStatus.QUEUED
    assert dagster.ends(second)


def launched_once_more(dagster: Dagster, run_id: str) -> None:
    """As a second daemon launches it, or the same one after a launch that took too long."""
    context = dagster.workspace.create_request_context()
    dagster.instance.run_launcher.launch_run(LaunchRunContext(dagster.run(run_id), context))


def out_of_time(dagster: Dagster, run_id: str) -> None:
    def is_failed() -> bool:  # at a look once its second is over
        list(execute_run_monitoring_iteration(dagster.workspace, logging.getLogger()))
        return dagster.run(run_id).is_finished

    assert soon(is_failed, PATIENCE_SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fails", [launched_once_more, out_of_time])
def test_a_run_that_dagster_fails_has_no_process_for_long(
    dagster: Dagster, fails: Callable[[Dagster, str], None]
) -> None:
    day = partition_key("east", day_of(dagster.location.clock.now_us()) - timedelta(days=1))
    ends = (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG)
    with in_line(dagster.location.state(), print):  # the run waits for this
        run = dagster.submit("days", {**dict.fromkeys(ends, str(day)), MAX_RUNTIME_SECONDS_TAG: "1"})
        dagster.look()
        process = dagster.process_of(run)
        assert soon(lambda: "waits for another" in dagster.said_of(run), PATIENCE_SECONDS)
        fails(dagster, run)
        assert dagster.ends(run)
        assert dagster.statuses(run) == ["FAILURE"]
        assert soon(lambda: Begun.of(process.pid) is None, PATIENCE_SECONDS)


IGNORES_INTERRUPTS = """
import signal, sys, time
from photon.assets.runs import ending_when_over
if sys.argv[1] == "hangs":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
with ending_when_over(iter([False, True]).__next__, 0.01, 0.1):
    time.sleep(600)
"""


@pytest.mark.parametrize(("how", "status"), [("waits", -signal.SIGINT), ("hangs", -signal.SIGKILL)])
def test_a_process_whose_run_is_over_is_interrupted_and_one_that_hangs_is_killed(
    how: str, status: int
) -> None:
    assert subprocess.run([sys.executable, "-c", IGNORES_INTERRUPTS, how], check=False).returncode == status


def a_moment_before(begun: Begun) -> Begun:
    return replace(begun, ticks=begun.ticks - 1)  # the number is another process's now


def before_a_restart(begun: Begun) -> Begun:
    return replace(begun, boot="00000000-0000-0000-0000-000000000000")


def elsewhere(begun: Begun) -> Begun:
    return replace(before_a_restart(begun), host="another")


@pytest.mark.parametrize(
    ("known", "status"),
    [
        ([], WorkerStatus.RUNNING),
        ([elsewhere], WorkerStatus.RUNNING),
        ([a_moment_before], WorkerStatus.FAILED),
        ([before_a_restart], WorkerStatus.FAILED),
        (
            [before_a_restart, lambda begun: begun],
            WorkerStatus.RUNNING,
        ),  # launched twice: one was turned away
    ],
)
def test_a_run_fails_only_if_each_process_of_it_is_known_to_be_gone(
    location: Location,
    instance: DagsterInstance,
    known: Sequence[Callable[[Begun], Begun]],
    status: WorkerStatus,
) -> None:
    begun, run_id = Begun.of(os.getpid()), location.run()
    assert begun is not None
    tags = {f"{PROCESS_TAG}{n}": json.dumps(asdict(change(begun))) for n, change in enumerate(known)}
    instance.add_run_tags(run_id, tags)
    run = instance.get_run_by_id(run_id)
    assert run is not None
    assert instance.run_launcher.check_run_worker_health(run).status is status

    # Another process of the run that lives, as after a launch that was tried again.
    instance.report_engine_event("Started process", run, EngineEventData.in_process(os.getpid()))
    assert instance.run_launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_limit_that_a_person_gave_a_pool_stays_and_0_stops_it(dagster: Dagster) -> None:
    storage = dagster.instance.event_log_storage
    storage.set_concurrency_slots(UPKEEP_POOL, 0)
    run = dagster.submit("compact")
    dagster.look()
    assert dagster.statuses(run) == ["QUEUED"]
    storage.set_concurrency_slots(UPKEEP_POOL, 2)
    others = [dagster.submit(job) for job in ("gc", "registry_report")]
    dagster.look()
    assert dagster.statuses(run, *others).count("QUEUED") == 1
    assert all(dagster.ends(one) for one in (run, others[0]))


def test_a_shift_refuses_a_run_that_makes_a_report_too(location: Location, instance: DagsterInstance) -> None:
    """Such a run would wait in line as a report, and have a pool for as long as the shift."""
    keys = [location.served.asset_key(name) for name in ("joined_events", "verification_report")]
    job = location.defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=instance, asset_selection=keys, partition_key="east", raise_on_error=False
    )
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    said = failure.step_failure_data.user_failure_data
    assert said is not None
    assert "materialize joined_events by itself" in str(said.description)
