"""No seed joins an event twice or loses one: whole datacenters, interleaved at every step (protocol F)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.whole.copies import RESTORED
from tests.simulation.whole.operators import PASSING, PASSING_COPIES, ROTATED_AWAY
from tests.simulation.whole.processes import Worker, this_process
from tests.simulation.whole.simulation import LENGTH_SECONDS, Simulation
from tests.simulation.whole.unmatched import UNMATCHED
from tests.support.shares import seeds


@pytest.mark.parametrize("seed", seeds(2, 3))
def test_no_interleaving_joins_an_event_twice_or_loses_one(tmp_path: Path, seed: int) -> None:
    print(f"again: python -m tests.simulation.whole.simulation --seed {seed}")
    Simulation(tmp_path, seed).run()


@pytest.mark.parametrize("seed", seeds(2, 3))
def test_copies_of_stores_that_are_put_back_join_no_event_twice_and_lose_none(
    tmp_path: Path, seed: int
) -> None:
    print(f"again: python -m tests.simulation.whole.simulation --seed {seed} --restored")
    Simulation(tmp_path, seed, RESTORED).run()


def died_by_its_check(folder: Path, seed: int) -> bool:
    """Have a copy put back right before a process commits, which stands still while others join.

    Return whether it died there: in some seeds it is killed before.
    """
    simulation = Simulation(folder, seed, RESTORED)
    passed, copies, stands = simulation._passed, simulation.people.copies, list[Worker]()

    def put_back_once(point: str, path: Path | None) -> None:
        worker = this_process()
        is_first = not stands and simulation.site.network.now_seconds < LENGTH_SECONDS
        if is_first and point == "batch.before_run":
            copies.take()
        if is_first and point == "commit.before_main" and worker is not None and worker.checked_seconds:
            stands.append(worker)
            copies._replace_registry(lambda: None)
            worker.frozen_seconds = 30.0
        passed(point, path)

    simulation._passed = put_back_once  # type: ignore[method-assign]
    simulation.run()
    return [worker.last_step for worker in stands] == ["dies between its check and its commit"]


def test_a_process_dies_that_would_commit_by_its_check_before_a_copy_was_put_back(tmp_path: Path) -> None:
    """L10 leaves open that its rows stand beside those of a process that has joined meanwhile."""
    seeds = (2, 6, 11)
    folders = [tmp_path / f"{seed}" for seed in seeds]
    for folder in folders:
        folder.mkdir()
    print(f"seeds: {seeds}")
    assert any(died_by_its_check(folder, seed) for folder, seed in zip(folders, seeds, strict=True))


@pytest.mark.parametrize("focus", [PASSING, PASSING_COPIES], ids=["states", "copies"])
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_silent_datacenters_are_passed_over_and_go_on(
    tmp_path: Path, seed: int, focus: tuple[str, ...]
) -> None:
    kind = "--passing" if focus == PASSING else "--passing-copies"
    print(f"again: python -m tests.simulation.whole.simulation --seed {seed} {kind}")
    Simulation(tmp_path, seed, focus).run()


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_logs_that_are_rotated_out_of_sight_are_read_or_told(tmp_path: Path, seed: int) -> None:
    print(f"again: python -m tests.simulation.whole.simulation --seed {seed} --rotated-away")
    Simulation(tmp_path, seed, ROTATED_AWAY).run()


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.long), 1])  # 9 and 4 s of a core
def test_each_primary_is_joined_or_unmatched_once_whoever_looks_and_whenever(
    tmp_path: Path, seed: int
) -> None:
    print(f"again: python -m tests.simulation.whole.simulation --seed {seed} --unmatched")
    Simulation(tmp_path, seed, UNMATCHED).run()


HISTORY = """
import sys
from pathlib import Path
from tests.simulation.whole.processes import Worker
from tests.simulation.whole.copies import RESTORED
from tests.simulation.whole.simulation import Simulation

step = Worker.step

def told(self, name):
    print(self.network.now_seconds, self.home and self.home[0], name)
    step(self, name)

Worker.step = told
Simulation(Path(sys.argv[1]), int(sys.argv[2]), RESTORED).run()
"""


def test_a_seed_is_one_history_in_whatever_order_python_has_the_texts_of_a_set(tmp_path: Path) -> None:
    processes = []
    for hash_seed in ("1", "4"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        command = [sys.executable, "-c", HISTORY, str(folder), "4"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
    histories = [process.communicate()[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert histories[0].count(b"\n") > 500
    assert histories[0] == histories[1]
