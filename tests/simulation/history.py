"""A checker of histories: whether what a registry told its clients can be true.

It shares no code with the registry. It knows only who asked what, from when to when, and the answer. It
checks one id at a time, without a time or above the boundary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from photon.registry.interface import BeyondHorizon, Fenced, Free, Joined, Lost, Released, TooOld, Won

Kind = Literal["commit", "release", "lookup", "clear"]
Answer = Literal[
    "won",
    "lost",
    "released",
    "joined",
    "free",
    "cleared",
    "too old",
    "beyond the horizon",
    "fenced",
    "unknown",
]

_NAMES_A_HOLDER = ("lost", "joined")


@dataclass(frozen=True, slots=True)
class Operation:
    """One call about one id. Times are of one common clock, in any unit.

    `answer` is "unknown" and `end` infinite where the caller got none. `holder` is the token that a "lost"
    or "joined" names, or, after clearing, only its datacenter followed by a colon.
    `undisturbed`: no request of the call was lost, late or refused for want of an endpoint. `may_be_refused`:
    by its end a boundary above the event had been raised, or at its begin no horizon was.
    """

    kind: Kind
    id: str
    token: str
    begin: float
    end: float
    answer: Answer
    holder: str = ""
    undisturbed: bool = False
    may_be_refused: bool = False

    def __str__(self) -> str:
        named = f" ({self.holder})" if self.holder else ""
        return f"{self.kind} {self.id} {self.token} [{self.begin}, {self.end}]: {self.answer}{named}"


def in_words(outcome: object) -> tuple[Answer, str]:
    """An outcome of a call ("cleared" for one of clearing) as an answer, and the holder that it names."""
    match outcome:
        case Won():
            return "won", ""
        case Lost(holder):
            return "lost", holder.token or f"{holder.datacenter}:"
        case Joined(holder):
            return "joined", holder.token or f"{holder.datacenter}:"
        case Released():
            return "released", ""
        case Free():
            return "free", ""
        case TooOld():
            return "too old", ""
        case BeyondHorizon():
            return "beyond the horizon", ""
        case Fenced():
            return "fenced", ""
        case "cleared":
            return "cleared", ""
    return "unknown", ""


@dataclass(frozen=True, slots=True)
class _Held:
    """An answer from which follows that `token` held the id at some moment between begin and end."""

    token: str  # a whole token, or a datacenter and a colon
    begin: float
    end: float
    said_by: Operation


def problems(operations: Iterable[Operation]) -> list[str]:
    """What can't be true in this history, in words; empty if nothing was found."""
    by_id: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        by_id[operation.id].append(operation)
    rules: tuple[Callable[[Sequence[Operation]], Iterator[str]], ...] = (
        _one_holder_between_releases,
        _holders_have_tried,
        _released_is_for_ever,
        _cleared_is_for_ever,
        _a_winner_is_seen,
        _nothing_is_refused_without_cause,
    )
    return [problem for history in by_id.values() for rule in rules for problem in rule(history)]


def _one_holder_between_releases(history: Sequence[Operation]) -> Iterator[str]:
    """Two that held an id: the earlier one was released, and not after the later one was seen to hold it.

    Of two answers that overlap either may be the earlier one.
    """
    seen = sorted(_holdings(history), key=lambda held: held.begin)
    release_begins = _release_begins(history)
    for index, one in enumerate(seen):
        for other in seen[index + 1 :]:
            if _may_be_same(one.token, other.token):
                continue
            in_order = _first_release(release_begins, one.token) <= other.end
            reversed_order = other.begin <= one.end and _first_release(release_begins, other.token) <= one.end
            if not in_order and not reversed_order:
                yield f"two held the id without a release between: <{one.said_by}> and <{other.said_by}>"


def _holders_have_tried(history: Sequence[Operation]) -> Iterator[str]:
    for operation in history:
        if operation.answer in _NAMES_A_HOLDER and not any(
            other.kind == "commit" and other.begin <= operation.end and _names(operation.holder, other.token)
            for other in history
        ):
            yield f"the holder had not tried to register the id: <{operation}>"
        if operation.answer == "lost" and operation.holder == operation.token:
            yield f"a token lost to itself: <{operation}>"


def _released_is_for_ever(history: Sequence[Operation]) -> Iterator[str]:
    ends: dict[str, float] = {}
    for operation in history:
        if operation.answer == "released":
            ends[operation.token] = min(operation.end, ends.get(operation.token, operation.end))
    for held in _holdings(history):
        if held.begin > ends.get(held.token, float("inf")):
            yield f"a token held the id after it was released: <{held.said_by}>"


def _cleared_is_for_ever(history: Sequence[Operation]) -> Iterator[str]:
    for cleared in (operation for operation in history if operation.answer == "cleared"):
        for later in (operation for operation in history if operation.begin > cleared.end):
            if later.answer in ("won", "released"):
                yield f"an id that was cleared was let in or released: <{cleared}> and <{later}>"


def _a_winner_is_seen(history: Sequence[Operation]) -> Iterator[str]:
    """After a win a lookup does not say "free".

    Only where nothing was disturbed and all calls before it had ended: with endpoints out of reach an
    undecided id counts as free, and the next commit decides it.
    """
    release_begins = _release_begins(history)
    for lookup in (o for o in history if o.answer == "free" and o.undisturbed):
        before = [o for o in history if o.begin <= lookup.end and o is not lookup]
        if not all(o.undisturbed and o.end < lookup.begin and o.answer != "unknown" for o in before):
            continue
        for win in before:
            if win.answer == "won" and _first_release(release_begins, win.token) > lookup.end:
                yield f"an id that somebody held was called free: <{win}> and <{lookup}>"


def _nothing_is_refused_without_cause(history: Sequence[Operation]) -> Iterator[str]:
    """Who refuses an event loses it: nobody joins what is too old, or beyond the horizon for good."""
    for operation in history:
        if operation.answer in ("too old", "beyond the horizon") and not operation.may_be_refused:
            yield f"an event was refused without cause: <{operation}>"


def _holdings(history: Sequence[Operation]) -> Iterator[_Held]:
    for operation in history:
        if operation.answer == "won":
            yield _Held(operation.token, operation.begin, operation.end, operation)
        elif operation.answer in _NAMES_A_HOLDER:
            yield _Held(operation.holder, operation.begin, operation.end, operation)


def _release_begins(history: Sequence[Operation]) -> dict[str, float]:
    begins: dict[str, float] = {}
    for operation in history:
        if operation.kind == "release":
            begins[operation.token] = min(operation.begin, begins.get(operation.token, operation.begin))
    return begins


def _first_release(begins: dict[str, float], token: str) -> float:
    return min((begin for other, begin in begins.items() if _names(token, other)), default=float("inf"))


def _names(holder: str, token: str) -> bool:
    return token.startswith(holder) if holder.endswith(":") else token == holder


def _may_be_same(one: str, other: str) -> bool:
    return _names(one, other) or _names(other, one)
