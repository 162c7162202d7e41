"""Events that gc has passed: no row, recorded once, counted, through crashes too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from photon.process.faults import FAULT_POINTS
from photon.registry.generations import drop, raise_boundary, roll
from photon.verification.classes import Evidence
from photon.verification.tasks import TO_CLASSIFY, TaskScope, classify_records
from tests.simulation.world import NOON_US, World, assert_counts
from tests.support.shares import a_share

DAY_US = 86_400_000_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    """One event joined and forgotten, one that comes after that, and one that is young enough."""
    made = World(tmp_path)
    made.queries("q0", at_us=NOON_US - 2 * DAY_US)
    made.queries("q1")
    made.clicks(("joined", "q0"), at_us=NOON_US - 2 * DAY_US)
    made.join()
    run_gc(made)
    made.clicks(("late", "q0"), ("late", "q0"), at_us=NOON_US - 2 * DAY_US)
    made.clicks(("young", "q1"))
    return made


def run_gc(world: World) -> None:
    """Begin a generation, and forget what is a day old."""
    registry = world.reader()
    view, positions = registry.view, registry.positions
    newest = registry.register.generations[-1]
    roll(view, positions, newest.ledgers, newest.homes)
    raise_boundary(view, positions, NOON_US - DAY_US)
    assert drop(view, positions)


def test_an_event_below_the_boundary_has_no_row_and_is_recorded_with_what_it_was(world: World) -> None:
    counts = world.join().counts
    assert_counts(counts, joined=2, too_old=2)
    assert world.joined_ids() == ["joined", "young"]
    assert [(row["event_id"], row["key"]) for row in world.rows("too_old")] == [("late", "q0")] * 2
    assert b'"late"' in world.rows("too_old")[0]["raw"]


def test_an_event_that_waited_while_the_boundary_passed_is_too_old(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.clicks(("waits", "q1"), at_us=NOON_US - 2 * DAY_US)
    world.join()
    run_gc(world)
    world.queries("q1", at_us=NOON_US - 2 * DAY_US)
    counts = world.join().counts
    assert_counts(counts, pending=0, too_old=1)
    assert [row["event_id"] for row in world.rows("too_old")] == ["waits"]


@pytest.mark.parametrize("point", a_share(FAULT_POINTS, 1, of=6))
def test_it_is_recorded_and_counted_once_wherever_the_process_dies(world: World, point: str) -> None:
    world.join_with_a_crash(point)
    counts = world.join().counts
    assert_counts(counts, joined=2, too_old=2)
    assert len(world.rows("too_old")) == 2


def test_a_trace_says_that_it_is_too_old(world: World) -> None:
    world.join()
    found = world.trace("late")
    assert "too old" in found.verdict
    assert found.registry is not None
    assert found.registry.id_status == "too old"


# -- a new epoch reads everything again


@pytest.fixture
def lost_state(world: World) -> World:
    """The state is lost after `late` was answered; `joined` has its row still."""
    world.join()
    shutil.rmtree(world.state())
    world.forget()
    return world


def test_what_an_earlier_epoch_has_joined_is_recognised_by_its_row(lost_state: World) -> None:
    counts = lost_state.join().counts
    assert_counts(counts, joined=2, duplicates=0, too_old=2)
    assert counts.adds_up
    assert lost_state.joined_ids() == ["joined", "young"]
    assert [row["event_id"] for row in lost_state.rows("too_old")] == ["late"] * 4  # two in each epoch


def test_another_record_of_such_an_event_is_a_duplicate(lost_state: World) -> None:
    lost_state.clicks(("joined", "q0"), at_us=NOON_US - 2 * DAY_US)
    counts = lost_state.join().counts
    assert_counts(counts, joined=2, duplicates=1, too_old=2)
    lost_state.clicks(("joined", "q0"), at_us=NOON_US - 2 * DAY_US)
    assert_counts(lost_state.join().counts, joined=2, duplicates=2)


def test_what_only_another_datacenter_has_joined_is_too_old(tmp_path: Path) -> None:
    world = World(tmp_path, ["east", "west"])
    for name in ("east", "west"):
        world.queries("q0", datacenter=name, at_us=NOON_US - 2 * DAY_US)
        world.clicks(("joined", "q0"), datacenter=name, at_us=NOON_US - 2 * DAY_US)
    world.join("east", mode="complete")
    assert_counts(world.join("west", mode="complete").counts, joined_elsewhere=1)
    run_gc(world)
    shutil.rmtree(world.state("west"))
    world.forget()
    counts = world.join("west", mode="complete").counts
    assert_counts(counts, joined_elsewhere=0, too_old=1)


@pytest.mark.parametrize("point", a_share(FAULT_POINTS, 0, of=6))
def test_a_new_epoch_counts_each_once_wherever_the_process_dies(lost_state: World, point: str) -> None:
    lost_state.clicks(("joined", "q0"), at_us=NOON_US - 2 * DAY_US)
    lost_state.join_with_a_crash(point)
    counts = lost_state.join().counts
    assert_counts(counts, joined=2, duplicates=1, too_old=2)
    assert counts.adds_up
    assert lost_state.joined_ids() == ["joined", "young"]


def test_another_record_of_an_event_that_this_very_epoch_joined_is_too_old_like_any_other(
    world: World,
) -> None:
    world.clicks(("joined", "q0"), at_us=NOON_US - 2 * DAY_US)
    counts = world.join().counts
    assert_counts(counts, joined=2, duplicates=0, too_old=3)


# -- what was given up before


def test_an_event_given_up_before_it_was_passed_is_too_old_once_it_is_looked_at_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.clicks(("alone", "q0"), at_us=NOON_US - 2 * DAY_US)
    assert_counts(world.join(mode="complete").counts, unjoinable=1, too_old=0)
    run_gc(world)
    for _ in range(2):
        counts = world.join(mode="complete").counts
        assert_counts(counts, unjoinable=0, too_old=1)
        assert [row["event_id"] for row in world.rows("too_old")] == ["alone"]


# -- what verification makes of such a record

DROPS = """
import pyarrow as pa
from photon.adapters import Adapted, Adapter


class Drops(Adapter):
    def combine(self, foreign, primary):
        return Adapted(foreign.slice(0, 0), pa.array([False] * foreign.num_rows))
"""


@pytest.mark.parametrize(("evidence", "outcome"), [(Evidence.TOO_OLD, "too_old"), (Evidence(0), "filtered")])
def test_a_pair_that_the_adapter_drops_is_too_old_only_if_the_join_has_recorded_that(
    tmp_path: Path, evidence: Evidence, outcome: str
) -> None:
    (tmp_path / "drops.py").write_text(DROPS)
    world = World(tmp_path, more="adapter: drops:Drops")
    run_gc(world)
    scope = TaskScope(world.pipeline, {("east", 1): b"", ("east", 2): b""}, {})
    old_us = NOON_US - 2 * DAY_US
    record = {
        "datacenter": "east",
        "file": 1,
        "offset": 0,
        "event_id": "late",
        "time_us": old_us,
        "event_us": old_us,
        "evidence": int(evidence),
        "raw": json.dumps({"click": "late", "query": "q0", "at": old_us}).encode(),
        "primary_file": 2,
        "primary_raw": json.dumps({"query": "q0", "at": old_us, "text": "of q0"}).encode(),
        "waits": False,
        "undecided": True,
    }
    assert set(record) == {*TO_CLASSIFY}
    (decided,) = classify_records([pa.RecordBatch.from_pylist([record])], scope, world.reader().snapshot())
    assert decided["outcome"].to_pylist() == [outcome]
