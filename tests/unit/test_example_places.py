"""Examples of a verification lead to the line: by path, offset and time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from photon.state.view import read_offsets
from photon.verification.example_places import with_places
from photon.verification.report import DatacenterReport, Example, Finding, VerificationReport
from tests.simulation.world import NOON_US, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.events("c", "d", query="q")
    made.join()
    return made


def where(world: World, example: Example, epoch: str | None = None) -> str:
    """Report an example, and return where it is said to be. `epoch`: that of the report, if another one."""
    epoch = epoch or read_offsets(world.state()).epoch
    one = DatacenterReport(findings=(Finding("missing", 1, (example,)),), epoch=epoch)
    report = with_places(world.pipeline, VerificationReport({"east": one}, 0))
    (finding,) = report.datacenters["east"].findings
    return finding.examples[0].where


def test_a_record_is_named_by_path_offset_and_time(world: World) -> None:
    (row,) = [row for row in world.rows() if row["_event_id"] == "d"]
    place = row["_occurrence"]
    _, offset = place.split(":")
    time = "2023-11-14 22:13:20.000 UTC"
    assert NOON_US == 1_700_000_000_000_000
    expected = f"(clicks/a.jsonl at byte {offset}, of {time})"
    assert where(world, Example("d", place)) == f"{place} {expected}"
    of_row = f"row of 2026-01-31, batch 1, occurrence {place}"
    assert where(world, Example("d", of_row)) == f"{of_row} {expected}"


def test_a_place_at_which_the_event_is_not_is_named_without_a_time(world: World) -> None:
    (row,) = [row for row in world.rows() if row["_event_id"] == "d"]
    said = where(world, Example("another", row["_occurrence"]))
    assert "clicks/a.jsonl at byte" in said
    assert ", of " not in said


def test_a_row_whose_event_is_not_at_its_place_keeps_the_number_that_may_be_of_another_epoch(
    world: World,
) -> None:
    assert (
        where(world, Example("d", "row of 2026-01-31, batch 1, occurrence 2:0"))
        == "row of 2026-01-31, batch 1, occurrence 2:0"
    )


@pytest.mark.parametrize(
    "place", ["all rows", "east batch 1 occurrence 2:0; west batch 2 occurrence 2:0", "77:0"]
)
def test_what_is_no_place_in_a_known_file_stays_as_it_is(world: World, place: str) -> None:
    assert where(world, Example("d", place)) == place


def test_places_of_another_epoch_stay_as_they_are(world: World) -> None:
    assert where(world, Example("d", "1:0"), epoch="before") == "1:0"
    unread = replace(DatacenterReport(), findings=(Finding("missing", 1, (Example("d", "1:0"),)),))
    report = VerificationReport({"east": unread}, 0)
    assert with_places(world.pipeline, report) == report
