"""Reports and verbs as jobs: on a real local registry, with what their metadata and checks say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    DagsterInstance,
    ExecuteInProcessResult,
    TableMetadataValue,
)

from examples.demo.traffic import Traffic
from infra.servers.stores import fastest_kind, store_servers
from photon.assets import work
from photon.assets.pictures import ledgers_plot
from photon.assets.registry_state import checks_of
from photon.dispatcher.recovery.orders import waiting_orders
from photon.dispatcher.shift.people import decisions_of
from photon.dispatcher.shift.run import prepare, run_shift
from photon.health.registry import ENDPOINTS, LEDGERS, judge_registry, judge_unavailable
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import SystemClock
from photon.registry.errors import RegistryUnavailable
from photon.registry.opening import close_registries, init_registry
from photon.registry.register import Generation, Members, Register
from photon.state.view import open_view
from photon.upkeep.registry_state import (
    RANGE_BYTES_PER_SECOND,
    EndpointState,
    Health,
    LedgerRow,
    RegistryState,
)
from photon.verification.report import Case, DatacenterReport, Finding, VerificationReport
from photon.verification.stored_reports import append
from tests.orchestration.location import Location

served_by_a_server = [pytest.mark.server, pytest.mark.slow]


def run(
    location: Location, name: str, instance: DagsterInstance | None = None, **config: Any
) -> ExecuteInProcessResult:
    job = location.defs.resolve_job_def(location.served.job_name(name))
    (op,) = job.graph.node_dict
    with nullcontext(instance) if instance else DagsterInstance.ephemeral() as kept_in:
        return job.execute_in_process(
            run_config={"ops": {op: {"config": config}}} if config else None,
            instance=kept_in,
            raise_on_error=False,
        )


def metadata_of(result: ExecuteInProcessResult) -> dict[str, Any]:
    """Return the metadata that a report or a verb stores on its asset."""
    assert result.success
    (event,) = [*result.get_asset_materialization_events(), *result.get_asset_observation_events()]
    said = (
        event.step_materialization_data.materialization
        if event.is_step_materialization
        else event.asset_observation_data.asset_observation
    )
    return {
        name: value.records if isinstance(value, TableMetadataValue) else value.value
        for name, value in said.metadata.items()
    }


def test_a_compaction_of_a_pipeline_that_has_not_joined_yet_does_nothing(tmp_path: Path) -> None:
    metadata = metadata_of(run(Location(tmp_path), "compact"))
    assert "tables" not in metadata
    assert (metadata["files_before"], metadata["files_after"]) == (0, 0)


# -- on a real registry


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    """One datacenter whose logs are joined."""
    made = Location(tmp_path_factory.mktemp("upkeep"), ("east",))
    prepare(made.pipeline)
    run_shift(made.pipeline, "east", "complete")
    close_registries()
    yield made
    close_registries()


def test_a_dry_run_is_seen_to_be_one(tmp_path: Path) -> None:
    metadata = metadata_of(run(Location(tmp_path), "compact", dry_run=True))
    assert (metadata["dry_run"], metadata["files_before"]) == (True, "0")
    assert metadata["says"] == "dry run, nothing was changed: 0 data files; to be removed: nothing"


@pytest.mark.server
def test_a_compaction_says_of_each_table_what_it_did(joined: Location) -> None:
    metadata = metadata_of(run(joined, "compact"))
    (rows,) = [record.data for record in metadata["tables"] if record.data["table"] == "joined_events"]
    assert rows["datacenter"] == "east"
    assert rows["files_before"] > 0
    assert rows["data_files_removed"] == 0


@pytest.fixture(scope="module")
def looked_at(joined: Location) -> ExecuteInProcessResult:
    return run(joined, "registry_report")


def store_report_of_a_missing_event(location: Location) -> None:
    """Store a report of two missing events: one of them is west's, which has to act itself."""
    cases = (Case("c1", "1:0", 0), Case("c2", "1:90", 0, "west"))
    with open_view(location.pipeline.datacenters["east"].state) as state:
        assert state is not None
        report = DatacenterReport(
            findings=(Finding("missing", 2, cases=cases),), epoch=state.epoch, completed=state.completed
        )
    append(location.pipeline, VerificationReport({"east": report}, rows=0), 1, "test", 1.0)


