"""Gc of old ids: the boundary first, then the stores; what went is never won again (C1, C2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from photon.faults import GC_FAULT_POINTS, arm, disarm
from photon.ledger.stores.copies import Done
from photon.ledger.stores.decisions import ballot
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import ABSENT, Accept, Delete, Insert, Prepare, Stored, Unchanged
from photon.registry.consensus.layout import (
    REGISTER_KEY,
    fast_value,
    item_key,
    shards_below_boundary,
    sortable_time,
)
from photon.registry.consensus.register import decode_register, encode_register, with_boundary
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.interface import Claim, Holder, Joined, Lost, TooOld
from photon.registry.operations.gc import EndpointGc, gc_pass, raise_boundary
from photon.registry.operations.ranges import PositionItem
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.crashes import SimulatedCrash, raise_simulated_crash
from tests.contract.registry_backends import (
    ALL_UP,
    DAY_US,
    START_US,
    Backend,
    backend_fixture,
    memory_backend,
)
from tests.contract.registry_checks import token
from tests.simulation import gc_stories

EAST, WEST = token("east", 1), token("west", 2)
PAGE_ITEMS = 7
# A pass reports on each endpoint, so here none is down.
timed = backend_fixture(ALL_UP, timed=True)
untimed = backend_fixture(ALL_UP, timed=False)


@pytest.fixture
def three() -> Iterator[Backend]:
    """Three stores in memory, ids with a time."""
    made = memory_backend(True, 3)
    yield made
    made.close()


Making = Callable[[str, float], EventKey]


def timed_key(event_id: str, days: float) -> EventKey:
    return EventKey(event_id, START_US + round(days * DAY_US))


def untimed_key(event_id: str, days: float) -> EventKey:
    return EventKey(event_id, at_us=START_US + round(days * DAY_US))


def some(make: Making, days: float, count: int = 30) -> list[EventKey]:
    return [make(f"id-{number}-{days}", days) for number in range(count)]


def commit(registry: QuorumRegistry, keys: list[EventKey], by: str = EAST) -> list[object]:
    return [*registry.commit([Claim(key, by) for key in keys])]


def run_gc(backend: Backend, days: float) -> list[EndpointGc]:
    """Delete what was earlier than `days` after the start."""
    registry = backend.client()
    register = raise_boundary(registry, START_US + round(days * DAY_US))
    return gc_pass(registry, register, page_items=PAGE_ITEMS, items_between_notes=1)


def stored(backend: Backend, key: EventKey) -> list[object]:
    """What each endpoint has of an id."""
    register = backend.client().register.read()
    return [acceptor.read([item_key(key, register.configs)])[0] for acceptor in backend.acceptors]


def check_that_old_ids_go_and_young_ones_stay(backend: Backend, make: Making) -> None:
    old, young = some(make, -2), some(make, -0.5)
    commit(backend.client(), old + young)
    done = run_gc(backend, days=-1)
    assert [(one.deleted.items, one.problem) for one in done] == [(30, "")] * len(backend.acceptors)
    assert all(found == ABSENT for key in old for found in stored(backend, key))
    assert backend.client().lookup(young) == [Joined(Holder("east", EAST))] * 30


def test_a_boundary_that_is_no_time_is_refused_before_it_is_in_the_register(three: Backend) -> None:
    registry = three.client()
    with pytest.raises(ValueError, match="not a time of 64 bits"):
        raise_boundary(registry, -(2**64))
    assert registry.register.read().boundary_us is None


def test_old_ids_go_at_every_endpoint_and_young_ones_stay(timed: Backend) -> None:
    check_that_old_ids_go_and_young_ones_stay(timed, timed_key)


def test_a_shard_of_several_pages_is_deleted_to_its_end(timed: Backend) -> None:
    commit(timed.client(), some(timed_key, -2, count=60))  # in 16 shards
    registry = timed.client()
    done = gc_pass(registry, raise_boundary(registry, START_US - DAY_US), page_items=2)
    assert [(one.deleted.items, one.problem) for one in done] == [(60, "")] * len(timed.acceptors)


def test_of_ids_without_a_time_the_stored_time_decides(untimed: Backend) -> None:
    check_that_old_ids_go_and_young_ones_stay(untimed, untimed_key)


def check_that_what_is_below_is_too_old(backend: Backend, make: Making) -> None:
    old = some(make, -2)
    commit(backend.client(), old[:10])
    run_gc(backend, days=-1)
    assert backend.client().lookup(old) == [TooOld()] * 30
    assert commit(backend.client(), old, WEST) == [TooOld()] * 30
    assert backend.client().lookup(old) == [TooOld()] * 30


def test_what_is_below_the_boundary_is_too_old_registered_or_not(timed: Backend) -> None:
    check_that_what_is_below_is_too_old(timed, timed_key)


def test_without_a_time_in_the_id_the_events_time_is_too_old(untimed: Backend) -> None:
    check_that_what_is_below_is_too_old(untimed, untimed_key)


def test_gc_never_deletes_an_id_without_a_known_time(untimed: Backend) -> None:
    commit(untimed.client(), [EventKey("timeless")])
    run_gc(untimed, days=1)
    assert untimed.client().lookup([EventKey("timeless")]) == [Joined(Holder("east", EAST))]
    assert commit(untimed.client(), [EventKey("timeless")], WEST) == [Lost(Holder("east", EAST))]


def test_an_id_that_is_only_promised_goes_too(timed: Backend) -> None:
    key = timed_key("promised", -2)
    item = item_key(key, timed.client().register.read().configs)
    for acceptor in timed.acceptors:
        acceptor.prepare([Prepare(item, ballot(3, "f" * 16))])
    assert [one.deleted.items for one in run_gc(timed, days=-1)] == [1] * len(timed.acceptors)
    assert all(found == ABSENT for found in stored(timed, key))


def test_sizes_are_told_before_and_after(timed: Backend) -> None:
    commit(timed.client(), some(timed_key, -2))
    for one in run_gc(timed, days=-1):
        assert one.before is not None
        assert one.after is not None
        assert one.before.items - one.after.items == one.deleted.items == 30
        # The register is longer now, by its boundary.
        if one.before.bytes is None or one.after.bytes is None:
            assert isinstance(timed.acceptors[0], DynamoAcceptor), "dynoxide 1.2.1 counts items only"
        else:
            assert one.before.bytes - one.after.bytes == pytest.approx(one.deleted.bytes, abs=40)


def test_the_boundary_never_goes_back(timed: Backend) -> None:
    run_gc(timed, days=-1)
    run_gc(timed, days=-3)
    assert timed.client().register.read().boundary_us == START_US - DAY_US


# -- one who comes late


def test_a_late_insert_does_not_win_and_the_next_pass_takes_it(timed: Backend) -> None:
    key = timed_key("late", -2)
    run_gc(timed, days=-1)
    item = item_key(key, timed.client().register.read().configs)
    for acceptor in timed.acceptors:
        acceptor.insert([Insert(item, fast_value(EAST))])
    assert timed.client().lookup([key]) == [TooOld()]
    assert commit(timed.client(), [key]) == [TooOld()]
    assert [one.deleted.items for one in run_gc(timed, days=-1)] == [1] * len(timed.acceptors)


def test_a_client_that_slept_through_a_whole_gc_does_not_win(timed: Backend) -> None:
    keys = some(timed_key, -2, count=3)
    commit(timed.client(), keys, WEST)
    slept = timed.client()
    slept.lookup(keys)  # knows the register as it was
    arm("task.during_register", crash=lambda: run_gc(timed, days=-1))
    try:
        assert set(commit(slept, keys)) == {TooOld()}
    finally:
        disarm()


def test_an_item_that_was_made_anew_since_is_not_deleted(untimed: Backend) -> None:
    acceptor, item = untimed.acceptors[0], item_key(EventKey("a"), ())
    earlier, later = sortable_time(START_US), sortable_time(START_US + DAY_US)
    acceptor.insert([Insert(item, fast_value(EAST), later)])
    assert acceptor.delete([Delete(item, earlier)]) == [Unchanged()]
    assert acceptor.delete([Delete(item, later)]) == [Done()]
    assert acceptor.read([item]) == [ABSENT]


def test_an_id_that_is_registered_anew_before_it_is_deleted_stays_registered() -> None:
    gc_stories.an_id_without_a_time_that_is_registered_anew_before_it_is_deleted()


# -- endpoints apart from each other


def test_the_next_pass_deletes_at_an_endpoint_that_was_down(three: Backend) -> None:
    keys = some(timed_key, -2)
    commit(three.client(), keys)
    registry, faults = three.faulty_client()
    faults.each[2].fail("down")  # type: ignore[attr-defined]
    register = raise_boundary(registry, START_US - DAY_US)
    first = gc_pass(registry, register, page_items=PAGE_ITEMS)
    assert [one.deleted.items for one in first] == [30, 30, 0]
    assert "connection refused" in first[2].problem
    assert [one.deleted.items for one in run_gc(three, days=-1)] == [0, 0, 30]


def test_an_endpoint_that_missed_the_boundary_gets_it_before_anything_is_deleted(three: Backend) -> None:
    commit(three.client(), some(timed_key, -2))
    registry, faults = three.faulty_client()
    faults.each[2].fail("down")  # type: ignore[attr-defined]
    raise_boundary(registry, START_US - DAY_US)
    assert own_boundary(three, 2) is None
    arm("gc.after_register:3", crash=raise_simulated_crash)
    with pytest.raises(SimulatedCrash):
        run_gc(three, days=-1)
    assert own_boundary(three, 2) == START_US - DAY_US
    assert stored(three, timed_key("id-0--2", -2))[2] == Stored(fast_value(EAST))


def own_boundary(backend: Backend, slot: int) -> int | None:
    """The boundary in one endpoint's own copy of the register."""
    (found,) = backend.acceptors[slot].read([REGISTER_KEY])
    assert isinstance(found, Stored)
    assert found.value is not None
    return decode_register(found.value).boundary_us


