"""An event that is joined in the ledgers and has no row, planted there: found, told and repaired."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from photon.registry.appending import append
from photon.registry.entry import Claimant, Claims, Entry, Epoch
from photon.upkeep.recovery import acts_on
from tests.simulation.rebuilding import set_adapter
from tests.simulation.verifying import recover_all, verify
from tests.simulation.world import NOON_US, World, hashed

ADAPTER = """
from photon.adapters import per_event

@per_event
def adapter(foreign, primary):
    return {"click": foreign["click"], "text": primary["text"]} %s
"""
NAMES = ("east", "west")


def joined_world(folder: Path) -> World:
    """Event c1 is joined in west; c2 is not logged yet."""
    folder.mkdir(exist_ok=True)
    world = World(folder, NAMES)
    for name in NAMES:
        world.queries("q1", datacenter=name)
        world.clicks(("c1", "q1"), datacenter=name)
    join(world)
    assert [row["_datacenter"] for row in world.rows()] == ["west"]
    return world


def join(world: World, mode: str = "until_idle") -> None:
    for name in reversed(NAMES):
        world.join(name, mode)  # type: ignore[arg-type]


def plant(world: World, event_id: str) -> None:
    """The ledgers say that west has joined an event in its first batch, and there is no row of it."""
    place = np.zeros(1, np.uint32), np.zeros(1, np.int64)
    planted = Claims(Claimant(Epoch("west", 1), 1, "planted"), hashed(event_id), np.array([NOON_US]), *place)
    registry = world.reader()
    ((ledger, _),) = registry.view.current(planted.hashes).ledgers()
    append(registry.view, registry.positions, {ledger: lambda state: Entry(claims=planted, are_joins=True)})


def found(world: World) -> dict[str, list[tuple[str, str, str]]]:
    """Of each datacenter: each kind of finding, with the event and who has to act."""
    return {
        name: [
            (finding.kind, case.event_id, acts_on(case, name, ()))
            for finding in report.findings
            for case in finding.cases
        ]
        for name, report in verify(world).items()
    }


@pytest.mark.parametrize("order", [("east", "west"), ("west", "east")])
def test_of_an_event_that_is_yet_to_be_read_the_holder_finds_it_by_itself(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    world = joined_world(tmp_path)
    plant(world, "c2")
    for name in NAMES:
        world.queries("q2", datacenter=name)
        world.clicks(("c2", "q2"), datacenter=name)
    for name in order:
        world.join(name)
    assert world.joined_ids() == ["c1", "c2"]
    assert found(world) == {"east": [], "west": []}


def test_of_an_event_that_was_dropped_it_is_told_with_its_holder_and_recovery_joins_it(
    tmp_path: Path,
) -> None:
    world = joined_world(tmp_path)
    set_adapter(world, f"drops_{tmp_path.name}", ADAPTER % 'if foreign["click"] != "c2" else None')
    for name in NAMES:
        world.queries("q2", datacenter=name)
        world.clicks(("c2", "q2"), datacenter=name)
    join(world)
    plant(world, "c2")
    assert found(world) == {"east": [], "west": []}, (
        "what the adapter drops is filtered, whoever registered it"
    )
    set_adapter(world, f"keeps_{tmp_path.name}", ADAPTER % "")
    assert found(world) == {name: [("missing", "c2", "west")] for name in NAMES}
    done = recover_all(world)
    assert (done["east"].left_to, done["west"].kinds) == ({"west": 1}, {"missing": 1})
    join(world)
    assert world.joined_ids() == ["c1", "c2"], "nobody has joined the event whose id was registered"
    assert found(world) == {"east": [], "west": []}


def test_of_an_event_that_was_given_up_its_holder_joins_it_when_the_primary_comes(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    for name in NAMES:
        world.clicks(("c2", "q2"), datacenter=name)
    join(world, "complete")
    plant(world, "c2")
    assert found(world) == {"east": [], "west": []}  # nobody could join it
    for name in NAMES:
        world.queries("q2", datacenter=name)
    join(world)
    assert world.joined_ids() == ["c1", "c2"]
    assert found(world) == {"east": [], "west": []}


# -- rules left out
