"""Publishing and reading the marks of epochs (protocol A16).

One item an epoch, so that nobody waits for anybody: an accept without a prepare, for a mark stays true.
"""

from __future__ import annotations

from collections.abc import Collection

from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Accept, Stored
from photon.registry.consensus.decisions import ballot, majority, next_counter, votes_of
from photon.registry.consensus.marks import Mark, encode_mark, greatest_mark, mark_key
from photon.registry.consensus.quorums import answered, count_answers, voted
from photon.registry.endpoints.endpoints import Endpoints
from photon.registry.interface import no_answer
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
        """Have a majority store the mark of an epoch: one write at each endpoint, after the first time."""
        n = self._endpoints.n
        with self._endpoints.call(self._deadline_seconds) as deadline:
            if epoch not in self._counters:
                self.read([epoch])
            while True:
                own = ballot(self._counters[epoch], self._proposer)
                accept = Accept(mark_key(epoch), own, encode_mark(mark))
                (replies,) = self._endpoints.accept([accept], voted(n))
                votes = votes_of(replies)
                # A repair, or another process of this epoch, has written at a higher ballot.
                self._counters[epoch] = max(self._counters[epoch] + 1, next_counter(votes.refused))
                if votes.accepted >= majority(n):
                    return
                if not deadline.pause():
                    raise no_answer(votes.reason)
                self._register.read_once()  # which endpoints are in use may have changed since

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
