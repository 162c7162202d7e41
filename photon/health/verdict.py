"""A verdict: how bad something is, what is said of it, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal, get_args

from photon.pipeline.cron import longest_pause
from photon.pipeline.sections import Durations
from photon.process.clock import microseconds

Level = Literal["ok", "warn", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)
# The one rule of alarms: what is wrong is told once it has lasted so long, by two looks in a row at least. A
# process that says since when it waits has looked all the time.
PATIENCE_SECONDS = 30.0

# A number with its unit. Numbers change all the time, and are no other words.
_NUMBER = re.compile(r"\d[\d.,:T+-]*(?: ?(?:bytes?|[KMGT]iB|days?|h|min|s)\b)?")


@dataclass(frozen=True)
class Measure:
    """A number that a verdict goes by, with its unit in the name, and from when on it is bad."""

    name: str
    value: float
    warn: float | None = None
    error: float | None = None

    @property
    def thresholds(self) -> str:
        """From when on it is a warning and an error, in words; empty: never."""
        bounds = {"a warning": self.warn if self.warn != self.error else None, "an error": self.error}
        said = [f"{level} from {bound:,.12g}" for level, bound in bounds.items() if bound is not None]
        return f"{self.name}: {', '.join(said)}" if said else ""


@dataclass(frozen=True)
class Verdict:
    """The sentence on one promise.

    What is well is said without numbers: it is told once an hour, and stays to be read that long.
    """

    level: Level
    says: str
    remedy: str = ""
    in_short: str = ""  # follows the datacenter's name in the first line of `photon status`
    counts_exactly: bool = False  # such numbers seldom change: another one is told at once
    is_in_headline: bool = False  # the line of `photon status` on who is at work says it
    names: tuple[str, ...] = ()  # each thing that it is about; the sentence may name the first ones
    measures: tuple[Measure, ...] = ()  # as a check shows them; those of the worst of a promise
    since_us: int | None = None  # since when it is so, where the datacenter itself says that
    patience_seconds: float = 0.0  # for so long it may be over in a moment, and is no alarm
    is_unsure: bool = False  # it has not lasted so long yet

    @property
    def text(self) -> str:
        return f"{self.says}. What to do: {self.remedy}" if self.remedy else f"{self.says}."

    @property
    def unnamed(self) -> list[str]:
        """The things that its sentence does not name."""
        return [one for one in self.names if one not in self.says]


# Makes a verdict on what may be over in a moment.
passing = partial(Verdict, patience_seconds=PATIENCE_SECONDS)


def level_of(value: float, warn: float, error: float) -> Level:
    """The level of a number by its thresholds."""
    if value >= error:
        return "error"
    return "warn" if value >= warn else "ok"


def level_after(length_us: int, bounds: Durations) -> Level:
    """The level of what has lasted for so long."""
    return level_of(length_us, microseconds(bounds.warn), microseconds(bounds.error))


def late_after(cron: str) -> Durations:
    """Return from when on what a schedule makes is late: turns were missed, and hours have passed."""
    pause = longest_pause(cron)
    return Durations(warn=max(timedelta(hours=3), 2 * pause), error=max(timedelta(days=1), 3 * pause))


def finding(promise: str, verdict: Verdict) -> str:
    """The name of what is wrong: the same from look to look, whatever its numbers are."""
    return f"{promise}: {words_of(verdict.in_short)}"


def words_of(text: str) -> str:
    """The words of a sentence, without numbers that change all the time."""
    return _NUMBER.sub("#", text)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of them, the first of several."""
    return max(verdicts, key=lambda one: LEVELS.index(one.level))
