"""Exploration of offers at one position: every order of messages, losses, late arrivals, a crash.

The product's own `Rounds` run. The replies that a client got so far are its whole position: it is run again
with them until it asks for more, so that no model of it is needed. Stores are alike: states that differ by
their order are one state. A message is delivered, or times out, or its client goes on without the answer
(protocol B13); then it may still arrive at any time, or never.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from photon.registry.register import Members, Register
from photon.registry.stores.asking import ActiveStores
from photon.registry.stores.copies import FAST_BALLOT, Accept, Copy, Insert, Key, NoReply, Prepare
from photon.registry.stores.decisions import ballot
from photon.registry.stores.rounds import Contender, Reserved, Rounds, reserved_by
from tests.registry.store_backends import MemoryStore

KEY = Key("1.0-0", 7)
SILENT = NoReply("no answer in time", "unreachable")
MOST_STATES = 400_000

Request = Insert | Prepare | Accept
# A store's answer to a request: its copy afterwards, and its reply.
Apply = Callable[[Copy | None, Request], tuple[Copy | None, Any]]


class Offerer(NamedTuple):
    """One client: the value that it offers, how it begins, and its fate.

    `lacks_stores`: it knows of too few for a fast round (B13). `reserves`: it prepares before it has a value.
    `timeouts`, `early`, `crashes`: how often this may happen to it; early: it goes on before all have
    answered. `after`: it begins once that client is done.
    """

    value: bytes
    lacks_stores: bool = False
    reserves: bool = False
    attempts: int = 1  # so often it tries both rounds
    timeouts: int = 0
    early: int = 0
    crashes: int = 0
    after: int | None = None


@dataclass(frozen=True)
class Case:
    """The clients that offer, and the number of stores."""

    offerers: tuple[Offerer, ...]
    n: int = 3


class Left(NamedTuple):
    """Events that may still happen to a client."""

    timeouts: int
    early: int
    crashes: int
    is_over: bool = False


class Column(NamedTuple):
    """One store: its copy, copies that it had, late requests, and answers to each client, all by numbers."""

    copy: int
    taken: int
    late: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]


class State(NamedTuple):
    """Everything: stores by numbers, and what may still happen to each client."""

    columns: tuple[int, ...]
    clients: tuple[Left, ...]


@dataclass(frozen=True)
class Explored:
    """The number of states, the first problem found, and the way to it."""

    states: int
    problem: str = ""
    way: tuple[str, ...] = ()


class Waits(Exception):
    """The client asks for this, and has no replies yet. `enough`: whether such replies let it go on."""

    def __init__(self, request: Request, enough: Callable[[Sequence[Any]], bool]) -> None:
        self.request = request
        self.enough = enough


class _Wrong(Exception):
    pass


class _Label(NamedTuple):
    """An event, and the number of the request that it befell."""

    client: int | None
    request: int
    text: str


@dataclass
class _Replay:
    """Stand for stores, clock and register as `Rounds` sees them: replies that were recorded."""

    replies: Sequence[tuple[Any, ...]]
    offerer: Offerer
    active: Any = None
    asked: int = 0
    pauses: int = 0

    def prompt(self, active: ActiveStores) -> int:
        return 0 if self.offerer.lacks_stores else active.n

    def deadline(self, seconds: float) -> _Replay:
        return self

    def left_seconds(self) -> float:
        return 1.0

    def pause(self, outbid: bool = False) -> bool:
        self.pauses += 1
        return self.pauses < self.offerer.attempts

    def read_once(self, deadline: object) -> Register:
        return _REGISTER

    def ask(
        self, active: Any, call: Any, requests: Sequence[Request], enough: Any, *_: Any, **__: Any
    ) -> Any:
        request, *behind = requests  # reservations behind the position are not explored here
        if self.asked == len(self.replies):
            raise Waits(request, lambda replies: bool(enough(0, replies)))
        self.asked += 1
        return [list(self.replies[self.asked - 1]), *[[SILENT] * active.n for _ in behind]]


_MEMBERS = Members(1, ("a", "b", "c"))
_REGISTER = Register("events", "settings", _MEMBERS)


def applied(copy: Copy | None, request: Request) -> tuple[Copy | None, Any]:
    """Return what a store has after a request, and its reply."""
    store = MemoryStore("store")
    if copy is not None:
        store.items[KEY] = copy
    reply = getattr(store, type(request).__name__.lower())(request)
    return store.items.get(KEY), reply


def explore(case: Case, apply: Apply = applied) -> Explored:
    """Go through all that can happen; AssertionError beyond `MOST_STATES`. `apply`: what a store does."""
    return _Exploration(case, apply).run()


class _Numbers:
    """A number for each thing: states are many, what they are made of are few."""

    def __init__(self) -> None:
        self.things: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def of(self, thing: Any) -> int:
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number


class _Exploration:
    def __init__(self, case: Case, apply: Apply) -> None:
        self.case = case
        self.active = ActiveStores(_MEMBERS, (object(),) * case.n)  # type: ignore[arg-type]
        self._apply = apply
        self._numbers = _Numbers()
        self._things = self._numbers.things
        self._silent = self._numbers.of(SILENT)
        # All below is computed once for the same arguments.
        self._known: dict[Any, Waits | bytes | None] = {}
        self._after: dict[Any, int] = {}
        self._decided: dict[Any, frozenset[bytes]] = {}

    def run(self) -> Explored:
        """Explore breadth first, so that the way to a problem is a shortest one."""
        start = self._start()
        came_from: dict[State, tuple[State, _Label] | None] = {start: None}
        queue = deque([start])
        while queue:
            state = queue.popleft()
            try:
                for label, after in self._steps(state):
                    if after not in came_from:
                        came_from[after] = (state, label)
                        queue.append(after)
            except _Wrong as wrong:
                return Explored(len(came_from), str(wrong), self._way_to(state, came_from))
            assert len(came_from) <= MOST_STATES, f"more than {MOST_STATES} states"
        return Explored(len(came_from))

    def _start(self) -> State:
        of, offerers = self._numbers.of, self.case.offerers
        empty = of(Column(of(None), of(frozenset()), (), ((),) * len(offerers)))
        clients = tuple(Left(one.timeouts, one.early, one.crashes) for one in offerers)
        return State((empty,) * self.case.n, clients)

    def _steps(self, state: State) -> Iterator[tuple[_Label, State]]:
        for client, offerer in enumerate(self.case.offerers):
            begins = offerer.after is None or state.clients[offerer.after].is_over
            if begins and not state.clients[client].is_over:
                yield from self._steps_of(state, client)
        for place in _distinct(state.columns):
            for request in set(self._things[state.columns[place]].late):
                after = self._arrived(state.columns[place], None, request)
                yield _Label(None, request, "arrives late"), self._with(state, place, after)

    def _steps_of(self, state: State, client: int) -> Iterator[tuple[_Label, State]]:
        columns, may = [self._things[number] for number in state.columns], state.clients[client]
        answered = min(len(column.answers[client]) for column in columns)
        waits = self._asks(client, columns, answered)
        assert isinstance(waits, Waits)
        request = self._numbers.of(waits.request)
        pending = [i for i, column in enumerate(columns) if len(column.answers[client]) == answered]
        for place in set(pending).intersection(_distinct(state.columns)):
            after = self._with(state, place, self._arrived(state.columns[place], client, request))
            yield _Label(client, request, "is answered"), self._go_on(after, client)
            if may.timeouts:
                after = self._with(state, place, self._left(state.columns[place], client, request))
                after = _with_client(after, client, may._replace(timeouts=may.timeouts - 1))
                yield _Label(client, request, "times out"), self._go_on(after, client)
        if may.early and len(pending) < len(columns):
            heard = [SILENT if i in pending else self._last(c, client) for i, c in enumerate(columns)]
            if waits.enough(heard):
                after = self._leave(state, client, pending, request)
                after = _with_client(after, client, may._replace(early=may.early - 1))
                yield _Label(client, request, "is not waited for"), self._go_on(after, client)
        if may.crashes:
            after = self._leave(state, client, pending, request)
            yield _Label(client, request, "is left by a crash"), self._over(after, client)

    def _leave(self, state: State, client: int, pending: Sequence[int], request: int) -> State:
        columns = list(state.columns)
        for place in pending:
            columns[place] = self._left(columns[place], client, request)
        return state._replace(columns=tuple(sorted(columns)))

    def _go_on(self, state: State, client: int) -> State:
        """Run the client on once all its messages are answered; judge what it concludes."""
        columns = [self._things[number] for number in state.columns]
        lengths = {len(column.answers[client]) for column in columns}
        if len(lengths) > 1:
            return state
        ended = self._asks(client, columns, lengths.pop())
        if isinstance(ended, Waits):
            return state
        if ended is not None and ended not in self._chosen(state):
            raise _Wrong(f"client {client} was told {ended!r}, which is not chosen")
        return self._over(state, client)

    def _over(self, state: State, client: int) -> State:
        """The client is done: the replies to it no longer matter."""
        columns = [self._with_answers(number, client, ()) for number in state.columns]
        after = _with_client(state, client, Left(0, 0, 0, is_over=True))
        return after._replace(columns=tuple(sorted(columns)))

    # -- the product

    def _asks(self, client: int, columns: Sequence[Column], answered: int) -> Waits | bytes | None:
        """Return what the client asks for next, or what it was told is chosen; None: nothing."""
        key = (client, *(column.answers[client][:answered] for column in columns))
        if key not in self._known:
            replies = [
                tuple(self._things[column.answers[client][i]] for column in columns) for i in range(answered)
            ]
            self._known[key] = self._replayed(client, replies)
        return self._known[key]

    def _replayed(self, client: int, replies: Sequence[tuple[Any, ...]]) -> Waits | bytes | None:
        offerer = self.case.offerers[client]
        replay = _Replay(replies, offerer)
        rounds = Rounds(replay, replay, lambda key, reply: reply, self.active, replay)  # type: ignore[arg-type]
        replay.active = self.active
        try:
            reserved = _reserve(rounds, self.active, client) if offerer.reserves else None
            contender = Contender(KEY, offerer.value, f"{client:016x}", reserved)
            rounds.offer([contender])
        except Waits as waits:
            return waits
        return contender.chosen

    # -- stores

    def _arrived(self, column: int, client: int | None, request: int) -> int:
        """Return the store after a client's request arrived, or after a late one did (None)."""
        key = (column, client, request)
        if key not in self._after:
            self._after[key] = self._numbers.of(self._arrival(self._things[column], client, request))
        return self._after[key]

    def _arrival(self, column: Column, client: int | None, request: int) -> Column:
        before = self._things[column.copy]
        copy, reply = self._apply(before, self._things[request])
        if (copy or Copy()).promised < (before or Copy()).promised:
            raise _Wrong("a promise fell")
        taken = self._things[column.taken]
        if copy is not None and copy.value is not None:
            taken |= {(copy.accepted, copy.value)}
        after = column._replace(copy=self._numbers.of(copy), taken=self._numbers.of(taken))
        if client is not None:
            return _answered(after, client, self._numbers.of(reply))
        late = list(column.late)
        late.remove(request)
        return after._replace(late=tuple(late))

    def _left(self, column: int, client: int, request: int) -> int:
        """Return the store after nobody waits for its answer any more: the request is late, or lost."""
        key = (column, client, request, "left")
        if key not in self._after:
            thing = self._things[column]
            late = thing._replace(late=tuple(sorted((*thing.late, request))))
            self._after[key] = self._numbers.of(_answered(late, client, self._silent))
        return self._after[key]

    def _with_answers(self, column: int, client: int, answers: tuple[int, ...]) -> int:
        thing = self._things[column]
        each = (*thing.answers[:client], answers, *thing.answers[client + 1 :])
        return self._numbers.of(thing._replace(answers=each))

    def _last(self, column: Column, client: int) -> Any:
        return self._things[column.answers[client][-1]]

    # -- what must hold

    def _with(self, state: State, place: int, after: int) -> State:
        columns = (*state.columns[:place], after, *state.columns[place + 1 :])
        now = state._replace(columns=tuple(sorted(columns)))
        if len(values := self._chosen(now)) > 1:
            raise _Wrong(f"two values are chosen: {sorted(values)}")
        return now

    def _chosen(self, state: State) -> frozenset[bytes]:
        """Return the values that were ever chosen, by thresholds that are written here once more."""
        key = tuple(sorted(self._things[number].taken for number in state.columns))
        if key not in self._decided:
            n = self.case.n
            had = Counter(one for taken in key for one in self._things[taken])
            needed = {True: -(-3 * n // 4), False: n // 2 + 1}
            values = {value for (at, value), count in had.items() if count >= needed[at == FAST_BALLOT]}
            self._decided[key] = frozenset(values)
        return self._decided[key]

    def _way_to(self, state: State, came_from: dict[State, tuple[State, _Label] | None]) -> tuple[str, ...]:
        lines: list[str] = []
        while (step := came_from[state]) is not None:
            state, (client, request, text) = step
            who = "of before" if client is None else f"of client {client}"
            lines.append(f"{_told(self._things[request])} {who} {text}")
        return tuple(reversed(lines))


def _reserve(rounds: Rounds, active: ActiveStores, client: int) -> Reserved | None:
    """Reserve as one who offers at the position before: nobody else takes a ballot of this proposer."""
    prepare = Prepare(KEY, ballot(1, f"{client + 8:016x}"))
    (replies,) = rounds.vote([prepare], [])
    return reserved_by(prepare, replies, active)


def _answered(column: Column, client: int, reply: int) -> Column:
    answers = (*column.answers[client], reply)
    each = (*column.answers[:client], answers, *column.answers[client + 1 :])
    return column._replace(answers=each)


def _with_client(state: State, client: int, left: Left) -> State:
    return state._replace(clients=(*state.clients[:client], left, *state.clients[client + 1 :]))


def _distinct(columns: Sequence[int]) -> list[int]:
    return [i for i, number in enumerate(columns) if i == 0 or number != columns[i - 1]]


def _told(request: Request) -> str:
    ballot = getattr(request, "ballot", FAST_BALLOT)
    value = getattr(request, "value", b"").decode()
    return " ".join(filter(None, (type(request).__name__.lower(), value, ballot[:2])))
