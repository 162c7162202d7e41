"""A run that Dagster terminates ends with a sentence for each step, without a stack, and begins no more."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from dagster import AssetCheckKey, AssetSelection, DagsterEventType, DagsterInstance, DagsterRunStatus
from dagster import define_asset_job as asset_job

from photon.assets.health import health_key
from photon.assets.pipeline_files import check_key
from photon.assets.run_history import PRUNING_JOB, pruning_job
from photon.process.clock import SystemClock
from tests.orchestration.location import Location


def end(location: Location, job: str | AssetSelection) -> tuple[list[str], list[str]]:
    """Run a job of the location; return its steps' errors, and the stacks that its end shows."""
    if isinstance(job, str):
        definition = location.defs.resolve_job_def(job)
    else:
        graph, resources = location.defs.resolve_asset_graph(), location.defs.resources
        definition = asset_job("chosen", job).resolve(asset_graph=graph, resource_defs=resources)
    result = definition.execute_in_process(instance=location.instance, raise_on_error=False)
    run = location.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status is DagsterRunStatus.CANCELED
    failed = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    stacks = [one.error.cause for one in failed if one.error is not None and one.error.cause is not None]
    ended = location.instance.all_logs(run.run_id, of_type=DagsterEventType.RUN_CANCELED)
    stacks += [one.dagster_event.job_canceled_data.error for one in ended]  # type: ignore[union-attr]
    said = [one.user_failure_data.description if one.user_failure_data else "" for one in failed]
    return [str(each) for each in said], [str(stack) for stack in stacks if stack is not None]


@pytest.fixture
def terminated(instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Have the button "Terminate" clicked when a function is called; return the list that notes the call."""
    began: list[str] = []

    def at(target: str) -> list[str]:
        def called(*_args: Any, **_named: Any) -> Any:
            began.append(target)
            (run,) = instance.get_runs()
            instance.report_run_canceling(run)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("the signal was not taken")

        monkeypatch.setattr(target, called)
        return began

    return at


SENTENCE = "The run was told to end. What it had done stays done; launch it again for the rest."
REPORT = "photon.upkeep.registry_state.registry_state"


def test_a_run_of_several_assets_begins_none_of_the_others(
    location: Location, terminated: Callable[[str], list[str]]
) -> None:
    for target in (REPORT, "photon.jobs.verification.verify"):
        began = terminated(target)
    assets = [location.served.asset_key(name) for name in ("registry_state", "verification_report")]
    said, stacks = end(location, AssetSelection.assets(*assets))
    assert len(began) == 1
    assert said == [SENTENCE, "The run was told to end. This had not begun."]
    assert stacks == []


@pytest.mark.parametrize(
    ("target", "job"),
    [
        (REPORT, "clicks__registry_report"),
        ("photon.upkeep.plans.carry_out", "clicks__recover"),
        ("photon.upkeep.compact.plan_compaction", "clicks__compact"),
        ("photon.assets.run_history.prune_history", PRUNING_JOB),
    ],
)
def test_a_report_a_verb_and_pruning_end_with_a_sentence(
    location: Location,
    terminated: Callable[[str], list[str]],
    target: str,
    job: str,
) -> None:
    terminated(target)
    assert end(location, job) == ([SENTENCE], [])


@pytest.mark.parametrize("target", ["photon.assets.health.look", "photon.assets.pipeline_files.problems_now"])
def test_checks_end_with_a_sentence(
    location: Location, terminated: Callable[[str], list[str]], target: str
) -> None:
    terminated(target)
    (name,) = location.settings.file_names().values()
    of_health = AssetCheckKey(health_key(location.served), "east__works")
    key = of_health if "health" in target else check_key(name)
    assert end(location, AssetSelection.checks(key)) == ([SENTENCE], [])


class CancelingClock(SystemClock):
    """Its time is asked while somebody cancels the run by force."""

    def __init__(self, instance: DagsterInstance, then: Callable[[], None]) -> None:
        self._instance, self._then = instance, then

    def now_us(self) -> int:
        (run,) = self._instance.get_runs()
        self._instance.report_run_canceled(run)
        self._then()
        return super().now_us()


def fail() -> None:
    raise ValueError("a defect")


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda: os.kill(os.getpid(), signal.SIGINT), id="interrupted"),
        pytest.param(fail, id="failed"),
        pytest.param(lambda: None, id="succeeded"),
    ],
)
def test_a_run_that_is_canceled_by_force_stays_canceled_however_it_ends(
    instance: DagsterInstance, then: Callable[[], None]
) -> None:
    pruning_job(3.0, CancelingClock(instance, then)).execute_in_process(
        instance=instance, raise_on_error=False
    )
    (run,) = instance.get_runs()
    assert run.status is DagsterRunStatus.CANCELED
    ends_told = {DagsterEventType.RUN_FAILURE, DagsterEventType.RUN_SUCCESS}
    assert instance.all_logs(run.run_id, of_type=ends_told) == []
