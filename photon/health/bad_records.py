"""Verdicts on bad records: on wrong keys, and on shares of all records that were bad.

A share is one of all that was ever read, and one of the latest window; the worse counts. What people have
acknowledged is in neither. A share of few records of all is a warning at most: one bad line of three is no
outage, and it is not well either. A share of few records of a window says nothing, since they count among all
records too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.dispatcher.shift.keys import (
    JOIN_AGAIN,
    columns_in_words,
    keyless_of_late,
    no_key_matches,
    none_has_a_key,
    which_match,
)
from photon.health.facts import Facts
from photon.health.memory import Memory
from photon.health.verdict import LEVELS, Level, Verdict, level_of
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Shares
from photon.process.readable import counted
from photon.state.losses import BAD, in_class_since, name_of

# A retried write now and then is no news; one foreign record in twenty says that the id is none.
CONFLICTING_SHARES = Shares(warn=0.001, error=0.05)
LEAST_RECORDS = 100  # a share of fewer says little: two of three bad ones are no outage


@dataclass(frozen=True)
class BadRecordKind:
    """A kind of bad records."""

    what: str  # "foreign records are dead letters"
    classes: Sequence[str]  # in which they are counted
    of: Sequence[str]  # the counts that make up all records


FOREIGN_DEAD = BadRecordKind("foreign records are dead letters", ("dead_letters",), ("foreign",))
PRIMARY_DEAD = BadRecordKind(
    "primary records are dead letters", ("primary_dead_letters",), ("primary", "primary_dead_letters")
)
UNJOINABLE = BadRecordKind(
    "foreign records found no primary event, or are too old", ("unjoinable", "too_old"), ("foreign",)
)
CONFLICTING = BadRecordKind(f"{BAD['conflicting']}, so they have no row", ("conflicting",), ("foreign",))

AMBIGUOUS = BadRecordKind(BAD["ambiguous"], ("ambiguous",), ("joined",))
REUSED = BadRecordKind(BAD["reused_primaries"], ("reused_primaries",), ("primary",))


@dataclass(frozen=True)
class Share:
    """How many of some records are bad."""

    bad: int
    of: int
    is_of_all: bool  # else of those of the latest window
    is_since: bool = False  # people have acknowledged what came before

    @property
    def value(self) -> float:
        return self.bad / self.of if self.of else 0.0

    def level(self, bounds: Shares) -> Level:
        found = level_of(self.value, bounds.warn, bounds.error) if self.bad else "ok"
        if self.of >= LEAST_RECORDS or found == "ok":
            return found
        return "warn" if self.is_of_all else "ok"

    def says(self, what: str) -> str:
        since = " since the last acknowledgement" if self.is_since and self.is_of_all else ""
        return f"{self.bad:,} of {'all' if self.is_of_all else 'the latest'} {self.of:,} {what}{since}"


def shares_of(facts: Facts, kind: BadRecordKind) -> tuple[Share, Share]:
    """The share of all that was ever read, and that of the latest window, without what is acknowledged."""
    known, window = facts.acknowledged, facts.state.before
    since_window = {name: max(count, known.get(name, 0)) for name, count in window.items()}
    return _share(facts, kind, known, True), _share(facts, kind, {**known, **since_window}, False)


def _share(facts: Facts, kind: BadRecordKind, known: Mapping[str, int], is_of_all: bool) -> Share:
    state = facts.state
    bad = sum(in_class_since(known, name, state) for name in kind.classes)
    of = sum(in_class_since(known, name, state) for name in kind.of)  # what came twice counts once
    is_since = any(facts.acknowledged.values())
    return Share(bad, max(of, bad) if is_of_all else of, is_of_all, is_since)


def worse_share(facts: Facts, kind: BadRecordKind, bounds: Shares) -> Share:
    """The share that counts: of all that was ever read, or of the latest window."""
    return max(
        shares_of(facts, kind), key=lambda one: (LEVELS.index(one.level(bounds)), one.value, one.is_of_all)
    )


def judge_share(
    facts: Facts, pipeline: Pipeline, kind: BadRecordKind, bounds: Shares, remedy: str
) -> Verdict:
    """The verdict on a kind of bad records by its thresholds."""
    worse, datacenter = worse_share(facts, kind, bounds), facts.datacenter
    level = worse.level(bounds)
    if level == "ok":
        return Verdict("ok", f"{datacenter}: few or no {kind.what}")
    said = worse.says(kind.what)
    known = f"if nothing is to be done about them: photon acknowledge {pipeline.typed} {datacenter}"
    says = f"{datacenter}: {said} ({worse.value:.2%})"
    return Verdict(level, says, f"{remedy}; {known}", f"has bad records ({said})")


def judge_dead_letters(facts: Facts, memory: Memory, pipeline: Pipeline) -> list[Verdict]:
    """One on each log: without its primary events nothing is joined either."""
    remedy = f"photon dead-letters {pipeline.typed} names them with their reasons, and mends them"
    bounds, kinds = pipeline.health.dead_letters, (FOREIGN_DEAD, PRIMARY_DEAD)
    return [judge_share(facts, pipeline, kind, bounds, remedy) for kind in kinds]


def judge_unjoinable(facts: Facts, memory: Memory, pipeline: Pipeline) -> list[Verdict]:
    """Whether foreign records have keys, and few of these have found no primary event."""
    wrong = _no_key_matches(facts, memory, pipeline) or _share_unjoinable(facts, pipeline)
    keyless = _keyless(facts, memory, pipeline)
    return [keyless, wrong] if keyless is not None else [wrong]


def _share_unjoinable(facts: Facts, pipeline: Pipeline) -> Verdict:
    unjoined = pipeline.datacenters[facts.datacenter].lake / "unjoined"
    remedy = (
        "look whether foreign.key and primary.id name the same thing, and whether primary logs are missing; "
        f"rows of {unjoined} have the ids of some: a trace tells the story of one event"
    )
    return judge_share(facts, pipeline, UNJOINABLE, pipeline.health.unjoinable, remedy)


def _no_key_matches(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict | None:
    """Say that the key is a wrong one, where no record ever met its primary event.

    The first events of a live log may be older than its primary log, so a few that wait are no sign.
    """
    unjoinable = in_class_since(facts.acknowledged, "unjoinable", facts.state)
    overdue = facts.overdue if facts.overdue >= LEAST_RECORDS else 0
    says = no_key_matches({**facts.state.counts.as_dict(), "unjoinable": unjoinable}, overdue)
    level = _level_of_all(unjoinable + overdue, memory)
    if not says or level == "ok":
        return None
    keys = (
        f"primary.id ({', '.join(pipeline.primary.id)}) and foreign.key ({', '.join(pipeline.foreign.key)})"
    )
    remedy = (
        f"bring the primary logs of the same time, if they are missing; else mend {keys} in {pipeline.file}: "
        f"{_which_match(facts, pipeline)}; {JOIN_AGAIN}"
    )
    return Verdict(level, f"{facts.datacenter}: {says}", remedy, "joins nothing, for no key matches")


def _keyless(facts: Facts, memory: Memory, pipeline: Pipeline) -> Verdict | None:
    """Say that no record has the key, or that none of the latest has it although many were to be expected."""
    state, name, columns = facts.state, facts.datacenter, ", ".join(pipeline.foreign.key)
    seen = f"; {columns_in_words(facts.columns)}" if facts.columns else ""
    has_adapter = not pipeline.adapter.startswith("photon.adapters:")
    or_adapter = f", or the adapter {pipeline.adapter} passes over each" if has_adapter else ""
    no_key = f"`{columns}` (foreign.key){or_adapter}"
    if none_has_a_key(state.counts.as_dict()):
        level = _level_of_all(state.counts.of("skipped"), memory)
        records = counted(state.counts.foreign, "foreign record")
        says = f"{name} joins nothing: none of its {records} has the key {no_key}{seen}"
        mend = f"mend foreign.key in {pipeline.file}: {_which_match(facts, pipeline)}; {JOIN_AGAIN}"
        return Verdict(level, says, mend, "joins nothing, for no foreign record has a key")
    if latest := keyless_of_late(state.gained, state.before):
        says = (
            f"{name}: none of the latest {counted(round(latest), 'foreign record')} has the key {no_key}, "
            f"while earlier ones had it{seen}"
        )
        remedy = (
            "if whoever writes the log has renamed the column, have it written under its old name too; if "
            "nothing of late belongs to a primary event, nothing is to be done"
        )
        return Verdict("warn", says, remedy, "gets foreign records without a key")
    return None


def _level_of_all(records: int, memory: Memory) -> Level:
    """The level of something that is so of all records; a watcher waits until there are more than a few."""
    if records >= LEAST_RECORDS:
        return "error"
    return "ok" if memory.is_patient else "warn"


def _which_match(facts: Facts, pipeline: Pipeline) -> str:
    logs = pipeline.datacenters[facts.datacenter].logs
    return which_match(f"{logs}/{pipeline.primary.files}", f"{logs}/{pipeline.foreign.files}")


def judge_conflicting(facts: Facts, memory: Memory, pipeline: Pipeline) -> list[Verdict]:
    """Whether few records of either log have another one's id and other content."""
    lake = pipeline.datacenters[facts.datacenter].lake
    remedy = (
        f"look whether foreign.id ({', '.join(pipeline.foreign.id)}) is an id at all: rows of "
        f"{lake / 'conflicting'} name both places of some and the columns that differ"
    )
    found = [judge_share(facts, pipeline, CONFLICTING, CONFLICTING_SHARES, remedy)]
    of_primaries = (
        f"look whether primary.id ({', '.join(pipeline.primary.id)}) is an id at all{_reused_at(facts)}; "
        "where ids are used again, set retry.lookup_window below half of the time between two uses"
    )
    found.append(judge_share(facts, pipeline, AMBIGUOUS, CONFLICTING_SHARES, of_primaries))
    if not pipeline.retry.expects_reused_ids:  # rows of which that is doubtful are ambiguous
        found.append(judge_share(facts, pipeline, REUSED, CONFLICTING_SHARES, of_primaries))
    return found


def _reused_at(facts: Facts) -> str:
    """Some primary records whose id another one has, as text."""
    files = facts.state.files
    places = [
        f"byte {offset_bytes} of {name_of(files[number], files)}"
        for number, offset_bytes in facts.state.reused_at
        if number in files
    ]
    return f", as the one at {' or '.join(places)}" if places else ""
