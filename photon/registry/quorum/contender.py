"""One claim on its way through the rounds: what it knows from one attempt to the next. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from photon.registry.consensus.acceptor import NoReply, Stored
from photon.registry.consensus.decisions import Verdict, Votes, next_counter
from photon.registry.consensus.layout import ItemKey
from photon.registry.consensus.register import Register
from photon.registry.interface import Claim

MEMBERS_MOVED = "the registry's endpoints have changed"


@dataclass
class Contender:
    """One claim on its way through the rounds."""

    claim: Claim
    item: ItemKey
    needs_ballot: bool = False
    counter: int = 1  # of the next ballot: above all that were seen
    verdict: Verdict | None = None
    confirmed_by: Register | None = None  # read after the replies on which the verdict rests (B11)
    reason: str = "no endpoint was asked"  # why there is no verdict yet
    is_outbid: bool = False  # somebody else's round came between, when it was last tried

    def outbid(self, stored: Iterable[Stored]) -> None:
        """Take a higher ballot than these the next time."""
        self.counter = max(self.counter, next_counter(stored))

    def note(self, votes: Votes) -> None:
        """Take note of votes that may not be enough."""
        self.outbid(votes.refused)
        self.is_outbid = bool(votes.refused)
        self.reason = votes.reason


def put_off(contenders: Sequence[Contender], register: Register | NoReply) -> None:
    """Have them try again: the register did not answer, or the members have moved."""
    for contender in contenders:
        if isinstance(register, NoReply):
            contender.reason = register.reason
        else:
            contender.reason, contender.needs_ballot = MEMBERS_MOVED, True


def undecided(contenders: Sequence[Contender]) -> list[Contender]:
    """Those without a verdict."""
    return [contender for contender in contenders if contender.verdict is None]


def one_of_each(
    contenders: Mapping[int, Contender],
) -> tuple[dict[int, Contender], dict[int, Contender]]:
    """The first contender for each item, in the order of items, and the others.

    Requests are cut from that order: one that writes neighbours touches one page of the store's tree, where
    100 scattered ids touch dozens. dynoxide commits 1.3 times as many.
    """
    first: dict[ItemKey, int] = {}
    for index, contender in contenders.items():
        first.setdefault(contender.item, index)
    indices = set(first.values())
    rest = {index: contender for index, contender in contenders.items() if index not in indices}
    return {first[item]: contenders[first[item]] for item in sorted(first)}, rest
