"""Verdicts on shares of bad records: of all that was ever read, and of the latest window; the worse counts.

What people have acknowledged is in neither. A share of few records of all is a warning at most: one bad line
of three is no outage, and it is not well either. A share of few records of a window says nothing, since they
count among all records too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.health.facts import Facts
from photon.health.memory import Memory
from photon.health.verdict import LEVELS, Level, Verdict, level_of
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Shares
from photon.state.losses import BAD, bad_since

# A retried write now and then is no news; one foreign record in twenty says that the id is none.
CONFLICTING_SHARES = Shares(warn=0.001, error=0.05)
LEAST_RECORDS = 100  # of fewer a share says little: two of three bad ones are no outage


@dataclass(frozen=True)
class Kind:
    """A kind of bad records."""

    what: str  # "foreign records are dead letters"
    classes: Sequence[str]  # in which they are counted
    of: Sequence[str]  # the counts that make up all records


FOREIGN_DEAD = Kind("foreign records are dead letters", ("dead_letters",), ("foreign",))
PRIMARY_DEAD = Kind(
    "primary records are dead letters", ("primary_dead_letters",), ("primary", "primary_dead_letters")
)
UNJOINABLE = Kind(
    "foreign records found no primary event, or are too old", ("unjoinable", "too_old"), ("foreign",)
)
CONFLICTING = Kind(f"{BAD['conflicting']}, so they have no row", ("conflicting",), ("foreign",))


@dataclass(frozen=True)
class Share:
    """How many of some records are bad."""

    bad: int
    of: int
    is_of_all: bool  # else of those of the latest window

    @property
    def value(self) -> float:
        return self.bad / self.of if self.of else 0.0

    def level(self, bounds: Shares) -> Level:
        found = level_of(self.value, bounds.warn, bounds.error) if self.bad else "ok"
        if self.of >= LEAST_RECORDS or found == "ok":
            return found
        return "warn" if self.is_of_all else "ok"

    def says(self, what: str) -> str:
        return f"{self.bad:,} of {'all' if self.is_of_all else 'the latest'} {self.of:,} {what}"


def shares_of(facts: Facts, kind: Kind) -> tuple[Share, Share]:
    """The share of all that was ever read, and that of the latest window, without what is acknowledged."""
    known, window = facts.acknowledged, facts.state.before
    since_window = {name: max(count, known.get(name, 0)) for name, count in window.items()}
    return _share(facts, kind, known, True), _share(facts, kind, {**known, **since_window}, False)


def _share(facts: Facts, kind: Kind, known: Mapping[str, int], is_of_all: bool) -> Share:
    state = facts.state
    bad = sum(bad_since(known, name, state) for name in kind.classes)
    of = sum(state.gained[name] - known.get(name, 0) for name in kind.of)
    return Share(bad, max(of, bad) if is_of_all else of, is_of_all)


def judge_share(facts: Facts, pipeline: Pipeline, kind: Kind, bounds: Shares, remedy: str) -> Verdict:
    """The verdict on a kind of bad records by its thresholds."""
    shares, datacenter = shares_of(facts, kind), facts.datacenter
    worse = max(shares, key=lambda one: (LEVELS.index(one.level(bounds)), one.value, one.is_of_all))
    level = worse.level(bounds)
    if level == "ok":
        return Verdict("ok", f"{datacenter}: few of its {kind.what}")
    said = worse.says(kind.what)
    known = f"if nothing is to be done about them: photon acknowledge {pipeline.typed} {datacenter}"
    says = f"{datacenter}: {said} ({worse.value:.2%})"
    return Verdict(level, says, f"{remedy}; {known}", f"has bad records ({said})")


def judge_dead_letters(facts: Facts, memory: Memory, pipeline: Pipeline) -> list[Verdict]:
    """One on each log: without its primary events nothing is joined either."""
    remedy = f"photon dead-letters {pipeline.typed} names them with their reasons, and mends them"
    bounds, kinds = pipeline.health.dead_letters, (FOREIGN_DEAD, PRIMARY_DEAD)
    return [judge_share(facts, pipeline, kind, bounds, remedy) for kind in kinds]


def judge_unjoinable(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict:
    """Whether few foreign records have found no primary event."""
    unjoined = pipeline.datacenters[facts.datacenter].lake / "unjoined"
    remedy = (
        "look whether foreign.key and primary.id name the same thing, and whether primary logs are missing; "
        f"rows of {unjoined} have the ids of some: a trace tells the story of one event"
    )
    return judge_share(facts, pipeline, UNJOINABLE, pipeline.health.unjoinable, remedy)


def judge_conflicting(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict:
    """Whether few foreign records have another one's id and other content."""
    lake = pipeline.datacenters[facts.datacenter].lake
    remedy = (
        f"look whether foreign.id ({', '.join(pipeline.foreign.id)}) is an id at all: rows of "
        f"{lake / 'conflicting'} name both places of some and the columns that differ"
    )
    return judge_share(facts, pipeline, CONFLICTING, CONFLICTING_SHARES, remedy)
