"""The index of primary events as the dispatcher keeps it: lost, damaged, merged, and never half known."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from photon.dispatcher.retrying import Callbacks
from photon.event_store.compaction import SEGMENTS_A_TIER
from photon.event_store.segments import SUFFIX
from photon.join import tasks
from photon.join.messages import IndexResult, ReindexTask, TaskContext
from photon.logs.source import LogsUnavailable
from photon.process.faults import INDEX_FAULT_POINTS
from photon.state.dispatcher_state import DispatcherState
from tests.simulation.world import NOON_US, World, assert_counts

MONTH_US = 30 * 24 * 3600 * 1_000_000


def segments_of(world: World) -> list[Path]:
    """The segments on disk."""
    return sorted((world.state() / "index").glob("*" + SUFFIX))


def remove(path: Path) -> None:
    path.unlink()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def alter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_store_that_is_away_while_the_index_is_made_again_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.events("c1")
    world.join()
    for path in segments_of(world):
        remove(path)
    world.forget()
    world.clicks(("c2", "q1"))
    reindex, tries = tasks._reindex, count()

    def away_at_first(task: ReindexTask, context: TaskContext) -> IndexResult:
        if next(tries) == 0:
            raise LogsUnavailable("the store is away")
        return reindex(task, context)

    monkeypatch.setattr(tasks, "_reindex", away_at_first)
    world.join()
    assert next(tries) == 2
    assert world.joined_ids() == ["c1", "c2"]


@pytest.mark.parametrize("harm", [remove, cut_short, alter])
def test_a_lost_or_damaged_segment_is_made_again_from_the_logs_in_the_same_epoch(
    world: World, harm: Callable[[Path], None]
) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    world.join()
    epoch = world.read_state().epoch
    for path in segments_of(world):
        harm(path)
    world.forget()
    world.clicks(("c2", "q2"))
    counts = world.join(mode="complete").counts
    assert world.joined_ids() == ["c1", "c2"]
    assert_counts(counts, primary=2, joined=2, unjoinable=0)
    assert world.read_state().epoch == epoch


def test_a_segment_that_goes_while_the_datacenter_runs_is_made_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))

    def lose_them_once(report: object) -> None:
        if len(world.joined_ids()) == 1:
            for path in segments_of(world):
                path.unlink()
            world.forget()
            world.clicks(("c2", "q2"))

    failed = list[str]()
    with caplog.at_level(logging.WARNING):
        world.join(callbacks=Callbacks(on_batch=lose_them_once, on_failure=failed.append))
    assert world.joined_ids() == ["c1", "c2"]
    assert len(failed) == 1, "an index that is lost again and again would not be told"
    assert "primary logs are indexed again: 1 file" in caplog.text


def test_after_a_log_went_the_index_is_made_again_without_it(world: World) -> None:
    world.queries("q1", file="old.jsonl")
    world.queries("q2", file="new.jsonl", at_us=NOON_US + 1)
    world.join()
    (world.folder / "logs" / "east" / "queries" / "old.jsonl").unlink()
    for path in segments_of(world):
        path.unlink()
    world.clicks(("c1", "q1"), ("c2", "q2"))
    world.join()
    assert world.joined_ids() == ["c2"]
    assert [segment.events for segment in world.read_state().segments()] == [1]


def test_a_click_a_month_after_its_query_joins_in_the_next_batch(world: World) -> None:
    world.queries("q1")
    world.join()
    world.clock.advance(MONTH_US / 1_000_000)
    world.clicks(("c1", "q1"), at_us=NOON_US + MONTH_US)
    assert world.join().counts.of("joined") == 1


def test_with_a_window_a_click_beyond_it_is_unjoinable(tmp_path: Path) -> None:
    world = World(tmp_path, more="retry: {lookup_window: 10m}")
    world.queries("q1")
    world.clock.advance(MONTH_US / 1_000_000)
    world.clicks(("c1", "q1"), at_us=NOON_US + MONTH_US)
    assert world.join().counts.of("pending") == 1
    assert world.join(mode="complete").counts.of("unjoinable") == 1


def test_segments_of_many_batches_are_merged_and_nothing_else_stays(world: World) -> None:
    ids = many_batches(world)
    world.join()
    listed = world.read_state().segments()
    assert len(listed) < SEGMENTS_A_TIER
    assert sum(segment.events for segment in listed) == len(ids)
    assert [path.stem for path in segments_of(world)] == sorted(segment.name for segment in listed)
    world.clicks(*((f"late {each}", each) for each in ids))
    world.join()
    assert len(world.joined_ids()) == 2 * len(ids)


@pytest.mark.parametrize("point", INDEX_FAULT_POINTS)
def test_killed_while_the_index_changes_it_loses_and_doubles_nothing(world: World, point: str) -> None:
    ids = many_batches(world, join_last=False)
    if point == "index.after_reindex":
        for path in segments_of(world):
            path.unlink()
    world.forget()
    assert world.join_with_a_crash(point)
    world.clicks(*((f"late {each}", each) for each in ids))
    world.join()
    assert world.joined_ids() == sorted(
        [*(f"click {each}" for each in ids), *(f"late {each}" for each in ids)]
    )
    listed = world.read_state().segments()
    assert sum(segment.events for segment in listed) == len(ids)
    assert [path.stem for path in segments_of(world)] == sorted(segment.name for segment in listed)


def many_batches(world: World, join_last: bool = True) -> list[str]:
    """Join as many batches as fill a tier, each with a query and its click; return the query ids."""
    ids = [f"q{number}" for number in range(SEGMENTS_A_TIER)]
    for each in ids:
        world.queries(each)
        world.clicks((f"click {each}", each))
        if join_last or each != ids[-1]:
            world.join()
    return ids


@pytest.mark.parametrize("crash", ["complete.before_transaction", "complete.after_transaction"])
def test_what_is_indexed_and_how_far_logs_are_read_change_at_once(world: World, crash: str) -> None:
    assert survives_a_crash_when_completing(world, crash)


def test_segments_that_are_listed_after_the_offsets_are_lost_to_a_crash(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:  # D7
    def without_segments(self, plan, completion) -> None:
        complete(self, plan, completion.__class__(**{**vars(completion), "segments": ()}))

    complete = DispatcherState.complete
    monkeypatch.setattr(DispatcherState, "complete", without_segments)
    assert not survives_a_crash_when_completing(world, "complete.after_transaction")


def survives_a_crash_when_completing(world: World, crash: str) -> bool:
    """Have a process read a query and die; say whether the query is found later."""
    world.queries("q1")
    assert world.join_with_a_crash(crash)
    world.clicks(("c1", "q1"))
    world.join()
    return world.joined_ids() == ["c1"]
