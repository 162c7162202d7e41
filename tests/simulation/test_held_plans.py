"""A plan is held while somebody changes the world: it does what it said, or refuses, or leaves some out.

Plans on the registry are refused (`PlanOutdated`). Plans on files and records leave out what is gone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from photon.registry.id_registry import IdRegistry
from photon.registry.register import with_boundary, with_hold
from photon.registry.view import View, current_register
from photon.state.losses import open_losses, plan_acknowledgement
from photon.state.view import view_state
from photon.storage.tables import OutputTable
from photon.upkeep.compact import plan_compaction
from photon.upkeep.gc import GcPlan, plan_gc
from photon.upkeep.plans import PlanOutdated, UpkeepPlan, carry_out, silent
from photon.upkeep.recovery import RecoveryPlan
from photon.upkeep.refill import RefillPlan, plan_refill
from photon.upkeep.reshard import plan_reshard
from photon.upkeep.retire import plan_retire
from photon.verification.stored_reports import StoredReport
from tests.simulation.reading import asking
from tests.simulation.verifying import verify
from tests.simulation.world import NOON_US, World
from tests.support.shares import a_share

DATACENTERS = ["east", "west", "north"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three datacenters that have joined an event each."""
    world = World(tmp_path, DATACENTERS, "registry: {keep_days: 1}")
    for name in DATACENTERS:
        world.queries("q1", datacenter=name)
        world.clicks((f"of {name}", "q1"), datacenter=name)
        world.join(name)
    return world


# -- plans on the registry


def gc(world: World) -> GcPlan:
    """A pass that raises the boundary and begins a generation, by verifications of now."""
    now_us = world.clock.now_us()
    reports = {
        name: StoredReport(now_us, "run", 1.0, one.as_dict() | {"verified_until_us": now_us})
        for name, one in verify(world).items()
    }
    with (
        mock.patch("photon.upkeep.gc.GENERATION_BYTES", 1),
        mock.patch("photon.upkeep.gc.newest", return_value=reports),
    ):
        return plan_gc(world.pipeline, world.reader(), world.clock)


VERBS: dict[str, Callable[[World], UpkeepPlan[Any]]] = {
    "gc": gc,
    "reshard": lambda world: plan_reshard(world.pipeline, world.reader(), 5),
    "retire": lambda world: plan_retire(world.pipeline, world.reader(), "west"),
}


def an_epoch_begins(world: World) -> None:
    shutil.rmtree(world.state("east"))
    world.forget()
    world.join("east")


def a_refill_ends(world: World) -> None:
    world.ledgers.put_back(copy_of_yesterday(world))
    refill(world).apply()


CHANGES: dict[str, Callable[[World], object]] = {
    "an epoch begins": an_epoch_begins,
    "a generation begins": lambda world: plan_reshard(world.pipeline, world.reader(), 2).apply(),
    "a datacenter is retired": lambda world: plan_retire(world.pipeline, world.reader(), "north").apply(),
    "a refill ends": a_refill_ends,
    "the boundary rises": lambda world: world.ledgers.change(lambda now: with_boundary(now, NOON_US - 1)),
}


@pytest.mark.parametrize("case", a_share([*product(VERBS, CHANGES)], 0, of=4), ids=" before ".join)
def test_a_plan_on_another_registry_than_there_is_does_nothing(world: World, case: tuple[str, str]) -> None:
    verb, change = case
    plan = VERBS[verb](world)
    CHANGES[change](world)
    before = world.ledgers.copy()
    with pytest.raises(PlanOutdated, match="nothing was done: run it again"):
        plan.apply(silent)
    after = world.ledgers.copy()
    assert (after.register, after.values) == (before.register, before.values)


@pytest.mark.parametrize("case", a_share([*product(VERBS, CHANGES)], 1, of=4), ids=" before ".join)
def test_a_verb_whose_plan_is_outdated_plans_anew_and_does_what_that_plan_tells(
    world: World, case: tuple[str, str]
) -> None:
    (verb, change), expected = case, list[object]()

    def plan() -> UpkeepPlan[Any]:
        made = VERBS[verb](world)
        expected.append(made.expected)
        if len(expected) == 1:
            CHANGES[change](world)
        return made

    assert carry_out(plan) == expected[-1]
    assert len(expected) == 2


@pytest.mark.parametrize("verb", VERBS)
def test_what_joins_do_meanwhile_outdates_no_plan(world: World, verb: str) -> None:
    plan = VERBS[verb](world)
    world.clicks(("later", "q1"), datacenter="west")
    world.join("west")
    world.ledgers.change(lambda now: with_hold(now, "north", True))
    plan.apply(silent)
    world.join("east")
    assert world.joined_ids() == ["later", "of east", "of north", "of west"]