class TestOnAServer:
    pytestmark = served_by_a_server

    def test_a_recovery_orders_what_the_newest_report_names(self, joined: Location) -> None:
        assert metadata_of(run(joined, "recover"))["ordered"] == 0
        store_report_of_a_missing_event(joined)
        metadata = metadata_of(run(joined, "recover"))
        assert (metadata["ordered"], metadata["left_to_others"]) == (1, 1)
        (path,) = waiting_orders(joined.pipeline.datacenters["east"].state)
        path.unlink()

    def test_the_state_has_tables_numbers_and_a_picture(
        self, joined: Location, looked_at: ExecuteInProcessResult
    ) -> None:
        metadata = metadata_of(looked_at)
        expected = joined.traffic.expected_outcomes().joined_total
        assert (metadata["ids"], metadata["ledgers"], metadata["generations"]) == (expected, 1, 1)
        assert 0 < metadata["bytes"] / expected < 100
        assert metadata["ledgers_picture"].startswith("![ids and bytes by ledger](data:image/png;base64,")
        (endpoint,) = metadata["endpoints"]
        assert (endpoint.data["health"], endpoint.data["behind"]) == ("up", 0)
        (epoch,) = metadata["epochs"]
        assert (epoch.data["datacenter"], epoch.data["number"], epoch.data["unclosed"]) == ("east", 1, 0)
        (ledger,) = metadata["newest_ledgers"]
        assert (ledger.data["ledger"], ledger.data["home"], ledger.data["ids"]) == ("0-0", "east", expected)

    def test_endpoints_that_are_well_and_have_no_hot_ledgers_pass_the_checks(
        self, looked_at: ExecuteInProcessResult
    ) -> None:
        checks = looked_at.get_asset_check_evaluations()
        assert {check.check_name: check.passed for check in checks} == {
            ENDPOINTS: True,
            LEDGERS: True,
        }


@pytest.fixture
def endpoints(tmp_path: Path) -> Iterator[tuple[Location, str]]:
    """A pipeline whose registry has three endpoints, and the URL of one of them."""
    with store_servers(fastest_kind(), tmp_path / "endpoints", 3) as servers:
        urls = "".join(f"    - {{url: {server.url}}}\n" for server in servers)
        location = Location(tmp_path / "pipeline", ("east",), more=f"registry:\n  endpoints:\n{urls}")
        init_registry(location.pipeline, SystemClock())
        yield location, servers[1].url
        close_registries()


