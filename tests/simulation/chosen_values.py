"""Which values a registry has chosen, seen from above: an observer that knows what every endpoint took.

It shares no threshold and no decision with `photon.registry.consensus.decisions`, so that a fault there
can't hide here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.layout import Cleared, Held, Tombstone, Value, datacenter_of, decode_value
from photon.registry.interface import Holder, Lost, Released, TooOld, Won

Acceptance = tuple[str, str]  # ballot (empty: the fast round) and value, as an endpoint took them once


def chosen(accepted: Sequence[Collection[Acceptance]], n: int) -> list[Acceptance]:
    """What enough endpoints took at one ballot, by ballot; `accepted` is all that each of the n ever took."""
    copies = Counter(acceptance for endpoint in accepted for acceptance in set(endpoint))
    enough = [a for a, count in copies.items() if count >= (_three_quarters(n) if a[0] == "" else n // 2 + 1)]
    return sorted(enough, key=lambda a: (a[0], a[1].startswith("C:")))


def _three_quarters(n: int) -> int:
    return -(-3 * n // 4)


def chain_problem(values: Iterable[str]) -> str | None:
    """What is wrong with a sequence of chosen values (protocol F3); None if each may follow the one before.

    What is released stays released, a holder goes only by being released, and what is cleared stays so.
    """
    before: Value | None = None
    for text in values:
        value = decode_value(text)
        if isinstance(value, Held) and value.token in value.released:
            return f"{value} was released before it was chosen"
        if before != value and not _may_follow(before, value):
            return f"{value} was chosen after {before}"
        before = value
    return None


def _may_follow(before: Value | None, after: Value) -> bool:
    match before, after:
        case None, _:
            return not isinstance(after, Cleared)
        case Held(token), Cleared(datacenter):
            return datacenter_of(token) == datacenter
        case ((Held(_, released) | Tombstone(released)), (Held() | Tombstone())):
            gone = set(released)
            if isinstance(before, Held) and not (isinstance(after, Held) and after.token == before.token):
                gone.add(before.token)
            return gone <= set(after.released)
    return False


def is_held_by(values: Iterable[str], holder: Holder) -> bool:
    """Whether one of these values was this holder's; with its token forgotten, its datacenter's."""
    for text in values:
        match decode_value(text):
            case Held(token) if token == holder.token or (
                holder.token is None and datacenter_of(token) == holder.datacenter
            ):
                return True
            case Cleared(datacenter) if holder.token is None and datacenter == holder.datacenter:
                return True
    return False


def is_released(values: Iterable[str], token: str) -> bool:
    """Whether one of these values says that the token was released."""
    decoded = [decode_value(text) for text in values]
    return any(isinstance(value, Held | Tombstone) and token in value.released for value in decoded)


def step_problem(before: Stored, after: Stored) -> str | None:
    """What is wrong with a change of one item at one endpoint (protocol F6)."""
    if after.promised < before.promised:
        return f"a promise fell from {before.promised} to {after.promised or 'nothing'}"
    if after.accepted < before.accepted:
        return f"an endpoint took a value at {after.accepted or 'the fast round'} after {before.accepted}"
    if after.accepted > after.promised:
        return f"a value is accepted at {after.accepted}, above the promise {after.promised}"
    return None


def wrong_verdict(
    verb: str, token: str, verdict: object, values: Sequence[str], is_cleared: bool
) -> str | None:
    """What is wrong with what a client was told, if these values were chosen since it asked."""
    match verdict:
        case TooOld():
            return f"{token} was told that it is too old, and no boundary is above it"
        case Won() if not is_held_by(values, Holder(datacenter_of(token), token)):
            return f"{token} was told that it won, but did not hold the id at that time"
        case Won() if is_cleared:
            return f"{token} won again after it was cleared"
        case Lost(holder) | (Holder() as holder) if not is_held_by(values, holder):
            return f"{verb} {token} was told of {holder}, who did not hold the id at that time"
        case Lost(Holder(token=holding)) if verb in ("commit", "promise") and holding == token:
            return f"{token} was told that it lost to itself"
        case Released() if not is_released(values, token):
            return f"{token} was told that it is released, but is not"
    return None


def wrong_below_the_boundary(token: str, verdict: object, values: Sequence[str]) -> str | None:
    """The same after a boundary was raised above the id; `values` were chosen before that."""
    if verdict == Won() and not is_held_by(values, Holder(datacenter_of(token), token)):
        return f"{token} won below the boundary"
    if verdict == "free" and values:
        return "an id was called free, and was registered before the boundary"
    return None
