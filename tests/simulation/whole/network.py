"""Virtual time that stops where a rule is broken, and how bad the way to the registry is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.simulation.rules import RuleBroken
from tests.support.virtual_network import VirtualTime

MOST_SECONDS = 900.0  # virtual time in which all work that was begun has to end


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the way to the registry is: chances for one call."""

    lost: float = 0.0  # nobody answers, and nothing happens
    unheard: float = 0.0  # an offer takes effect, and its answer is lost


class StoppedByRules(VirtualTime):
    """Virtual time that ends with the first rule that is broken, whoever has caught the exception."""

    broken: str | None = None
    waiting: Callable[[], str] = str  # names the processes at work, and their places

    _end_seconds = 0.0

    def __init__(self, chance: random.Random, weather: Weather) -> None:
        super().__init__()
        self.chance = chance
        self.weather = weather

    def run(self) -> None:
        """Run until nothing is left to happen. RuleBroken if a rule was."""
        self._end_seconds = self.now_seconds + MOST_SECONDS
        super().run()
        if self.broken is not None:
            raise RuleBroken(self.broken)

    def _may_go_on(self) -> bool:
        return self.broken is None and super()._may_go_on()

    def _happen(self) -> None:
        super()._happen()
        if self.now_seconds > self._end_seconds:
            self.broken = f"F13: nothing ends within {MOST_SECONDS:g} s: {self.waiting()}"

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note a rule that is found broken meanwhile."""
        try:
            yield
        except RuleBroken as error:
            self.broken = self.broken or str(error)
            raise
