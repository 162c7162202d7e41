"""`photon clear` and `photon registry state` as a user calls them, on a real local registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from photon.ledger.servers.local_server import local_server
from photon.testing.traffic import Traffic
from tests.e2e.photon_process import PHOTON, photon, photon_json
from tests.terminals import shown_on_terminal

pytestmark = [pytest.mark.server, pytest.mark.slow]

CLEARING = "registry: {clearing: {enabled: true}}\n"


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    print("traffic of seed 5")
    return Traffic(5, ("east", "west"), duration_seconds=2)


@pytest.fixture(scope="module")
def pipeline(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A pipeline whose two datacenters have joined all there is."""
    folder = tmp_path_factory.mktemp("room")
    traffic.write_all(folder)
    file = traffic.write_pipeline(folder, more=CLEARING)
    with local_server(folder / "state" / "registry"):  # else each command would start one of its own
        photon("join", file, "--complete", "--engine", "local")
        yield file


def test_clearing_takes_the_tokens_and_a_join_afterwards_finds_nothing_new(
    pipeline: Path, traffic: Traffic
) -> None:
    joined = traffic.expected_outcomes().joined_total
    held = photon_json("registry", "state", pipeline)
    assert (held["ids"], held["held"], held["whole"]) == (joined, joined, True)

    done = photon_json("clear", pipeline)
    assert sum(one["ids"] for one in done.values()) == joined
    assert set(done) == {"east", "west"}

    cleared = photon_json("registry", "state", pipeline)
    assert (cleared["cleared"], cleared["held"]) == (joined, 0)
    assert cleared["value_bytes"] / joined < held["value_bytes"] / joined / 2
    counts = photon_json("join", pipeline, "--complete", "--engine", "local")
    assert traffic.expected_outcomes().disagreements(counts) == []


def test_a_second_clearing_of_one_datacenter_finds_nothing_unless_asked_for_all(pipeline: Path) -> None:
    photon("clear", pipeline)
    assert photon_json("clear", pipeline, "-d", "east")["east"]["rows"] == 0
    again = photon_json("clear", pipeline, "--all")["east"]
    assert again["rows"] > again["ids"] == 0


def test_by_default_nothing_is_cleared_and_the_reason_is_said(traffic: Traffic, tmp_path: Path) -> None:
    file = traffic.write_pipeline(tmp_path)
    assert "more than the room that it saves" in photon("clear", file).stdout
    assert "registry.clearing.enabled" in photon_json("clear", file)["off"]


def test_people_are_told_in_lines(pipeline: Path) -> None:
    assert "rows looked at" in photon("clear", pipeline).stdout
    said = photon("registry", "state", pipeline).stdout
    assert "ids (" in said
    assert "up, a read takes" in said
    assert "of east: live" in said


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["clear", "--all"], "datacenter west: all of "),
        (["retire", "west", "--dry-run"], "looks at ids at endpoint 1 of 1: all of "),
    ],
    ids=["clear", "retire"],
)
def test_a_terminal_shows_how_far_it_is(pipeline: Path, command: list[str], shown: str) -> None:
    verb, *rest = command
    assert shown in shown_on_terminal([*PHOTON, verb, str(pipeline), *rest], COLUMNS="200")


def test_a_pipeline_without_a_registry_is_refused_with_what_to_do(traffic: Traffic, tmp_path: Path) -> None:
    file = traffic.write_pipeline(tmp_path, "never-joined", CLEARING)
    for command in (["clear"], ["registry", "state"]):
        done = photon(*command, file, status=3)
        assert f"If it is new, make it: photon join {file}" in done.stderr
