"""A dispatcher without work looks as often as its share of a processor allows, and a join ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from photon.dispatcher.dispatcher import MOST_REST_SECONDS
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.retrying import Callbacks
from photon.logs.discovery import Scan
from photon.logs.files import TrackedFile
from photon.logs.folders import LocalWatch
from photon.process.clock import MICROSECONDS
from tests.simulation.world import World

SECONDS = 20


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
