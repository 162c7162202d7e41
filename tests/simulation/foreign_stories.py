"""Histories in which others delete a row, and joining goes on (protocol E11)."""

from __future__ import annotations

from photon.upkeep.retire import plan_retire
from tests.simulation.recovery_stories import a_row_is_removed
from tests.simulation.world import World

BACK = "a row that others took is back"


def a_duplicate_brings_no_row_back(world: World) -> None:
    """Another record of an event is read whose row others took."""
    world.events("c1", "c2")
    world.join()
    a_row_is_removed(world)
    world.clicks(("c1", "q1"))
    world.join()
    assert world.joined_ids() == ["c2"], BACK


def a_new_epoch_brings_no_row_back(world: World) -> None:
    """The state is lost, so that all logs are read again."""
    world.events("c1", "c2")
    world.join()
    a_row_is_removed(world)
    (world.state() / "dispatcher.sqlite").unlink()
    world.forget()
    world.join()
    assert world.joined_ids() == ["c2"], BACK


def a_start_closes_and_brings_no_row_back(world: World) -> None:
    """A process of east dies before it closes a batch, and loses its state."""
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("close.before")
    a_row_is_removed(world)
    (world.state() / "dispatcher.sqlite").unlink()
    world.forget()
    world.join("east")
    world.join("west")
    assert world.joined_ids() == ["c2"], BACK


def a_close_after_a_restart_brings_no_row_back(world: World) -> None:
    """A process of east dies before it closes a batch, and goes on behind it."""
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("close.before")
    a_row_is_removed(world)
    world.join("east")
    world.join("west")
    assert world.joined_ids() == ["c2"], BACK


def a_survivor_brings_no_row_back(world: World) -> None:
    """West dies before it closes a batch, and east ends its epoch."""
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("close.before", "west")
    a_row_is_removed(world)
    world.join("east")
    assert world.joined_ids() == ["c2"], BACK


def a_retirement_brings_no_row_back(world: World) -> None:
    """West dies before it closes a batch, and is retired."""
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("close.before", "west")
    a_row_is_removed(world)
    plan_retire(world.pipeline, world.reader(), "west").apply()
    world.join("east")
    assert world.joined_ids() == ["c2"], BACK
