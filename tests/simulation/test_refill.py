"""Two refills at once, and epochs beside one: stories that `test_put_back` does not have (L10, B19)."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.process.clock import SystemClock
from photon.registry.entry import Claimant, Epoch
from photon.registry.epochs import begin_epoch
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.view import View, current_register
from photon.storage.tables import FENCE_VERSION, OutputTable, app_id
from photon.upkeep.refill import Refilled, plan_refill
from tests.simulation.world import World
from tests.support.crashes import at


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The registry lacks one of two rows: an older copy of it was put back."""
    world = World(tmp_path, ["east", "west"])
    for name in ("east", "west"):
        world.events("c1", datacenter=name)
        world.join(name)
    copy = world.ledgers.copy()
    world.clicks(("d1", "q1"))
    world.join()
    world.ledgers.put_back(copy)
    return world


def put_back(world: World) -> Refilled:
    unread = IdRegistry(world.ledgers, View(current_register(world.ledgers), "refill"))
    return plan_refill(world.pipeline, unread).apply()


@pytest.mark.parametrize("point", ["refill.after_fence", "refill.after_page", "refill.before_switch"])
def test_of_two_refills_the_one_that_began_later_counts_and_the_other_changes_nothing(
    world: World, point: str
) -> None:
    done: list[Refilled] = []

    with (
        at(point, lambda: done.append(put_back(world))),
        pytest.raises((RegistryUnavailable, RegistryMismatch)),
    ):
        put_back(world)
    assert [one.put_back for one in done] == [1]
    assert not world.ledgers.register.is_refilling
    world.clicks(("d1", "q1"), ("e1", "q1"))  # logged again, and new
    world.join()
    world.join("west")
    assert world.joined_ids() == ["c1", "d1", "e1"]


def test_no_epoch_is_born_between_the_fences_of_a_refill_and_its_switch(world: World) -> None:
    refused: list[str] = []

    def begin() -> None:
        with pytest.raises(RegistryUnavailable) as said:
            begin_epoch(world.reader(), "east", 0, "table")
        refused.append(str(said.value))

    with at("refill.after_fence", begin):
        put_back(world)
    assert "no epoch begins before that has ended" in refused[0]


def test_a_number_that_was_handed_out_before_a_refill_is_handed_out_to_nobody(world: World) -> None:
    """A register that is put back forgets epochs; each has committed its batch 0 at least."""
    known = world.ledgers.register.epochs["east"]
    put_back(world)
    table = world.ledgers.register.tables["east"]
    assert begin_epoch(world.reader(), "east", 0, table) == Epoch("east", known + 2)


def test_what_an_epoch_of_before_a_refill_claims_is_void(world: World) -> None:
    epoch = Epoch("east", world.ledgers.register.epochs["east"])
    put_back(world)
    registry = world.reader()
    assert registry.view.is_over(epoch)
    assert registry.view.is_over(Epoch("west", world.ledgers.register.epochs["west"]))
    (row,) = (row for row in world.rows() if row["_event_id"] == "d1")
    assert world.holder("d1") == Claimant(epoch, row["_batch"], row["_plan"])


def test_no_epoch_of_before_a_refill_commits_to_the_table_any_more(world: World) -> None:
    known = world.ledgers.register.epochs["east"]
    put_back(world)
    table = OutputTable(world.pipeline.datacenters["east"].lake, "joined_events").load()
    for number in range(1, known + 2):  # the last may have begun behind the copy that was put back
        version = table.transaction_version(app_id("east", str(number)))
        assert version is not None
        assert version >= FENCE_VERSION


def test_ids_that_are_back_are_joins_and_nothing_is_left_to_close(world: World) -> None:
    put_back(world)
    assert world.is_join("c1")
    assert world.is_join("d1")
    assert all(not state.unclosed for state in world.reader().view.states.values())


def test_a_refill_is_above_the_views_of_an_earlier_one_though_the_clock_was_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of before the earlier refill is put back too, so that the stored views alone know of it."""
    copy = world.ledgers.copy()
    put_back(world)
    world.join()
    world.join("west")
    world.ledgers.put_back(copy)
    world.forget()
    monkeypatch.setattr(SystemClock, "now_us", lambda _: 1_000_000)
    with pytest.raises(RegistryMismatch):
        world.join()
    put_back(world)
    world.clicks(("d1", "q1"), ("e1", "q1"))
    world.join()
    world.join("west")
    assert world.joined_ids() == ["c1", "d1", "e1"]
