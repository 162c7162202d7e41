"""Verdicts on shares of bad records: of all that was ever read, and of the latest window; the worse counts.

What people have acknowledged is in neither. A share of few records of all is a warning at most: one bad line
of three is no outage, and it is not well either. A share of few records of a window says nothing, since they
count among all records too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.health.levels import LEVELS, Level, Verdict, level_of
from photon.health.vitals import Vitals
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Shares
from photon.state.losses import bad_since

LEAST_RECORDS = 100  # of fewer a share says little: two of three bad ones are no outage


@dataclass(frozen=True)
class Kind:
    """A kind of bad records."""

    what: str  # "foreign records are dead letters"
    classes: Sequence[str]  # in which they are counted
    of: Sequence[str]  # the counts that make up all records


@dataclass(frozen=True)
class Share:
    """How many of some records are bad."""

    bad: int
    of: int
    is_of_all: bool  # else of those of the latest window

    @property
    def value(self) -> float:
        return self.bad / self.of if self.of else 0.0

    def level(self, bounds: Shares, least: int) -> Level:
        found = level_of(self.value, bounds.warn, bounds.error) if self.bad else "ok"
        if self.of >= least or found == "ok":
            return found
        return "warn" if self.is_of_all else "ok"

    def says(self, what: str) -> str:
        return f"{self.bad:,} of {'all' if self.is_of_all else 'the latest'} {self.of:,} {what}"


def shares_of(found: Vitals, kind: Kind) -> tuple[Share, Share]:
    """The share of all that was ever read, and that of the latest window, without what is acknowledged."""
    known, window = found.acknowledged, found.growth.state.before
    since_window = {name: max(count, known.get(name, 0)) for name, count in window.items()}
    return _share(found, kind, known, True), _share(found, kind, {**known, **since_window}, False)


def _share(found: Vitals, kind: Kind, known: Mapping[str, int], is_of_all: bool) -> Share:
    state = found.growth.state
    bad = sum(bad_since(known, name, state) for name in kind.classes)
    of = sum(state.gained[name] - known.get(name, 0) for name in kind.of)
    return Share(bad, max(of, bad) if is_of_all else of, is_of_all)


def judge_share(
    datacenter: str, found: Vitals, pipeline: Pipeline, kind: Kind, bounds: Shares, remedy: str
) -> Verdict:
    """The verdict on a kind of bad records by its thresholds."""
    least = LEAST_RECORDS
    shares = shares_of(found, kind)
    worst = max(shares, key=lambda one: (LEVELS.index(one.level(bounds, least)), one.value, one.is_of_all))
    level = worst.level(bounds, least)
    if level == "ok":
        return Verdict("ok", f"{datacenter}: few of its {kind.what}")
    said = worst.says(kind.what)
    known = f"if nothing is to be done about them: photon acknowledge {pipeline.typed} {datacenter}"
    says = f"{datacenter}: {said} ({worst.value:.2%})"
    return Verdict(level, says, f"{remedy}; {known}", f"has bad records ({said})")
