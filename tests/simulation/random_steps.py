"""What random histories have in common: one step after the other, each drawn by its weight."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.simulation.world import World


def problem_of(
    history: Callable[[Path, int], RandomSteps], steps: int, folder: Path, seed: int
) -> str | None:
    """What goes wrong in one history of so many steps; None: nothing does."""
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


class RandomSteps:
    """A world to which things happen by chance."""

    world: World
    chance: random.Random
    steps: Sequence[tuple[int, Callable[[], None]]]  # each behind its weight

    def somewhere(self) -> str:
        """A datacenter."""
        return "east"

    def lose_answers(self) -> None:
        """Some requests of a join are lost, or their answers."""

        def maybe(_kind: str, _batch: object) -> None:
            if self.chance.random() < 0.2:
                self.world.store.fail(self.chance.choice(["lost_request", "lost_answer", "unprocessed"]))

        self.world.store.on_request = maybe
        self.world.join(self.somewhere())
        self.world.store.on_request = lambda kind, batch: None
        self.world.store.mend()

    def wait(self) -> None:
        """Let some time go by."""
        self.world.clock.advance(self.chance.choice([0.5, 5, 60]))

    def check(self) -> None:
        """What holds after each step. AssertionError."""
        raise NotImplementedError

    def come_to_rest(self) -> None:
        """What holds once nothing is left to do. AssertionError."""
        raise NotImplementedError

    def step(self) -> None:
        """One thing happens."""
        weights, choices = zip(*self.steps, strict=True)
        self.chance.choices(choices, weights)[0]()
