"""A network in one process, as a seed wants it: requests are late, lost, repeated, reordered, endpoints fall.

Time is virtual: nobody waits. Clients are ordinary code on threads of their own. Only one thread runs at a
time: that of the client whose answers have come.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from photon.clock import MICROSECONDS
from photon.registry.consensus.acceptor import NoReply
from tests.simulation.crash import SimulatedCrash
from tests.simulation.faulty_acceptor import TIMED_OUT, UNPROCESSED

REQUEST_TIMEOUT_SECONDS = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is: chances for one message."""

    lost: float = 0.0
    late: float = 0.0  # beyond the time-out
    repeated: float = 0.0
    in_part: float = 0.0  # for one item of a batch: it is left unprocessed
    throttled: float = 0.0  # nothing of a batch is done, and the endpoint says so
    unreadable: float = 0.0  # it is done, and what the endpoint says of it can't be read
    short_page: float = 0.0  # before an item of a page: the page ends


_THROTTLED = NoReply("too many requests", "throttled")
_UNREADABLE = NoReply("half an answer", "unclear")


class Network:
    """Virtual time, and who runs next. Everything happens in the order that the seed gives."""

    def __init__(self, chance: random.Random, weather: Weather) -> None:
        self.chance = chance
        self.weather = weather
        self.now_seconds = 0.0
        # Clients by what they met in their present call.
        self.disturbed: set[Client] = set()  # no answer about some item
        self.unheard: set[Client] = set()  # no answer at all from some endpoint
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        """Have `event` happen so much later."""
        self._count += 1
        heapq.heappush(self._events, (self.now_seconds + seconds, self._count, event))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._events:
            self.now_seconds, _, event = heapq.heappop(self._events)
            event()


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False)
class Strand:
    """One thread of a client, which runs only while the network waits for it."""

    # Locks that one thread takes and the other opens: a semaphore would do, at twice the price.
    mine: threading.Lock = field(default_factory=_taken)
    networks: threading.Lock = field(default_factory=_taken)
    error: BaseException | None = None

    def resume(self) -> None:
        """Let it run until it waits or ends."""
        self.mine.release()
        self.networks.acquire()
        if self.error is not None:
            raise self.error

    def wait(self) -> None:
        """Let the network go on until it resumes this strand."""
        self.networks.release()
        self.mine.acquire()


