"""The state of a registry: what is in its shards, how its endpoints are, and how much of it is looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from photon.clock import MICROSECONDS
from photon.ledger.stores.copies import NoReply
from photon.ledger.stores.decisions import ballot
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Endpoint, Registry
from photon.registry.consensus.acceptor import Accept, Insert, Prepare, Scanned, Stored
from photon.registry.consensus.layout import ItemKey, fast_value
from photon.registry.consensus.register import with_boundary, with_slot_down
from photon.registry.dynamodb.answers import bytes_beside_key
from photon.registry.interface import Claim
from photon.registry.operations import report
from photon.registry.operations.report import RegistryState, kind_of, latest_of, sampled, state_of
from photon.registry.operations.resharding import SKIPPED_SECONDS, WINDOW_SECONDS
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

TOKEN = "east:0123456789abcdef:12#fedcba9876543210:3:4567"
NOON_US = 1_700_000_000_000_000
HIGH, HIGHER = ballot(1, "a" * 16), ballot(2, "b" * 16)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON_US)


def three(clock: ManualClock, shards: int = 4) -> tuple[list[FaultyStore], QuorumRegistry]:
    """A registry over three endpoints, whose ids carry their time."""
    stores = [FaultyStore(clock) for _ in range(3)]
    settings = Registry(shards=shards)
    return stores, memory_registry(*stores, clock=clock, settings=settings, horizon_us=2 * NOON_US)


def look(registry: QuorumRegistry, clock: ManualClock, pages: int = 2_000) -> RegistryState:
    names = [(f"http://store-{number}", f"table-{number}") for number in range(registry.endpoints.n)]
    return state_of(registry, names, pages)


def claims(*ids: str) -> list[Claim]:
    return [Claim(EventKey(event_id, NOON_US), TOKEN) for event_id in ids]


# -- what is in the shards


def test_ids_are_counted_by_what_has_become_of_them(clock: ManualClock) -> None:
    stores, registry = three(clock)
    registry.commit(claims("held", "cleared", "released"))
    registry.clear(claims("cleared"))
    registry.release(claims("released"))
    stores[0].prepare([Prepare(ItemKey("0-00001", "somebody"), HIGH)])
    state = look(registry, clock)
    assert state.whole
    assert {name: state.total(name) for name in ("ids", "held", "cleared", "tombstones", "promised")} == {
        "ids": 4,
        "held": 1,
        "cleared": 1,
        "tombstones": 1,
        "promised": 1,
    }


def test_an_id_that_all_endpoints_have_is_one_id_with_the_bytes_of_one_copy(clock: ManualClock) -> None:
    stores, registry = three(clock)
    registry.commit(claims("a"))
    state = look(registry, clock)
    (item,) = [key for key in stores[0].items if key.p != "register"]
    assert (state.total("ids"), state.total("key_bytes")) == (1, len(f"ps{item.p}{item.s}"))
    assert state.total("value_bytes") == len("e") + len("t") + len(fast_value(TOKEN))


def test_every_shard_of_every_config_is_there_with_its_boundary(clock: ManualClock) -> None:
    _, registry = three(clock)
    registry.register.change(lambda register: with_boundary(register, NOON_US - 5))
    state = look(registry, clock)
    assert {shard.boundary_us for shard in state.shards} == {NOON_US - 5}
    assert {"0-00000", "0-00003", "fixed-01023"} <= {shard.shard for shard in state.shards}
    assert state.shards_in_all == 4 + 1_024


@pytest.mark.parametrize(
    ("copies", "kind"),
    [
        ([Stored("T:x"), Stored("C:east", HIGH, HIGH)], "cleared"),
        ([Stored("C:east"), Stored("T:x", HIGH, HIGH)], "cleared"),
        ([Stored("T:x", HIGH, HIGH), Stored("X:x", HIGHER, HIGHER)], "tombstones"),
        ([Stored(None, promised=HIGHER), Stored("T:x")], "held"),
        ([Stored(None, promised=HIGH)], "promised"),
    ],
)
def test_an_id_is_what_the_latest_of_its_copies_says(copies: list[Stored], kind: str) -> None:
    assert kind_of(latest_of(copies)) == kind


# -- endpoints


def test_endpoints_that_agree_are_behind_at_no_id(clock: ManualClock) -> None:
    stores, registry = three(clock)
    stores[1].slow_seconds = 0.25
    registry.commit(claims("a", "b"))
    state = look(registry, clock)
    assert [(one.health, one.behind) for one in state.endpoints] == [("up", 0)] * 3
    assert state.endpoints[1].read_ms == pytest.approx(250)
    assert [one.items for one in state.endpoints] == [3] * 3


def test_an_endpoint_that_was_down_is_behind_at_the_ids_that_came_since(clock: ManualClock) -> None:
    stores, registry = three(clock)
    registry.commit(claims("a", "b"))
    stores[2].fail("down")
    registry.commit(claims("c"))
    registry.clear(claims("a"))
    registry.release(claims("b"))
    stores[2].mend()
    state = look(registry, clock)
    last = state.endpoints[2]
    assert (last.missing, last.older, last.uncleared) == (1, 1, 1)
    assert [one.behind for one in state.endpoints] == [0, 0, 3]


def test_an_endpoint_that_does_not_answer_is_named_and_compared_with_nobody(clock: ManualClock) -> None:
    stores, registry = three(clock)
    registry.commit(claims("a"))
    stores[1].fail("down")
    state = look(registry, clock)
    assert [one.health for one in state.endpoints] == ["up", "does not answer", "up"]
    assert state.endpoints[1].problem == "connection refused"
    assert [one.behind for one in state.endpoints] == [0, 0, 0]
    assert state.total("held") == 1


def test_an_endpoint_that_denies_is_told_from_one_that_does_not_answer(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, registry = three(clock)
    denied = NoReply("not you; mend its rights", "denied")
    monkeypatch.setattr(stores[1], "read", lambda batch: [denied] * len(batch))
    state = look(registry, clock)
    assert [one.health for one in state.endpoints] == ["up", "does not let us in", "up"]
    assert state.endpoints[1].problem == denied.reason


def test_an_endpoint_that_takes_no_writes_is_named_and_compared_all_the_same(clock: ManualClock) -> None:
    stores, registry = three(clock)
    stores[1].fail("full")
    registry.commit(claims("a"))
    state = look(registry, clock)
    assert [one.health for one in state.endpoints] == ["up", "takes no writes", "up"]
    assert state.endpoints[1].problem == "the disk is full"
    assert [one.missing for one in state.endpoints] == [0, 1, 0]


def test_an_endpoint_that_does_not_take_a_write_for_a_moment_is_up(clock: ManualClock) -> None:
    stores, registry = three(clock)
    registry.commit(claims("a"))
    stores[1].on_request = lambda kind, batch: stores[1].fail("lost_request") if kind == "replace" else None
    clock.sleep = lambda seconds: setattr(stores[1], "on_request", lambda kind, batch: None)  # type: ignore[method-assign]
    assert {one.health for one in look(registry, clock).endpoints} == {"up"}


def test_a_report_leaves_every_item_as_it_is(clock: ManualClock) -> None:
    stores, registry = three(clock)
    registry.commit(claims("a"))
    before = [dict(store.items) for store in stores]
    look(registry, clock)
    assert [store.items for store in stores] == before


def test_an_endpoint_that_no_repair_has_put_back_is_out_of_use(clock: ManualClock) -> None:
    _, registry = three(clock)
    registry.register.change(lambda now: with_slot_down(now, 1, "new"))
    state = look(registry, clock)
    assert [one.health for one in state.endpoints] == ["up", "out of use", "up"]
    assert state.endpoints[1].problem == "until a repair of it has ended: one runs, or died"


def test_an_endpoint_that_goes_down_while_it_is_read_does_not_end_the_report(clock: ManualClock) -> None:
    stores, registry = three(clock)
    registry.commit(claims("a", "b", "c"))

    def go_down(kind: str, batch: object) -> None:
        if kind == "scan_shard":
            stores[2].fail("down")

    stores[2].on_request = go_down
    state = look(registry, clock)
    assert (state.endpoints[2].health, state.endpoints[2].behind) == ("does not answer", 0)
    assert state.total("ids") == 3
    assert not state.whole


# -- how much is looked at


def test_a_large_registry_is_sampled_within_the_pages_and_says_so(clock: ManualClock) -> None:
    stores, registry = three(clock, shards=100)
    registry.commit(claims(*(f"id-{number}" for number in range(300))))
    before = stores[0].requests
    state = look(registry, clock, pages=20)
    assert len(state.shards) == 20
    assert not state.whole
    assert 0 < state.total("ids") < 300
    assert stores[0].requests - before <= 20 + 4  # the register, a probe, a write and the size


def test_a_full_shard_is_looked_at_in_part_and_endpoints_are_compared_as_far_as_all_were_read(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores, registry = three(clock, shards=1)
    registry.commit(claims(*(f"id-{number:02d}" for number in range(30))))
    # Only the third endpoint has these, which come first: its pages end earlier.
    stores[2].insert([Insert(ItemKey("0-00000", f"{number:020d}"), "T:x") for number in range(8)])
    monkeypatch.setattr(report, "PAGE_ITEMS", 5)
    monkeypatch.setattr(report, "PAGES_OF_A_SHARD", 2)
    state = look(registry, clock)
    (shard,) = [shard for shard in state.shards if shard.shard == "0-00000"]
    assert (shard.ids, shard.whole) == (10, False)
    assert [one.behind for one in state.endpoints] == [8, 8, 0]


def test_the_sample_is_of_every_config_and_always_the_same() -> None:
    shards = [[f"0-{n}" for n in range(50)], [f"1-{n}" for n in range(5)]]
    assert sampled(shards) == sampled(shards)
    assert sorted(sampled(shards)) == sorted([*shards[0], *shards[1]])
    assert {shard[0] for shard in sampled(shards)[:2]} == {"0", "1"}


# -- the size of an id after clearing


@pytest.mark.parametrize("event_time_us", [None, NOON_US], ids=["time beside the key", "time in the key"])
@pytest.mark.parametrize("contested", [False, True])
def test_below_100_bytes_are_stored_of_a_cleared_id_besides_its_key(
    clock: ManualClock, event_time_us: int | None, contested: bool
) -> None:
    store = FaultyStore(clock)
    registry = memory_registry(store, clock=clock, horizon_us=2 * NOON_US)
    key = EventKey("an-id", event_time_us) if event_time_us else EventKey("an-id", at_us=NOON_US)
    if contested:  # it was won by a ballot
        registry.commit([Claim(key, "west:e:1#p:1:0")])
        registry.release([Claim(key, "west:e:1#p:1:0")])
    token = TOKEN.replace("east", "eu-central-1-prod")
    registry.commit([Claim(key, token)])
    registry.clear([Claim(key, token)])
    (item,) = [key for key in store.items if key.p != "register"]
    store.accept([Accept(item, HIGH, "C:eu-central-1-prod")])  # by a repair, say
    store.prepare([Prepare(item, HIGHER)])
    stored = store.items[item]
    assert stored.value == "C:eu-central-1-prod"
    assert "" not in (stored.accepted, stored.promised)
    size = bytes_beside_key(Scanned(item, store.times[item], stored))
    assert 0 < size < 100, size


# -- the rate of a shard

ON_AWS = tuple(Endpoint(url=f"https://{n}.example") for n in range(3))


@pytest.mark.parametrize(("endpoints", "rate"), [(ON_AWS, 0.5), ("local", None)])
def test_the_rate_of_a_shard_is_told_where_key_ranges_have_a_limit(
    clock: ManualClock, endpoints: Any, rate: float | None
) -> None:
    settings = Registry(shards=4, endpoints=endpoints)
    registry = memory_registry(FaultyStore(clock), clock=clock, settings=settings, horizon_us=2 * NOON_US)
    begin_us = clock.now_us() - (WINDOW_SECONDS + SKIPPED_SECONDS) * MICROSECONDS
    times_us = [begin_us + half * MICROSECONDS // 2 for half in range(4 * WINDOW_SECONDS)]
    registry.commit([Claim(EventKey(f"id-{t}", t), TOKEN) for t in times_us])
    state = look(registry, clock)
    assert state.shard_rate == (None if rate is None else pytest.approx(rate, rel=0.01))
    assert state.shard_load == (None if rate is None else pytest.approx(rate / 1_000, rel=0.01))


def test_a_state_as_json_has_totals_shards_endpoints_and_epochs(clock: ManualClock) -> None:
    _, registry = three(clock)
    registry.commit(claims("a"))
    registry.register.add_epoch("e", "east", "table", NOON_US)
    found = look(registry, clock).as_dict()
    assert (found["ids"], found["held"], found["whole"]) == (1, 1, True)
    assert found["epochs"]["e"]["state"] == "live"
    assert len(found["endpoints"]) == 3
    assert len(found["shards"]) == found["shards_looked_at"] == found["shards_in_all"]


def test_a_copy_of_a_higher_ballot_is_the_later_one(clock: ManualClock) -> None:
    stores, registry = three(clock)
    registry.commit(claims("a"))
    (item,) = [key for key in stores[0].items if key.p != "register"]
    for store in stores[:2]:
        store.accept([Accept(item, HIGH, fast_value(TOKEN))])
    state = look(registry, clock)
    assert [one.older for one in state.endpoints] == [0, 0, 1]
    assert replace(state.register) == registry.register.read()
