"""How bad something is, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from photon.pipeline.cron import longest_pause
from photon.pipeline.sections import Durations

Level = Literal["ok", "warn", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)


@dataclass(frozen=True)
class Verdict:
    """The sentence on one promise.

    What is well is said without numbers: it is told once, and stays to be read for days.
    """

    level: Level
    says: str
    remedy: str = ""
    in_short: str = ""  # what follows the datacenter's name in the first line of `photon status`
    counts_exactly: bool = False  # its numbers seldom change: another one is told at once, as other words are

    @property
    def text(self) -> str:
        return f"{self.says}. What to do: {self.remedy}" if self.remedy else f"{self.says}."


def level_of(value: float, warn: float, error: float) -> Level:
    """The level of a number by its thresholds."""
    if value >= error:
        return "error"
    return "warn" if value >= warn else "ok"


def late_after(cron: str) -> Durations:
    """Return from when on what a schedule makes is late: turns were missed, and hours have passed."""
    pause = longest_pause(cron)
    return Durations(warn=max(timedelta(hours=3), 2 * pause), error=max(timedelta(days=1), 3 * pause))


def worse(verdicts: list[Verdict]) -> Verdict:
    """The worst of them, the first of several."""
    return max(verdicts, key=lambda one: LEVELS.index(one.level))
