"""A shift whose batches fail one after the other says so in its status; one bad record is no such shift."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from photon.dispatcher.retrying import Callbacks
from photon.dispatcher.shift.lease import FAILING_TRIES, lease_status_of
from photon.health.headline import headline, sentences
from photon.health.status import status_of
from photon.health.verdict import Verdict, worst
from photon.join.messages import BatchTasks, NoWorkerStarts, TaskOutcome, WorkerDied
from photon.join.tasks import LocalRunner
from photon.process.clock import MICROSECONDS
from photon.state.points import recent_points
from tests.simulation.runners import PoisonedRunner
from tests.simulation.world import World, assert_counts
from tests.support.crashes import at

CAUSE = "Spark could not finish the batch: Python worker exited unexpectedly (crashed)"
TRY_SECONDS = 2.0


class EachWorkerDies(LocalRunner):
    """Each worker dies until somebody gives the machine more memory."""

    is_mended = False

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._world = world

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        self._world.clock.advance(TRY_SECONDS)
        if batch.tasks and not self.is_mended:
            raise WorkerDied(f"{CAUSE}\nat org.apache.spark")
        return super().run(batch)


class StartsNoWorker(LocalRunner):
    """No worker starts four times, however soon somebody sees to it."""

    tries, most_tries = 0, 10**9

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)

    def mend(self) -> None:
        self.most_tries = 4

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        self.tries += 1
        if self.tries <= self.most_tries:
            raise NoWorkerStarts("no Python worker of Spark can start")
        return super().run(batch)


def works(world: World) -> Verdict:
    return worst(status_of(world.pipeline, "east", world.clock).verdicts["works"])


@pytest.mark.parametrize("side", ["clicks", "queries"])
def test_batches_that_fail_for_half_a_minute_are_an_error_until_one_goes_through(
    world: World, side: str
) -> None:
    world.queries(*(f"q{number}" for number in range(100)))
    if side == "clicks":
        world.clicks(*((f"c{number}", f"q{number}") for number in range(100)))
    runner, seen = EachWorkerDies(world), list[Verdict]()

    def on_failure(reason: str) -> None:
        seen.append(works(world))
        runner.is_mended = seen[-1].level == "error"

    world.join(callbacks=Callbacks(on_failure=on_failure), runner=runner)
    levels = [one.level for one in seen]
    assert levels[: FAILING_TRIES - 1] == ["ok"] * (FAILING_TRIES - 1)
    assert set(levels[FAILING_TRIES - 1 : -1]) == {"warn"}
    assert len(levels) == 30 / TRY_SECONDS + 1
    assert seen[-1].says.endswith(
        f"{len(levels)} tries of its batches failed in a row, the last one with: {CAUSE}"
    )
    assert works(world).level == "ok"
    assert len(world.joined_ids()) == (100 if side == "clicks" else 0)


def test_the_first_lines_of_the_status_say_that_batches_fail(world: World) -> None:
    world.events("c1", "c2", "c3", "c4")
    runner, said = EachWorkerDies(world), list[str]()

    def on_failure(reason: str) -> None:
        one = status_of(world.pipeline, "east", world.clock)
        said[:] = [headline(one, "p.yaml"), *sentences(one)]
        runner.is_mended = "FAILS" in said[0]

    world.join(callbacks=Callbacks(on_failure=on_failure), runner=runner)
    assert said[0].startswith("east FAILS: ")
    assert any(line.startswith("NEEDS YOU: joins nothing since ") for line in said)


@pytest.mark.parametrize("at", [0, 33, 99])
def test_one_record_that_no_worker_survives_is_no_failing_shift(world: World, at: int) -> None:
    clicks = [f"c{number}" for number in range(100)]
    clicks[at] = "poison"
    world.events(*clicks)
    tries = list[int]()

    def on_failure(reason: str) -> None:
        lease = lease_status_of(world.state()).lease
        tries.append(lease.failed_tries if lease is not None else 0)

    result = world.join(callbacks=Callbacks(on_failure=on_failure), runner=PoisonedRunner(world))
    assert_counts(result.counts, joined=99, dead_letters=1)
    assert len(tries) > FAILING_TRIES
    assert max(tries) < FAILING_TRIES


def test_points_of_a_shift_whose_batches_fail_have_the_cause(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events(*(f"c{number}" for number in range(100)))
    runner, failed = EachWorkerDies(world), list[str]()

    def on_failure(reason: str) -> None:
        failed.append(reason)
        runner.is_mended = len(failed) == 25

    world.join(callbacks=Callbacks(on_failure=on_failure), runner=runner)
    points = recent_points(world.state()).to_pylist()
    assert ("waiting", CAUSE) in {(row["activity"], row["waits_for"].partition("\n")[0]) for row in points}
    assert points[-1]["activity"] == "live"


def test_where_no_worker_can_start_the_batch_waits_whole(world: World) -> None:
    """In halves it would come down to single records, and these would become dead letters."""
    world.events("c1", "c2")
    runner = StartsNoWorker(world)
    said = world.join_and_mend(runner.mend, runner)
    assert said == ["no Python worker of Spark can start"]
    assert {row["_batch"] for row in world.rows()} == {1}
    assert world.joined_ids() == ["c1", "c2"]
    assert runner.tries == 5


def test_a_point_ends_where_the_third_try_in_a_row_fails(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events(*(f"c{number}" for number in range(100)))
    runner, failed_us = EachWorkerDies(world), list[int]()

    def on_failure(reason: str) -> None:
        failed_us.append(world.clock.now_us())
        runner.is_mended = len(failed_us) == 8

    world.join(callbacks=Callbacks(on_failure=on_failure), runner=runner)
    points = recent_points(world.state()).to_pylist()
    first, *_ = (at for at, row in enumerate(points) if row["activity"] == "waiting")
    began = points[first - 1]["at"].timestamp()
    assert abs(began - failed_us[FAILING_TRIES - 1] / MICROSECONDS) < TRY_SECONDS


def test_a_bad_record_counts_once_however_long_its_batch_waits_for_the_registry(tmp_path: Path) -> None:
    """Broken variant: each try counts, and the twenty-first ends the process."""
    world, asked = World(tmp_path), count()
    world.queries("q1")
    world.join()
    world.clicks(("poison", "q1"))

    def should_stop() -> bool:
        world.ledgers.is_away &= next(asked) < 1_200  # some 30 tries
        return False

    with at("abandon.after_commit", lambda: setattr(world.ledgers, "is_away", True)):
        told = Callbacks(should_stop=should_stop)
        assert_counts(world.join(runner=PoisonedRunner(world), callbacks=told).counts, dead_letters=1)
