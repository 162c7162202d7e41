"""Publishing and reading the marks of epochs (protocol A16).

One item an epoch, so that nobody waits for anybody: an accept without a prepare, for a mark stays true.
Where there are several stores each write tells how far all of them are, and passes over one that was put
back: so what shows that stays until somebody has seen it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from photon.ledger.errors import no_answer
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Accept, Stored
from photon.registry.consensus.decisions import ballot, majority, next_counter, votes_of
from photon.registry.consensus.marks import (
    NO_MARK,
    Mark,
    counter_of,
    encode_mark,
    greatest_mark,
    mark_key,
    seen_in,
    slots_put_back,
)
from photon.registry.consensus.quorums import all_of_them, answered, count_answers, prompt_ones, voted
from photon.registry.endpoints.endpoints import ActiveEndpoints, Endpoints
from photon.registry.quorum.register_store import RegisterStore


class MarkStore:
    """The marks of all epochs. Methods raise RegistryUnavailable if no majority answers in time."""

    def __init__(self, endpoints: Endpoints, register: RegisterStore, settings: Registry) -> None:
        self._endpoints = endpoints
        self._register = register
        self._deadline_seconds = settings.total_timeout.total_seconds()
        self._proposer = endpoints.new_proposer()
        self._counters: dict[str, int] = {}  # by epoch: of the next ballot

    def publish(self, epoch: str, mark: Mark) -> None:
        """Have a majority store the mark of an epoch: one write at each endpoint, and a read if several."""
        n = self._endpoints.n
        with self._endpoints.call(self._deadline_seconds) as deadline:
            if epoch not in self._counters:
                self.read([epoch])
            while True:
                slots, seen = self._look(epoch) if n > 1 else (None, {})
                own = ballot(self._counters[epoch], self._proposer)
                accept = Accept(mark_key(epoch), own, encode_mark(mark, seen))
                asked = None if slots is None else {slot: [0] for slot in slots}
                (replies,) = self._endpoints.accept([accept], voted(n), asked=asked)
                votes = votes_of(replies)
                # A repair, or another process of this epoch, has written at a higher ballot.
                self._counters[epoch] = max(self._counters[epoch] + 1, next_counter(votes.refused))
                if votes.accepted >= majority(n):
                    return
                if not deadline.pause():
                    raise no_answer(votes.reason)
                self._register.read_once()  # which endpoints are in use may have changed since

    def attest(self, epoch: str) -> None:
        """Have the stores tell of each other that they have the mark as it is, where there are several."""
        if self._endpoints.n > 1 and (mark := self.read([epoch])[epoch]) != NO_MARK:
            self.publish(epoch, mark)

    def put_back(self, epochs: Collection[str]) -> list[int]:
        """The slots of stores that were put back from a copy, as the marks of these live epochs show.

        RegistryUnavailable while the members change.
        """
        if not epochs or self._endpoints.n == 1:
            return []
        active = self._endpoints.active
        with self._endpoints.call(self._deadline_seconds):
            each = self._endpoints.read([mark_key(name) for name in epochs], all_of_them)
        if self._endpoints.active is not active:
            raise no_answer("the registry's endpoints are just being changed")
        stores = _stores(active)
        return sorted({slot for replies in each for slot in slots_put_back(replies, stores)})

    def _look(self, epoch: str) -> tuple[Sequence[int], dict[str, int]]:
        """Which slots to write to, and how far each store was seen to be."""
        active = self._endpoints.active
        (replies,) = self._endpoints.read([mark_key(epoch)], prompt_ones)
        if self._endpoints.active is not active:
            return (), {}
        counters = {slot: counter_of(r) for slot, r in enumerate(replies) if isinstance(r, Stored)}
        self._counters[epoch] = max(self._counters[epoch], 1 + max(counters.values(), default=0))
        stores = _stores(active)
        back = slots_put_back(replies, stores)
        sound = {slot: counter for slot, counter in counters.items() if slot not in back}
        told = {store: counter for store, counter in seen_in(replies).items() if store in stores}
        return list(sound), {**told, **{stores[slot]: counter for slot, counter in sound.items() if counter}}

    def read(self, epochs: Collection[str]) -> dict[str, Mark]:
        """The mark of each of these epochs, as it was at a moment after the call began or later."""
        if not epochs:
            return {}
        names, q = list(epochs), majority(self._endpoints.n)
        with self._endpoints.call(self._deadline_seconds) as deadline:
            while True:
                each = self._endpoints.read([mark_key(name) for name in names], answered(q))
                if all(count_answers(replies) >= q for replies in each):
                    break
                if not deadline.pause():
                    raise no_answer("too few endpoints answered")
                self._register.read_once()
        for name, replies in zip(names, each, strict=True):
            counter = next_counter(reply for reply in replies if isinstance(reply, Stored))
            self._counters[name] = max(self._counters.get(name, 0), counter)
        return {name: greatest_mark(replies) for name, replies in zip(names, each, strict=True)}


def _stores(active: ActiveEndpoints) -> Sequence[str]:
    """The name of the store in each slot."""
    named = active.members.incarnations if active.members is not None else ()
    unnamed = [f"slot{slot}" for slot in range(len(active.acceptors))]
    return [*named, *unnamed[len(named) :]]
