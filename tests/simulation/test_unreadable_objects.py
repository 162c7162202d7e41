"""Nothing is given up or called complete while an object of a log is listed and can't be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.dispatcher.log_reader import LogReader
from photon.logs.files import Side
from photon.logs.unread_files import UnreadFile
from photon.process.clock import MICROSECONDS
from photon.state.completeness.published import last_said
from tests.simulation.world import NOON_US, World, assert_counts

LIMITS = "retry: {unjoinable_after: 1s, allowed_lateness: 1us}"


def lacking(patch: pytest.MonkeyPatch, lacks: Side | None) -> None:
    one = UnreadFile(lacks or "primary", "one", "file", 1, 1, 1, 1, b"", "no", 0)

    def unread(self: LogReader, side: Side | None = None) -> tuple[UnreadFile, ...]:
        return (one,) if lacks is not None and side in (None, lacks) else ()

    patch.setattr(LogReader, "unread", unread)


@pytest.mark.parametrize(("lacks", "pending"), [("primary", 1), (None, 0)])
def test_events_are_given_up_only_while_all_primary_objects_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: Side | None, pending: int
) -> None:
    world = World(tmp_path, more=LIMITS)
    lacking(monkeypatch, lacks)
    world.clicks(("c1", "unread"))
    for seconds in (1, 60, 120):
        world.queries(f"q{seconds}", at_us=NOON_US + seconds * MICROSECONDS)
        world.join()
        world.clock.advance(60)
    counts = world.join().counts
    assert_counts(counts, pending=pending, unjoinable=1 - pending)


@pytest.mark.parametrize("lacks", ["foreign", "primary", None])
def test_a_time_of_completeness_is_told_only_while_all_objects_can_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch, lacks: Side | None
) -> None:
    lacking(monkeypatch, lacks)
    world.events("c1")
    world.join()
    lake = world.pipeline.datacenters["east"].lake
    said = last_said(lake)
    assert said is not None
    assert (said.complete_up_to_us is None) == (lacks is not None)
