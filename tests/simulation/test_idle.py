"""What a dispatcher does while there is nothing to do."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from photon.clock import MICROSECONDS
from photon.dispatcher.dispatcher import MOST_REST_SECONDS
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.retrying import Callbacks
from photon.logs.files import TrackedFile
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

    def slow_look(self: LogReader, now_us: int, final: bool) -> Collection[TrackedFile]:
        looked.append(now_us)
        world.clock.advance(look_seconds)
        return look(self, now_us, final)

    monkeypatch.setattr(LogReader, "look", slow_look)
    ends_us = world.clock.now_us() + SECONDS * MICROSECONDS
    world.join(mode="stop", callbacks=Callbacks(lambda: world.clock.now_us() >= ends_us))
    assert len(looked) == pytest.approx(looks, abs=2)
