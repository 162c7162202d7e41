"""A topic of a broker, as landing asks it: `kafka` speaks to a real one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from photon.process.errors import UserError


@dataclass(frozen=True, slots=True)
class Message:
    """A committed message. `value` None: a tombstone."""

    partition: int
    offset: int
    value: bytes | None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """A partition has no committed message before this offset that was not given."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A partition gives nothing more until it is read from somewhere again.

    `diverges_at`: the broker lost messages that were read, all from this offset on. None: it says no such
    thing; the offset may be out of its range.
    """

    partition: int
    diverges_at: int | None = None


Given = Message | ReadUpTo | Unreadable


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic, as a broker tells it."""

    topic_id: str  # hexadecimal digits, others for each topic of the name
    partitions: frozenset[int]
    is_compacted: bool = False


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets that a partition's log has: from its first one on, up to behind its last one.

    `end` counts messages of open transactions, which no reader is given; `stable_end` is before the first.
    """

    start: int
    end: int
    stable_end: int


class BrokerSilent(Exception):
    """The broker does not answer a question, or refuses it, and may do otherwise later."""


class TopicGone(BrokerSilent):
    """The broker has no topic of that name."""


class TopicRefused(UserError):
    """A topic that can't be landed."""


class Topic(Protocol):
    """One topic. Reading is the lander's thread's; questions may come from another one."""

    def facts(self) -> TopicFacts:
        """Ask the broker about the topic. BrokerSilent; TopicRefused without the right to ask."""
        ...

    def offsets(self, partitions: Collection[int]) -> Mapping[int, Offsets]:
        """Which offsets these partitions have now. BrokerSilent."""
        ...

    def read(self, partition: int, offset: int, leader_epoch: int | None) -> None:
        """Read a partition from an offset on; `leader_epoch`: of the message before it, where it is known."""
        ...

    def stop(self, partition: int) -> None:
        """Read a partition no more."""
        ...

    def take(self, most: int, seconds: float) -> Sequence[Given]:
        """Take the messages that came within so long."""
        ...

    def close(self) -> None:
        """End it."""
        ...
