"""A client of the registry whose every answer is judged by what all stores have taken (F3 to F5, C3, B18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from photon.pipeline.event_key import EventKey
from photon.registry.quorum.proposer import QuorumRegistry
from tests.simulation.observer import Observer
from tests.simulation.simulated_calls import Began, Calls, Fate
from tests.simulation.simulated_stores import Stores
from tests.simulation.whole.network import StoppedByRules


class Judge:
    """Judges answers as they come."""

    put_back_seconds = -1.0  # when a copy of the registry was put back; no earlier call is judged

    def __init__(self, network: StoppedByRules, observer: Observer, stores: Stores) -> None:
        self._network = network
        self._observer = observer
        self._calls = Calls(network, observer, stores, (), only_history=False, is_whole=False)

    def heard(
        self, registry: QuorumRegistry, fates: Sequence[Fate], call: Callable[[], Sequence[Any]]
    ) -> Any:
        """Make a call, and judge its outcomes. RuleBroken."""
        began = Began(self._network.now_seconds, registry.clock.now_us(), self._observer.register)
        outcomes = call()
        if began.seconds <= self.put_back_seconds:
            return outcomes
        with self._network.noting():
            for fate, outcome in zip(fates, outcomes, strict=True):
                self._calls.judge(fate, outcome, began)
        return outcomes


class JudgedRegistry(QuorumRegistry):
    """The product's client, under the eyes of a judge."""

    judge: Judge

    def lookup(self, keys: Any) -> Any:
        """See `IdRegistry`."""
        fates = [Fate("", key, False) for key in _keys(keys)]
        return self.judge.heard(self, fates, lambda: QuorumRegistry.lookup(self, keys))

    def commit(self, claims: Any) -> Any:
        """See `IdRegistry`."""
        fates = [Fate(claim.token, claim.key, False) for claim in claims]
        return self.judge.heard(self, fates, lambda: QuorumRegistry.commit(self, claims))

    def release(self, claims: Any) -> Any:
        """See `IdRegistry`."""
        fates = [Fate(claim.token, claim.key, False) for claim in claims]
        return self.judge.heard(self, fates, lambda: QuorumRegistry.release(self, claims))


def _keys(keys: Any) -> list[EventKey]:
    return list(keys)
