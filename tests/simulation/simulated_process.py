"""A process that uses a simulated registry: the product's own client over the simulated network."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from photon.ledger.stores.tempo import Tempo
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Acceptor
from photon.registry.quorum.proposer import QuorumRegistry
from tests.simulation.network import Client, ClientOfRequests, Network
from tests.simulation.simulated_stores import Store, Stores
from tests.simulation.simulated_wire import acceptor_of

SKEWS_SECONDS = (0.0, -3_600.0, 40.0, 86_400.0)


class Prejudiced(Tempo):
    """Takes some endpoints for slow, whatever they do."""

    def __init__(self, slots: frozenset[int]) -> None:
        super().__init__(len(slots))
        self._slow = slots

    def saw(self, slot: int, seconds: float, others: Sequence[float]) -> bool:
        return False

    def forget(self, slot: int) -> None:
        """Nothing makes it think otherwise."""


class Process:
    """A client of the network, with a registry over the stores that are in use when it starts.

    `transactions`: it sends the product's own requests, and writes in transactions or in batches (see
    `DynamoAcceptor`); None: it asks the stores item by item. `slow`: slots that it takes for slow all the
    time: it does not wait for them, and promises a ballot with its inserts. `skew_seconds`: None: some.
    `way`: see `Client`.
    """

    def __init__(
        self,
        network: Network,
        stores: Stores,
        settings: Registry,
        chance: random.Random,
        transactions: bool | None = None,
        slow: frozenset[int] = frozenset(),
        skew_seconds: float | None = None,
        way: Callable[[Store], float] | None = None,
    ) -> None:
        if skew_seconds is None:
            skew_seconds = chance.choice(SKEWS_SECONDS)
        self.client = Client(network, skew_seconds, way)
        acceptor: Callable[[int, str], Acceptor] = stores.store
        if transactions is not None:
            self.client = client = ClientOfRequests(network, skew_seconds, way)
            acceptor = partial(acceptor_of, client, stores, transactions)
        members = stores.members
        self._registry = QuorumRegistry(
            [acceptor(slot, incarnation) for slot, incarnation in enumerate(members.incarnations)],
            settings,
            self.client,
            channel=self.client,
            chance=chance,
            members=members,
            reopen=acceptor,
        )

        if slow:
            self._registry.health.tempo = Prejudiced(slow)

    def start_with(self, work: Callable[[QuorumRegistry, Client], None]) -> None:
        """Let it work, from now on."""
        self.client.start(lambda: work(self._registry, self.client))
