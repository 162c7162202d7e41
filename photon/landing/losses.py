"""Messages that a lander could not land, and whether somebody has acknowledged them (protocol K5)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from photon.landing.marker import Loss, LossKind, acknowledged_in
from photon.process.clock import Clock
from photon.storage.tokens import new_id

MOST_SETTLED = 1_000  # losses that are kept once they are acknowledged

log = logging.getLogger(__name__)


@dataclass
class Losses:
    """The losses of one landed folder."""

    topic: str
    folder: Path
    clock: Clock
    all: tuple[Loss, ...] = ()

    @property
    def open(self) -> tuple[Loss, ...]:
        """Losses that nobody has acknowledged: their partitions stand still."""
        return tuple(one for one in self.all if one.acknowledged_us is None)

    def note(
        self,
        partition: int,
        kind: LossKind,
        from_offset: int,
        to_offset: int | None,
        goes_on_at: int | None = None,
        is_told_only: bool = False,
    ) -> Loss:
        """Note a loss. `is_told_only`: nothing waits for somebody to acknowledge it."""
        now_us = self.clock.now_us()
        told_us = now_us if is_told_only else None
        loss = Loss(new_id(), partition, kind, from_offset, to_offset, now_us, goes_on_at, told_us)
        log.error("topic %s: %s", self.topic, loss.sentence())
        self.all = (*self.all, loss)
        return loss

    def is_of_another_topic(self, name: str | None) -> bool:
        """Whether the loss of this name says that the topic was made again."""
        return any(one.name == name and one.kind == "another topic" for one in self.all)

    def acknowledged(self, name: str | None) -> Loss | None:
        """The loss of this name, if somebody has acknowledged it. OSError."""
        if name is None or name not in acknowledged_in(self.folder):
            return None
        return next(one for one in self.all if one.name == name)

    def settle(self, loss: Loss, goes_on_at: int) -> None:
        """Take note that landing goes on behind a loss, which ends there: more was lost meanwhile, perhaps.

        What retention took of where it was to go on is a loss besides.
        """
        to_offset = goes_on_at if loss.kind == "retention" else loss.to_offset
        self.end(replace(loss, to_offset=to_offset))
        meant = 0 if loss.kind == "another topic" else loss.goes_on_at
        if meant is not None and meant < goes_on_at:
            self.note(loss.partition, "retention", meant, goes_on_at, is_told_only=True)

    def end(self, loss: Loss) -> None:
        """Take note that somebody has acknowledged a loss."""
        settled = replace(loss, acknowledged_us=self.clock.now_us())
        kept = [settled if one.name == loss.name else self._with_earlier(one, settled) for one in self.all]
        done = [one for one in kept if one.acknowledged_us is not None]
        self.all = (*done[-MOST_SETTLED:], *(one for one in kept if one.acknowledged_us is None))

    @staticmethod
    def _with_earlier(one: Loss, settled: Loss) -> Loss:
        """An earlier loss of the partition is over with the one that took its place."""
        is_over = one.partition == settled.partition and one.noticed_us <= settled.noticed_us
        if is_over and one.acknowledged_us is None:
            return replace(one, acknowledged_us=settled.acknowledged_us)
        return one
