"""How requests travel to the endpoints: on threads, so many at once to each store as the pipeline file says.

Who has heard enough goes on (protocol B13). What is under way then is ended aside, and what stands in line is
dropped, but for some writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar, cast
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
        until: Deadline | None = None,
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
        until: Deadline | None = None,
    ) -> Generator[list[Answered[R]]]:
        exchange = _Exchange(send, heard)
        sent: list[tuple[_Lane, Future[None]]] = []
        heard_of = 0
        try:
            for index, (store, request) in enumerate(requests):
                lane = self._lane_of(store)
                sent.append((lane, lane.submit(partial(exchange.serve, index, store, request))))
            while heard_of < len(requests) and (come := exchange.wait(until)):
                heard_of += len(come)
                yield come
        finally:
            exchange.is_left = True
            for lane, future in sent:
                if not is_write or lane.is_long:
                    future.cancel()

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


class _Exchange:
    """What the requests of one call to `exchange` have in common."""

    def __init__(self, send: Send[Any, Any], heard: Heard[Any]) -> None:
        self._send = send
        self._heard = heard
        self._answered: SimpleQueue[Answered[Any] | BaseException] = SimpleQueue()
        self._over_at_seconds: float | None = None  # when the deadline passes
        self.is_left = False  # nobody waits for its answers any more

    def serve(self, index: int, store: Store, request: Any) -> None:
        """Send one request, and tell the reply."""
        began_seconds = time.monotonic()
        try:
            reply = self._send(store, request)
            self._heard(index, reply, time.monotonic() - began_seconds)
        except BaseException as error:
            if self.is_left:
                log.exception("a request to the registry that nobody waits for has failed")
            self._answered.put(error)
        else:
            self._answered.put((index, reply))

    def wait(self, until: Deadline | None) -> list[Answered[Any]]:
        """All that has come, at least one, or none if the deadline passes before.

        Raises the error of a request that could not be made.
        """
        try:
            come = [self._answered.get(timeout=self._patience_seconds(until))]
        except Empty:
            return []
        while not self._answered.empty():
            come.append(self._answered.get())
        for one in come:
            if isinstance(one, BaseException):
                raise one
        return cast("list[Answered[Any]]", come)

    def _patience_seconds(self, until: Deadline | None) -> float | None:
        if until is None:
            return None
        now_seconds = time.monotonic()
        left_seconds = until.left_seconds()
        if left_seconds or self._over_at_seconds is None:
            self._over_at_seconds = now_seconds + left_seconds
        return max(0.0, self._over_at_seconds + GRACE_SECONDS - now_seconds)


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

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Have it done in its turn."""
        with self._lock:
            self.load += 1
        future = self.threads.submit(work)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, future: Future[None]) -> None:
        with self._lock:
            self.load -= 1
