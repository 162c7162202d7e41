"""A network in one process whose time is virtual: nobody waits, and all happens in one order.

Clients are ordinary code on threads of their own. Only one thread runs at a time: that of the client whose
answers have come. How a message travels is for who derives a client; tests have clients for bad weather.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from photon.process.clock import MICROSECONDS
from photon.registry.stores.deadline import Deadline

Send = Callable[[Any, Any], Any]
Heard = Callable[[int, Any, float], None]  # the last argument: seconds that the answer took
Answer = tuple[int, Any]  # the number of its request, and the reply


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False)
class Strand:
    """One thread of a client, which runs only when it is its turn."""

    # A lock that another thread opens: a semaphore would do, at twice the price.
    turn: threading.Lock = field(default_factory=_taken)


class VirtualTime:
    """Virtual time, and its events to come.

    A thread that waits runs the next events itself, until it is another one's turn: so a thread that works
    alone never hands over to another.
    """

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._next: Strand | None = None  # the strand that runs after this event
        self._main = Strand()
        self._error: BaseException | None = None

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Have `event` happen so much later."""
        self._count += 1
        heapq.heappush(self._events, (self.now_seconds + seconds, self._count, event))

    def run(self) -> None:
        """Run until nothing is left to happen. Raise what a thread or an event raises."""
        self.go_on(self._main)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def resume(self, strand: Strand) -> None:
        """Let a strand run after this event, until it waits or ends."""
        if self._next is not None:
            raise AssertionError("an event resumes one strand at most")
        self._next = strand

    def fail(self, error: BaseException) -> None:
        """End `run` with this error."""
        self._error = error

    def go_on(self, waiting: Strand | None) -> None:
        """Have events happen until it is the turn of `waiting`. None: that strand has ended."""
        while self._next is None and self._error is None and self._may_go_on():
            self._happen()
        turn, self._next = self._next or self._main, None
        if turn is waiting:
            return
        turn.turn.release()
        if waiting is not None:
            waiting.turn.acquire()

    def _may_go_on(self) -> bool:
        return bool(self._events)

    def _happen(self) -> None:
        self.now_seconds, _, event = heapq.heappop(self._events)
        try:
            event()
        except BaseException as error:
            self.fail(error)


@dataclass(eq=False)
class _Answers:
    """The answers to one exchange of a strand, as they come; it may have gone on without the last of them."""

    time: VirtualTime
    strand: Strand
    heard: Heard
    come: list[Answer] = field(default_factory=list)
    are_awaited: bool = False
    _waits: int = 0
    _indices: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._began_seconds = self.time.now_seconds

    def resume_at(self, until: Deadline | None) -> None:
        """Have the strand go on with the next answer, or when the deadline passes; it is about to wait."""
        self.are_awaited = True
        self._waits += 1
        if until is not None:
            self.time.after(until.left_seconds(), partial(self._give_up, self._waits))

    def _give_up(self, wait: int) -> None:
        if self.are_awaited and wait == self._waits:
            self.are_awaited = False
            self.time.resume(self.strand)

    def take(self, index: int, reply: Any) -> None:
        """Take an answer, unless it came before, and let the strand go on if it waits."""
        if index in self._indices:
            return
        self._indices.add(index)
        self.heard(index, reply, self.time.now_seconds - self._began_seconds)
        self.come.append((index, reply))
        if self.are_awaited:
            self.are_awaited = False
            self.time.resume(self.strand)


class VirtualClient:
    """One process: its threads, its clock and its channel. One thread works, others are in the background.

    `skew_seconds`: how far its time of day is ahead; whoever changes that sets the clock.
    """

    def __init__(self, time: VirtualTime, skew_seconds: float = 0.0) -> None:
        self.skew_seconds = skew_seconds
        self._time = time
        self._worker = Strand()
        self._own = threading.local()  # the strand of each thread
        self._over = False

    def start(self, work: Callable[[], None]) -> None:
        """Run `work` on this client, from now on."""

        def work_to_the_end() -> None:
            try:
                work()
            finally:
                self._over = True

        self._run(work_to_the_end, self._worker)
        self._time.after(0.0, partial(self._time.resume, self._worker))

    @property
    def is_over(self) -> bool:
        """Say whether the client's work has ended."""
        return self._over

    @property
    def strand(self) -> Strand:
        """Return the strand of the thread that asks."""
        strand: Strand = self._own.strand
        return strand

    @property
    def is_at_work(self) -> bool:
        """Say whether the thread that asks is the one that works, and not one in the background."""
        return self.strand is self._worker

    def _run(self, work: Callable[[], None], strand: Strand, end: Callable[[], None] = lambda: None) -> None:
        """Have a new thread do `work` when its strand is resumed."""

        def run() -> None:
            self._own.strand = strand
            strand.turn.acquire()
            try:
                work()
            except BaseException as error:
                self._time.fail(error)
            end()
            self._time.go_on(None)

        threading.Thread(target=run, daemon=True).start()

    def _wait(self) -> None:
        self._time.go_on(self.strand)

    # -- its clock

    def now_us(self) -> int:
        """Virtual time, as this client's clock has it."""
        return round((self._time.now_seconds + self.skew_seconds) * MICROSECONDS)

    def elapsed_us(self) -> int:
        """Virtual time since all began."""
        return round(self._time.now_seconds * MICROSECONDS)

    def sleep(self, seconds: float) -> None:
        """Let the others run for so long."""
        self._time.after(seconds, partial(self._time.resume, self.strand))
        self._wait()

    # -- its channel

    def exchange(
        self,
        send: Send,
        requests: Sequence[tuple[Any, Any]],
        heard: Heard,
        is_write: bool,
        until: Deadline | None = None,
    ) -> Generator[list[Answer]]:
        """Send all requests, and yield answers while the caller wants more and the deadline allows."""
        answers = _Answers(self._time, self.strand, heard)
        for index, (endpoint, request) in enumerate(requests):
            self._send(send, endpoint, request, partial(answers.take, index))
        left = len(requests)
        while left:
            if not answers.come:
                answers.resume_at(until)
                self._wait()
            come, answers.come = answers.come, []
            if not come:
                return
            left -= len(come)
            yield come

    def load(self, endpoint: Any) -> int:
        """Nothing stands in line."""
        return 0

    def _send(self, send: Send, endpoint: Any, request: Any, answered: Callable[[Any], None]) -> None:
        """Have `send(endpoint, request)` done when the message arrives; `answered` takes its answer."""
        raise NotImplementedError

    def in_background(self, work: Callable[[], None]) -> None:
        """Do the work after a while, on a thread of its own."""
        strand = Strand()
        self._run(work, strand)
        self._time.after(self._moment(), partial(self._time.resume, strand))

    def _moment(self) -> float:
        """Return how many seconds pass before handed-over work begins in the background."""
        return 0.0

    def close(self) -> None:
        """Nothing was opened."""
