"""Several records of one id: any whose primary exists joins, and each event has one row (protocol A9)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import permutations
from pathlib import Path

import pytest

from photon.dispatcher.dispatcher import Mode
from photon.join.tasks import LocalRunner
from tests.simulation import picky_adapter
from tests.simulation.rebuilding import rebuild
from tests.simulation.recovery_stories import (
    FAULTS,
    GIVES_UP_SOON,
    Plant,
    assert_sound,
)
from tests.simulation.runners import PoisonedRunner
from tests.simulation.verifying import recover_all, verify
from tests.simulation.world import NOON_US, World, assert_counts
from tests.support.shares import a_share

CASE = (("c1", "nope"), ("c1", "a"))  # only the second of these records has a primary
ORDERS = (CASE, CASE[::-1])
MODES: Sequence[Mode] = ("complete", "until_idle")


def queries_of(world: World) -> dict[str, str]:
    """Return each event's query: that of the record of which its row was made."""
    rows = world.rows()
    assert len({row["_event_id"] for row in rows}) == len(rows), "an event has two rows"
    return {row["_event_id"]: row["query"] for row in rows}


def assert_counted_as_verified(world: World) -> None:
    """Check that verification finds no fault, and the very classes that the dispatchers have counted."""
    for name, report in verify(world).items():
        assert not report.findings, report.as_dict()
        with closing(world.read_state(name)) as state:
            counts = state.counts()
        assert counts.adds_up
        assert {each: count for each, count in counts.classes.items() if count} == report.classes


def two_datacenters(folder: Path, more: str = "") -> World:
    return World(folder, ("east", "west"), more)


# -- one batch


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("records", ORDERS)
def test_the_record_with_a_primary_joins_whatever_comes_before_it(
    world: World, records: tuple[tuple[str, str], ...], mode: Mode
) -> None:
    world.queries("a")
    world.clicks(*records)
    counts = world.join(mode=mode).counts
    assert queries_of(world) == {"c1": "a"}
    assert_counts(counts, joined=1, duplicates=1, unjoinable=0)
    assert world.rows("unjoined") == []
    assert_counted_as_verified(world)


def clicks_that_ask(world: World, *asks: str | None, file: str = "a.jsonl") -> None:
    """Log records of c1 with a primary; each says what it asks of the adapter."""
    records = [{"click": "c1", "query": "a", "at": NOON_US, "asks": each, "note": str(each)} for each in asks]
    world.log("east", "clicks", *records, file=file)


@pytest.fixture
def picky_world(tmp_path: Path) -> World:
    world = World(tmp_path, more=f"adapter: {picky_adapter.NAME}:join")
    world.queries("a")
    return world


@pytest.mark.parametrize("asks", a_share(list(permutations(["skip", "drop", "fail", None])), 0))
def test_what_the_adapter_skips_drops_or_fails_on_keeps_no_other_record_from_joining(
    picky_world: World, asks: tuple[str | None, ...]
) -> None:
    clicks_that_ask(picky_world, *asks)
    counts = picky_world.join(mode="complete").counts
    assert [row["note"] for row in picky_world.rows()] == ["None"]
    assert_counts(counts, joined=1, duplicates=2, skipped=1)
    assert picky_world.rows("dead_letters") == []
    assert_counted_as_verified(picky_world)


def test_without_one_that_can_join_each_record_ends_in_its_own_class(picky_world: World) -> None:
    clicks_that_ask(picky_world, "fail", "drop", "skip")
    picky_world.clicks(("c1", "nope"), ("c1", None))
    counts = picky_world.join(mode="complete").counts
    assert picky_world.rows() == []
    assert_counts(counts, dead_letters=1, filtered=1, skipped=2, unjoinable=1)
    (letter,) = picky_world.rows("dead_letters")
    assert letter["reason"] == "adapter: ValueError: it was asked to"
    assert_counted_as_verified(picky_world)


# -- which of several


def rows_query(world: World, datacenter: str) -> str:
    world.join(datacenter, "complete")
    return queries_of(world)["c1"]


@pytest.mark.parametrize("datacenter", ["east", "west"])
def test_of_several_the_first_by_time_and_path_joins_whatever_the_numbers_of_files(
    tmp_path: Path, datacenter: str
) -> None:
    world = two_datacenters(tmp_path, "home: {takeover_delay: 0s}")
    others = ["b.jsonl", "a.jsonl"]
    world.queries("of a", "of b", datacenter=datacenter)
    for number, file in enumerate(others if datacenter == "east" else others[::-1]):
        world.clicks((f"first in {file}", None), datacenter=datacenter, file=file)
        world.join(datacenter)  # files are numbered in this order
        assert number + 2 == len(world.read_state(datacenter).files())
    world.clicks(("c1", "of b"), datacenter=datacenter, file="b.jsonl")
    world.clicks(("c1", "of a"), datacenter=datacenter, file="a.jsonl")
    assert rows_query(world, datacenter) == "of a"


