"""A new epoch that reads foreign logs from now on passes over what is there, once it can be looked at."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.logs.discovery import FileProblem, Scan
from photon.logs.folders import LocalWatch
from tests.simulation.world import World

AWAY = Scan(problems=(FileProblem(".", "the store does not answer"),), is_whole=False, is_away=True)


def away(patch: pytest.MonkeyPatch) -> Callable[..., Scan]:
    """Have nobody answer who asks for logs; how they were asked before."""
    scan = LocalWatch.scan
    patch.setattr(LocalWatch, "scan", lambda *_, **__: AWAY)
    return scan


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Its state is lost, and a click came meanwhile."""
    world = World(tmp_path, more="new_epoch_reads_from: now")
    world.queries("q1", "q2", "q3")
    world.clicks(("c1", "q1"))
    world.join()
    shutil.rmtree(world.state())
    world.clicks(("c2", "q2"))
    return world


def test_foreign_lines_that_are_there_are_passed_over_and_later_ones_are_joined(world: World) -> None:
    world.join()
    world.clicks(("c3", "q3"))
    world.join()
    assert world.joined_ids() == ["c1", "c3"]


def test_logs_that_are_away_are_waited_for_before_anything_counts_as_new(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: nothing is there to be passed over, and all of it is read later."""
    said: list[str] = []
    with monkeypatch.context() as patch:
        scan = away(patch)

        def mend(reason: str) -> None:
            said.append(reason)
            patch.setattr(LocalWatch, "scan", scan)

        world.join(callbacks=Callbacks(on_wait=mend))
    assert said == ["the store does not answer"]
    world.clicks(("c3", "q3"))
    world.join()
    assert world.joined_ids() == ["c1", "c3"]


def test_a_stop_while_logs_are_away_leaves_it_to_the_next_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: the next start finds the new epoch, and reads its logs from their beginning."""
    said: list[str] = []
    with monkeypatch.context() as patch:
        away(patch)
        with pytest.raises(StoppedWaiting):
            world.join(callbacks=Callbacks(should_stop=lambda: bool(said), on_wait=said.append))
    world.join()
    world.clicks(("c3", "q3"))
    world.join()
    assert world.joined_ids() == ["c1", "c3"]


def test_a_compressed_log_that_takes_several_looks_is_passed_over_as_a_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken variant: what the first look has not yet checked counts as new."""
    monkeypatch.setattr("photon.logs.source.GZIP_LOOK_BYTES", 10)
    lines = "".join(f'{{"click": "old{n}", "query": "q2", "at": 1700000000000000}}\n' for n in range(50))
    for name in ("b", "c"):
        path = world.folder / "logs" / "east" / "clicks" / f"{name}.jsonl.gz"
        path.write_bytes(gzip.compress(lines.replace("old", name).encode()))
    world.join()
    world.clicks(("c3", "q3"))
    world.join()
    assert world.joined_ids() == ["c1", "c3"]
