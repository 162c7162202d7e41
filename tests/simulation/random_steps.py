"""What random histories have in common: one step after the other, each drawn by its weight."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.simulation.world import World


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

    def step(self) -> None:
        """One thing happens."""
        weights, choices = zip(*self.steps, strict=True)
        self.chance.choices(choices, weights)[0]()
