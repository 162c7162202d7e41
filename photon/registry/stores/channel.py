"""How requests travel to the endpoints: on threads, as many at once to each store as it bears.

Who has heard enough goes on (protocol B13). What is under way then is ended aside, and what waits in line is
sent aside or dropped. A slow endpoint is asked aside from the first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from photon.registry.stores.concurrency_limit import ConcurrencyLimit, is_overloaded
from photon.registry.stores.copies import Store
from photon.registry.stores.deadline import Deadline

Q = TypeVar("Q")
R = TypeVar("R")
Send = Callable[[Store, Sequence[Q]], Sequence[R]]
Answered = tuple[int, Sequence[R]]  # which request, and the replies to it
Heard = Callable[[int, Sequence[R], float], None]  # and how many seconds the answer took

# At once to each endpoint, of each process: one for each ledger that a batch meets, or for each page that is
# read. More than sixteen ledgers take turns.
CONCURRENT_REQUESTS = 16
PROBES_AT_ONCE = 5  # as many as a registry has endpoints
GRACE_SECONDS = 0.5  # beyond a call's deadline: for answers that have come and that no thread has read yet
ASIDE_AT_ONCE = 4  # requests to a slow endpoint: they tell when it is quick again, and are no load for it

log = logging.getLogger(__name__)


class Channel(Protocol):
    """How requests travel: by threads, or in a simulation as its scheduler decides."""

    def exchange(
        self,
        send: Send[Q, R],
        requests: Sequence[tuple[Store, Sequence[Q]]],
        heard: Heard[R],
        is_write: bool,
        until: Deadline | None = None,
    ) -> Generator[list[Answered[R]]]:
        """Send all requests at once: each time the answers that have come since the last time, at least one.

        `heard` is told each of them too, on any thread. The generator ends with the last answer, or when the
        deadline passes, or is closed by whoever has enough. Then `heard` alone is told the others, and what
        was not yet sent may be dropped, above all if it is no write.
        """
        ...

    def aside(self, send: Send[Q, R], requests: Sequence[tuple[Store, Sequence[Q]]], heard: Heard[R]) -> None:
        """Send some of these requests, as long as few are under way to the same store, and wait for none."""
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
        requests: Sequence[tuple[Store, Sequence[Q]]],
        heard: Heard[R],
        is_write: bool,
        until: Deadline | None = None,
    ) -> Generator[list[Answered[R]]]:
        exchange = _Exchange(send, heard, is_write)
        lanes = {id(store): self._lane_of(store) for store, _ in requests}
        try:
            for index, (store, batch) in enumerate(requests):
                lanes[id(store)].put(_Request(exchange, index, store, batch))
            while exchange.heard_of < len(requests) and (come := exchange.wait(until)):
                yield come
        finally:
            exchange.is_left = True
            if exchange.heard_of < len(requests):
                for lane in lanes.values():
                    lane.leave_behind()

    def aside(self, send: Send[Q, R], requests: Sequence[tuple[Store, Sequence[Q]]], heard: Heard[R]) -> None:
        exchange = _Exchange(send, heard, is_write=True)
        exchange.is_left = True
        for index, (store, batch) in enumerate(requests):
            self._lane_of(store).put_aside(_Request(exchange, index, store, batch))

    def in_background(self, work: Callable[[], None]) -> None:
        self._background.submit(work)

    def close(self) -> None:
        """Takes as long as one request, or as what is done in the background."""
        with self._lock:
            lanes = list(self._lanes.values())
        self._background.shutdown(cancel_futures=True)
        for lane in lanes:
            lane.close()

    def _lane_of(self, store: Store) -> _Lane:
        with self._lock:
            if store not in self._lanes:
                self._lanes[store] = _Lane(self._concurrency)
            return self._lanes[store]


class _Exchange:
    """What the requests of one call to `exchange` have in common."""

    def __init__(self, send: Send[Any, Any], heard: Heard[Any], is_write: bool) -> None:
        self.send = send
        self.heard = heard
        self.is_write = is_write
        self.answered: SimpleQueue[Answered[Any] | BaseException] = SimpleQueue()
        self.heard_of = 0  # how many answers were waited for and have come
        self.is_left = False  # nobody waits for its answers any more
        self._over_at_seconds: float | None = None  # when the deadline passes

    def wait(self, until: Deadline | None) -> list[Answered[Any]]:
        """All that has come, at least one, or none if the deadline passes before.

        Raises the error of a request that could not be made.
        """
        try:
            come = [self.answered.get(timeout=self._patience_seconds(until))]
        except Empty:
            return []
        while not self.answered.empty():
            come.append(self.answered.get())
        self.heard_of += len(come)
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


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    exchange: _Exchange
    index: int
    store: Store
    batch: Sequence[Any]

    def serve(self) -> bool:
        """Send it: whether the endpoint kept up."""
        exchange = self.exchange
        replies: Sequence[Any] = ()
        began = time.monotonic()
        try:
            replies = exchange.send(self.store, self.batch)
            exchange.heard(self.index, replies, time.monotonic() - began)
        except BaseException as error:
            if exchange.is_left:
                log.exception("a request to the registry that nobody waits for has failed")
            exchange.answered.put(error)
        else:
            exchange.answered.put((self.index, replies))
        return not is_overloaded(replies)


class _Lane:
    """The way to one store: requests in line, and as many under way as it bears."""

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()  # of all below but the threads
        self._limit = ConcurrencyLimit(most)
        self._line: deque[_Request] = deque()
        self._is_closed = False
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="registry")

    def put(self, request: _Request) -> None:
        """Send it when it is its turn."""
        with self._lock:
            self._line.append(request)
            for turn in self._turns():
                self._begin(*turn)

    def put_aside(self, request: _Request) -> None:
        """Send it now, or not at all."""
        with self._lock:
            if not self._line and self._limit.in_flight < ASIDE_AT_ONCE:
                self._line.append(request)
                for turn in self._turns():
                    self._begin(*turn)

    def leave_behind(self) -> None:
        """Drop what stands in line and nobody waits for, but for some writes.

        As many of these stay as may be under way at once: whoever comes next waits one round trip longer. An
        endpoint that is slow for long misses the others. That is no harm, for a majority has them (B13).
        """
        with self._lock:
            kept: deque[_Request] = deque()
            room = self._limit.limit
            for request in self._line:
                if not request.exchange.is_left:
                    kept.append(request)
                elif request.exchange.is_write and room > 0:
                    kept.append(request)
                    room -= 1
            self._line = kept

    def close(self) -> None:
        """End what is under way or waited for."""
        with self._lock:
            self._is_closed = True
            self._line = deque(request for request in self._line if not request.exchange.is_left)
        self._threads.shutdown()

    def _turns(self) -> list[tuple[_Request, int]]:
        """What may be sent now, each with the limit's reductions so far."""
        turns: list[tuple[_Request, int]] = []
        while self._line and (reductions := self._limit.take()) is not None:
            turns.append((self._line.popleft(), reductions))
            if self._is_closed:
                break  # no thread begins any more: those that are there do the rest
        return turns

    def _begin(self, request: _Request, reductions: int) -> None:
        try:
            self._threads.submit(self._work, request, reductions)
        except RuntimeError as error:  # the process ends: no thread begins any more
            request.exchange.answered.put(error)

    def _work(self, request: _Request, reductions: int) -> None:
        """Send this request, then those behind it, as long as there is room."""
        turns = [(request, reductions)]
        while turns:
            request, reductions = turns.pop(0)
            kept_up = request.serve()
            with self._lock:
                self._limit.give_back(reductions, kept_up)
                turns = self._turns()
                for turn in turns[1:]:
                    self._begin(*turn)
                del turns[1:]