def refill(world: World) -> RefillPlan:
    unread = IdRegistry(world.ledgers, View(current_register(world.ledgers), "refill"))
    return plan_refill(world.pipeline, unread)


def test_a_refill_that_another_one_has_made_needless_does_nothing(world: World) -> None:
    world.ledgers.put_back(copy_of_yesterday(world))
    held = refill(world)
    refill(world).apply()
    before = world.ledgers.copy()
    with pytest.raises(PlanOutdated):
        held.apply()
    assert world.ledgers.copy().values == before.values
    assert not refill(world).expected.began


def copy_of_yesterday(world: World) -> Any:
    """The registry as it was before the last event was joined."""
    copy = world.ledgers.copy()
    world.clicks(("last", "q1"))
    world.join("east")
    return copy


# -- plans on files and records


def files_become_few(world: World) -> None:
    for number in range(4):
        world.clicks((f"c{number}", "q1"))
        world.join("east")


def compaction(world: World) -> Any:
    return plan_compaction(world.pipeline, "east", world.clock, least_files=2)


def test_a_compaction_leaves_out_what_another_one_has_done_and_joins_go_on(world: World) -> None:
    files_become_few(world)
    held = compaction(world)
    assert compaction(world).apply()["joined_events"].commits == 1
    world.clicks(("later", "q1"))
    world.join("east")
    ids = world.joined_ids()
    assert held.apply()["joined_events"].commits == 0
    assert world.joined_ids() == ids


def test_a_compaction_whose_files_lost_rows_meanwhile_brings_no_row_back(world: World) -> None:
    files_become_few(world)
    held = compaction(world)
    OutputTable(world.pipeline.datacenters["east"].lake, "joined_events").load().delete("_event_id = 'c1'")
    held.apply()
    assert "c1" not in world.joined_ids()


def test_orders_of_a_plan_that_is_held_while_the_record_is_joined_count_nothing_twice(world: World) -> None:
    counts = world.join("east").counts.as_dict()
    OutputTable(world.pipeline.datacenters["east"].lake, "joined_events").load().delete(
        "_event_id = 'of east'"
    )
    reports = {name: report.as_dict() for name, report in verify(world).items()}
    held = RecoveryPlan(world.pipeline, reports)
    with asking(world):
        assert held.expected["east"].ordered == 1
        RecoveryPlan(world.pipeline, reports).apply()
        world.join("east")
        assert held.apply()["east"].ordered == 1, "the plan is as it was"
    assert world.join("east").counts.as_dict() == counts
    assert world.joined_ids() == ["of east", "of north", "of west"]


# -- acknowledgements


def lose_unread(world: World, name: str) -> None:
    """A file of clicks goes away of which a part was planned and not read."""
    world.clicks(("c1", "q1"), file=name)
    world.join("east")
    path = world.pipeline.datacenters["east"].logs / "clicks" / name
    assert isinstance(path, Path)
    with path.open("a") as file:
        file.write('{"click": "never read", ')
    world.join("east")
    path.unlink()
    world.clock.advance(3_600)
    world.join("east")


def lost_files(world: World) -> int:
    view = view_state(world.state("east"), world.clock.now_us())
    return len(open_losses(world.state("east"), view).file_bytes)


def test_what_is_lost_after_an_acknowledgement_was_planned_is_told_all_the_same(world: World) -> None:
    lose_unread(world, "one.jsonl")
    assert lost_files(world) == 1
    held = plan_acknowledgement(world.state("east"), world.clock.now_us())
    lose_unread(world, "two.jsonl")
    held.apply()
    assert lost_files(world) == 1
    plan_acknowledgement(world.state("east"), world.clock.now_us()).apply()
    assert lost_files(world) == 0


def test_an_acknowledgement_of_an_earlier_epoch_hides_nothing_of_this_one(world: World) -> None:
    lose_unread(world, "one.jsonl")
    held = plan_acknowledgement(world.state("east"), world.clock.now_us())
    put_back = world.copy_state()
    world.join("east")
    an_epoch_begins(world)
    held.apply()
    lose_unread(world, "two.jsonl")
    assert lost_files(world) == 1
    put_back()


def test_two_people_may_acknowledge_at_once(world: World) -> None:
    lose_unread(world, "one.jsonl")
    first, second = (plan_acknowledgement(world.state("east"), world.clock.now_us()) for _ in range(2))
    replace = Path.replace

    def meanwhile(path: Path, target: Path) -> Path:
        with mock.patch.object(Path, "replace", replace):
            second.apply()
        return replace(path, target)

    with mock.patch.object(Path, "replace", meanwhile):
        first.apply()
    assert lost_files(world) == 0
    assert json.loads((world.state("east") / "acknowledged.json").read_text())["format"] == 1
