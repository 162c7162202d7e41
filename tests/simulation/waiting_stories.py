"""Histories of waiting segments that go wrong without a rule, told step by step.

Tests tell them of the product, and `test_broken_waiting` of a product without the rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.process import machine
from photon.process.clock import MICROSECONDS
from photon.state.waiting import merging
from tests.simulation.world import NOON_US, World, assert_counts


class _Done(Future[Any]):
    """Work that was done at once, and looks done when it is asked for the `after`-th time."""

    def __init__(self, result: Any, after: int) -> None:
        super().__init__()
        self._left = after
        self.set_result(result)

    def done(self) -> bool:
        self._left -= 1
        return self._left <= 0


class Executor:
    """Instead of a thread: what is submitted is done at once, and taken over some looks later."""

    after = 3

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return _Done(work(*arguments), self.after)


@contextmanager
def merging_two_by_two() -> Iterator[None]:
    """Every two segments are merged."""
    with (
        mock.patch.object(merging, "SEGMENTS_A_TIER", 2),
        mock.patch.object(merging, "SMALLEST_TIER_RECORDS", 64),
        mock.patch.object(machine, "ThreadPoolExecutor", Executor),
    ):
        yield


def segments_of(world: World) -> set[str]:
    """The names of the segments that count."""
    with closing(world.read_state()) as state:
        return set(state.waiting.names)


def leave_segments(world: World, count: int = 5) -> None:
    """Leave so many segments behind, with two records each."""
    for number in range(count):
        world.clicks((f"a{number}", f"q{number}"), (f"b{number}", f"later{number}"))
        world.join()


def what_is_decided_during_a_merge_does_not_come_back(world: World) -> None:
    """A22: half of the records are joined after a merge has read them, and before it is taken over."""
    with mock.patch.object(merging, "SEGMENTS_A_TIER", 100):
        leave_segments(world)
    with merging_two_by_two():
        world.queries(*(f"q{number}" for number in range(5)))
        counts = world.join(callbacks=_a_click_after_each_batch(world, 12)).counts
        assert counts.adds_up, "a record that was decided waits again"
        assert len(segments_of(world)) < 5
        world.queries(*(f"later{number}" for number in range(5)))
        counts = world.join().counts
    assert counts.adds_up, "a record that was decided waits again"
    assert_counts(counts, duplicates=0, pending=12)
    assert world.joined_ids() == sorted(f"{kind}{number}" for kind in "ab" for number in range(5))


def _at_most(most: int, batches: Counter[str]) -> Callbacks:
    """Count batches, and stop after so many."""
    return Callbacks(lambda: batches["run"] >= most, lambda report: batches.update(run=1))


def _a_click_after_each_batch(world: World, most: int) -> Callbacks:
    numbers = iter(range(most))

    def click(report: BatchReport) -> None:
        if (number := next(numbers, None)) is not None:
            world.clicks((f"none{number}", "never"))

    return Callbacks(on_batch=click)


def a_record_is_in_one_segment_at_a_time(world: World) -> None:
    """A22: records are looked up again, and still wait. One joins later, once."""
    world.clicks(("c1", "q1"), ("c2", "q2"))
    world.join()
    for _ in range(3):
        world.clock.advance(120)
        batches = Counter[str]()
        counts = world.join(callbacks=_at_most(20, batches)).counts
        assert counts.adds_up, "a record waits in two segments"
        assert batches["run"] < 20, "a record waits in two segments"
    assert len(segments_of(world)) == 1, "a record waits in two segments"
    world.queries("q1")
    counts = world.join().counts
    assert counts.adds_up, "a record waits in two segments"
    assert_counts(counts, joined=1, pending=1)


def a_primary_wakes_in_the_transaction_that_completes_its_batch(world: World) -> None:
    """A22: the process dies right after the batch with the primary is completed. Backoff is a minute away."""
    world.clicks(("c1", "q1"))
    for _ in range(8):
        world.join()
        world.clock.advance(120)
    world.join()
    world.queries("q1")
    assert world.join_with_a_crash("complete.after_transaction")
    with closing(world.read_state()) as state:
        assert state.waiting.count_due(world.clock.now_us()), "a primary came, and its event sleeps on"
    world.join()
    assert world.joined_ids() == ["c1"]


def an_event_of_last_year_waits_for_its_primary(world: World) -> None:
    """A click of last year is read today, and its primary comes a minute later (C5)."""
    more = {"unjoinable_after": timedelta(hours=1), "allowed_lateness": timedelta()}
    retry = world.pipeline.retry.model_copy(update=more)
    world.pipeline = world.pipeline.model_copy(update={"retry": retry})
    last_year_us = NOON_US - 365 * 86_400 * MICROSECONDS
    world.queries("other")
    world.clicks(("c1", "q1"), at_us=last_year_us)
    for _ in range(8):
        world.join()
        world.clock.sleep(5)
    with world.state_of("east") as state:
        assert state.counts().of("unjoinable") == 0, "an event of last year is given up"
    world.queries("q1", at_us=last_year_us)
    world.join()
    assert world.joined_ids() == ["c1"]
