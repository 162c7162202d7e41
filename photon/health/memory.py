"""The memory of an observer of a datacenter, from one look to the next, and the text that stores it.

Whoever else judges a datacenter reads the watcher's notes too: so a check that a person evaluates says what
the watcher says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from photon.dispatcher.shift.growth import LIVE_BYTES
from photon.health.facts import Facts
from photon.health.verdict import LEVELS, Level, Verdict, finding, words_of
from photon.process.clock import MICROSECONDS, in_utc

FORMAT = 5
# A watcher looks every 10 s, and on a busy machine every minute. What an older look knew may be over.
FRESH_SECONDS = 300
# Words that change again within a minute are told after it: what flaps is not stored at each look.
REWORDED_US = 60 * MICROSECONDS


Verdicts = Mapping[str, tuple[Verdict, ...]]  # on each promise


@dataclass(frozen=True)
class Memory:
    """Since when something lasts at one datacenter."""

    still_since_us: int | None = None  # there is work, and nobody at it
    behind_since_us: int | None = None  # more is unread than a live datacenter ever leaves
    is_patient: bool = True  # a run that is to come has its time; a person who asks is told what is so now
    since: Mapping[str, int] = field(default_factory=dict)  # since when looks have found what is wrong
    looked_us: int = 0  # the last look

    @classmethod
    def of_one_look(cls, facts: Facts, is_patient: bool = False) -> Memory:
        """The memory of who has looked only once: the last process says since when nobody works."""
        return cls(still_since_us=facts.lease.beat_us or None, is_patient=is_patient).after(facts)

    def after(self, facts: Facts) -> Memory:
        """Remember another look: the same, where it could not read the state."""
        if facts.growth.state_unreadable:
            return self
        behind_since_us = self.behind_since_us or facts.now_us if facts.unread_bytes > LIVE_BYTES else None
        return replace(self, still_since_us=self._still_since_us(facts), behind_since_us=behind_since_us)

    def fresh(self, now_us: int) -> Memory:
        """The memory for a look now: what was known long ago may have been over since."""
        is_old = not 0 <= now_us - self.looked_us <= FRESH_SECONDS * MICROSECONDS
        return Memory(is_patient=self.is_patient) if self.looked_us and is_old else self

    def having_found(self, verdicts: Verdicts, now_us: int) -> Memory:
        """Remember what a look has found wrong. Promises that it could not judge keep what they had.

        What is found no more is forgotten as slowly as it was learned: so what comes and goes is told too.
        """
        since = dict[str, int]()
        for key, at_us in self.since.items():
            is_judged = key.partition(":")[0] in verdicts
            left_us = at_us + 2 * (now_us - self.looked_us) if is_judged else at_us
            if left_us < now_us:
                since[key] = left_us
        for promise, found in verdicts.items():
            for one in found:
                for level in LEVELS[1 : LEVELS.index(one.level) + 1]:  # an error is a warning, too
                    key = f"{finding(promise, one)}, {level}"
                    since[key] = min(self.since.get(key, now_us), one.since_us or now_us, now_us)
        return replace(self, since=since, looked_us=now_us)

    def telling(self, verdicts: Verdicts, now_us: int) -> dict[str, tuple[Verdict, ...]]:
        """The verdicts as they are told: what has not lasted is no alarm, and a warning for who asks."""
        return {
            promise: tuple(self._told(promise, one, now_us) for one in found)
            for promise, found in verdicts.items()
        }

    def _told(self, promise: str, verdict: Verdict, now_us: int) -> Verdict:
        patience_us = verdict.patience_seconds * MICROSECONDS
        for level in LEVELS[LEVELS.index(verdict.level) : 0 : -1]:
            if now_us - self.since.get(f"{finding(promise, verdict)}, {level}", now_us) >= patience_us:
                return replace(verdict, level=level)
        return verdict if verdict.level == "ok" else replace(verdict, level="warn", is_unsure=True)

    def _still_since_us(self, facts: Facts) -> int | None:
        """Return since when nobody is at work: a silent process says so itself, by its last sign of life."""
        if facts.activity in ("silent", "fenced") and facts.is_silent:
            return facts.lease.beat_us or self.still_since_us or facts.now_us
        is_nobody_there = facts.activity in ("not running", "new") and facts.has_work
        return (self.still_since_us or facts.now_us) if is_nobody_there else None


@dataclass(frozen=True)
class ToldVerdict:
    """The last verdict on one promise that was told."""

    level: Level
    at_us: int
    words: str = ""  # without numbers that change
    is_reworded: bool = False  # the level was told before, in other words

    @classmethod
    def after(cls, before: ToldVerdict | None, verdict: Verdict, now_us: int) -> ToldVerdict:
        words = _words_of(verdict)
        is_reworded = before is not None and before.level == verdict.level and before.words != words
        return cls(verdict.level, now_us, words, is_reworded)

    def is_news(self, verdict: Verdict, now_us: int, again_us: int) -> bool:
        """Whether to tell it: it has changed, also in its words, or goes on for so long."""
        since_us = now_us - self.at_us
        is_other = _words_of(verdict) != self.words and (not self.is_reworded or since_us >= REWORDED_US)
        return verdict.level != self.level or is_other or (verdict.level != "ok" and since_us >= again_us)


def _words_of(verdict: Verdict) -> str:
    return verdict.says if verdict.counts_exactly else words_of(verdict.says)


@dataclass(frozen=True)
class WatcherNotes:
    """A watcher's notes on one datacenter, from one look to the next."""

    looked_us: int = 0
    memory: Memory = field(default_factory=Memory)
    told: Mapping[str, ToldVerdict] = field(default_factory=dict)  # keyed by promise
    is_starting: bool = False  # a run of it was on its way

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> WatcherNotes:
        """The notes that `asdict` gave."""
        told = {promise: ToldVerdict(**one) for promise, one in stored["told"].items()}
        return cls(stored["looked_us"], Memory(**stored["memory"]), told, stored["is_starting"])


def from_text(text: str | None) -> dict[str, WatcherNotes]:
    """Each datacenter as it was stored. Forgets what has another format: what goes on is told again."""
    stored = json.loads(text) if text else {}
    if stored.get("format") != FORMAT:
        return {}
    return {name: WatcherNotes.from_dict(one) for name, one in stored["datacenters"].items()}


def as_text(notes: Mapping[str, WatcherNotes]) -> str:
    """The notes as `from_text` reads them."""
    return json.dumps({"format": FORMAT, "datacenters": {name: asdict(one) for name, one in notes.items()}})


def memory_beside(notes: WatcherNotes | None, facts: Facts) -> tuple[Memory, str]:
    """The memory to judge a look that is not the watcher's own; and, if that is this look alone, why.

    Alone, the last sign of life says since when nobody is at work, and nobody knows since when anything else
    lasts.
    """
    if notes is not None and facts.now_us - notes.looked_us <= FRESH_SECONDS * MICROSECONDS:
        return notes.memory, ""
    since = f"since {in_utc(notes.looked_us, 'seconds')}" if notes is not None else "yet"
    return Memory.of_one_look(facts, is_patient=True), f"its watcher has not looked at it {since}"
