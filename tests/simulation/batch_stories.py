"""Histories of batches that go wrong without a rule, told step by step.

Tests tell them of the product, and `test_broken_batches` of a product without the rule.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from photon.dispatcher.completion import Superseded
from photon.faults import arm, disarm
from photon.storage.tables import OutputTable, app_id
from tests.simulation.world import World


class StateCopies:
    """Copies of a datacenter's state folder, by name."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _of(self, name: str) -> Path:
        return self._world.folder / f"state-{name}"

    def keep(self, name: str) -> None:
        shutil.copytree(self._world.state(), self._of(name))

    def put_back(self, name: str) -> None:
        shutil.rmtree(self._world.state())
        shutil.copytree(self._of(name), self._world.state())
        self._world.forget()


def an_event_of_a_cloned_state_is_joined(world: World, point: str) -> None:
    """A15: two copies of a state each plan batch N, of other files, and both call their file the same."""
    copies, clicks = StateCopies(world), world.folder / "logs" / "east" / "clicks"
    world.queries("q1")
    world.clicks(("c1", "q1"))
    world.join()
    copies.keep("before")
    world.clicks(("of the clone", "q1"), file="b.jsonl")
    assert world.join_with_a_crash(point)
    copies.keep("clone")
    (clicks / "b.jsonl").rename(world.folder / "aside")
    copies.put_back("before")
    world.clicks(("of the other", "q1"), file="c.jsonl")
    world.join()
    (world.folder / "aside").rename(clicks / "b.jsonl")
    copies.put_back("clone")
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "of the clone", "of the other"], "an event has no row"
    assert counts.adds_up


def a_batch_that_another_plan_commits_ends_the_process(world: World) -> None:
    """A15: while a copy of the state runs batch N, the other one commits its own batch N."""
    world.queries("q1")
    world.clicks(("c1", "q1"))
    arm("commit.before_main", lambda: _commit_as_another_plan(world))
    try:
        world.join()
        ended = ""
    except Superseded as error:
        ended = str(error)
    finally:
        disarm()
    assert "another copy of its state is in use" in ended, "two copies go on under one name"
    epoch = _epoch_of(world)
    world.join()
    assert _epoch_of(world) != epoch
    assert world.joined_ids() == ["c1"]


def _epoch_of(world: World) -> str | None:
    with closing(world.read_state()) as state:
        return state.epoch


def _commit_as_another_plan(world: World) -> None:
    with closing(world.read_state()) as state:
        plan = state.open_plan()
    assert plan is not None
    table = OutputTable(world.pipeline.datacenters["east"].lake, "joined_events")
    batch = plan.key.batch
    table.commit([], app_id("east", plan.key.epoch), batch, batch - 1, "another plan")
