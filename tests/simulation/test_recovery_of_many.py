"""Recovery of more records than one report or one order holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.dispatcher.recovery.orders import waiting_orders
from photon.upkeep import recovery
from photon.verification import case_pages
from tests.simulation.verifying import recover_all, recover_from, verify
from tests.simulation.world import World

LOST = [f"c{number}" for number in range(1, 6)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Five events have lost their rows, and a page holds two."""
    monkeypatch.setattr(case_pages, "MOST_CASES", 2)
    world = World(tmp_path)
    world.events(*LOST)
    world.join()
    world.table().load().delete()
    return world


def test_a_recovery_orders_all_that_is_missing_page_by_page(world: World) -> None:
    done = recover_all(world)["east"]
    assert (done.ordered, done.left_out, len(done.orders)) == (5, 0, 3)
    world.join()
    assert world.joined_ids() == LOST


def test_what_is_beyond_the_orders_that_may_wait_is_left_for_the_next_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "MOST_WAITING_ORDERS", 2)
    done = recover_all(world)["east"]
    assert (done.ordered, done.left_out) == (4, 1)
    again = recover_all(world)["east"]
    assert (again.ordered, again.left_out) == (0, 5)
    world.join()
    assert recover_all(world)["east"].ordered == 1
    world.join()
    assert world.joined_ids() == LOST


def test_a_page_that_is_gone_is_left_for_the_next_round(world: World) -> None:
    reports = {name: report.as_dict() for name, report in verify(world).items()}
    for page in (world.pipeline.datacenters["east"].lake / case_pages.FOLDER).iterdir():
        page.unlink()
    done = recover_from(world, reports)["east"]
    assert (done.ordered, done.left_out) == (2, 3)


def test_new_events_have_their_turn_between_two_orders(world: World) -> None:
    recover_all(world)
    world.clicks(("new", "q1"))
    world.join()
    batch_of = {row["_event_id"]: row["_batch"] for row in world.rows("joined_events")}
    assert batch_of["new"] < max(batch_of[event_id] for event_id in LOST)
    assert waiting_orders(world.state()) == []


def test_all_records_of_an_event_are_in_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_pages, "MOST_CASES", 2)
    cases = [case_pages.Case(event_id, f"1:{at}", 0) for at, event_id in enumerate("abbcdddde")]
    pages = ["".join(case.event_id for case in page) for page in case_pages.pages_of(cases)]
    assert pages == ["a", "bb", "c", "dddd", "e"]
