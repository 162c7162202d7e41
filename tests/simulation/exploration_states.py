"""What an exploration knows at one moment: endpoints, clients, and what may still go wrong.

Immutable and quick to hash, because there are many states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

# `promise`: a commit whose inserts promise a ballot. The others are an operator's: `change` puts the next
# register in force, `copy` is what a repair does to fill a new store.
Verb = Literal["commit", "promise", "release", "lookup", "clear", "change", "copy"]
CLEARED, FREE = "cleared", "free"
COPIED = "copied"
# What a store is: in its slot all the time, or until a repair takes the slot out of use, or after it.
Role = Literal["member", "replaced", "replacing"]
Step = tuple[Verb, str]  # what a client does, and the token


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds an exploration."""

    timeouts: int = 1  # messages that are lost, or whose answers are, or that are late
    outages: int = 0  # an endpoint is down for one client during one step
    crashes: int = 0  # a client stops within a step and begins its next one as a new process
    goings_on: int = 0  # a client goes on before all have answered; what it sent is on its way
    attempts: int = 3  # of a client at one step
    states: int = 2_000_000


@dataclass(frozen=True, slots=True)
class Explored:
    """What was found: how many states there are, and the first problem with the way there."""

    states: int
    problem: str | None = None
    trace: tuple[str, ...] = ()


class Column(NamedTuple):
    """One endpoint. An `int` here is the number of something in `Numbers`: those are quick to hash."""

    stored: int  # what it has: Stored, or None
    taken: int  # all that it ever took: frozenset of acceptances
    late: tuple[int, ...]  # requests that may still arrive, sorted
    replies: tuple[tuple[int, ...], ...]  # to each client, in its present attempt
    down_for: frozenset[int] = frozenset()  # clients, during their present step
    role: Role = "member"


class Local(NamedTuple):
    """One client: its step, and what it keeps between attempts at it."""

    step: int = 0
    attempt: int = 0
    needs_ballot: bool = False
    counter: int = 1
    lives: int = 0
    since: str = ""  # ballot of the last value that was chosen when the step began
    is_cleared: bool = False  # its token was, when the step began
    known: int = 0  # the register that it read last, by its number
    seen: tuple[int, ...] = ()  # those that it has read in its present attempt


class State(NamedTuple):
    """All that matters for what can happen next."""

    columns: tuple[int, ...]  # sorted, for endpoints are alike
    clients: tuple[int, ...]
    timeouts: int
    outages: int
    crashes: int
    goings_on: int
    won: frozenset[str]  # tokens that were told so, as far as they are to be cleared
    cleared: frozenset[str]
    register: int = 0  # which one is in force
    chosen_before: frozenset[tuple[str, str]] = frozenset()  # before the first change of it


class Label(NamedTuple):
    """What happened on the way from one state to the next."""

    text: str
    client: int | None
    request: int
    column: int


class Ended(NamedTuple):
    """How an attempt ended: a verdict, or the position for the next one."""

    verdict: object | None
    needs_ballot: bool
    counter: int


class Numbers:
    """A number for each distinct thing, and back."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self.things: list[Any] = []

    def of(self, thing: Any) -> int:
        """The thing's number; the same for equal things."""
        number = self._numbers.setdefault(thing, len(self.things))
        if number == len(self.things):
            self.things.append(thing)
        return number
