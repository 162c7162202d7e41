"""Outages of a datacenter under load: what the other does meanwhile, and what is left in the end."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from tests.e2e.outages.checker import TERMS, read_logs, rows_of
from tests.e2e.outages.drive import SETTINGS
from tests.e2e.outages.frozen_disk import frozen_disk
from tests.e2e.outages.in_turn import faults_in_turn
from tests.e2e.outages.world import World, until, world
from tests.e2e.photon_process import photon_json

pytestmark = [pytest.mark.server, pytest.mark.slow]


# A batch that takes twice as long hangs: ten minutes by default.
SOON_STUCK = """
limits: {task_timeout: 1500ms}
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    """Two datacenters under load that have both joined something."""
    traffic = Traffic(3, primary_per_second=100, foreign_per_second=50, duration_seconds=300)
    with world(tmp_path, traffic, SETTINGS) as made:
        made.begin()
        until(lambda: rows_of(tmp_path / "lake" / "west"), "rows of the west")
        yield made


def joined(made: World) -> set[object]:
    """The ids of all rows."""
    rows = (row for name in made.datacenters for row in rows_of(made.folder / "lake" / name))
    return {row["_event_id"] for row in rows}


def wait_for_all_that_is_logged(made: World, datacenter: str = "east") -> None:
    """Wait until each click that is in a datacenter's log by now has a row."""
    due = read_logs(made.folder / "logs" / datacenter).joinable
    until(lambda: due <= joined(made), f"{len(due)} clicks are joined")


def wait_for_more_clicks(made: World) -> None:
    """Wait until clicks are in the east's log that were not there before."""
    logs = made.folder / "logs" / "east"
    before = read_logs(logs).joinable
    until(lambda: read_logs(logs).joinable - before, "more clicks are logged")


def complete_and_check(made: World) -> dict[str, dict[str, int]]:
    counts = made.complete()
    assert made.faults(counts) == []
    return counts


def test_a_datacenter_dies_with_its_endpoint_and_the_other_takes_everything(made: World) -> None:
    west = made.datacenters["west"]
    west.arm("claim.after", signal.SIGKILL)
    until(lambda: not west.lives, "the west is dead")
    made.endpoints[1].kill()
    wait_for_more_clicks(made)
    wait_for_all_that_is_logged(made)
    wests = len(rows_of(made.folder / "lake" / "west"))
    made.endpoints[1].start()
    west.start()
    until(lambda: len(rows_of(made.folder / "lake" / "west")) > wests, "the west joins again")
    complete_and_check(made)


@pytest.mark.spark
def test_photon_verify_finds_all_sound_after_outages_and_counts_as_the_dispatchers_do(made: World) -> None:
    for name, datacenter in made.datacenters.items():
        datacenter.kill()
        if name == "west":
            shutil.rmtree(made.folder / "state" / "west")
        wait_for_all_that_is_logged(made)
        datacenter.start()
    counts = complete_and_check(made)
    verified = photon_json("verify", made.file)
    assert verified["ok"], verified
    for name, classes in counts.items():
        assert {term: verified[name][term] for term in TERMS} == {
            term: classes.get(term, 0) for term in TERMS
        }


def test_a_datacenter_that_is_cut_off_from_the_registry_waits_and_the_other_goes_on(tmp_path: Path) -> None:
    traffic = Traffic(4, primary_per_second=100, foreign_per_second=50, duration_seconds=300)
    with world(tmp_path, traffic, SETTINGS) as made, made.cables_of("west") as cables:
        made.begin()
        until(lambda: rows_of(tmp_path / "lake" / "west"), "rows of the west")
        for cable in cables:
            cable.cut()
        until(lambda: made.datacenters["west"].waits, "the west waits for the registry")
        wait_for_all_that_is_logged(made)
        for cable in cables:
            cable.mend()
        complete_and_check(made)


def test_a_datacenter_whose_disk_stands_still_is_taken_for_dead(tmp_path: Path) -> None:
    traffic = Traffic(5, primary_per_second=100, foreign_per_second=50, duration_seconds=300)
    place, limits = tmp_path / "state" / "west", SETTINGS + SOON_STUCK
    with (
        frozen_disk(place, tmp_path / "disk") as disk,
        world(tmp_path, traffic, limits) as made,
        disk.thawed(),
    ):
        made.begin()
        until(lambda: rows_of(tmp_path / "lake" / "west"), "rows of the west")
        disk.freeze()
        wait_for_more_clicks(made)
        wait_for_all_that_is_logged(made)
        disk.thaw()
        complete_and_check(made)


def test_a_dead_datacenters_lake_that_stands_still_does_not_hold_up_the_other(tmp_path: Path) -> None:
    traffic = Traffic(6, primary_per_second=100, foreign_per_second=50, duration_seconds=300)
    with (
        frozen_disk(tmp_path / "lake" / "west", tmp_path / "disk") as disk,
        world(tmp_path, traffic, SETTINGS) as made,
        disk.thawed(),
    ):
        made.begin()
        until(lambda: rows_of(tmp_path / "lake" / "west"), "rows of the west")
        made.datacenters["west"].arm("claim.after", signal.SIGKILL)
        until(lambda: not made.datacenters["west"].lives, "the west is dead, and holds events")
        disk.freeze()
        before = read_logs(tmp_path / "logs" / "east").joinable
        east = made.datacenters["east"]
        until(lambda: "can't be reached" in east.log.read_text(), "the east has tried to fence the west")
        wait_for_more_clicks(made)
        later = read_logs(tmp_path / "logs" / "east").joinable - before
        until(lambda: later <= joined(made), f"{len(later)} later clicks are joined")
        disk.thaw()
        wait_for_all_that_is_logged(made)
        made.datacenters["west"].start()
        complete_and_check(made)


def test_of_three_datacenters_one_is_killed_one_slowed_one_cut_off_and_each_event_has_one_row(
    tmp_path: Path,
) -> None:
    """The long form, with delays: `python -m tests.e2e.outages.in_turn`."""
    found = faults_in_turn(tmp_path, seconds=4, calm_seconds=1, say=print, more=SETTINGS)
    assert found["wrong"] == []
    assert all(fault["rows_of_others"]["rows"] for fault in found["faults"].values())
