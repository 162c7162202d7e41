"""A new epoch that reads foreign logs from now on passes over what is there, once it can be looked at."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.logs.discovery import FileProblem, Scan
from photon.logs.folders import LocalWatch
from photon.registry.errors import RegistryUnavailable
from photon.storage.tables import OutputTable, app_id
from tests.simulation.world import World

AWAY = Scan(problems=(FileProblem(".", "the store does not answer"),), is_whole=False, is_away=True)


def away(patch: pytest.MonkeyPatch) -> Callable[..., Scan]:
    """Have no request for logs answered; return the function that asked before."""
    scan = LocalWatch.scan
    patch.setattr(LocalWatch, "scan", lambda *_, **__: AWAY)
    return scan


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Lose the state of a datacenter, and log a click meanwhile."""
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
    with monkeypatch.context() as patch:
        scan = away(patch)
        said = world.join_and_mend(lambda: patch.setattr(LocalWatch, "scan", scan))
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
    monkeypatch.setattr("photon.logs.tailing.whole_gzips.GZIP_LOOK_BYTES", 10)
    lines = "".join(f'{{"click": "old{n}", "query": "q2", "at": 1700000000000000}}\n' for n in range(50))
    for name in ("b", "c"):
        path = world.folder / "logs" / "east" / "clicks" / f"{name}.jsonl.gz"
        path.write_bytes(gzip.compress(lines.replace("old", name).encode()))
    world.join()
    world.clicks(("c3", "q3"))
    world.join()
    assert world.joined_ids() == ["c1", "c3"]


@pytest.fixture
def anew(tmp_path: Path) -> World:
    """A click is there, and nobody has ever joined."""
    world = World(tmp_path, more="new_epoch_reads_from: now")
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    return world


@pytest.mark.parametrize(
    "points",
    [
        ["start.after_number", "start.after_close"],
        ["start.after_number", "start.after_batch_0"],
        ["start.after_batch_0", "start.after_close"],
        ["start.after_batch_0", "start.after_batch_0", "start.after_number"],
        ["start.after_batch_0", "batch.before_run"],
    ],
    ids=" ".join,
)
def test_a_first_start_that_dies_again_and_again_is_a_first_start_still(
    anew: World, points: Sequence[str]
) -> None:
    """Broken variant: the second one has fenced the first one's epoch, which counts as a run."""
    for point in points:
        assert anew.join_with_a_crash(point)
        if anew.state().exists():
            shutil.rmtree(anew.state())
    anew.join()
    assert anew.joined_ids() == ["c1"]


def test_a_first_start_that_the_registry_leaves_twice_reads_all_that_is_there(anew: World) -> None:
    """Nobody dies: one process tries three times, and its second try has fenced what the first one began."""
    calls, said = list[str](), list[str]()

    def on_call(name: str) -> None:
        calls.append(name)
        tries, reads = calls.count("change"), 0
        if "change" in calls:
            since = len(calls) - 1 - calls[::-1].index("change")
            reads = calls[since:].count("read")
        if name == "read" and (tries, reads) in ((1, 1), (2, 2)):
            raise RegistryUnavailable("the registry does not answer")

    anew.ledgers.on_call = on_call
    anew.join(callbacks=Callbacks(on_wait=said.append))
    assert calls.count("change") >= 3
    assert said == ["the registry does not answer"]
    assert anew.joined_ids() == ["c1"]


def test_a_state_that_has_completed_nothing_before_its_epoch_was_ended_is_no_run(anew: World) -> None:
    assert anew.join_with_a_crash("batch.before_run")
    OutputTable(anew.pipeline.datacenters["east"].lake, "joined_events").fence(app_id("east", "1"))
    anew.join()
    assert anew.read_state().epoch == "2"
    assert anew.joined_ids() == ["c1"]


def test_a_run_whose_epoch_was_fenced_by_starts_that_died_is_followed_from_now_on(world: World) -> None:
    """Rows tell that there was such a run: a fence hides how far an epoch came."""
    for _ in range(3):
        assert world.join_with_a_crash("start.after_close")
    world.join()
    world.clicks(("c3", "q3"))
    world.join()
    assert world.joined_ids() == ["c1", "c3"]
