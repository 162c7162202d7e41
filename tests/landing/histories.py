"""Random histories of landing share a seed, a disk that fails, and copies that are put back.

Each history says what may happen, what must hold after each step, and how all ends well.
"""

from __future__ import annotations

import logging
import random
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Protocol

from tests.support.crashes import crash_at
from tests.support.faulty_disk import FaultyDisk
from tests.support.manual_clock import ManualClock

STEPS = 80
MOST_SEEDS = 60  # within which a history notices that a rule is left out
log = logging.getLogger(__name__)


class HistoryFailed(AssertionError):
    """A history ended otherwise than a rule says."""


class World(Protocol):
    """A source that is landed, its folder, and their clock."""

    folder: Path
    clock: ManualClock


class History(ABC):
    """One seed. `points`: where a lander may be killed."""

    points: tuple[str, ...]

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder, self.chance = seed, folder, random.Random(seed)
        self.copies: list[tuple[int, Path]] = []  # of the landed folder, and when each was made
        self.world = self._world(folder / "disk")
        self.world.folder.mkdir(parents=True)
        self.disk = FaultyDisk(folder / "disk", self.world.clock)

    def run(self) -> None:
        """Tell the history, then let all end well, and look for all that is to be landed."""
        actions = list(self._actions().items())
        with self.disk.in_use():
            for _ in range(STEPS):
                [(action, _)] = self.chance.choices(actions, [weight for _, weight in actions])
                log.info("%s", action.__name__)
                action()
                self._look()
            self.disk.mend()
            self._end()
        self._expect_all()

    @abstractmethod
    def _world(self, disk: Path) -> World:
        """Make what is landed, into a folder of this disk."""

    @abstractmethod
    def _actions(self) -> dict[Callable[[], None], int]:
        """The events of a history, by how often each happens beside the others."""

    @abstractmethod
    def _step(self) -> None:
        """Have a lander go on, a new one if none runs."""

    @abstractmethod
    def _kill(self) -> None:
        """End the lander, as kill -9 does."""

    @abstractmethod
    def _look(self) -> None:
        """Fail if something does not hold."""

    @abstractmethod
    def _end(self) -> None:
        """Let all be well until nothing changes."""

    @abstractmethod
    def _expect_all(self) -> None:
        """Fail if something is not landed at the end."""

    def _crash(self) -> None:
        with crash_at(f"{self.chance.choice(self.points)}:{self.chance.randint(1, 3)}"):
            for _ in range(self.chance.randint(1, 4)):
                self._step()
        self._kill()

    def _fill_disk(self) -> None:
        self.disk.fail()

    def _mend_disk(self) -> None:
        self.disk.mend()

    def _copy(self) -> None:
        copy = self.folder / f"copy-{len(self.copies)}"
        shutil.copytree(self.world.folder, copy)
        self.copies.append((self.world.clock.elapsed_us(), copy))

    def _put_back_a_copy(self, made_before_us: int) -> bool:
        """Put a copy of the folder in its place; False: there is none that was made by then."""
        there = [copy for made_us, copy in self.copies if made_us <= made_before_us]
        if there:
            self._kill()
            shutil.rmtree(self.world.folder)
            shutil.copytree(self.chance.choice(there), self.world.folder)
            self.disk.sync_all()
        return bool(there)

    def _fail(self, why: str) -> NoReturn:
        raise HistoryFailed(f"seed {self.seed}: {why}")


def run(kind: Callable[[int, Path], History], seed: int) -> None:
    """Tell the history of a seed. HistoryFailed."""
    with tempfile.TemporaryDirectory() as folder:
        kind(seed, Path(folder)).run()


def is_noticed(kind: Callable[[int, Path], History]) -> bool:
    """Tell histories until one fails, as it should where a rule is left out; False: none did."""
    for seed in range(MOST_SEEDS):
        try:
            run(kind, seed)
        except HistoryFailed as error:
            print(error)
            return True
    return False


def main(kind: Callable[[int, Path], History]) -> None:
    """Run the seeds from the first to before the last that are named; print those that fail."""
    first, last = map(int, sys.argv[1:3])
    logging.basicConfig(level=logging.INFO if last == first + 1 else logging.CRITICAL, format="%(message)s")
    failed = 0
    for seed in range(first, last):
        try:
            run(kind, seed)
        except HistoryFailed as error:
            failed += 1
            print(error, flush=True)
    print(f"{last - first - failed} seeds are clean, {failed} failed")
