"""The product's registry, broken in one place: for processes of their own, which call one of these first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from photon.registry.consensus import decisions
from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.decisions import FastReply
from photon.registry.consensus.layout import Held, decode_value, holder_of
from photon.registry.interface import Lost
from photon.registry.quorum import rounds


def take_lost_answers_for_losses() -> None:
    """What is there already is somebody else's, our own token included (protocol B2)."""
    right = rounds.decide_fast

    def wrong(token: str, replies: Sequence[FastReply], n: int) -> Any:
        for reply in replies:
            if isinstance(reply, Stored) and reply.value is not None:
                value = decode_value(reply.value)
                if isinstance(value, Held) and value.token == token:
                    return Lost(holder_of(value))
        return right(token, replies, n)

    rounds.decide_fast = wrong


def win_with_a_majority_in_the_fast_round() -> None:
    """A majority of fast copies is taken for enough (protocol B3)."""
    decisions.fast_quorum = decisions.majority
