"""Which runs start at once, which wait in line without a process, and which yield: on a real code server."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter
from dagster._core.launcher import WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.run_coordinator import QueuedRunCoordinatorDaemon

from photon.dispatcher.shift.run import prepare
from photon.process.operating_system import NICENESS
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

    def submit(self, job: str) -> str:
        """Ask for a run, as a click or a tick does; its id."""
        context = self.workspace.create_request_context()
        repository = context.get_code_location("photon").get_repository("__repository__")
        remote = repository.get_full_job(f"clicks__{job}")
        run = self.instance.create_run_for_job(
            self.location.defs.resolve_job_def(f"clicks__{job}"),
            run_config={"ops": {"clicks__hold": {"config": {"datacenter": "east"}}}}
            if job == "hold"
            else None,
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

    def process_of(self, run_id: str) -> psutil.Process:
        """The process of a run that is launched, as the run's log names it."""
        found: list[int] = []

        def is_told() -> bool:
            said = " ".join(entry.message for entry in self.instance.all_logs(run_id))
            found.extend(map(int, re.findall(r"Started process for run \(pid: (\d+)\)", said)))
            return bool(found)

        assert soon(is_told, PATIENCE_SECONDS)
        return psutil.Process(found[0])


def processes_below() -> int:
    return len(psutil.Process().children(recursive=True))


@pytest.fixture
def dagster(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dagster]:
    location = Location(tmp_path / "pipeline", more="registry: {keep_days: 30}\n")
    prepare(location.pipeline)  # makes the registry
    monkeypatch.setenv("PHOTON_PIPELINES", str(location.file))
    target = ModuleTarget("orchestration.definitions", None, str(PROJECT), "photon")
    with (
        DagsterInstance.from_config(str(home)) as instance,
        create_test_daemon_workspace_context(target, instance) as workspace,
    ):
        yield Dagster(instance, workspace, location)


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


def test_a_process_of_a_code_server_elsewhere_is_taken_for_alive(
    location: Location, instance: DagsterInstance
) -> None:
    run = location.run()
    instance.add_run_tags(run, {GRPC_INFO_TAG: '{"host": "10.1.2.3", "port": 4266}'})
    found = instance.get_run_by_id(run)
    assert found is not None
    assert instance.run_launcher.check_run_worker_health(found).status is WorkerStatus.RUNNING
