"""A registry whose endpoints answer as AWS may: pages end early, and parts of batches are left undone.

What its requests make of that is told in `tests/unit/test_registry_requests.py`, and of requests broken on
purpose in `tests/simulation/test_broken_requests.py`.
"""

from __future__ import annotations

import random

from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.layout import REGISTER_KEY, SHARD_HASH, ItemKey, item_key
from photon.registry.consensus.register import Members, Register, ShardConfig
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.interface import Claim, Won
from photon.registry.operations.repair import refill
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.manual_clock import ManualClock
from tests.simulation.interpreter import Interpreter, Row

TABLE = "photon-events-1"
HOUR_US = 3_600_000_000
KEYS = [EventKey(f"id-{number}", number * HOUR_US) for number in range(60)]
CONFIG = ShardConfig(2)


class Capricious:
    """A registry over n such endpoints, and one more for a repair."""

    def __init__(self, n: int, seed: int, transactions: bool) -> None:
        print(f"seed {seed}")
        chance = random.Random(seed)
        self.clock = ManualClock()
        self.rows: list[dict[ItemKey, Row]] = [{} for _ in range(n + 1)]
        self.endpoints = [_endpoint(rows, chance, transactions) for rows in self.rows]
        self.members = Members(1, tuple(f"store-{slot}" for slot in range(n)))
        self.client().register.create(
            Register("p", "s", SHARD_HASH, self.members, (CONFIG,), horizon_us=100 * HOUR_US)
        )

    def client(self) -> QuorumRegistry:
        """A client, as another process would have it."""
        return QuorumRegistry(
            self.endpoints[:-1],
            Registry(),
            self.clock,
            members=self.members,
            reopen=lambda slot, incarnation: self.endpoints[-1],
        )

    def stored_at(self, number: int) -> set[ItemKey]:
        """The ids at one endpoint."""
        return self.rows[number].keys() - {REGISTER_KEY}


def _endpoint(rows: dict[ItemKey, Row], chance: random.Random, transactions: bool) -> DynamoAcceptor:
    client = Interpreter(
        TABLE, rows, leaves_out=lambda: chance.random() < 0.1, ends_page=lambda: chance.random() < 0.4
    )
    return DynamoAcceptor(TABLE, lambda: client, transactions)


def a_repair_over_pages_that_end_early(made: Capricious, page_items: int = 7) -> None:
    registry = made.client()
    claims = [Claim(key, "east:e:1#p:1:0") for key in KEYS]
    assert registry.commit(claims) == [Won()] * len(KEYS)
    done = refill(registry, 1, "new", lambda: None, page_items)
    left_out = {item_key(key, (CONFIG,)) for key in KEYS} - made.stored_at(len(made.rows) - 1)
    assert not left_out, f"of {len(KEYS)} ids {len(left_out)} are left out"
    assert done.copied == len(KEYS)