@pytest.mark.server
def test_a_repair_of_the_endpoint_that_a_run_names_is_looked_at_first_and_tells_how_far_it_is(
    endpoints: tuple[Location, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    location, url = endpoints
    looked = metadata_of(run(location, "repair", endpoint=url, dry_run=True))
    assert looked["says"].startswith(f"dry run, nothing was changed: {url} would be taken out of use")
    monkeypatch.setattr(work, "TOLD_EVERY_SECONDS", 0.0)
    with DagsterInstance.ephemeral() as instance:
        done = metadata_of(run(location, "repair", instance, endpoint=url))
        (launched,) = instance.get_runs()
        told = [one.user_message for one in instance.all_logs(launched.run_id)]
    assert (done["members_version"] > 1, done["went_on"]) == (True, False)
    assert any("entries copied" in each for each in told)


@pytest.mark.server
def test_a_repair_says_which_endpoint_there_is_none_of(endpoints: tuple[Location, str]) -> None:
    location, _ = endpoints
    result = run(location, "repair", endpoint="http://127.0.0.1:1")
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "is no endpoint of clicks" in str(failure.step_failure_data.user_failure_data)
    with pytest.raises(Exception, match="endpoint"):
        run(location, "repair")


@pytest.mark.server
def test_a_hold_and_its_end_are_jobs_and_seen_at_the_health_of_the_datacenters(joined: Location) -> None:
    for name, dry, on_hold in (
        ("hold", True, ()),
        ("hold", False, ("east",)),
        ("resume", False, ()),
    ):
        result = run(joined, name, datacenter="east", dry_run=dry)
        (event,) = result.get_asset_observation_events()
        assert event.asset_key.path[-1] == "health"
        expected = ("east",) if name == "hold" else ()
        assert metadata_of(result)["on_hold"] == (", ".join(expected) or "none")
        assert decisions_of(joined.pipeline).on_hold == set(on_hold)


def test_a_job_for_a_datacenter_that_there_is_not_says_which_there_are(tmp_path: Path) -> None:
    location = Location(tmp_path)
    for name in ("hold", "resume", "acknowledgement"):
        result = run(location, name, datacenter="north")
        (failure,) = [event for event in result.all_events if event.is_step_failure]
        said = str(failure.step_failure_data.user_failure_data)
        assert f"{location.file} has no datacenter 'north'; expected one of: east, west" in said


# -- the check


def promising(folder: Path) -> Pipeline:
    """A pipeline as most are."""
    return load_pipeline(Traffic(1).write_pipeline(folder))


def state(*health: Health) -> RegistryState:
    endpoints = [
        EndpointState(number + 1, f"http://store-{number}", "table", one, "" if one == "up" else "refused")
        for number, one in enumerate(health)
    ]
    register = Register("clicks", "", Members(1, ("a",)), generations=(Generation(2, ("east", "west")),))
    return RegistryState("clicks", 0, register, endpoints)


def check_of(found: RegistryState, promise: str, pipeline: Pipeline) -> AssetCheckResult:
    """The result of one check of a registry."""
    checks = checks_of(judge_registry(found, pipeline), pipeline)
    return next(one for one in checks if one.check_name == promise)


@pytest.mark.parametrize(
    ("health", "passed", "severity"),
    [
        (["up", "up", "up"], True, None),
        (["up", "does not answer", "up"], False, AssetCheckSeverity.ERROR),
        (["up", "takes no writes", "up"], False, AssetCheckSeverity.ERROR),
        (["up", "up", "up", "up", "out of use"], False, AssetCheckSeverity.WARN),
        (["up", "up", "up", "does not answer", "out of use"], False, AssetCheckSeverity.ERROR),
    ],
)
def test_an_endpoint_that_is_not_well_is_an_error_when_no_other_may_go(
    health: list[Health], passed: bool, severity: AssetCheckSeverity | None, tmp_path: Path
) -> None:
    check = check_of(state(*health), ENDPOINTS, promising(tmp_path))
    assert check.passed == passed
    if severity is not None:
        assert check.severity is severity
        assert "refused" in str(check.description)
        assert f"photon registry repair {tmp_path / 'pipeline.yaml'} --endpoint " in str(check.description)


def bearing(load: float | None) -> RegistryState:
    """A registry whose busiest ledger takes this share of what a key range bears."""
    return replace(state("up"), bytes_per_second=None if load is None else load * RANGE_BYTES_PER_SECOND)


@pytest.mark.parametrize("load", [None, 0.79])
def test_ledgers_far_from_the_limit_of_a_key_range_are_well(load: float | None, tmp_path: Path) -> None:
    assert check_of(bearing(load), LEDGERS, promising(tmp_path)).passed


@pytest.mark.parametrize(
    ("load", "severity"), [(0.8, AssetCheckSeverity.WARN), (1, AssetCheckSeverity.ERROR)]
)
def test_ledgers_near_the_limit_of_a_key_range_are_a_warning_and_beyond_it_an_error(
    load: float, severity: AssetCheckSeverity, tmp_path: Path
) -> None:
    check = check_of(bearing(load), LEDGERS, promising(tmp_path))
    assert (check.passed, check.severity) == (False, severity)
    assert f"photon registry reshard {tmp_path / 'pipeline.yaml'} 4" in str(check.description)


def test_checks_of_a_registry_link_to_their_sections_and_say_what_to_do(tmp_path: Path) -> None:
    pipeline = load_pipeline(
        Traffic(1).write_pipeline(tmp_path, more="links: {runbook: 'https://w/r.html'}\n")
    )
    unwell = replace(state("up", "does not answer", "up"), bytes_per_second=0.9 * RANGE_BYTES_PER_SECOND)
    verdicts = (judge_registry(unwell, pipeline), judge_unavailable(RegistryUnavailable("gone")))
    for check in [one for found in verdicts for one in checks_of(found, pipeline)]:
        metadata = check.metadata or {}
        assert metadata["runbook"].value == f"https://w/r.html#{check.check_name}"
        assert metadata["what_to_do"].value


def test_a_picture_of_many_ledgers_stays_small() -> None:
    ledgers = [
        LedgerRow(f"{n}-0", "east", "sealed", n, ids=40 * n, bytes=90 * n, boundary_us=None)
        for n in range(1_000)
    ]
    assert 1_000 < len(ledgers_plot(ledgers)) < 20_000
