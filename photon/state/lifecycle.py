"""The life of a plan: its states, what moves it from one to the next, and how often it is attempted.

All of it is pure. `photon.dispatcher.batch` does what each state asks for, and tells here what came of it.
The table is in ARCHITECTURE.md, and a test compares both.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import Enum

ATTEMPTS = 3  # a plan is abandoned after so many that did not return (protocol A17)
# A piece of an abandoned plan has fewer: something in that plan is known to be bad.
PIECE_ATTEMPTS = 2


class PlanState(Enum):
    """Where a plan stands, and what is to be done with it."""

    READY = "run its tasks, commit and complete it"
    WAITING = "wait with backoff"
    UNSURE = "ask the table whether it has the batch"
    COMMITTED = "read it back: close it, complete it, queue its work again"
    PASSED = "take it: close its side tables and ids, complete it, queue its work again"
    DOOMED = "abandon it: commit it empty, close it, complete it, queue its work in halves"
    COMPLETED = "nothing: the next plan may come"
    LEFT_OPEN = "nothing: the next start goes on with it"
    HALTED = "end the process with the adapter's first error; the next start goes on with it"
    SUPERSEDED = "end the process"


FINAL = frozenset({PlanState.COMPLETED, PlanState.LEFT_OPEN, PlanState.HALTED, PlanState.SUPERSEDED})


class Event(Enum):
    """How an attempt at the plan ended."""

    ENDED = "it is completed"
    UNAVAILABLE = "registry, lake, state or workers are unavailable, or the commit met another one"
    TIMED_OUT = "a task took longer than its deadline"
    RUNNER_DIED = "its Spark session died, and there is a new one"
    FAILED = "a task failed on its records, its worker died, or its rows don't fit the table"
    ADAPTER_FAILED = "the adapter fails on more than a share of the pairs"
    WAITED = "the wait is over"
    STOPPED = "a stop was requested"
    NOT_COMMITTED = "the table is at the batch before"
    HAS_COMMITTED = "the table has the batch, of this plan"
    PASSED_OVER = "others have committed the batch without rows, while this process was silent"
    BY_ANOTHER = "the table has it of another plan, is beyond it, or lacks the batch before"


# The fault is in the records, the adapter, a worker or the machine: nobody waits for something else.
OWN_FAILURES = (Event.TIMED_OUT, Event.RUNNER_DIED, Event.FAILED)
# Events that keep an attempt from ending.
FAILURES = (*OWN_FAILURES, Event.UNAVAILABLE, Event.ADAPTER_FAILED, Event.PASSED_OVER, Event.BY_ANOTHER)

TRANSITIONS: dict[tuple[PlanState, Event], PlanState] = {
    (PlanState.READY, Event.ENDED): PlanState.COMPLETED,
    (PlanState.READY, Event.UNAVAILABLE): PlanState.WAITING,
    (PlanState.READY, Event.TIMED_OUT): PlanState.WAITING,
    (PlanState.READY, Event.RUNNER_DIED): PlanState.WAITING,
    (PlanState.READY, Event.FAILED): PlanState.DOOMED,
    (PlanState.READY, Event.ADAPTER_FAILED): PlanState.HALTED,
    (PlanState.WAITING, Event.WAITED): PlanState.UNSURE,
    (PlanState.WAITING, Event.STOPPED): PlanState.LEFT_OPEN,
    (PlanState.UNSURE, Event.NOT_COMMITTED): PlanState.READY,  # or DOOMED, if it is known to be
    (PlanState.UNSURE, Event.HAS_COMMITTED): PlanState.COMMITTED,
    (PlanState.UNSURE, Event.PASSED_OVER): PlanState.PASSED,
    (PlanState.UNSURE, Event.BY_ANOTHER): PlanState.SUPERSEDED,
    (PlanState.UNSURE, Event.UNAVAILABLE): PlanState.WAITING,
    (PlanState.COMMITTED, Event.ENDED): PlanState.COMPLETED,
    (PlanState.COMMITTED, Event.UNAVAILABLE): PlanState.WAITING,
    (PlanState.PASSED, Event.ENDED): PlanState.COMPLETED,
    (PlanState.PASSED, Event.UNAVAILABLE): PlanState.WAITING,
    (PlanState.DOOMED, Event.ENDED): PlanState.COMPLETED,
    (PlanState.DOOMED, Event.UNAVAILABLE): PlanState.WAITING,
}


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts at one plan. It is stored before each begins, and when one ends."""

    begun: int = 1
    under_way: bool = True
    died: int = 0  # the dispatcher's process died in them, or its Spark session
    timed_out: int = 0

    def next(self) -> Attempts:
        return replace(self, begun=self.begun + 1, under_way=True)

    def ended(self, died: int = 0, timed_out: int = 0) -> Attempts:
        """After an attempt. One that waits for registry, lake, state or adapter counts for nothing."""
        return replace(self, under_way=False, died=self.died + died, timed_out=self.timed_out + timed_out)

    def again(self) -> Attempts:
        """Return what the next plan of the same work begins with: what was lost stays lost."""
        return Attempts(died=self.died, timed_out=self.timed_out)

    def why_no_more(self, is_piece: bool) -> str | None:
        """Why the plan is not attempted again; None: it is. `is_piece`: of a plan that was abandoned."""
        lost = self.died + self.timed_out
        if lost < (PIECE_ATTEMPTS if is_piece else ATTEMPTS) and not (is_piece and self.timed_out):
            return None
        died = f"the process or its Spark session died in {self.died}"
        timed_out = f"a task exceeded its deadline in {self.timed_out}"
        return f"attempts that did not return: {lost} ({died}, {timed_out})"