@dataclass(eq=False)
class Client:
    """One process: its threads, its clock and its channel. One thread works, others are in the background."""

    network: Network
    skew_seconds: float = 0.0
    _exchanges: int = 0
    _interruption: tuple[int, Callable[[], None]] | None = None
    _worker: Strand = field(default_factory=Strand)
    _own: threading.local = field(default_factory=threading.local)  # the strand of each thread
    _dead: bool = False
    _over: bool = False

    def start(self, work: Callable[[], None]) -> None:
        """Run `work` on this client, from now on."""

        def work_to_the_end() -> None:
            try:
                work()
            finally:
                self._over = True

        self._run(work_to_the_end, self._worker)
        self.network.after(0.0, self._worker.resume)

    def kill(self) -> None:
        """End it where it waits; what it sent is on its way."""
        self._dead = True

    def interrupt(self, exchange: int, event: Callable[[], None]) -> None:
        """Have `event` happen while the messages of its so many-th exchange are on their way."""
        self._interruption = (exchange, event)

    @property
    def is_over(self) -> bool:
        """Whether its work ended, or was ended."""
        return self._over

    def _run(self, work: Callable[[], None], strand: Strand, end: Callable[[], None] = lambda: None) -> None:
        def run() -> None:
            self._own.strand = strand
            strand.mine.acquire()
            try:
                self._die_if_killed()
                work()
            except SimulatedCrash:
                pass
            except BaseException as error:
                strand.error = error
            end()
            strand.networks.release()

        threading.Thread(target=run, daemon=True).start()

    def _wait(self) -> None:
        self._own.strand.wait()
        self._die_if_killed()

    def _die_if_killed(self) -> None:
        if self._dead:
            raise SimulatedCrash

    # -- its clock

    def now_us(self) -> int:
        """Virtual time, as this client's clock has it."""
        return round((self.network.now_seconds + self.skew_seconds) * MICROSECONDS)

    def elapsed_us(self) -> int:
        """Virtual time since the simulation began."""
        return round(self.network.now_seconds * MICROSECONDS)

    def sleep(self, seconds: float) -> None:
        """Let the others run for so long."""
        self.network.after(seconds, self._own.strand.resume)
        self._wait()

    # -- its channel

    def exchange(
        self, send: Callable[[Any, Sequence[Any]], list[Any]], requests: Sequence[tuple[Any, Sequence[Any]]]
    ) -> Iterator[tuple[int, list[Any]]]:
        """Send all, and wait for the answers or the time-out of each."""
        answers: dict[int, list[Any]] = {}
        for index, (endpoint, batch) in enumerate(requests):
            self._send(send, endpoint, batch, index, answers, len(requests))
        if self._own.strand is not self._worker:
            self._wait()
            return iter(answers.items())
        self._exchanges += 1
        if self._interruption is not None and self._interruption[0] == self._exchanges:
            self.network.after(_moment(self.network.chance), self._interruption[1])
        self._wait()
        silences = [r for replies in answers.values() for r in replies if isinstance(r, NoReply)]
        if silences:
            self.network.disturbed.add(self)
        if any(silence.kind in ("unreachable", "not_asked") for silence in silences):
            self.network.unheard.add(self)
        return iter(answers.items())

    def in_background(self, work: Callable[[], None]) -> None:
        """Do it after a while, on a thread of its own."""
        strand = Strand()
        self._run(work, strand)
        self.network.after(_moment(self.network.chance), strand.resume)

    def close(self) -> None:
        """Nothing was opened."""

    def _send(
        self,
        send: Callable[[Any, Sequence[Any]], list[Any]],
        endpoint: Any,
        batch: Sequence[Any],
        index: int,
        answers: dict[int, list[Any]],
        wanted: int,
    ) -> None:
        chance, weather = self.network.chance, self.network.weather
        strand = self._own.strand

        def answered(replies: list[Any]) -> None:
            if index not in answers:
                answers[index] = replies
                if len(answers) == wanted:
                    strand.resume()

        def serve() -> list[Any]:
            if not endpoint.answers:
                return send(endpoint, batch)  # who is not there refuses all of it
            if chance.random() < weather.throttled:
                return [_THROTTLED] * len(batch)
            done = [chance.random() >= weather.in_part for _ in batch]
            processed = [query for query, is_done in zip(batch, done, strict=True) if is_done]
            replies = iter(send(endpoint, processed) if processed else ())
            answer = [next(replies) if is_done else UNPROCESSED for is_done in done]
            return [_UNREADABLE] * len(batch) if chance.random() < weather.unreadable else answer

        self._deliver(serve, answered, [TIMED_OUT] * len(batch))

    def _deliver(self, serve: Callable[[], T], answered: Callable[[T], None], timed_out: T) -> None:
        """Have a message arrive, as the weather is, and its answer come; at the latest, that it timed out."""
        network, chance, weather = self.network, self.network.chance, self.network.weather

        def arrive() -> None:
            answer = serve()
            if chance.random() >= weather.lost:
                network.after(_moment(chance), lambda: answered(answer))

        for _ in range(2 if chance.random() < weather.repeated else 1):
            if chance.random() >= weather.lost:
                is_late = chance.random() < weather.late
                network.after(chance.uniform(1.0, 8.0) if is_late else _moment(chance), arrive)
        network.after(REQUEST_TIMEOUT_SECONDS, lambda: answered(timed_out))


class ClientOfRequests(Client):
    """One whose acceptors send requests of their own: each message is one of these."""

    def _send(
        self,
        send: Callable[[Any, Sequence[Any]], list[Any]],
        endpoint: Any,
        batch: Sequence[Any],
        index: int,
        answers: dict[int, list[Any]],
        wanted: int,
    ) -> None:
        """Have the acceptor work on a thread of its own: it may send one request after another."""
        parent, strand = self._own.strand, Strand()

        def work() -> None:
            answers[index] = send(endpoint, batch)

        def end() -> None:
            answers.setdefault(index, [])  # it was killed, and so is who waits for it
            if len(answers) == wanted:
                self.network.after(0.0, parent.resume)

        self._run(work, strand, end)
        self.network.after(0.0, strand.resume)

    def ask(self, serve: Callable[[], T], timed_out: T) -> T:
        """Send a message, and wait for its answer or its time-out."""
        strand, answers = self._own.strand, list[T]()

        def answered(answer: T) -> None:
            if not answers:
                answers.append(answer)
                strand.resume()

        self._deliver(serve, answered, timed_out)
        self._wait()
        return answers[0]


def _moment(chance: random.Random) -> float:
    """How long a message takes: mostly milliseconds, now and then nearly as long as one waits for it."""
    if chance.random() < 0.9:
        return chance.expovariate(1 / 0.01)
    return chance.uniform(0.0, 0.5 if chance.random() < 0.8 else 0.9 * REQUEST_TIMEOUT_SECONDS)
