"""Exhaustive exploration of the registry's rounds in small cases: every order of messages, losses, a crash.

The product's own `Rounds` run. The replies that a client got so far are its whole position: it is run again
with them until it asks for more, so that no model of it is needed.

One id. Its register stays, or an operator raises the boundary above the id, which is then deleted anywhere at
any time, or replaces a store as a repair does. Endpoints are alike: states that differ by their order are one
state. A message is delivered, or times out, or its client goes on without the answer (protocol B13); then it
may still arrive at any time, or never. Or an endpoint is out of a client's reach during a whole step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from photon.ledger.stores.copies import NoReply
from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.register import Register
from photon.registry.interface import Won
from photon.testing.faulty_store import TIMED_OUT, FaultyStore
from photon.testing.manual_clock import ManualClock
from tests.simulation.chosen_values import (
    Acceptance,
    chain_problem,
    chosen,
    step_problem,
    wrong_below_the_boundary,
    wrong_verdict,
)
from tests.simulation.exploration_attempts import Attempts
from tests.simulation.exploration_endpoints import CHECK, ITEM, LEFT, SKIPPED, Asked, Waits, first_register
from tests.simulation.exploration_states import (
    CLEARED,
    Column,
    Ended,
    Explored,
    Label,
    Limits,
    Local,
    Numbers,
    State,
    Step,
    Verb,
)


class _Wrong(Exception):
    """A rule does not hold."""


def explore(
    programs: Sequence[Sequence[Step]],
    n: int,
    limits: Limits,
    held: Stored | None = None,
    registers: Sequence[Register] = (),
) -> Explored:
    """Go through all that can happen to these clients over n endpoints; AssertionError beyond the limit.

    `held`: what every endpoint has at the beginning; its token, if it is to be cleared, is in the output.
    `registers`: the first one, and those that an operator puts in force; none: it stays as it is.
    """
    return _Exploration(programs, n, limits, registers or (first_register(n),)).run(held)


class _Exploration:
    def __init__(
        self,
        programs: Sequence[Sequence[Step]],
        n: int,
        limits: Limits,
        registers: Sequence[Register],
    ) -> None:
        self._programs = programs
        self._attempts = Attempts(programs, registers)
        self._replaces = registers[0].members != registers[-1].members
        self._collects = registers[0].boundary_us != registers[-1].boundary_us
        self._n = n
        self._limits = limits
        self._numbers = Numbers()
        self._things = self._numbers.things
        self._timed_out = self._numbers.of(TIMED_OUT)
        self._skipped = self._numbers.of(SKIPPED)
        self._left = self._numbers.of(LEFT)
        self._refused = self._numbers.of(NoReply("connection refused", "unreachable"))
        self._cleared_tokens = {token for program in programs for verb, token in program if verb == "clear"}
        # All below is computed once for the same arguments: states are many, these are few.
        self._asked: dict[tuple[Any, ...], int] = {}
        self._applied: dict[tuple[int, int], tuple[int, int]] = {}
        self._after: dict[tuple[int, int | None, int, bool], int] = {}
        self._chosen: dict[tuple[Any, ...], list[Acceptance]] = {}

    def run(self, held: Stored | None) -> Explored:
        """Breadth first, so that the way to a problem is a shortest one."""
        of = self._numbers.of
        taken = self._taken(of(frozenset()), of(held))
        column = Column(of(held), taken, (), ((),) * len(self._programs))
        columns = [column] * self._n
        if self._replaces:
            columns[-1] = column._replace(role="replaced")
            empty = column._replace(stored=of(None), taken=of(frozenset()), role="replacing")
            columns.append(empty)
        clients = (of(Local()),) * len(self._programs)
        won = frozenset() if held is None else frozenset(self._cleared_tokens)
        limits = self._limits
        left = (limits.timeouts, limits.outages, limits.crashes, limits.goings_on)
        start = State(tuple(sorted(map(of, columns))), clients, *left, won, frozenset())
        for client in range(len(self._programs)):
            start = self._skip_unasked(start, client)
        came_from: dict[State, tuple[State, Label] | None] = {start: None}
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
            assert len(came_from) <= self._limits.states, f"more than {self._limits.states} states"
        return Explored(len(came_from))

    # -- what can happen

    def _steps(self, state: State) -> Iterator[tuple[Label, State]]:
        columns = [self._things[number] for number in state.columns]
        distinct = [i for i, number in enumerate(state.columns) if i == 0 or number != state.columns[i - 1]]
        for client, number in enumerate(state.clients):
            if self._things[number].step == len(self._programs[client]):
                continue
            if self._verb(client, number) == "change":
                yield Label("changes the register", client, 0, 0), self._change_register(state, client)
                continue
            answered = min(len(column.replies[client]) for column in columns)
            replies = [column.replies[client][:answered] for column in columns]
            asked = self._things[self._ask(client, number, state.columns, replies)]
            request = self._numbers.of(asked.request)
            if asked.request == CHECK:
                yield Label("at this moment", client, request, 0), self._see_register(state, client)
                continue
            for place in distinct:
                if len(columns[place].replies[client]) == answered:
                    yield from self._message(state, place, client, request)
            if state.goings_on:
                yield from self._goes_on_early(state, client, request, answered)
            if state.outages and self._things[number].attempt == 0:
                yield from self._outages(state, distinct, client, request)
            if state.crashes:
                yield Label("crashes", client, request, 0), self._crash(state, client, request, answered)
        for place in distinct:
            if self._collects and state.register and self._things[columns[place].stored] is not None:
                after = self._numbers.of(columns[place]._replace(stored=self._numbers.of(None)))
                yield Label("is collected", None, 0, place), self._with(state, place, after)
            for request in set(columns[place].late):
                after = self._arrived(state.columns[place], None, request, False)
                yield Label("late", None, request, place), self._with(state, place, after)

    def _verb(self, client: int, local: int) -> Verb:
        return self._programs[client][self._things[local].step][0]

    def _change_register(self, state: State, client: int) -> State:
        before = state.chosen_before if state.register else frozenset(self._chosen_in(state))
        state = state._replace(register=state.register + 1, chosen_before=before)
        local: Local = self._things[state.clients[client]]
        return self._begin(state, client, Local(local.step + 1, known=state.register))

    def _see_register(self, state: State, client: int) -> State:
        local: Local = self._things[state.clients[client]]
        seen = local._replace(seen=(*local.seen, state.register))
        return self._go_on(self._with_client(state, client, seen), client)

    def _skip_unasked(self, state: State, client: int) -> State:
        """What the client asks for now goes to some only: nobody waits for the others."""
        number = state.clients[client]
        if not self._replaces or self._things[number].step == len(self._programs[client]):
            return state
        if self._verb(client, number) == "change":
            return state
        replies = [self._things[column].replies[client] for column in state.columns]
        asked = self._things[self._ask(client, number, state.columns, replies)]
        if not isinstance(asked, Asked) or asked.request == CHECK:
            return state
        columns = (self._things[column] for column in state.columns)
        skipped = (c if c.role in asked.of else _replied(c, client, self._skipped) for c in columns)
        return state._replace(columns=tuple(sorted(map(self._numbers.of, skipped))))

    def _outages(
        self, state: State, distinct: Sequence[int], client: int, request: int
    ) -> Iterator[tuple[Label, State]]:
        columns = [self._things[number] for number in state.columns]
        if any(column.replies[client] or client in column.down_for for column in columns):
            return  # its step has begun
        for place in distinct:
            down = self._numbers.of(columns[place]._replace(down_for=columns[place].down_for | {client}))
            after = self._with(state, place, down)._replace(outages=state.outages - 1)
            yield Label("is down for", client, request, place), after

    def _message(self, state: State, place: int, client: int, request: int) -> Iterator[tuple[Label, State]]:
        column: Column = self._things[state.columns[place]]
        if client in column.down_for:
            refused = self._numbers.of(_replied(column, client, self._refused))
            label = Label("is refused", client, request, place)
            yield label, self._go_on(self._with(state, place, refused), client)
            return
        after = self._arrived(state.columns[place], client, request, False)
        label = Label("arrives", client, request, place)
        yield label, self._go_on(self._with(state, place, after), client)
        if state.timeouts:
            after = self._arrived(state.columns[place], client, request, True)
            timed_out = self._with(state, place, after)._replace(timeouts=state.timeouts - 1)
            yield label._replace(text="times out"), self._go_on(timed_out, client)

    def _crash(self, state: State, client: int, request: int, answered: int) -> State:
        left = self._leave_behind(state, client, request, answered)
        after = self._forget(left._replace(crashes=state.crashes - 1), client)
        local = self._things[state.clients[client]]
        return self._begin(after, client, Local(local.step + 1, lives=local.lives + 1))

    def _leave_behind(self, state: State, client: int, request: int, answered: int) -> State:
        """The client waits no longer for who has not answered this request."""
        left = []
        for number in state.columns:
            column: Column = self._things[number]
            if len(column.replies[client]) == answered:
                number = self._numbers.of(
                    _replied(column, client, self._left)
                    if client in column.down_for
                    else self._not_heard(column, client, request, self._left)
                )
            left.append(number)
        return state._replace(columns=tuple(sorted(left)))

    def _goes_on_early(
        self, state: State, client: int, request: int, answered: int
    ) -> Iterator[tuple[Label, State]]:
        """If some have answered, and they are enough, it may go on before the others have."""
        replies = [self._things[number].replies[client] for number in state.columns]
        if len({len(answers) for answers in replies}) == 1:
            return
        asked = self._things[self._ask(client, state.clients[client], state.columns, replies)]
        if not isinstance(asked, Asked) or asked.number > answered:
            left = self._leave_behind(state, client, request, answered)
            after = left._replace(goings_on=state.goings_on - 1)
            yield Label("goes on", client, request, 0), self._go_on(after, client)

    def _go_on(self, state: State, client: int) -> State:
        """Run the client on, if all its messages are answered, to what it asks next."""
        replies = [self._things[number].replies[client] for number in state.columns]
        if len({len(answers) for answers in replies}) > 1:
            return state
        local: Local = self._things[state.clients[client]]
        asked = self._things[self._ask(client, state.clients[client], state.columns, replies)]
        if isinstance(asked, Asked):
            return self._skip_unasked(state, client)
        state = self._forget(state, client)
        known = (local.known, *local.seen)[-1]
        if asked.verdict is None and local.attempt + 1 < self._limits.attempts:
            again = local._replace(
                attempt=local.attempt + 1,
                needs_ballot=asked.needs_ballot,
                counter=asked.counter,
                known=known,
                seen=(),
            )
            return self._skip_unasked(self._with_client(state, client, again), client)
        verb, token = self._programs[client][local.step]
        self._judge(verb, token, asked.verdict, state, local)
        if asked.verdict == Won() and token in self._cleared_tokens:
            state = state._replace(won=state.won | {token})
        if asked.verdict == CLEARED:
            state = state._replace(cleared=state.cleared | {token})
        if verb == "copy" and asked.verdict is None:  # then the new store must not be put in use
            return self._begin(state, client, Local(len(self._programs[client]), known=known))
        return self._begin(state, client, Local(local.step + 1, lives=local.lives, known=known))

    def _begin(self, state: State, client: int, local: Local) -> State:
        up = [self._things[n]._replace(down_for=self._things[n].down_for - {client}) for n in state.columns]
        state = state._replace(columns=tuple(sorted(map(self._numbers.of, up))))
        for verb, token in self._programs[client][local.step :]:
            # Only what was won is in the output, and only that is ever cleared.
            if verb != "clear" or token in state.won:
                break
            local = local._replace(step=local.step + 1)
        if local.step == len(self._programs[client]):
            return self._with_client(state, client, Local(local.step))
        values = self._chosen_in(state)
        is_cleared = self._programs[client][local.step][1] in state.cleared
        begun = local._replace(since=values[-1][0] if values else "", is_cleared=is_cleared)
        return self._skip_unasked(self._with_client(state, client, begun), client)

    # -- the product

    def _ask(self, client: int, local: int, columns: tuple[int, ...], replies: list[tuple[int, ...]]) -> int:
        """What the client asks for next after these replies, or how its attempt ended."""
        roles = tuple(self._things[number].role for number in columns) if self._replaces else ()
        key = (client, local, roles, *replies)
        if key not in self._asked:
            things = [[self._things[number] for number in answers] for answers in replies]
            try:
                asked: Asked | Ended = self._attempts.run(client, self._things[local], roles, things)
            except Waits as waits:
                asked = waits.asked
            self._asked[key] = self._numbers.of(asked)
        return self._asked[key]

    # -- what must hold

    def _judge(self, verb: Verb, token: str, verdict: object, state: State, local: Local) -> None:
        if self._is_forgotten(state):
            problem = wrong_below_the_boundary(token, verdict, [value for _, value in state.chosen_before])
        else:
            values = [value for ballot, value in self._chosen_in(state) if ballot >= local.since]
            problem = wrong_verdict(verb, token, verdict, values, local.is_cleared)
        if problem:
            raise _Wrong(problem)

    def _is_forgotten(self, state: State) -> bool:
        """Whether the id is below the boundary: what is stored from then on is read by nobody."""
        return self._collects and state.register > 0

    def _with(self, state: State, place: int, after: int) -> State:
        before = state.columns[place]
        columns = tuple(sorted((*state.columns[:place], after, *state.columns[place + 1 :])))
        now = state._replace(columns=columns)
        if self._things[after].taken != self._things[before].taken and not self._is_forgotten(state):
            problem = chain_problem(value for _, value in self._chosen_in(now))
            if problem:
                raise _Wrong(problem)
        return now

    def _chosen_in(self, state: State) -> list[Acceptance]:
        """What the stores have chosen that are in their slots, and those before them had."""
        columns = [self._things[number] for number in state.columns]
        out = "replaced" if state.register else "replacing"
        taken = tuple(column.taken for column in columns if column.role != out)
        key = (taken, state.chosen_before)
        if key not in self._chosen:
            now = chosen([self._things[number] for number in taken], self._n)
            self._chosen[key] = sorted(
                {*now, *state.chosen_before}, key=lambda a: (a[0], a[1].startswith("C:"))
            )
        return self._chosen[key]

    # -- endpoints

    def _arrived(self, column: int, client: int | None, request: int, times_out: bool) -> int:
        """The column after a client's request, or one that was late (None), arrived or timed out there."""
        key = (column, client, request, times_out)
        if key not in self._after:
            self._after[key] = self._numbers.of(
                self._arrival(self._things[column], client, request, times_out)
            )
        return self._after[key]

    def _arrival(self, column: Column, client: int | None, request: int, times_out: bool) -> Column:
        if times_out:
            assert client is not None
            return self._not_heard(column, client, request, self._timed_out)
        stored, reply = self._apply(column.stored, request)
        after = column._replace(stored=stored, taken=self._taken(column.taken, stored))
        if client is not None:
            return _replied(after, client, reply)
        place = column.late.index(request)
        return after._replace(late=column.late[:place] + column.late[place + 1 :])

    def _not_heard(self, column: Column, client: int, request: int, reply: int) -> Column:
        is_read = self._things[request].kind in ("read", "scan_shard")
        late = column.late if is_read else tuple(sorted((*column.late, request)))
        return _replied(column, client, reply)._replace(late=late)

    def _taken(self, taken: int, stored: int) -> int:
        now: Stored | None = self._things[stored]
        if now is None or now.value is None:
            return taken
        return self._numbers.of(self._things[taken] | {(now.accepted, now.value)})

    def _apply(self, stored: int, request: int) -> tuple[int, int]:
        key = (stored, request)
        if key not in self._applied:
            before, (kind, query) = self._things[stored], self._things[request]
            acceptor = FaultyStore(ManualClock())
            if before is not None:
                acceptor.items[ITEM] = before
            if kind == "scan_shard":
                reply = acceptor.scan_shard(*query)
            else:
                (reply,) = getattr(acceptor, kind)([query])
            after = acceptor.items.get(ITEM)
            problem = step_problem(before or Stored(), after or Stored())
            if problem:
                raise _Wrong(problem)
            self._applied[key] = (self._numbers.of(after), self._numbers.of(reply))
        return self._applied[key]

    # -- parts

    def _with_client(self, state: State, client: int, local: Local) -> State:
        number = self._numbers.of(local)
        return state._replace(clients=(*state.clients[:client], number, *state.clients[client + 1 :]))

    def _forget(self, state: State, client: int) -> State:
        """Its attempt is over: the replies to it no longer matter."""
        columns = (_replied(self._things[number], client, None) for number in state.columns)
        return state._replace(columns=tuple(sorted(self._numbers.of(column) for column in columns)))

    def _way_to(self, state: State, came_from: dict[State, tuple[State, Label] | None]) -> tuple[str, ...]:
        lines: list[str] = []
        step = came_from[state]
        while step is not None:
            state, label = step
            who = "an earlier message" if label.client is None else f"client {label.client}"
            lines.append(f"{who}, endpoint {label.column}, {label.text}: {self._things[label.request]}")
            step = came_from[state]
        return tuple(reversed(lines))


def _replied(column: Column, client: int, reply: int | None) -> Column:
    """With one more reply to the client; None: its attempt is over."""
    so_far = () if reply is None else (*column.replies[client], reply)
    return column._replace(replies=(*column.replies[:client], so_far, *column.replies[client + 1 :]))
