"""Sending one kind of request to all endpoints at once, cut into batches.

What is asked and what the replies mean belongs in `photon.registry.proposer` and `.register_store`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TypeVar

from photon.clock import MICROSECONDS, Clock
from photon.registry.acceptor import Acceptor

Q = TypeVar("Q")
R = TypeVar("R")

FIRST_BACKOFF_SECONDS = 0.02
MAX_BACKOFF_SECONDS = 1.0


class Endpoints:
    """The acceptors of a registry and the threads that speak to them: `concurrency` requests at once."""

    def __init__(self, acceptors: Sequence[Acceptor], concurrency: int) -> None:
        self.acceptors = tuple(acceptors)
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="registry")

    @property
    def n(self) -> int:
        """How many endpoints there are: N of the protocol."""
        return len(self.acceptors)

    def close(self) -> None:
        """End the threads, once what they sent is answered."""
        self._pool.shutdown()

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
        starts = range(0, len(requests), per_request)
        futures: dict[Future[list[R]], tuple[int, int]] = {
            self._pool.submit(send, acceptor, requests[start : start + per_request]): (number, start)
            for start in starts
            for number, acceptor in enumerate(self.acceptors)
        }
        for future in as_completed(futures):
            number, start = futures[future]
            for offset, reply in enumerate(future.result()):
                replies[start + offset, number] = reply
            after_each()
        return [[replies[index, number] for number in range(self.n)] for index in range(len(requests))]


class Deadline:
    """The time that one call may take, and the pauses between its attempts."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
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
        self._clock.sleep(min(longest * random.uniform(0.5, 1.0), left_seconds))
        return True