# -- several tasks, batches and datacenters


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("files", [("a.jsonl", "b.jsonl"), ("b.jsonl", "a.jsonl")])
def test_in_two_tasks_of_one_batch_the_one_with_a_primary_joins(
    world: World, monkeypatch: pytest.MonkeyPatch, files: tuple[str, str], mode: Mode
) -> None:
    monkeypatch.setattr("photon.dispatcher.task_splitter.TASK_BYTES", 1)
    runner = LocalRunner(world.clock)
    runner.workers = 2
    world.queries("a")
    for record, file in zip(CASE, files, strict=True):
        world.clicks(record, file=file)
    world.join(mode=mode, runner=runner)
    world.clock.advance(60)
    world.join(runner=runner)
    assert queries_of(world) == {"c1": "a"}
    assert not verify(world)["east"].findings


@pytest.mark.parametrize("late", ["a", "nope"])
@pytest.mark.parametrize("records", ORDERS)
def test_of_two_that_wait_the_one_whose_primary_comes_first_joins_and_stays(
    world: World, records: tuple[tuple[str, str], ...], late: str
) -> None:
    world.clicks(*records)
    assert world.join().counts.of("joined") == 0
    for query in (late, "a", "nope"):
        world.queries(query)
        counts = world.join().counts
        world.clock.advance(3_600)
    counts = world.join().counts
    assert queries_of(world) == {"c1": late}
    assert_counts(counts, joined=1, duplicates=1, pending=0)
    assert_counted_as_verified(world)


def test_a_record_that_was_given_up_keeps_no_later_one_from_joining(tmp_path: Path) -> None:
    world = World(tmp_path, more=GIVES_UP_SOON)
    world.clicks(("c1", "nope"))
    world.queries("x")
    for minute in range(6):
        world.clock.advance(60)
        world.queries("x", at_us=NOON_US + minute * 60_000_000)
        world.join()
    assert world.join().counts.of("unjoinable") == 1
    world.events("c1", query="a")
    world.join()
    assert queries_of(world) == {"c1": "a"}
    assert not verify(world)["east"].findings


# -- crashes, losses and repairs


@pytest.mark.parametrize("point", ["task.after_candidates", "claim.after"])
def test_what_was_claimed_of_either_turn_has_its_row_though_its_log_is_gone(world: World, point: str) -> None:
    world.queries("a")
    world.clicks(*CASE, ("c2", "a"))
    assert world.join_with_a_crash(point, mode="complete")
    held = {event for event in ("c1", "c2") if world.holder(event) is not None}
    (world.folder / "logs" / "east" / "clicks" / "a.jsonl").write_text("")
    world.join(mode="complete")
    assert held <= set(queries_of(world))


def test_a_rerun_that_loses_the_holders_primary_joins_another_record(world: World) -> None:
    world.queries("first", file="a.jsonl")
    world.queries("second", file="b.jsonl")
    world.clicks(("c1", "first"), ("c1", "second"))
    assert world.join_with_a_crash("claim.after")
    (world.folder / "logs" / "east" / "queries" / "a.jsonl").unlink()
    lake = world.pipeline.datacenters["east"].lake / "joined_events"
    for path in Path(str(lake)).glob("*/batch-*.parquet"):
        path.unlink()  # removes the row that was stored
    for _ in range(3):
        world.join()
        world.clock.advance(60)
    assert queries_of(world) == {"c1": "second"}


def test_a_record_that_kills_its_worker_keeps_no_other_one_from_joining(world: World) -> None:
    world.queries("a", "poison")
    world.clicks(("c1", "poison"), ("c1", "a"))
    for _ in range(3):
        counts = world.join(runner=PoisonedRunner(world)).counts
        world.clock.advance(60)
    assert queries_of(world) == {"c1": "a"}
    assert counts.of("joined") == 1
    assert counts.of("dead_letters") + counts.of("duplicates") == 1
    assert_counted_as_verified(world)


@pytest.mark.parametrize("plant", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("records", ORDERS)
def test_a_lost_row_is_made_again_of_the_record_with_a_primary(
    world: World, records: tuple[tuple[str, str], ...], plant: Plant
) -> None:
    world.queries("a")
    world.clicks(*records)
    before = world.join().counts.as_dict()
    plant(world)
    recover_all(world)
    after = world.join().counts.as_dict()
    assert queries_of(world) == {"c1": "a"}
    assert after == before
    assert_sound(world)


def test_what_has_joined_stays_though_the_first_ones_primary_comes_later(world: World) -> None:
    world.queries("a")
    world.clicks(*CASE)
    world.join()
    world.queries("nope")
    world.join()
    rebuild(world)
    assert queries_of(world) == {"c1": "a"}
    assert_sound(world)