def test_a_boundary_at_one_endpoint_only_is_raised_by_the_next_gc_that_hears_of_it(three: Backend) -> None:
    register = three.client().register.read()
    raised = encode_register(with_boundary(register, START_US))
    higher = ballot(9, "f" * 16)
    three.acceptors[0].prepare([Prepare(REGISTER_KEY, higher)])
    three.acceptors[0].accept([Accept(REGISTER_KEY, higher, raised)])  # and then its gc died
    registry, faults = three.faulty_client()
    faults.each[2].fail("down")  # type: ignore[attr-defined]  # so the first endpoint is in every majority
    assert raise_boundary(registry, START_US - 3 * DAY_US).boundary_us == START_US
    assert [own_boundary(three, slot) for slot in range(2)] == [START_US] * 2


@pytest.mark.parametrize("point", GC_FAULT_POINTS)
@pytest.mark.parametrize("passing", [1, 2, 3])
def test_one_that_is_killed_anywhere_is_begun_again_and_ends(
    three: Backend, point: str, passing: int
) -> None:
    old, young = some(timed_key, -2), some(timed_key, -0.5)
    commit(three.client(), old + young)
    arm(f"{point}:{passing}", crash=raise_simulated_crash)
    try:
        for _ in range(2 if passing > 1 else 1):
            try:
                run_gc(three, days=-1)
            except SimulatedCrash:
                # Whatever is gone already, nobody wins it.
                assert commit(three.client(), old, WEST) == [TooOld()] * 30
    finally:
        disarm()
    run_gc(three, days=-1)
    assert all(found == ABSENT for key in old for found in stored(three, key))
    assert three.client().lookup(young) == [Joined(Holder("east", EAST))] * 30


