"""Which datacenters seem to join their home half (docs/adr/0009). A wrong guess costs work, or a moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from photon.process.clock import MICROSECONDS

# A datacenter that was not seen to claim anything for this long is not waited for: as long as one may be
# silent before it counts as dead (`recovery.silent_after`).
QUIET_AFTER_US = 30 * MICROSECONDS
# Nor is one that left so many of its events in a row to the others: one or two may be late, twenty are not.
QUIET_AFTER_EVENTS = 20


@dataclass
class HomeWatch:
    """What this process has seen each datacenter claim, and what it had to join for it."""

    claimed_us: dict[str, int]  # at the start nothing is known: the time of that
    taken_over: Counter[str] = field(default_factory=Counter)  # events since it was seen to claim one
    # Whether the last batch with fresh events found them free: others may have them after an outage.
    nobody_had_fresh: bool = False

    @classmethod
    def begin(cls, datacenters: Iterable[str], now_us: int) -> HomeWatch:
        return cls(dict.fromkeys(datacenters, now_us))

    def note(self, claimed: Iterable[str], taken_over: Mapping[str, int], now_us: int) -> None:
        """Take note of one batch: who was seen to hold ids, and whose events were joined here instead."""
        self.taken_over.update(taken_over)
        for name in claimed:
            self.claimed_us[name] = now_us
            self.taken_over.pop(name, None)

    def note_fresh(self, were_free: Iterable[bool | None]) -> None:
        """Take note of whether the fresh events of each task of a batch were free; None: it had none."""
        news = [each for each in were_free if each is not None]
        if news:
            self.nobody_had_fresh = all(news)

    def unresponsive(self, now_us: int) -> frozenset[str]:
        """The datacenters whose events are taken up at once.

        They claimed nothing for a while, or left so many events in a row to the others.
        """
        return frozenset(
            name
            for name, at_us in self.claimed_us.items()
            if now_us - at_us >= QUIET_AFTER_US or self.taken_over[name] >= QUIET_AFTER_EVENTS
        )
