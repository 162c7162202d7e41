"""One claim on its way through the rounds: what it knows from one attempt to the next. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    def outbid(self, stored: Iterable[Stored]) -> None:
        """Take a higher ballot than these the next time."""
        self.counter = max(self.counter, next_counter(stored))

    def note(self, votes: Votes) -> None:
        """Take note of votes that may not be enough."""
        self.outbid(votes.refused)
        self.reason = votes.reason


def put_off(contenders: Sequence[Contender], register: Register | NoReply) -> None:
    """Have them try again: the register did not answer, or the members have moved."""
    for contender in contenders:
        if isinstance(register, NoReply):
            contender.reason = register.reason
        else:
            contender.reason, contender.needs_ballot = MEMBERS_MOVED, True