def test_one_that_was_killed_does_not_look_again_at_shards_that_it_had_done() -> None:
    backend = memory_backend(True, 1)
    commit(backend.client(), some(timed_key, -2))
    arm("gc.after_page:12", crash=raise_simulated_crash)
    with pytest.raises(SimulatedCrash):
        run_gc(backend, days=-1)
    registry = backend.client()
    (acceptor,) = registry.endpoints.acceptors
    position = PositionItem(registry.endpoints.alone(acceptor), "gc").read(registry.deadline())
    assert position is not None
    asked: set[str] = set()
    scan = acceptor.scan_shard
    acceptor.scan_shard = lambda shard, *more: asked.add(shard) or scan(shard, *more)  # type: ignore[method-assign, func-returns-value]
    register = raise_boundary(registry, START_US - DAY_US)
    gc_pass(registry, register)
    shards = shards_below_boundary(register)
    not_begun = shards[shards.index(position.begun or "") + 1 :]
    assert asked == {*position.open, *not_begun} < set(shards)


def test_an_endpoint_that_was_down_is_gone_on_with_and_the_others_are_not_looked_at_again(
    three: Backend,
) -> None:
    keys = some(timed_key, -2)
    commit(three.client(), keys)
    registry, faults = three.faulty_client()
    faults.each[2].fail("down")  # type: ignore[attr-defined]
    register = raise_boundary(registry, START_US - DAY_US)
    gc_pass(registry, register, items_between_notes=1)
    late = timed_key("late", -2)
    item = item_key(late, register.configs)
    three.acceptors[0].insert([Insert(item, fast_value(EAST))])
    assert [one.deleted.items for one in run_gc(three, days=-1)] == [0, 0, 30]
    # That was all of it: the next one begins anew, and takes what came late.
    assert [one.deleted.items for one in run_gc(three, days=-1)] == [1, 0, 0]


def test_another_boundary_begins_anew(three: Backend) -> None:
    commit(three.client(), [*some(timed_key, -2), *some(timed_key, -1)])
    arm("gc.after_endpoint", crash=raise_simulated_crash)
    with pytest.raises(SimulatedCrash):
        run_gc(three, days=-1.5)
    assert sum(one.deleted.items for one in run_gc(three, days=-0.5)) >= 3 * 30
    assert all(found == ABSENT for key in some(timed_key, -1) for found in stored(three, key))


@pytest.mark.parametrize("fault", ["lost_request", "lost_answer", "unprocessed"])
def test_requests_that_fail_now_and_then_are_made_again(timed: Backend, fault: str) -> None:
    old = some(timed_key, -2)
    commit(timed.client(), old)
    registry, faults = timed.faulty_client()
    register = raise_boundary(registry, START_US - DAY_US)
    faults.fail(fault, 3)
    assert [one.problem for one in gc_pass(registry, register, page_items=PAGE_ITEMS)] == [""] * len(
        timed.acceptors
    )
    assert all(found == ABSENT for key in old for found in stored(timed, key))
