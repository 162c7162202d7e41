"""A registry's rounds, run again and again with the replies they got so far, up to what they ask next.

What may happen to a request belongs in `tests.simulation.exploration`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.layout import REGISTER_KEY, SHARD_HASH
from photon.registry.consensus.register import Members, Register, encode_register


class Request(NamedTuple):
    """One message of a client."""

    kind: str
    query: Any


class Waits(Exception):
    """The client asks for something that has not been answered yet."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.request = request


REGISTER = Register("explored", "explored", SHARD_HASH, Members(1, ("one",)), ())
_STORED = Stored(encode_register(REGISTER))


class Scripted:
    """An endpoint that gives the replies it was given, and then none."""

    inserts_per_request = writes_per_request = reads_per_request = 1

    def __init__(self, replies: Sequence[Any]) -> None:
        self._replies = iter(replies)

    def __getattr__(self, kind: str) -> Callable[[Sequence[Any]], list[Any]]:
        def answer(batch: Sequence[Any]) -> list[Any]:
            if batch[0] == REGISTER_KEY:
                return [_STORED]
            return [next(self._replies, Request(kind, batch[0]))]

        return answer


class Inline:
    """A channel without threads, which stops the client where an answer is missing."""

    def exchange(self, send: Any, requests: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
        answers = [send(*request) for request in requests]
        for (answer,) in answers:
            if isinstance(answer, Request):
                raise Waits(answer)
        return enumerate(answers)

    def in_background(self, work: Callable[[], None]) -> None:
        """Nobody is probed here."""

    def close(self) -> None:
        """Nothing was opened."""
