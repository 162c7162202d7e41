"""How requests travel to the endpoints: on threads, so many at once to each store as the pipeline file says.

Who has heard enough goes on (protocol B13). What is under way then is ended aside, and what stands in line is
dropped, but for some writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from photon.registry.stores.copies import Store
from photon.registry.stores.deadline import Deadline

Q = TypeVar("Q")
R = TypeVar("R")
Send = Callable[[Store, Q], R]
Answered = tuple[int, R]  # which request, and the reply to it
Heard = Callable[[int, R, float], None]  # and how many seconds the answer took

# At once to each endpoint, of each process: one for each ledger that a batch meets, or for each page that is
# read. More than sixteen ledgers take turns.
CONCURRENT_REQUESTS = 16
PROBES_AT_ONCE = 5  # as many as a registry has endpoints
GRACE_SECONDS = 0.5  # beyond a call's deadline: for answers that have come and that no thread has read yet

log = logging.getLogger(__name__)


class Channel(Protocol):
    """How requests travel: by threads, or in a simulation as its scheduler decides."""

    def exchange(
        self,
        send: Send[Q, R],
        requests: Sequence[tuple[Store, Q]],
        heard: Heard[R],
        is_write: bool,
        until: Deadline,
    ) -> Generator[list[Answered[R]]]:
        """Send all requests at once: each time the answers that have come since the last time, at least one.

        `heard` is told each of them too, on any thread. The generator ends with the last answer, or when the
        deadline passes, or is closed by who has enough. Then `heard` alone is told the others, and what was
        not yet sent may be dropped, above all if it is no write.
        """
        ...

    def load(self, store: Store) -> int:
        """How many requests to the store are under way or stand in line."""
        ...

    def in_background(self, work: Callable[[], None]) -> None:
        """Have `work` done some time, without waiting for it."""
        ...

    def close(self) -> None:
        """Stop, once all requests that are under way are answered."""
        ...


class Threads:
    """The channel of the product: up to so many requests at once to each store, each on a thread.

    Each store has threads of its own: requests to a slow one do not hold up those to the others.
    """

    def __init__(self, concurrency: int = CONCURRENT_REQUESTS) -> None:
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._lanes: WeakKeyDictionary[Store, _Lane] = WeakKeyDictionary()
        self._background = ThreadPoolExecutor(PROBES_AT_ONCE, thread_name_prefix="registry-probe")

    def exchange(
        self,
        send: Send[Q, R],
        requests: Sequence[tuple[Store, Q]],
        heard: Heard[R],
        is_write: bool,
        until: Deadline,
    ) -> Generator[list[Answered[R]]]:
        def serve(index: int, store: Store, request: Q) -> R:
            began_seconds = time.monotonic()
            reply = send(store, request)
            heard(index, reply, time.monotonic() - began_seconds)
            return reply

        sent: dict[Future[R], tuple[int, _Lane]] = {}
        ends_seconds = 0.0  # when the deadline passes
        try:
            for index, (store, request) in enumerate(requests):
                lane = self._lane_of(store)
                sent[lane.submit(partial(serve, index, store, request))] = index, lane
            left = set(sent)
            while left:
                now_seconds, left_seconds = time.monotonic(), until.left_seconds()
                if left_seconds or not ends_seconds:
                    ends_seconds = now_seconds + left_seconds
                patience_seconds = max(0.0, ends_seconds + GRACE_SECONDS - now_seconds)
                come, left = wait(left, patience_seconds, FIRST_COMPLETED)
                if not come:
                    return
                yield [(sent[one][0], one.result()) for one in come]  # or the error of one that can't be made
        finally:
            for future, (_, lane) in sent.items():
                if not is_write or lane.is_long:
                    future.cancel()
                future.add_done_callback(_tell_failure)

    def load(self, store: Store) -> int:
        return self._lane_of(store).load

    def in_background(self, work: Callable[[], None]) -> None:
        self._background.submit(work)

    def close(self) -> None:
        """Takes as long as one request, or as what is done in the background."""
        with self._lock:
            lanes = list(self._lanes.values())
        self._background.shutdown(cancel_futures=True)
        for lane in lanes:
            lane.threads.shutdown()

    def _lane_of(self, store: Store) -> _Lane:
        with self._lock:
            if store not in self._lanes:
                self._lanes[store] = _Lane(self._concurrency)
            return self._lanes[store]


def _tell_failure(future: Future[Any]) -> None:
    """Say that a request could not be made, whether anybody waits for it or not."""
    if not future.cancelled() and (error := future.exception()) is not None:
        log.error("a request to the registry has failed", exc_info=error)


class _Lane:
    """The way to one store: its threads, and how many requests are under way or stand in line."""

    def __init__(self, most: int) -> None:
        self.threads = ThreadPoolExecutor(most, thread_name_prefix="registry")
        self.load = 0
        self._most = most
        self._lock = threading.Lock()

    @property
    def is_long(self) -> bool:
        """Whether more stand in line than may be under way at once.

        A store that is slow for long misses the writes that are dropped then. That is no harm, for a majority
        has them (B13).
        """
        return self.load > 2 * self._most

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Have it done in its turn."""
        with self._lock:
            self.load += 1
        future = self.threads.submit(work)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: Future[Any]) -> None:
        with self._lock:
            self.load -= 1
