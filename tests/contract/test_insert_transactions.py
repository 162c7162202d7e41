"""Inserting by transactions, which are done as a whole or not at all: what that must not change."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from photon.clock import SystemClock
from photon.ledger.stores.copies import Done, NoReply
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Insert, Unchanged
from photon.registry.consensus.layout import ItemKey, fast_value, item_key
from photon.registry.interface import Free, Holder, Joined, Lost, Unknown, Won
from tests.contract.registry_backends import Backend, FaultyClient, dynamodb_backend
from tests.contract.registry_checks import check_that_each_id_has_one_winner, claims, token

pytestmark = pytest.mark.server

EAST, WEST = token("east", 1), token("west", 2)
EAST_HOLDS, WEST_HOLDS = Holder("east", EAST), Holder("west", WEST)


@pytest.fixture
def backend(dynamodb: Any) -> Iterator[Backend]:
    made = dynamodb_backend([dynamodb], False, itertools.repeat(True))
    yield made
    made.close()


def inserts(ids: list[str], holder: str) -> list[Insert]:
    return [Insert(item_key(EventKey(event_id), ()), fast_value(holder)) for event_id in ids]


def test_a_transaction_with_a_duplicate_in_it_still_inserts_the_others(backend: Backend) -> None:
    backend.acceptors[0].insert(inserts(["b"], EAST))
    replies = backend.acceptors[0].insert(inserts(["a", "b", "c"], WEST))
    assert replies == [Done(), Unchanged(), Done()]
    found = backend.client().lookup([EventKey("a"), EventKey("b"), EventKey("c")])
    assert found == [Joined(WEST_HOLDS), Joined(EAST_HOLDS), Joined(WEST_HOLDS)]


def test_a_transaction_with_an_insert_that_is_refused_still_inserts_the_others(backend: Backend) -> None:
    too_long, fine = Insert(ItemKey("p", "k" * 3_000), fast_value(EAST)), inserts(["a"], EAST)
    refused, done = backend.acceptors[0].insert([too_long, *fine])
    assert isinstance(refused, NoReply)
    assert "ValidationError" in refused.reason
    assert done == Done()


def test_a_hundred_ids_are_one_request(backend: Backend) -> None:
    registry, faults = backend.faulty_client()
    registry.lookup([EventKey("a")])
    assert isinstance(faults, FaultyClient)
    faults.requests.clear()
    assert registry.commit(claims([f"id-{i}" for i in range(100)], EAST)) == [Won()] * 100
    assert faults.requests == ["transact_write_items", "batch_get_item"]  # the second is the check


def test_a_lost_answer_of_a_transaction_is_unknown_and_its_repeat_wins_with_its_own_token(
    backend: Backend,
) -> None:
    ids = [f"id-{i}" for i in range(100)]
    registry, faults = backend.faulty_client()
    registry.lookup([EventKey("a")])
    faults.fail("lost_answer", batches=1_000)
    assert all(isinstance(outcome, Unknown) for outcome in registry.commit(claims(ids, EAST)))
    faults.mend()
    assert backend.client().lookup([EventKey(i) for i in ids]) == [Joined(EAST_HOLDS)] * 100
    assert registry.commit(claims(ids, EAST)) == [Won()] * 100


def test_a_lost_transaction_that_was_not_applied_leaves_its_ids_free(backend: Backend) -> None:
    registry, faults = backend.faulty_client()
    registry.lookup([EventKey("a")])
    faults.fail("lost_request", batches=1_000)
    assert all(isinstance(outcome, Unknown) for outcome in registry.commit(claims(["a", "b"], EAST)))
    assert backend.client().lookup([EventKey("a"), EventKey("b")]) == [Free(), Free()]
    assert backend.client().commit(claims(["a", "b"], WEST)) == [Won(), Won()]


def test_of_two_callers_with_crossing_transactions_each_id_has_one_winner(backend: Backend) -> None:
    ids = [f"id-{i}" for i in range(100)]
    at_once = threading.Barrier(2)
    outcomes: dict[str, dict[str, Any]] = {}

    def call(own: str, order: list[str]) -> None:
        registry = backend.client(SystemClock())
        registry.lookup([EventKey("a")])
        at_once.wait(timeout=30)
        outcomes[own] = dict(zip(order, registry.commit(claims(order, own)), strict=True))

    # Each begins where the other ends, and has 20 ids of its own.
    callers = [
        threading.Thread(target=call, args=(EAST, ids[:80])),
        threading.Thread(target=call, args=(WEST, ids[:19:-1])),
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    east, west = outcomes[EAST], outcomes[WEST]
    for event_id in ids[20:80]:
        assert (east[event_id], west[event_id]) in [(Won(), Lost(EAST_HOLDS)), (Lost(WEST_HOLDS), Won())]
    assert [east[i] for i in ids[:20]] == [west[i] for i in ids[80:]] == [Won()] * 20


def test_callers_by_transactions_and_callers_one_by_one_race_and_each_id_has_one_winner(
    dynamodb: Any,
) -> None:
    mixed = dynamodb_backend([dynamodb], False, itertools.cycle([True, False]))
    check_that_each_id_has_one_winner(lambda: mixed.client(SystemClock()), seed=11, ids=400)
    mixed.close()
