"""How requests travel to the stores: on threads, as many at once to each as it bears.

What is asked of whom belongs in `photon.registry.endpoints.endpoints`, how much a store bears in `.window`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from photon.registry.consensus.acceptor import Acceptor
from photon.registry.endpoints.concurrency_limit import ConcurrencyLimit

Q = TypeVar("Q")
R = TypeVar("R")

PROBES_AT_ONCE = 5  # as many as a registry has endpoints


class Channel(Protocol):
    """How requests travel: by threads, or in a simulation as its scheduler decides."""

    def exchange(
        self,
        send: Callable[[Acceptor, Sequence[Q]], list[R]],
        requests: Sequence[tuple[Acceptor, Sequence[Q]]],
    ) -> Iterator[tuple[int, list[R]]]:
        """Send all requests at once: the index and the replies of each, as they are answered."""
        ...

    def in_background(self, work: Callable[[], None]) -> None:
        """Have `work` done some time, without waiting for it."""
        ...

    def close(self) -> None:
        """Stop, once what was sent is answered."""
        ...


class Threads:
    """The channel of the product: up to `concurrency` requests at once to each store, each on a thread.

    Each store has a lane of its own: requests to one that is slow do not hold up those to the others.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._lanes: WeakKeyDictionary[Acceptor, _Lane] = WeakKeyDictionary()
        self._aside = ThreadPoolExecutor(PROBES_AT_ONCE, thread_name_prefix="registry-probe")

    def exchange(
        self,
        send: Callable[[Acceptor, Sequence[Q]], list[R]],
        requests: Sequence[tuple[Acceptor, Sequence[Q]]],
    ) -> Iterator[tuple[int, list[R]]]:
        """See `Channel`."""
        futures = {
            self._lane_of(acceptor).submit(partial(send, acceptor, batch)): index
            for index, (acceptor, batch) in enumerate(requests)
        }
        return ((futures[future], future.result()) for future in as_completed(futures))

    def in_background(self, work: Callable[[], None]) -> None:
        """See `Channel`."""
        self._aside.submit(work)

    def close(self) -> None:
        """See `Channel`."""
        with self._lock:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.close()
        self._aside.shutdown()

    def _lane_of(self, acceptor: Acceptor) -> _Lane:
        with self._lock:
            if acceptor not in self._lanes:
                self._lanes[acceptor] = _Lane(self._concurrency)
            return self._lanes[acceptor]


class _Lane:
    """The way to one store."""

    def __init__(self, concurrency: int) -> None:
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="registry")
        self._window = ConcurrencyLimit(concurrency)

    def submit(self, request: Callable[[], list[R]]) -> Future[list[R]]:
        return self._threads.submit(self._window.send, request)

    def close(self) -> None:
        self._threads.shutdown()
