"""What an id costs at each endpoint, in the units that AWS counts: the figures of docs/operations.md.

A write unit is a write of up to 1 KiB, also one whose condition fails; a read unit a consistent read of up to
4 KiB, of each item of a batch for itself and of the items of a page together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Page
from photon.registry.consensus.layout import SHARD_HASH, Cleared, encode_value, shards_of
from photon.registry.consensus.register import Members, Register, ShardConfig
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.dynamodb.answers import bytes_beside_key, item_bytes
from photon.registry.interface import Claim, Joined, Won
from photon.registry.operations.gc import gc_pass, raise_boundary
from photon.registry.operations.repair import refill
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.manual_clock import ManualClock
from tests.simulation.interpreter import Interpreter
from tests.simulation.keyword_client import KeywordClient

IDS = 2_000
TIME_US = 1_795_347_340_903_620
KEYS = [EventKey(f"10.0.4.181:1431:{TIME_US + number}", TIME_US + number) for number in range(IDS)]
CLAIMS = [Claim(key, "east:0123456789abcdef:12#fedcba9876543210:3:45670") for key in KEYS]
HOUR_US = 3_600_000_000
CONFIG = ShardConfig(2)
DOCUMENT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


@dataclass
class Units:
    """What one endpoint has charged for."""

    writes: float = 0
    reads: float = 0

    def per_id(self) -> tuple[float, float]:
        return round(self.writes / IDS, 2), round(self.reads / IDS, 2)


class Metered(KeywordClient):
    """An endpoint that counts units."""

    def __init__(self) -> None:
        self.units = Units()
        self.is_down = False
        self._interpreter = Interpreter("table")

    def post(self, operation: str, body: bytes) -> Any:
        if self.is_down:
            raise EndpointConnectionError(endpoint_url="http://down")
        return super().post(operation, body)

    def batch_execute_statement(self, Statements: Sequence[Any]) -> Any:
        self.units.writes += len(Statements)
        return self._interpreter.batch_execute_statement(Statements)

    def batch_get_item(self, RequestItems: Mapping[str, Any]) -> Any:
        ((_, wanted),) = RequestItems.items()
        self.units.reads += len(wanted["Keys"])
        return self._interpreter.batch_get_item(RequestItems)

    def query(self, **request: Any) -> Any:
        answer = self._interpreter.query(**request)
        size = sum(len(name) + len(value["S"]) for item in answer["Items"] for name, value in item.items())
        self.units.reads += max(1, math.ceil(size / 4_096))
        return answer

    def describe_table(self, **request: Any) -> Any:
        return self._interpreter.describe_table(**request)


class World:
    """A registry over n endpoints whose units are counted, and one more for a repair."""

    def __init__(self, n: int) -> None:
        self.metered = [Metered() for _ in range(n + 1)]
        self.clock = ManualClock(TIME_US)
        acceptors = [DynamoAcceptor("table", lambda one=one: one) for one in self.metered]  # type: ignore[misc]
        members = Members(1, tuple(f"store-{slot}" for slot in range(n)))
        self.registry = QuorumRegistry(
            acceptors[:-1],
            Registry(),
            self.clock,
            members=members,
            reopen=lambda slot, incarnation: acceptors[-1],
        )
        register = Register("p", "s", SHARD_HASH, members, (CONFIG,), horizon_us=TIME_US + 24 * HOUR_US)
        self.registry.register.create(register)
        assert set(self.registry.commit(CLAIMS)) == {Won()}

    def begin(self) -> None:
        for one in self.metered:
            one.units = Units()

    def per_id(self) -> list[tuple[float, float]]:
        return [one.units.per_id() for one in self.metered]


@pytest.fixture(params=[1, 3, 5])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def stored_item(world: World) -> Any:
    page = world.registry.endpoints.acceptors[0].scan_shard(shards_of(0, CONFIG)[0], "", None, 1)
    assert isinstance(page, Page)
    return page.items[0]


def test_an_id_is_one_write_at_each_endpoint_and_a_lookup_one_read(world: World) -> None:
    assert world.per_id()[:-1] == [(1.0, 0.0)] * world.registry.endpoints.n
    world.begin()
    assert isinstance(world.registry.lookup(KEYS)[0], Joined)
    assert world.per_id()[:-1] == [(0.0, 1.0)] * world.registry.endpoints.n


def test_with_an_endpoint_of_three_known_to_be_down_an_id_is_two_writes_and_40_bytes_more() -> None:
    world = World(3)
    before = item_bytes(stored_item(world))
    gc_pass(world.registry, raise_boundary(world.registry, TIME_US + HOUR_US), timeless_shards=False)
    world.metered[2].is_down = True
    world.registry.lookup(KEYS[:1])
    world.begin()
    later = [Claim(EventKey(key.id, (key.time_us or 0) + HOUR_US), CLAIMS[0].token) for key in KEYS]
    assert set(world.registry.commit(later)) == {Won()}
    assert world.per_id()[:2] == [(2.0, 0.0)] * 2
    assert item_bytes(stored_item(world)) - before == 40


def test_a_clearing_is_one_write_and_two_reads_for_45_bytes(world: World) -> None:
    held = stored_item(world)
    world.begin()
    world.registry.tokens_anywhere(KEYS)
    world.registry.clear(CLAIMS)
    assert world.per_id()[:-1] == [(1.0, 2.0)] * world.registry.endpoints.n
    assert bytes_beside_key(held) - bytes_beside_key(stored_item(world)) == 45
    assert stored_item(world).stored.value == encode_value(Cleared("east"))


def test_gc_is_one_write_and_a_part_of_a_read(world: World) -> None:
    world.begin()
    gc_pass(world.registry, raise_boundary(world.registry, TIME_US + HOUR_US), timeless_shards=False)
    world.registry.close()  # the last read of the register may still be under way
    assert world.per_id()[:-1] == [(1.0, 0.03)] * world.registry.endpoints.n


@pytest.mark.parametrize("n", [3, 5])
def test_a_repair_is_one_write_at_the_new_store_and_a_part_of_a_read_or_two(n: int) -> None:
    world = World(n)
    world.begin()
    refill(world.registry, 1, "new", lambda: None, timeless_shards=False)
    world.registry.close()
    copied_from = world.per_id()[:1] + world.per_id()[2:-1]
    assert copied_from == [(0.0, 0.07)] * (n - 1)  # it is read once to copy, and once to compare
    assert world.per_id()[-1] == (1.0, 0.03)


def test_the_document_has_these_figures() -> None:
    size = item_bytes(stored_item(World(1)))
    assert f"{size} bytes" in DOCUMENT
    assert re.search(r"1 write and 2 reads", DOCUMENT)
