"""`photon registry state` as a user calls it, on a real local registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.demo.traffic import Traffic
from tests.e2e.photon_process import photon, photon_json
from tests.support.local_servers import local_server

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    print("traffic of seed 5")
    return Traffic(5, ("east", "west"), duration_seconds=2)


@pytest.fixture(scope="module")
def pipeline(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A pipeline whose two datacenters have joined all there is."""
    folder = tmp_path_factory.mktemp("room")
    traffic.write_all(folder)
    file = traffic.write_pipeline(folder)
    with local_server(folder / "state" / "registry"):  # else each command would start one of its own
        photon("join", file, "--complete", "--engine", "local")
        yield file


def test_the_state_has_every_joined_id_in_the_ledgers_of_both_datacenters(
    pipeline: Path, traffic: Traffic
) -> None:
    state, joined = photon_json("registry", "state", pipeline), traffic.expected_outcomes().joined_total
    assert (state["ids"], sum(one["ids"] for one in state["ledgers"])) == (joined, joined)
    assert [one["home"] for one in state["ledgers"]] == ["east", "west"]
    assert 0 < state["bytes"] / joined < 200
    assert [(one["datacenter"], one["unclosed"]) for one in state["epochs"]] == [("east", 0), ("west", 0)]


def test_people_are_told_in_lines(pipeline: Path) -> None:
    said = photon("registry", "state", pipeline).stdout
    assert "ledger 0-0 (home of east): " in said
    assert "up, a read takes" in said
    assert "datacenter east: epoch 1 is live" in said


def test_a_pipeline_without_a_registry_is_refused_with_what_to_do(traffic: Traffic, tmp_path: Path) -> None:
    file = traffic.write_pipeline(tmp_path, "never-joined")
    for command in (["gc"], ["reshard", "2"], ["state"]):
        done = photon("registry", command[0], file, *command[1:], status=3)
        assert f"If it is new, make it: photon join {file}" in done.stderr
