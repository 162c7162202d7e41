"""A fill joins what its window lacks, once, whoever else is at work (protocol E4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.dispatcher.recovery.orders import waiting_orders
from tests.simulation import fill_stories as stories
from tests.simulation.recovery_stories import HOME
from tests.simulation.world import World

losses = pytest.mark.parametrize("loss", stories.LOSSES)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@losses
def test_a_fill_of_a_day_joins_what_that_day_lacks_and_nothing_else(world: World, loss: str) -> None:
    stories.a_fill_of_a_day_joins_what_that_day_lacks_and_nothing_else(world, stories.LOSSES[loss])


@losses
def test_two_fills_of_a_day_join_once(world: World, loss: str) -> None:
    stories.two_fills_of_a_day_join_once(world, stories.LOSSES[loss])


@losses
def test_fills_of_two_datacenters_at_once_join_once(tmp_path: Path, loss: str) -> None:
    two = World(tmp_path, ["east", "west"], HOME)
    stories.fills_of_two_datacenters_at_once_join_once(two, stories.LOSSES[loss])


@losses
def test_a_fill_beside_a_shift_waits_until_it_has_joined(world: World, loss: str) -> None:
    stories.a_fill_beside_a_shift_waits_until_it_has_joined(world, stories.LOSSES[loss])


def test_a_dry_run_orders_nothing(world: World) -> None:
    stories.two_days(world)
    stories.free(world, "late")
    assert stories.fill(world, dry_run=True).ordered == 1
    assert waiting_orders(world.state()) == []


def test_what_can_not_be_read_again_is_counted_and_not_ordered(world: World) -> None:
    stories.two_days(world)
    stories.free(world, "late")

    def delete_the_log() -> None:
        (world.folder / "logs/east/clicks/a.jsonl").unlink()

    done = stories.fill(world, meanwhile=delete_the_log)
    assert (done.ordered, done.untimed, done.outside) == (0, 1, 0)


# -- without a rule
