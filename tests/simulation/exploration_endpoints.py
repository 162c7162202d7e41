"""Endpoints of an exploration: they give the replies so far, and stop the client at the next request.

Which register is in force is one thing that changes at one moment: that it is chosen like an id is explored
nowhere, and simulated. A client that reads it sees the one of that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from photon.ledger.stores.copies import NoReply
from photon.ledger.stores.deadline import Deadline
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.layout import REGISTER_KEY, SHARD_HASH, item_key
from photon.registry.consensus.register import (
    Members,
    Register,
    ShardConfig,
    encode_register,
    with_boundary,
    with_slot_down,
    with_slot_up,
)
from photon.registry.endpoints.endpoints import Endpoints
from tests.simulation.exploration_states import Role

_CONFIGS = (ShardConfig(1),)
KEY = EventKey("a", 1)
ITEM = item_key(KEY, _CONFIGS)

# Nobody waits here: each pause would be a step of its own.
IMPATIENT = Registry(request_timeout=timedelta(microseconds=1), total_timeout=timedelta(microseconds=1))
LEFT = NoReply("the client went on before it was answered", "not_asked")
SKIPPED = NoReply("this request went to others", "not_asked")


def first_register(n: int) -> Register:
    """The register at the beginning."""
    members = Members(1, tuple(f"store {slot}" for slot in range(n)))
    return Register("explored", "explored", SHARD_HASH, members, _CONFIGS)


def with_a_boundary(n: int) -> tuple[Register, ...]:
    """The registers of a collection of the id: the last one has the boundary."""
    return first_register(n), with_boundary(first_register(n), 2)


def with_another_store(n: int) -> tuple[Register, ...]:
    """The registers of a repair of the last slot."""
    down = with_slot_down(first_register(n), n - 1, "another store")
    return first_register(n), down, with_slot_up(down, n - 1)


class Request(NamedTuple):
    """One message of a client."""

    kind: str
    query: Any


CHECK = Request("reads the register", None)


class Asked(NamedTuple):
    """What a client asks for, the so many-th time that it asks for something, and whom."""

    request: Request
    number: int
    of: frozenset[Role] = frozenset()


class Waits(Exception):
    """The client asks for something that too few have answered yet."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.asked = asked


class _Missing(NamedTuple):
    request: Request


class Scripted:
    """An endpoint that gives the replies it was given, and then none."""

    writes_per_request = reads_per_request = 1

    def __init__(self, replies: Iterable[Any], role: Role = "member") -> None:
        self.role = role
        self._replies = (reply for reply in replies if reply is not SKIPPED)

    def __getattr__(self, kind: str) -> Callable[[Sequence[Any]], list[Any]]:
        return lambda batch: [self._next(Request(kind, batch[0]))]

    def scan_shard(self, *wanted: Any) -> Any:
        """See `Acceptor`."""
        return self._next(Request("scan_shard", wanted))

    def _next(self, request: Request) -> Any:
        return next(self._replies, _Missing(request))


class Impatient(Endpoints):
    """Endpoints that nobody asks twice in one attempt."""

    def deadline(self, seconds: float) -> Deadline:
        """One that has passed with the first pause."""
        return super().deadline(1e-6)

    def alone(self, acceptor: Any, channel: Any = None) -> Endpoints:
        """See `Endpoints`."""
        return Impatient([acceptor], channel or self._channel, self._clock, self.chance)


class Inline:
    """A channel without threads, which stops the client where it waits for an answer that is missing.

    `seen`: the numbers of the registers that it reads; None: there is only one.
    """

    def __init__(self, registers: Sequence[Register], seen: Sequence[int]) -> None:
        self._texts = [encode_register(register) for register in registers]
        self._seen = iter(seen)
        self._exchanges = 0

    def exchange(
        self, send: Any, requests: Sequence[Any], heard: Any, is_write: bool, until: Any = None
    ) -> Generator[list[tuple[int, list[Any]]]]:
        if requests[0][1] == [REGISTER_KEY]:
            stored = Stored(self._texts[self._register_seen()])
            yield [(number, [stored]) for number in range(len(requests))]
            return
        asked = Asked(CHECK, self._exchanges, frozenset(acceptor.role for acceptor, _ in requests))
        self._exchanges += 1
        answers = [send(*request) for request in requests]
        missing = [answer.request for (answer,) in answers if isinstance(answer, _Missing)]
        yield [
            (number, [answer])
            for number, (answer,) in enumerate(answers)
            if answer is not LEFT and not isinstance(answer, _Missing)
        ]
        if missing:
            raise Waits(asked._replace(request=missing[0]))

    def _register_seen(self) -> int:
        if len(self._texts) == 1:
            return 0
        number = next(self._seen, None)
        if number is None:
            raise Waits(Asked(CHECK, self._exchanges))
        return number

    def aside(self, send: Any, requests: Sequence[Any], heard: Any) -> None:
        """Nobody is slow here."""

    def in_background(self, work: Callable[[], None]) -> None:
        """Nobody is probed here."""

    def close(self) -> None:
        """Nothing was opened."""
