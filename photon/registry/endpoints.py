"""Sending one kind of request to all endpoints at once, cut into batches.

What is asked and what the replies mean belongs in `photon.registry.proposer` and `.register_store`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol, TypeVar

from photon.clock import MICROSECONDS, Clock
from photon.registry.acceptor import Acceptor

Q = TypeVar("Q")
R = TypeVar("R")

FIRST_BACKOFF_SECONDS = 0.02
MAX_BACKOFF_SECONDS = 1.0

MACHINE_CHANCE: random.Random = random.SystemRandom()


class Channel(Protocol):
    """How requests travel: by threads, or in a simulation as its scheduler decides."""

    def exchange(
        self,
        send: Callable[[Acceptor, Sequence[Q]], list[R]],
        requests: Sequence[tuple[Acceptor, Sequence[Q]]],
    ) -> Iterator[tuple[int, list[R]]]:
        """Send all requests at once: the index and the replies of each, as they are answered."""
        ...

    def close(self) -> None:
        """Stop, once what was sent is answered."""
        ...


class Threads:
    """The channel of the product: `concurrency` requests at once, each on a thread."""

    def __init__(self, concurrency: int) -> None:
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="registry")

    def exchange(
        self,
        send: Callable[[Acceptor, Sequence[Q]], list[R]],
        requests: Sequence[tuple[Acceptor, Sequence[Q]]],
    ) -> Iterator[tuple[int, list[R]]]:
        """See `Channel`."""
        futures = {self._pool.submit(send, *request): index for index, request in enumerate(requests)}
        return ((futures[future], future.result()) for future in as_completed(futures))

    def close(self) -> None:
        """See `Channel`."""
        self._pool.shutdown()


class Endpoints:
    """The acceptors of a registry, the channel to them, and the randomness of the one who asks.

    `chance` makes ballots unique: the machine's own, except in a simulation that has to be repeatable.
    """

    def __init__(
        self, acceptors: Sequence[Acceptor], channel: Channel, chance: random.Random = MACHINE_CHANCE
    ) -> None:
        self.acceptors = tuple(acceptors)
        self.chance = chance
        self._channel = channel

    @property
    def n(self) -> int:
        """How many endpoints there are: N of the protocol."""
        return len(self.acceptors)

    def close(self) -> None:
        """End the channel, once what was sent is answered."""
        self._channel.close()

    def new_proposer(self) -> str:
        """Random 64 bits as 16 hex digits, which keep ballots of different proposers apart (protocol B4)."""
        return f"{self.chance.getrandbits(64):016x}"

    def ask(
        self,
        send: Callable[[Acceptor, Sequence[Q]], list[R]],
        requests: Sequence[Q],
        per_request: int,
        after_each: Callable[[], None] = lambda: None,
    ) -> list[list[R]]:
        """For each request the replies of the endpoints, in their order.

        `after_each` is called, in this thread, whenever a batch has been answered.
        """
        replies: dict[tuple[int, int], R] = {}
        parts = [
            (start, number) for start in range(0, len(requests), per_request) for number in range(self.n)
        ]
        sent = [(self.acceptors[number], requests[start : start + per_request]) for start, number in parts]
        for index, answers in self._channel.exchange(send, sent):
            start, number = parts[index]
            for offset, reply in enumerate(answers):
                replies[start + offset, number] = reply
            after_each()
        return [[replies[index, number] for number in range(self.n)] for index in range(len(requests))]


class Deadline:
    """The time that one call may take, and the pauses between its attempts."""

    def __init__(self, clock: Clock, seconds: float, chance: random.Random = MACHINE_CHANCE) -> None:
        self._clock = clock
        self._chance = chance
        self._end_us = clock.now_us() + round(seconds * MICROSECONDS)
        self._attempts = 0

    def pause(self) -> bool:
        """Wait, longer each time and with jitter, for the next attempt; False if the time is up."""
        left_seconds = (self._end_us - self._clock.now_us()) / MICROSECONDS
        if left_seconds <= 0:
            return False
        longest = min(FIRST_BACKOFF_SECONDS * 2**self._attempts, MAX_BACKOFF_SECONDS)
        self._attempts += 1
        # Jitter: proposers that collided once must not do so again and again.
        self._clock.sleep(min(longest * self._chance.uniform(0.5, 1.0), left_seconds))
        return True
