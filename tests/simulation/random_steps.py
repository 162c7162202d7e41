"""Run random histories: one step after the other, each drawn by its weight."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation.world import World


def problem_of(
    history: Callable[[Path, int], RandomSteps], steps: int, folder: Path, seed: int
) -> str | None:
    """Run one history of so many steps, and return what goes wrong; None: nothing does."""
    place = folder / str(seed)
    place.mkdir()
    one = history(place, seed)
    try:
        for _ in range(steps):
            one.step()
            one.check()
        one.come_to_rest()
    except AssertionError as error:
        return str(error)
    return None


def run_by_hand(*histories: Callable[[Path, int], str | None]) -> None:
    """Run the seeds from one number to another, which the command line names; print what goes wrong."""
    first, end = map(int, sys.argv[1:])
    for seed in range(first, end):
        for number, history in enumerate(histories):
            with TemporaryDirectory() as place:
                if (problem := history(Path(place), seed)) is not None:
                    print(f"seed {seed}, history {number}: {problem}", flush=True)
        if seed % 10 == 9:
            print(f"up to seed {seed}", flush=True)


class RandomSteps:
    """A world to which things happen by chance."""

    world: World
    chance: random.Random
    steps: Sequence[tuple[int, Callable[[], None]]]  # each behind its weight

    def somewhere(self) -> str:
        """Choose a datacenter."""
        return "east"

    def lose_answers(self) -> None:
        """Join while some requests, or their answers, are lost."""

        ledgers = self.world.ledgers

        def maybe(_call: str) -> None:
            fails, is_late = self.chance.random() < 0.2, self.chance.random() < 0.5
            ledgers.is_away, ledgers.lost_answers = fails and not is_late, int(fails and is_late)

        ledgers.on_call = maybe
        self.world.join(self.somewhere())
        ledgers.on_call = lambda _: None
        ledgers.is_away, ledgers.lost_answers = False, 0

    def wait(self) -> None:
        """Let some time go by."""
        self.world.clock.advance(self.chance.choice([0.5, 5, 60]))

    def check(self) -> None:
        """Check what holds after each step. AssertionError if it does not."""
        raise NotImplementedError

    def come_to_rest(self) -> None:
        """Do what is left to do, and check what holds then. AssertionError if it does not."""
        raise NotImplementedError

    def step(self) -> None:
        """Have one thing happen."""
        weights, choices = zip(*self.steps, strict=True)
        self.chance.choices(choices, weights)[0]()
