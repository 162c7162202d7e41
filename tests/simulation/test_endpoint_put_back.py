"""One endpoint of three is put back from a copy, in the order of ordinary life (protocol B10, L10).

Two of three have each entry, and each entry names the one before it. So the others tell what it forgot.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.registry.errors import RegistryMismatch
from photon.registry.opening import first_register
from photon.registry.stores.copies import Copy, Key
from photon.registry.view_store import VIEW_FILE
from tests.registry.store_backends import Memory, down
from tests.simulation.world import World

ENDPOINTS = [0, 1, 2]


class ThreeEndpoints(World):
    """A world whose ledgers are at three stores."""

    def __init__(self, folder: Path, datacenters: tuple[str, ...] = ("east",)) -> None:
        super().__init__(folder, datacenters)
        self.memory = Memory(3)
        self.memory.clock = self.clock
        self.ledgers = self.memory.client()  # type: ignore[assignment]
        self.ledgers.change(lambda register: first_register(self.pipeline, register.members))
        for name in datacenters:
            self.queries("q1", datacenter=name)

    def end(self, slot: int) -> None:
        """Have an endpoint not answer."""
        self.memory.stores[slot].fault = down

    def begin(self, slot: int) -> None:
        """Have an endpoint answer again; a minute later it is asked again."""
        self.memory.stores[slot].fault = lambda request: None
        self.clock.sleep(60)

    def lose_view(self, datacenter: str) -> None:
        (self.state(datacenter) / VIEW_FILE).unlink(missing_ok=True)


def behind(folder: Path, slot: int, datacenters: tuple[str, ...] = ("east",)) -> ThreeEndpoints:
    """Copy an endpoint, join d1 and d2, join e1 while it is away, and bring it back with its copy."""
    world = ThreeEndpoints(folder, datacenters)
    world.clicks(("c1", "q1"))
    world.join()
    copy: dict[Key, Copy] = dict(world.memory.stores[slot].items)
    world.clicks(("d1", "q1"), ("d2", "q1"))
    world.join()
    world.end(slot)
    world.clicks(("e1", "q1"))
    world.join()
    world.memory.stores[slot].items = copy
    world.begin(slot)
    return world


@pytest.mark.parametrize(("slot", "out"), [(0, None), (0, 1), (1, 2), (2, 0)])
def test_an_endpoint_that_comes_back_with_older_data_lets_no_second_row_in(
    tmp_path: Path, slot: int, out: int | None
) -> None:
    """Any other endpoint may be away then, while nobody has a view: the older one and the third must do."""
    world = behind(tmp_path, slot, ("east", "west"))
    if out is not None:
        world.lose_view("east")
        world.end(out)
    world.clicks(("d1", "q1"), ("f1", "q1"))
    world.join()
    world.clicks(*((event, "q1") for event in ("d1", "d2", "e1", "g1")), datacenter="west")
    world.join("west")
    assert world.joined_ids() == ["c1", "d1", "d2", "e1", "f1", "g1"]


@pytest.mark.parametrize(("newer", "has_view"), [(0, True), (1, False), (2, False)])
def test_two_endpoints_of_three_that_are_put_back_are_noticed(
    tmp_path: Path, newer: int, has_view: bool
) -> None:
    world = ThreeEndpoints(tmp_path)
    world.clicks(("c1", "q1"))
    world.join()
    copies = [dict(store.items) for store in world.memory.stores]
    world.clicks(("d1", "q1"), ("d2", "q1"))
    world.join()
    for slot, store in enumerate(world.memory.stores):
        if slot != newer:
            store.items = copies[slot]
    if not has_view:
        world.lose_view("east")
    world.end(newer)  # else it has what the two have lost
    world.clicks(("d1", "q1"), ("e1", "q1"))
    with pytest.raises(RegistryMismatch, match="photon registry refill"):
        world.join()


@pytest.mark.parametrize("slot", ENDPOINTS)
def test_an_endpoint_that_was_away_and_kept_its_data_is_no_alarm(tmp_path: Path, slot: int) -> None:
    world = ThreeEndpoints(tmp_path)
    for n in range(3):
        world.clicks((f"c{n}", "q1"))
        world.join()
        if n % 2 == 0:
            world.end(slot)
        else:
            world.begin(slot)
    world.begin(slot)
    world.clicks(("c1", "q1"), ("d1", "q1"))
    world.join()
    assert world.joined_ids() == ["c0", "c1", "c2", "d1"]
