"""A dispatcher without work looks as often as its share of a processor allows, and a join ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher.dispatcher import MOST_REST_AFTER_BATCH_SECONDS, MOST_REST_SECONDS
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.retrying import Callbacks
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.logs.discovery import Scan
from photon.logs.files import TrackedFile
from photon.logs.folders import LocalWatch
from photon.process.clock import MICROSECONDS
from tests.simulation.ahead_stories import QUERIES, SMALL_BATCHES, many_events
from tests.simulation.world import World

SECONDS = 10


@pytest.mark.parametrize(
    ("look_seconds", "looks"),
    [
        (0.001, SECONDS / 0.101),  # the poll interval of 100 ms
        (0.05, SECONDS / 0.5),  # a tenth of the time
        (1.0, SECONDS / (1.0 + MOST_REST_SECONDS)),
    ],
)
def test_an_idle_dispatcher_looks_as_often_as_a_tenth_of_a_core_allows(
    world: World, monkeypatch: pytest.MonkeyPatch, look_seconds: float, looks: float
) -> None:
    looked: list[int] = []
    look = LogReader.look

    def slow_look(self: LogReader, now_us: int, final: bool, whole: bool = False) -> Collection[TrackedFile]:
        looked.append(now_us)
        world.clock.advance(look_seconds)
        return look(self, now_us, final, whole)

    monkeypatch.setattr(LogReader, "look", slow_look)
    ends_us = world.clock.now_us() + SECONDS * MICROSECONDS
    world.join(mode="stop", callbacks=Callbacks(lambda: world.clock.now_us() >= ends_us))
    assert len(looked) == pytest.approx(looks, abs=2)


class SlowRunner(LocalRunner):
    """Takes some time for each batch."""

    def __init__(self, world: World, seconds: float) -> None:
        super().__init__(world.clock)
        self._manual, self._seconds = world.clock, seconds
        self.began_us = list[int]()

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        self.began_us.append(self._manual.elapsed_us())
        self._manual.advance(self._seconds)
        return super().run(batch)


@pytest.mark.parametrize(
    ("batch_seconds", "period_seconds"), [(0.2, 0.4), (3.0, 3.0 + MOST_REST_AFTER_BATCH_SECONDS)]
)
def test_live_lines_gather_for_as_long_as_the_batch_before_took(
    world: World, batch_seconds: float, period_seconds: float
) -> None:
    runner, ids = SlowRunner(world, batch_seconds), list[str]()
    ends_us = world.clock.now_us() + SECONDS * MICROSECONDS

    def write_and_end() -> bool:
        ids.append(f"c{len(ids)}")
        world.events(ids[-1])
        return world.clock.now_us() >= ends_us

    world.join(mode="stop", callbacks=Callbacks(write_and_end), runner=runner)
    assert len(runner.began_us) == pytest.approx(SECONDS / period_seconds, abs=1)
    assert len(ids) <= len(runner.began_us) + 3, "a look that only finds out that it is to rest is needless"


def test_a_one_shot_join_rests_between_no_batches(tmp_path: Path) -> None:
    world = World(tmp_path, more=SMALL_BATCHES)
    runner, began_us = SlowRunner(world, 0.25), world.clock.elapsed_us()
    many_events(world)
    world.join(mode="complete", runner=runner)
    assert len(runner.began_us) > 3
    assert world.clock.elapsed_us() - began_us == len(runner.began_us) * 250_000


def test_a_batch_that_ends_a_backlog_is_followed_at_once(tmp_path: Path) -> None:
    """Only live lines have to gather. Broken variant: a rest behind each batch that left nothing unread."""
    world = World(tmp_path, more="limits: {line: 1KiB}")
    runner, ids = SlowRunner(world, 0.25), many_events(world)

    def write_and_end() -> bool:
        if len(runner.began_us) == 1 and len(ids) == QUERIES:
            ids.append("late")
            world.events("late")
        return len(runner.began_us) == 2

    world.join(mode="stop", callbacks=Callbacks(write_and_end), runner=runner)
    assert world.joined_ids() == sorted(ids)
    first_us, second_us = runner.began_us
    assert second_us - first_us == 250_000


def list_in_turn(world: World, patch: pytest.MonkeyPatch, most_looks: int) -> None:
    """Have each log listed as a whole by every second look, but never both by one look."""
    scan, looks = LocalWatch.scan, Counter[LocalWatch]()

    def in_turn(self: LocalWatch, *arguments: Any, **more: Any) -> Scan:
        looks[self] += 1
        assert looks[self] < most_looks, "it goes on looking"
        is_primary = self._pattern == world.pipeline.primary.files
        return replace(scan(self, *arguments, **more), is_whole=looks[self] % 2 == is_primary)

    patch.setattr(LocalWatch, "scan", in_turn)


def test_a_join_ends_though_no_look_ends_the_listings_of_both_logs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing of S3 takes many looks. Broken variant: one look must end both, and the join never ends."""
    world.events("c1")
    list_in_turn(world, monkeypatch, most_looks=20)
    world.join()
    assert world.joined_ids() == ["c1"]