@dataclass(frozen=True, slots=True)
class Life:
    """A plan's state, with what is known of its attempts."""

    state: PlanState
    attempts: Attempts
    is_piece: bool = False
    doom: str | None = None  # why each further attempt would end as the last ones did

    @property
    def ran_before(self) -> bool:
        """Whether an earlier attempt may have stored, claimed and committed something."""
        return self.attempts.begun > 1

    @property
    def is_first(self) -> bool:
        """Whether nothing is known against it, so that other work may be done beside it."""
        return not (self.ran_before or self.is_piece)

    @property
    def is_suspect(self) -> bool:
        """Whether one of its records may be one that hangs: each call of the adapter gets a deadline then."""
        return self.is_piece or self.attempts.timed_out > 0


def new_life(is_piece: bool, attempts: Attempts = Attempts()) -> Life:
    """The life of a plan that was just stored, with its first attempt, and those that its work has lost."""
    return Life(PlanState.READY, attempts, is_piece)


def found_open(attempts: Attempts, is_piece: bool, died: bool) -> Life:
    """The life of a plan that is found open; `died`: its process is not the one that finds it."""
    if attempts.under_way:
        attempts = attempts.ended(died=int(died))
    return Life(PlanState.UNSURE, attempts, is_piece, attempts.why_no_more(is_piece))


def after(life: Life, event: Event, reason: str = "") -> Life:
    """The life after an event, for this reason."""
    state, attempts, doom = TRANSITIONS[life.state, event], life.attempts, life.doom
    if life.state is PlanState.READY:
        timed_out, died = event is Event.TIMED_OUT, event is Event.RUNNER_DIED
        attempts = attempts.ended(int(died), int(timed_out))
    if event is Event.FAILED:
        doom = reason
    if event in (Event.TIMED_OUT, Event.RUNNER_DIED) and (no_more := attempts.why_no_more(life.is_piece)):
        doom = f"{no_more}; the last time: {reason}"
    if event is Event.NOT_COMMITTED and doom is not None:
        state = PlanState.DOOMED
    if state is PlanState.READY:
        attempts = attempts.next()
    return replace(life, state=state, attempts=attempts, doom=doom)


def attempts_to_json(attempts: Attempts) -> str:
    """The stored form of the attempts."""
    return json.dumps(asdict(attempts))


def attempts_from_json(text: str) -> Attempts:
    """The inverse of `attempts_to_json`."""
    return Attempts(**json.loads(text))
