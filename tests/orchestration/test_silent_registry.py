"""Runs of Dagster beside a registry that hangs: those that need it fail soon, and name it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from dagster import DagsterInstance, ExecuteInProcessResult

from infra.servers.stores import fastest_kind, store_servers
from photon.assets.daily_joins import partition_key
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, endpoints_of, init_registry
from photon.upkeep.backfill.days import day_of
from tests.orchestration.location import Location
from tests.support.shares import a_share
from tests.support.stopped_processes import stopped

pytestmark = [pytest.mark.server]


@pytest.fixture(scope="module")
def beside_silence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    """A pipeline of whose three endpoints two hang."""
    folder = tmp_path_factory.mktemp("silent")
    with store_servers(fastest_kind(), folder / "endpoints", 3) as servers:
        urls = ", ".join(f"{{url: {server.url}}}" for server in servers)
        more = f"registry: {{keep_days: 30, endpoints: [{urls}]}}\nunmatched: {{}}\n"
        made = Location(folder / "pipeline", more=more)
        init_registry(made.pipeline, SystemClock())
        close_registries()
        with stopped(servers[0].pid), stopped(servers[1].pid):
            yield made


def run(location: Location, name: str) -> ExecuteInProcessResult:
    job = location.defs.resolve_job_def(location.served.job_name(name))
    config = {
        "hold": {"datacenter": "east"},
        "retirement": {"datacenter": "east"},
        "repair": {"endpoint": str(endpoints_of(location.pipeline)[0])},
    }.get(name)
    yesterday = day_of(location.clock.now_us()) - timedelta(days=1)
    with DagsterInstance.ephemeral() as instance:
        return job.execute_in_process(
            run_config={"ops": {job.name: {"config": config}}} if config else None,
            instance=instance,
            partition_key=partition_key("east", yesterday) if name == "days" else None,
            raise_on_error=False,
        )


# Commands ask as runs do: tests/e2e/test_first_aid.py has each of them.
# Not recover: where nothing is recorded it has nothing to ask, and a busy machine lets it end well.
JOBS = ["hold", "verification", "registry_report", "days", "gc", "find_unmatched"]
JOBS += ["retirement", "repair", "reshard"]


@pytest.mark.parametrize("name", a_share(JOBS, 0))
def test_a_run_that_can_do_nothing_without_the_registry_fails_soon_and_names_it(
    beside_silence: Location, name: str
) -> None:
    (failed,) = [event for event in run(beside_silence, name).all_events if event.is_step_failure]
    said = str(failed.step_failure_data.user_failure_data)
    assert str(endpoints_of(beside_silence.pipeline)[0]) in said
    # On a busy machine a request's own time-out comes first.
    assert "no answer within 2.5 s; look at these servers" in said or "does not answer (Read timeout" in said


def test_a_run_that_needs_no_registry_does_its_work_beside_it(beside_silence: Location) -> None:
    assert run(beside_silence, "compact").success
