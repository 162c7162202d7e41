"""An endpoint in memory that fails as a test wants it to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Literal, TypeVar

from photon.clock import Clock, SystemClock
from photon.registry.consensus.acceptor import NoReply, Page
from photon.registry.consensus.layout import ItemKey
from photon.testing.memory_registry import MemoryAcceptor

Fault = Literal["down", "lost_request", "lost_answer", "unprocessed", "full"]
Q = TypeVar("Q")
R = TypeVar("R")

# As `photon.registry.dynamodb.acceptor` reports it; also of the endpoints of simulation and exploration.
TIMED_OUT = NoReply("timed out", "unreachable")
UNPROCESSED = NoReply("unprocessed", "throttled")

_REFUSED = NoReply("connection refused", "unreachable")
_WITHOUT_EFFECT: dict[Fault | None, NoReply] = {
    "down": _REFUSED,
    "full": NoReply("the disk is full"),
    "lost_request": TIMED_OUT,
}


class FaultyStore(MemoryAcceptor):
    """One endpoint in memory, with faults.

    `down` answers nothing and `full` refuses writes, both until `mend`. `lost_request`: a batch times out
    without effect. `lost_answer`: a batch is applied and times out. `unprocessed`: half of the items of a
    batch are refused. `slow_seconds` pass, on the clock, before each batch.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self.slow_seconds = 0.0
        self.requests = 0
        self.on_request: Callable[[str, Sequence[object]], None] = lambda kind, batch: None
        self._clock = clock or SystemClock()
        self._fault: Fault | None = None
        self._batches = 0

    def another_way_in(self) -> FaultyStore:
        """The same endpoint, met by another client with faults of its own."""
        other = FaultyStore(self._clock)
        other.items, other.times, other._lock = self.items, self.times, self._lock
        return other

    def fail(self, fault: Fault, batches: int = 1) -> None:
        """Have the next `batches` requests (for `down` and `full`: all until `mend`) meet with this fault."""
        with self._lock:
            self._fault, self._batches = fault, batches

    def mend(self) -> None:
        """Answer again."""
        with self._lock:
            self._fault = None

    def scan_shard(self, shard: str, below: str, after: ItemKey | None, limit: int) -> Page | NoReply:
        self.on_request("scan_shard", [after])
        return super().scan_shard(shard, below, after, limit)

    def _page(self, limit: int | None, is_wanted: Callable[[ItemKey], bool]) -> Page | NoReply:
        return _REFUSED if self._next_fault(reads=True) is not None else super()._page(limit, is_wanted)

    def _serve(self, kind: str, batch: Sequence[Q], apply: Callable[[Q], R]) -> list[R | NoReply]:
        if self.slow_seconds:
            self._clock.sleep(self.slow_seconds)
        self.on_request(kind, batch)
        fault, numbers = self._next_fault(reads=kind == "read"), count()

        def answer(query: Q) -> R | NoReply:
            if fault in _WITHOUT_EFFECT:
                return _WITHOUT_EFFECT[fault]
            if fault == "unprocessed" and next(numbers) % 2 == 0:
                return UNPROCESSED
            reply = apply(query)
            return TIMED_OUT if fault == "lost_answer" else reply

        return super()._serve(kind, batch, answer)

    def _next_fault(self, reads: bool) -> Fault | None:
        with self._lock:
            self.requests += 1
            fault = self._fault
            if fault == "full":
                return None if reads else fault
            if fault is not None and fault != "down":
                self._batches -= 1
                if self._batches == 0:
                    self._fault = None
            return fault
