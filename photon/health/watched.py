"""What a watcher leaves from one look to the next, as the text that it stores.

Whoever else judges a datacenter reads it too: so a check that a person evaluates says what the watcher says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from photon.health.levels import Level, Verdict
from photon.health.memory import Memory
from photon.health.vitals import Vitals
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, in_utc

FORMAT = 4
# A watcher looks every 10 s, and on a busy machine every minute. What an older look knew may be over.
FRESH_SECONDS = 300


# Words that change again within a minute are told after it: what flaps is not stored at each look.
REWORDED_US = 60 * MICROSECONDS
# A number with its unit. Numbers change all the time, and are no other words.
_NUMBER = re.compile(r"\d[\d.,:T+-]*(?: ?(?:bytes|[KMGT]iB|days|h|min|s)\b)?")


@dataclass(frozen=True)
class Told:
    """What was told of one promise last."""

    level: Level
    at_us: int
    words: str = ""  # of `words_of`
    is_reworded: bool = False  # the level was told before, in other words

    @classmethod
    def after(cls, before: Told | None, verdict: Verdict, now_us: int) -> Told:
        words = words_of(verdict)
        is_reworded = before is not None and before.level == verdict.level and before.words != words
        return cls(verdict.level, now_us, words, is_reworded)

    def is_news(self, verdict: Verdict, now_us: int, again_us: int) -> bool:
        """Whether to tell it: it has changed, also in its words, or goes on for so long."""
        since_us = now_us - self.at_us
        is_other = words_of(verdict) != self.words and (not self.is_reworded or since_us >= REWORDED_US)
        return verdict.level != self.level or is_other or (verdict.level != "ok" and since_us >= again_us)


def words_of(verdict: Verdict) -> str:
    """Return the words of a verdict, without numbers that change all the time."""
    return verdict.says if verdict.counts_exactly else _NUMBER.sub("#", verdict.says)


@dataclass(frozen=True)
class Watched:
    """A datacenter, from one look to the next."""

    looked_us: int = 0
    memory: Memory = field(default_factory=Memory)
    told: Mapping[str, Told] = field(default_factory=dict)  # by promise
    is_starting: bool = False  # a run of it was on its way

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Watched:
        """What `asdict` gave."""
        told = {promise: Told(**one) for promise, one in stored["told"].items()}
        return cls(stored["looked_us"], Memory.from_dict(stored["memory"]), told, stored["is_starting"])


def from_text(text: str | None) -> dict[str, Watched]:
    """Each datacenter as it was stored. Forgets what has another format: what goes on is told again."""
    stored = json.loads(text) if text else {}
    if stored.get("format") != FORMAT:
        return {}
    return {name: Watched.from_dict(one) for name, one in stored["datacenters"].items()}


def as_text(watched: Mapping[str, Watched]) -> str:
    """What `from_text` reads."""
    return json.dumps({"format": FORMAT, "datacenters": {name: asdict(one) for name, one in watched.items()}})


def memory_beside(watched: Watched | None, found: Vitals, pipeline: Pipeline) -> tuple[Memory, str]:
    """What to judge a look by that is not the watcher's own; and, if that is this look alone, why.

    Alone, the last sign of life says since when nobody is at work, and nobody knows since when anything else
    lasts.
    """
    if watched is not None and found.now_us - watched.looked_us <= FRESH_SECONDS * MICROSECONDS:
        return watched.memory.after(found, pipeline), ""
    since = f"since {in_utc(watched.looked_us, 'seconds')}" if watched is not None else "yet"
    alone = Memory(still_since_us=found.lease.beat_us or None).after(found, pipeline)
    return alone, f"its watcher has not looked at it {since}"
