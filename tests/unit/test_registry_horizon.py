"""The horizon moves in the background; a change of the register is left to who began it (protocol B12)."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta

import pytest

from photon.clock import microseconds
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.stores.channel import Threads
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.layout import REGISTER_KEY
from photon.registry.consensus.register import Register, with_boundary
from photon.registry.interface import Claim, Won
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

EAST = "east:e:1#p:1:0"
STEP = timedelta(days=1)
STEP_US = microseconds(STEP)
START_US = 1_700_000_000_000_000
HORIZON_US = START_US + 2 * STEP_US
SETTINGS = Registry(
    horizon_step=STEP, request_timeout=timedelta(seconds=2), total_timeout=timedelta(seconds=5)
)


class Deferred(Threads):
    """Threads, but background work is kept until it is called."""

    def __init__(self) -> None:
        super().__init__(concurrency=4)
        self.work: list[Callable[[], None]] = []

    def in_background(self, work: Callable[[], None]) -> None:
        self.work.append(work)


def three_acceptors(clock: ManualClock) -> list[FaultyStore]:
    acceptors = [FaultyStore(clock) for _ in range(3)]
    memory_registry(*acceptors, clock=clock, settings=SETTINGS, horizon_us=HORIZON_US).close()
    return acceptors


def client_of(
    acceptors: list[FaultyStore], clock: ManualClock, seed: int = 0
) -> tuple[QuorumRegistry, Deferred]:
    channel = Deferred()
    return QuorumRegistry(acceptors, SETTINGS, clock, channel, random.Random(seed)), channel


def claim(time_us: int) -> Claim:
    return Claim(EventKey(f"id-{time_us}", time_us), EAST)


def test_a_call_does_not_wait_while_the_horizon_is_moved_on() -> None:
    clock = ManualClock(HORIZON_US - STEP_US // 4)
    registry, channel = client_of(three_acceptors(clock), clock)
    for number in range(3):
        assert registry.commit([claim(clock.now_us() + number)]) == [Won()]
    assert registry.register.read().horizon_us == HORIZON_US
    (move,) = channel.work  # of three calls, one has it moved
    move()
    assert registry.register.read().horizon_us == clock.now_us() + 2 * STEP_US


def test_a_call_beyond_the_horizon_waits_until_it_is_moved() -> None:
    clock = ManualClock(HORIZON_US - STEP_US // 4)
    registry, channel = client_of(three_acceptors(clock), clock)
    assert registry.commit([claim(HORIZON_US)]) == [Won()]
    assert channel.work == []
    assert registry.register.read().horizon_us == clock.now_us() + 2 * STEP_US


def test_a_horizon_that_could_not_be_moved_is_moved_by_a_later_call() -> None:
    clock = ManualClock(HORIZON_US - STEP_US // 4)
    acceptors = three_acceptors(clock)
    registry, channel = client_of(acceptors, clock)
    registry.commit([claim(clock.now_us())])
    for acceptor in acceptors:
        acceptor.fail("down")
    channel.work.pop()()
    for acceptor in acceptors:
        acceptor.mend()
    registry.commit([claim(clock.now_us() + 1)])
    channel.work.pop()()
    assert registry.register.read().horizon_us == clock.now_us() + 2 * STEP_US


def test_clients_move_the_horizon_at_different_moments() -> None:
    clock = ManualClock(HORIZON_US - STEP_US)
    acceptors = three_acceptors(clock)
    clients = [client_of(acceptors, clock, seed) for seed in range(40)]
    at_once = []
    for _ in range(10):
        clock.advance(STEP_US / 20 / 1_000_000)
        before = sum(len(channel.work) for _, channel in clients)
        for registry, _ in clients:
            registry.lookup([EventKey("a", START_US)])
        at_once.append(sum(len(channel.work) for _, channel in clients) - before)
    assert sum(at_once) == len(clients)  # all of them half a step before it is late, if nobody was quicker
    assert max(at_once) <= len(clients) // 3


# -- a change that is half written


def half_written(acceptors: list[FaultyStore], clock: ManualClock) -> int:
    """Have a client that reaches only the first endpoint with its accept move the boundary: where to."""
    ways = [acceptor.another_way_in() for acceptor in acceptors]
    for way in ways[1:]:
        way.on_request = lambda kind, batch, way=way: way.fail("lost_request") if kind == "accept" else None
    registry, _ = client_of(ways, clock, seed=1)

    def move(register: Register) -> Register:
        return with_boundary(register, START_US)

    with pytest.raises(RegistryUnavailable):
        registry.register.change(move)
    return START_US


def reader_of(acceptors: list[FaultyStore], clock: ManualClock, asked: list[str]) -> QuorumRegistry:
    """A client that can't do without the endpoint that has the change, for it does not reach another one."""
    ways = [acceptor.another_way_in() for acceptor in acceptors]
    ways[2].fail("down")
    for way in ways:
        way.on_request = lambda kind, batch: asked.append(kind)
    return client_of(ways, clock, seed=2)[0]


def test_a_change_half_written_is_left_to_its_client_for_the_time_of_a_request() -> None:
    clock = ManualClock(START_US)
    acceptors = three_acceptors(clock)
    boundary_us = half_written(acceptors, clock)
    asked: list[str] = []
    registry = reader_of(acceptors, clock, asked)

    def end_the_change(kind: str, batch: object) -> None:
        asked.append(kind)
        if asked.count("read") > 9:
            acceptors[1].items[REGISTER_KEY] = acceptors[0].items[REGISTER_KEY]

    for acceptor in registry.endpoints.acceptors:
        assert isinstance(acceptor, FaultyStore)
        acceptor.on_request = end_the_change
    assert registry.register.read().boundary_us == boundary_us
    assert set(asked) == {"read"}


def test_a_change_whose_client_died_is_ended_by_another_one() -> None:
    clock = ManualClock(START_US)
    acceptors = three_acceptors(clock)
    boundary_us = half_written(acceptors, clock)
    began_us, asked = clock.elapsed_us(), list[str]()
    registry = reader_of(acceptors, clock, asked)
    assert registry.register.read().boundary_us == boundary_us
    assert {"prepare", "accept"} <= set(asked)
    assert clock.elapsed_us() - began_us >= microseconds(SETTINGS.request_timeout)
    values = {acceptor.items[REGISTER_KEY].value for acceptor in acceptors[:2]}
    assert len(values) == 1


def test_a_client_that_was_outbid_by_the_very_change_it_wants_does_not_propose_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock(HORIZON_US)
    acceptors = three_acceptors(clock)
    clock.advance(STEP_US / 4 / 1_000_000)
    registry, _ = client_of(acceptors, clock, seed=1)
    other, _ = client_of(acceptors, clock, seed=2)
    rounds: list[str] = []

    def outbid(change: Callable[[Register], Register], own: str, first: Register | None = None) -> int:
        rounds.append(own)
        other.register.advance_horizon(clock.now_us())
        return 99

    monkeypatch.setattr(registry.register, "_round", outbid)
    now_us = clock.now_us()
    assert registry.register.advance_horizon(now_us).horizon_us == now_us + 2 * STEP_US
    assert len(rounds) == 1
