"""Clearing of ids: each copy of a token that is in the output is replaced by its owner's name (protocol B6).

Every endpoint is asked and waited for: what is left at one that answers would be left for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from photon.registry.consensus.acceptor import Done, NoReply, ReadReply, Replace, Stored
from photon.registry.consensus.decisions import majority, reason_of, value_to_clear
from photon.registry.consensus.layout import (
    Cleared,
    Held,
    ItemKey,
    datacenter_of,
    decode_value,
    encode_value,
    is_cleared,
)
from photon.registry.consensus.quorums import all_of_them
from photon.registry.quorum.contender import Contender
from photon.registry.quorum.rounds import Rounds


@dataclass
class _Copies:
    """A token to be cleared: the values that hold it, and the slots known to have its owner's name."""

    contender: Contender
    held: tuple[str, ...]
    cleared_at: set[int]

    def are_known_to_few(self, n: int) -> bool:
        """Whether there is anything to clear, and fewer than a majority are known to have it cleared."""
        return bool(self.held or self.cleared_at) and len(self.cleared_at) < majority(n)


class Clearing:
    """Single attempts at clearing over the endpoints of these rounds."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._endpoints = rounds.endpoints

    def clear(self, contenders: Sequence[Contender]) -> tuple[set[ItemKey], list[Contender]]:
        """Replace tokens by their owner's name: what changed, and which have to be asked again."""
        began_with = self._endpoints.active
        changed, answered = self._replace_copies(self._find_copies(contenders))
        known = self._make_known(answered)
        if self._rounds.check(contenders, began_with) is None:
            return changed, list(contenders)
        return changed, [contender for contender in contenders if contender.item not in known]

    def _find_copies(self, contenders: Sequence[Contender]) -> list[_Copies]:
        """The copies of each token, where enough endpoints answer.

        Read first: a token may have been released, or is stored with what was released before it.
        """
        found: list[_Copies] = []
        answers = self._endpoints.read([contender.item for contender in contenders], all_of_them)
        for contender, replies in zip(contenders, answers, strict=True):
            contender.outbid(reply for reply in replies if isinstance(reply, Stored))
            if self._is_to_be_repeated(replies):
                contender.reason = reason_of(replies)
            else:
                found.append(_copies_of(contender, replies))
        return found

    def _replace_copies(self, found: Sequence[_Copies]) -> tuple[set[ItemKey], list[_Copies]]:
        """Replace each copy where it is: the items that changed, and where enough endpoints answered."""
        # Endpoints may have it with different histories, and a request names an item once (B7).
        waves: dict[int, list[tuple[_Copies, str]]] = {}
        for copies in found:
            for number, value in enumerate(copies.held):
                waves.setdefault(number, []).append((copies, value))
        changed: set[ItemKey] = set()
        unanswered: set[ItemKey] = set()
        for wave in waves.values():
            answers = self._endpoints.replace(
                [Replace(c.contender.item, old, _cleared(c.contender.claim.token)) for c, old in wave],
                all_of_them,
            )
            for (copies, _), replies in zip(wave, answers, strict=True):
                done = {slot for slot, reply in enumerate(replies) if isinstance(reply, Done)}
                copies.cleared_at |= done
                if done:
                    changed.add(copies.contender.item)
                if self._is_to_be_repeated(replies):
                    copies.contender.reason = reason_of(replies)
                    unanswered.add(copies.contender.item)
        return changed, [copies for copies in found if copies.contender.item not in unanswered]

    def _make_known(self, answered: Sequence[_Copies]) -> set[ItemKey]:
        """Have each owner's name at a majority, or chosen by a classic round: the items where it is so.

        Else nobody would see it while the few endpoints that have it are away, and the token would win
        again (B6).
        """
        few = [copies.contender for copies in answered if copies.are_known_to_few(self._endpoints.n)]
        if few:
            self._rounds.classic(few, value_to_clear, to_the_end=True)
        unknown = {contender.item for contender in few if contender.verdict is None}
        return {copies.contender.item for copies in answered} - unknown

    def _is_to_be_repeated(self, replies: Sequence[object]) -> bool:
        """Whether to clear again. A minority that is down keeps its tokens, which does no harm (B6)."""
        silent = [reply for reply in replies if isinstance(reply, NoReply)]
        too_few = len(replies) - len(silent) < majority(self._endpoints.n)
        return too_few or any(reply.kind in ("unclear", "throttled") for reply in silent)


def _copies_of(contender: Contender, replies: Sequence[ReadReply]) -> _Copies:
    """The copies of a token; none of one that was released: another may hold the id by now."""
    token = contender.claim.token
    texts = {slot: r.value for slot, r in enumerate(replies) if isinstance(r, Stored) and r.value is not None}
    values = {text: decode_value(text) for text in texts.values()}
    if any(not isinstance(value, Cleared) and token in value.released for value in values.values()):
        return _Copies(contender, (), set())
    held = (text for text, value in values.items() if isinstance(value, Held) and value.token == token)
    return _Copies(contender, tuple(sorted(held)), {slot for slot, text in texts.items() if is_cleared(text)})


def _cleared(token: str) -> str:
    return encode_value(Cleared(datacenter_of(token)))
