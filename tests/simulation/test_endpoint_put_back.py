"""One endpoint of several is put back from a copy, in the order of ordinary life (protocol A23)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from photon.faults import watched
from photon.recovery.registry_watch import RegistryWatch
from tests.simulation.put_back_stories import Copied

ENDPOINTS = [0, 1, 2]


def behind(tmp_path: Path, slot: int, datacenters: tuple[str, ...] = ("east",)) -> Copied:
    """d1 and d2 are joined since the copy, e1 while the endpoint was away that is back with its copy."""
    world = Copied(tmp_path, datacenters, endpoints=3)
    for name in datacenters:
        world.queries("q1", datacenter=name)
        world.clicks(("c1", "q1"), datacenter=name)
    world.join_all()
    world.copy()
    world.clicks(("d1", "q1"), ("d2", "q1"))
    world.join()
    world.stores[slot].fail("down", 1_000_000)
    world.clicks(("e1", "q1"))
    world.join()
    world.stores[slot].mend()
    world.put_back_endpoint(slot)
    world.clock.sleep(60)  # until it is asked again
    return world


@pytest.mark.parametrize("slot", ENDPOINTS)
@pytest.mark.parametrize("has_state", [True, False])
def test_an_endpoint_that_comes_back_with_older_data_is_noticed_though_the_newest_rows_have_their_ids(
    tmp_path: Path, slot: int, has_state: bool
) -> None:
    world = behind(tmp_path, slot)
    if not has_state:
        shutil.rmtree(world.state())
    world.clicks(("d1", "q1"), ("f1", "q1"))
    assert world.join_all()
    world.must_be_sound(["c1", "d1", "d2", "e1", "f1"])


def test_another_datacenter_that_has_yet_to_read_the_same_events_notices_it_too(tmp_path: Path) -> None:
    world = behind(tmp_path, 0, ("east", "west"))
    world.clicks(("d1", "q1"), ("d2", "q1"), ("e1", "q1"), datacenter="west")
    refused = world.refused("west")
    assert refused is not None
    assert "endpoint 1 (" in refused
    world.refill()
    world.join_all()
    world.must_be_sound(["c1", "d1", "d2", "e1"])


def test_nobody_notices_it_who_looks_at_the_newest_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = behind(tmp_path, 0)
    shutil.rmtree(world.state())
    monkeypatch.setattr(RegistryWatch, "_refuse_stores_put_back", lambda self, register: None)
    world.stores[2].fail("down")  # else it depends on which two answer first
    world.clicks(("d1", "q1"))
    world.join()
    assert world.joined_ids().count("d1") == 2


@pytest.mark.parametrize("slot", ENDPOINTS)
def test_an_endpoint_that_was_away_and_kept_its_data_is_no_alarm(tmp_path: Path, slot: int) -> None:
    world = Copied(tmp_path, endpoints=3)
    world.queries("q1")
    for n in range(3):
        world.clicks((f"c{n}", "q1"))
        world.join()
        world.stores[slot].fail("down", 1_000_000) if n % 2 == 0 else world.stores[slot].mend()
        world.clock.sleep(60)
    world.stores[slot].mend()
    world.clock.sleep(60)
    world.clicks(("c1", "q1"), ("d1", "q1"))
    assert world.refused() is None
    assert not world.refill().began
    world.must_be_sound(["c0", "c1", "c2", "d1"])


@pytest.mark.parametrize("point", ["task.after_read", "task.before_register", "task.after_register"])
def test_an_endpoint_that_comes_back_with_older_data_in_the_middle_of_a_batch_lets_no_second_row_in(
    tmp_path: Path, point: str
) -> None:
    world = behind(tmp_path, 0, ("east", "west"))
    world.stores[0].fail("down", 1_000_000)
    world.clicks(("d1", "q1"), ("d2", "q1"), ("w1", "q1"), datacenter="west")
    came: list[str] = []

    def come_back(passed: str, place: object) -> None:
        if passed == point and not came:
            came.append(passed)
            world.stores[0].mend()
            world.clock.sleep(60)

    with watched(come_back):
        refused = world.refused("west")
    assert came
    assert refused is not None
    world.refill()
    world.join_all()
    world.must_be_sound(["c1", "d1", "d2", "e1", "w1"])
