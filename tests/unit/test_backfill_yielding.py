"""A backfill comes after live joins, and after the backfill before it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from photon.dispatcher.shift.growth import LIVE_BYTES, Growth, LogSize
from photon.dispatcher.shift.lease import LeaseStatus
from photon.pipeline.file import Pipeline, load_pipeline
from photon.process.clock import SystemClock
from photon.upkeep.backfill import yielding
from photon.upkeep.backfill.yielding import in_line, yield_to_joins

NOTHING = LogSize(0, 0, 0)
BEHIND = Growth(NOTHING, LogSize(1, 0, LIVE_BYTES + 1), "", lag_seconds=31.0)


class CallingClock(SystemClock):
    """A clock that calls something instead of sleeping."""

    def __init__(self, on_sleep: Callable[[], object]) -> None:
        self.on_sleep, self.sleeps = on_sleep, 0

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        assert self.sleeps < 10, "it waits for ever"
        self.on_sleep()


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return load_pipeline(Traffic(1, ("east",)).write_pipeline(tmp_path))


@pytest.mark.parametrize(
    ("growth", "is_locked", "waits"),
    [
        pytest.param(BEHIND, True, True, id="joins are behind"),
        pytest.param(replace(BEHIND, lag_seconds=29.0), True, False, id="joins keep up"),
        pytest.param(replace(BEHIND, foreign=NOTHING), True, False, id="the logs are silent"),
        pytest.param(replace(BEHIND, lag_seconds=None), True, False, id="nothing was read yet"),
        pytest.param(BEHIND, False, False, id="nobody joins"),
    ],
)
def test_a_backfill_waits_while_joins_are_behind(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, growth: Growth, is_locked: bool, waits: bool
) -> None:
    found = [growth]
    monkeypatch.setattr(yielding, "growth_of", lambda *_: found[0])
    monkeypatch.setattr(yielding, "lease_status_of", lambda _: LeaseStatus(is_locked=is_locked))
    said: list[str] = []
    clock = CallingClock(lambda: found.__setitem__(0, replace(growth, lag_seconds=1.0)))
    yield_to_joins(pipeline, "east", said.append, clock)
    assert clock.sleeps == waits
    assert said == (["waits: joins are 31 s behind"] if waits else [])


def test_a_backfill_waits_for_the_one_before_it(tmp_path: Path) -> None:
    before, said = ExitStack(), []
    before.enter_context(in_line(tmp_path, said.append))
    clock = CallingClock(before.close)
    with in_line(tmp_path, said.append, clock):
        assert clock.sleeps == 1
    assert said == ["waits for another backfill of this datacenter"]
