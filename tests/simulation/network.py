"""A network in one process, as a seed wants it: requests are late, lost, repeated, reordered, endpoints fall.

Time is virtual, and who runs next is decided by `bench.virtual_network`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from bench.virtual_network import Answer, Heard, Send, Strand, VirtualClient, VirtualTime
from photon.ledger.stores.copies import NoReply
from photon.ledger.stores.deadline import Deadline
from photon.testing.crashes import SimulatedCrash
from photon.testing.faulty_store import TIMED_OUT, UNPROCESSED

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


class Network(VirtualTime):
    """Virtual time and the weather. Everything happens in the order that the seed gives."""

    def __init__(self, chance: random.Random, weather: Weather) -> None:
        super().__init__()
        self.chance = chance
        self.weather = weather
        # Clients by what they met in their present call.
        self.disturbed: set[Client] = set()  # no answer about some item
        self.unheard: set[Client] = set()  # no answer at all from some endpoint


class Client(VirtualClient):
    """One process in this weather, which may be killed and interrupted.

    `way`: how many seconds a message takes to an endpoint, or back; None: as the weather is.
    """

    def __init__(
        self, network: Network, skew_seconds: float = 0.0, way: Callable[[Any], float] | None = None
    ) -> None:
        super().__init__(network, skew_seconds)
        self.network = network
        self._way = way or (lambda endpoint: self._moment())
        self._exchanges = 0
        self._interruption: tuple[int, Callable[[], None]] | None = None
        self._dead = False
        self._at_once: set[Strand] = set()  # threads that do what its work needs done at once

    def kill(self) -> None:
        """End it where it waits; what it sent is on its way."""
        self._dead = True

    def interrupt(self, exchange: int, event: Callable[[], None]) -> None:
        """Have `event` happen while the messages of its so many-th exchange are on their way."""
        self._interruption = (exchange, event)

    def at_once(self, works: Sequence[Callable[[], None]], stop: Callable[[], None]) -> None:
        """Do all of it, each on a thread of its own, and wait for the last one: as `ranges.in_threads`."""
        waiting, errors = self.strand, list[BaseException]()
        strands = [Strand() for _ in works]
        self._at_once.update(strands)

        def run(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)
                stop()
                if isinstance(error, SimulatedCrash):
                    self.kill()  # the others die with the process

        def end(strand: Strand) -> None:
            self._at_once.remove(strand)
            if not self._at_once.intersection(strands):
                self.network.after(0.0, partial(self.network.resume, waiting))

        for strand, work in zip(strands, works, strict=True):
            self._run(partial(run, work), strand, partial(end, strand))
            self.network.after(0.0, partial(self.network.resume, strand))
        self._wait()
        if errors:
            raise errors[0]

    @property
    def is_at_work(self) -> bool:
        """Whether the thread that asks does its work, and is not one in the background."""
        return super().is_at_work or self.strand in self._at_once

    def _run(self, work: Callable[[], None], strand: Strand, end: Callable[[], None] = lambda: None) -> None:
        def work_unless_killed() -> None:
            try:
                self._die_if_killed()
                work()
            except SimulatedCrash:
                pass

        super()._run(work_unless_killed, strand, end)

    def _wait(self) -> None:
        super()._wait()
        self._die_if_killed()

    def _die_if_killed(self) -> None:
        if self._dead:
            raise SimulatedCrash

    # -- its channel

    def exchange(
        self,
        send: Send,
        requests: Sequence[tuple[Any, Sequence[Any]]],
        heard: Heard,
        is_write: bool,
        until: Deadline | None = None,
    ) -> Generator[list[Answer]]:
        """Send all, and wait for the answers or the time-out of each, or until the deadline passes."""
        if self.is_at_work and requests:
            self._exchanges += 1
            if self._interruption is not None and self._interruption[0] == self._exchanges:
                self.network.after(self._moment(), self._interruption[1])
        left = len(requests)
        for come in super().exchange(send, requests, heard, is_write, until):
            if self.is_at_work:
                self._note_silences([r for _, replies in come for r in replies if isinstance(r, NoReply)])
            left -= len(come)
            yield come
        if left and self.is_at_work:
            self._note_silences([TIMED_OUT])

    def aside(self, send: Send, requests: Sequence[tuple[Any, Sequence[Any]]], heard: Heard) -> None:
        """Send all, and wait for none: what it does not hear may be of importance."""
        super().aside(send, requests, heard)
        self.network.disturbed.add(self)

    def _note_silences(self, silences: Sequence[NoReply]) -> None:
        if silences:
            self.network.disturbed.add(self)
        if any(silence.kind in ("unreachable", "not_asked") for silence in silences):
            self.network.unheard.add(self)

    def _moment(self) -> float:
        return _moment(self.network.chance)

    def _send(
        self, send: Send, endpoint: Any, batch: Sequence[Any], answered: Callable[[Sequence[Any]], None]
    ) -> None:
        chance, weather = self.network.chance, self.network.weather

        def serve() -> Sequence[Any]:
            if not endpoint.answers:
                return send(endpoint, batch)  # who is not there refuses all of it
            if chance.random() < weather.throttled:
                return [_THROTTLED] * len(batch)
            done = [chance.random() >= weather.in_part for _ in batch]
            processed = [query for query, is_done in zip(batch, done, strict=True) if is_done]
            replies = iter(send(endpoint, processed) if processed else ())
            answer = [next(replies) if is_done else UNPROCESSED for is_done in done]
            return [_UNREADABLE] * len(batch) if chance.random() < weather.unreadable else answer

        self._deliver(endpoint, serve, answered, [TIMED_OUT] * len(batch))

    def _deliver(
        self, endpoint: Any, serve: Callable[[], T], answered: Callable[[T], None], timed_out: T
    ) -> None:
        """Have a message arrive, as the weather is, and its answer come; at the latest, that it timed out."""
        network, chance, weather = self.network, self.network.chance, self.network.weather

        def arrive() -> None:
            answer = serve()
            if chance.random() >= weather.lost:
                network.after(self._way(endpoint), lambda: answered(answer))

        for _ in range(2 if chance.random() < weather.repeated else 1):
            if chance.random() >= weather.lost:
                is_late = chance.random() < weather.late
                network.after(chance.uniform(1.0, 8.0) if is_late else self._way(endpoint), arrive)
        network.after(REQUEST_TIMEOUT_SECONDS, lambda: answered(timed_out))


class ClientOfRequests(Client):
    """One whose acceptors send requests of their own: each message is one of these."""

    def _send(
        self, send: Send, endpoint: Any, batch: Sequence[Any], answered: Callable[[Sequence[Any]], None]
    ) -> None:
        """Have the acceptor work on a thread of its own: it may send one request after another."""
        strand, replies = Strand(), list[Any]()

        def work() -> None:
            replies.extend(send(endpoint, batch))

        def end() -> None:
            # It may have been killed, and so is who waits for it.
            self.network.after(0.0, lambda: answered(replies))

        self._run(work, strand, end)
        self.network.after(0.0, partial(self.network.resume, strand))

    def ask(self, endpoint: Any, serve: Callable[[], T], timed_out: T) -> T:
        """Send a message to an endpoint, and wait for its answer or its time-out."""
        strand, answers = self.strand, list[T]()

        def answered(answer: T) -> None:
            if not answers:
                answers.append(answer)
                self.network.resume(strand)

        self._deliver(endpoint, serve, answered, timed_out)
        self._wait()
        return answers[0]


def _moment(chance: random.Random) -> float:
    """How long a message takes: mostly milliseconds, now and then nearly as long as one waits for it."""
    if chance.random() < 0.9:
        return chance.expovariate(1 / 0.01)
    return chance.uniform(0.0, 0.5 if chance.random() < 0.8 else 0.9 * REQUEST_TIMEOUT_SECONDS)
