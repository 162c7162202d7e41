"""What every IdRegistry promises: one suite, over stores in memory, DynamoDB Local and dynoxide.

Rules B1 to B3, B7, B8 and C1, C3 of the protocol; B4 to B6 are in `test_released_and_cleared`.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from photon.clock import SystemClock
from photon.faults import arm, disarm
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.register import EPOCHS_KEPT
from photon.registry.dynamodb.acceptor import DynamoAcceptor
from photon.registry.interface import (
    BeyondHorizon,
    Claim,
    Fenced,
    Free,
    Joined,
    Lost,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.tokens import Token
from tests.contract.broken_registries import ReadsThenWrites, TakesLostAnswersForLosses
from tests.contract.registry_backends import DAY_US, START_US, Backend
from tests.contract.registry_checks import (
    EAST,
    EAST_HOLDS,
    THREADS,
    WEST,
    WEST_HOLDS,
    check_that_a_lost_answer_is_no_loss,
    check_that_each_id_has_one_winner,
    claims,
)

# -- one winner


def test_an_id_that_nobody_registered_is_free(backend: Backend) -> None:
    assert backend.client().lookup([EventKey("a")]) == [Free()]


def test_the_first_token_wins_and_the_second_is_told_who_holds_the_id(backend: Backend) -> None:
    assert backend.client().commit(claims(["a"], EAST)) == [Won()]
    assert backend.client().commit(claims(["a"], WEST)) == [Lost(EAST_HOLDS)]


def test_everybody_sees_a_registered_id_at_once(backend: Backend) -> None:
    backend.client().commit(claims(["a"], EAST))
    assert backend.client().lookup([EventKey("a")]) == [Joined(EAST_HOLDS)]


def test_a_token_that_holds_the_id_wins_again(backend: Backend) -> None:
    backend.client().commit(claims(["a"], EAST))
    assert backend.client().commit(claims(["a"], EAST)) == [Won()]


def test_32_threads_of_two_datacenters_race_for_the_same_ids_and_each_has_one_winner(
    backend: Backend,
) -> None:
    # 32 clients of a server on two cores outbid each other: an id costs many tries, so a few must do.
    ids = 400 if isinstance(backend.acceptors[0], DynamoAcceptor) else 2_000
    check_that_each_id_has_one_winner(lambda: backend.client(SystemClock()), seed=7, ids=ids)


@pytest.mark.long
def test_in_a_longer_race_each_id_has_one_winner_too(backend: Backend) -> None:
    ids = 2_000 if len(backend.acceptors) == 1 else 800
    check_that_each_id_has_one_winner(lambda: backend.client(SystemClock()), seed=8, ids=ids)


def test_outcomes_come_in_the_order_of_the_claims_over_many_requests(backend: Backend) -> None:
    backend.client().commit(claims([f"id-{i}" for i in range(0, 260, 2)], EAST))
    outcomes = backend.client().commit(claims([f"id-{i}" for i in range(260)], WEST))
    assert outcomes == [Won() if i % 2 else Lost(EAST_HOLDS) for i in range(260)]
    found = backend.client().lookup([EventKey(f"id-{i}") for i in range(260)])
    assert found == [Joined(WEST_HOLDS if i % 2 else EAST_HOLDS) for i in range(260)]


def test_empty_calls_return_nothing_and_ask_nobody(backend: Backend) -> None:
    registry, faults = backend.faulty_client()
    faults.fail("down")
    assert (registry.lookup([]), registry.commit([]), registry.release([]), registry.clear([])) == (
        [],
        [],
        [],
        0,
    )


# -- epochs that are over (B18)


def with_epoch(backend: Backend, token: str) -> QuorumRegistry:
    registry = backend.client()
    plan = Token.parse(token).plan
    registry.register.add_epoch(plan.epoch, plan.datacenter, "table", now_us=START_US)
    return registry


def test_a_token_of_a_revoked_epoch_is_fenced_and_holds_nothing(backend: Backend) -> None:
    registry = with_epoch(backend, EAST)
    registry.register.revoke_epoch(Token.parse(EAST).plan.epoch, now_us=START_US)
    assert backend.client().commit(claims(["a"], EAST)) == [Fenced(Token.parse(EAST).plan.epoch)]
    assert backend.client().lookup([EventKey("a")]) == [Free()]


def test_a_commit_is_fenced_by_an_epoch_that_ends_while_it_is_under_way(backend: Backend) -> None:
    registry = with_epoch(backend, EAST)
    epoch = Token.parse(EAST).plan.epoch
    arm("task.during_register", lambda: registry.register.revoke_epoch(epoch, now_us=START_US))
    try:
        assert backend.client().commit(claims(["a"], EAST)) == [Fenced(epoch)]
    finally:
        disarm()


def test_a_token_of_an_epoch_whose_record_is_pruned_is_fenced_and_holds_nothing(backend: Backend) -> None:
    registry = with_epoch(backend, EAST)
    epoch = Token.parse(EAST).plan.epoch
    registry.register.revoke_epoch(epoch, now_us=START_US)
    for number in range(EPOCHS_KEPT + 1):
        registry.register.add_epoch(f"e{number}", "east", "table", now_us=START_US + 1 + number)
        registry.register.revoke_epoch(f"e{number}", now_us=START_US + 1 + number)
    assert epoch not in registry.register.read().epochs
    assert backend.client().commit(claims(["a"], EAST)) == [Fenced(epoch)]
    assert backend.client().lookup([EventKey("a")]) == [Free()]


def test_a_client_that_has_not_heard_of_a_new_epoch_lets_its_tokens_in(backend: Backend) -> None:
    with_epoch(backend, "east:earlier:1#plan:1:0")
    slept = backend.client()
    slept.lookup([EventKey("a")])  # knows the register as it is now
    with_epoch(backend, EAST)
    assert slept.commit(claims(["a"], EAST)) == [Won()]


# -- the same id twice in one call (B7, B16, A9)


def test_of_two_tokens_for_one_id_in_one_call_the_first_wins(backend: Backend) -> None:
    both = [*claims(["a"], EAST), *claims(["b"], WEST), *claims(["a"], WEST)]
    assert backend.client().commit(both) == [Won(), Won(), Lost(EAST_HOLDS)]


def test_one_token_twice_in_one_call_wins_twice(backend: Backend) -> None:
    assert backend.client().commit(claims(["a", "a"], EAST)) == [Won(), Won()]


def test_the_token_that_holds_an_id_wins_again_beside_another_one_in_the_same_call(backend: Backend) -> None:
    backend.client().commit(claims(["a"], WEST))
    both = [*claims(["a"], EAST), *claims(["a"], WEST)]
    assert backend.client().commit(both) == [Lost(WEST_HOLDS), Won()]


def test_an_id_twice_in_one_lookup_is_answered_twice(backend: Backend) -> None:
    assert backend.client().lookup([EventKey("a"), EventKey("a")]) == [Free(), Free()]


def test_a_released_token_leaves_the_id_to_the_next_one_in_the_same_call(backend: Backend) -> None:
    backend.client().release(claims(["a"], EAST))
    both = [*claims(["a"], EAST), *claims(["a"], WEST)]
    assert backend.client().commit(both) == [Released(), Won()]


# -- answers that get lost (B2)


def test_a_lost_answer_followed_by_a_repeat_wins_with_its_own_token(backend: Backend) -> None:
    check_that_a_lost_answer_is_no_loss(*backend.faulty_client())


@pytest.mark.parametrize("fault", ["lost_request", "lost_answer", "unprocessed"])
@pytest.mark.parametrize("batches", [1, 2, 3, 7])
def test_a_commit_wins_every_id_whatever_requests_are_disturbed(
    backend: Backend, fault: str, batches: int
) -> None:
    registry, faults = backend.faulty_client()
    registry.lookup([EventKey("a")])
    faults.fail(fault, batches)
    assert registry.commit(claims([f"id-{i}" for i in range(60)], EAST)) == [Won()] * 60


def test_a_lookup_asks_again_for_what_was_not_processed(backend: Backend) -> None:
    backend.client().commit(claims([f"id-{i}" for i in range(60)], EAST))
    registry, faults = backend.faulty_client()
    registry.lookup([EventKey("a")])
    faults.fail("unprocessed", 2)
    assert registry.lookup([EventKey(f"id-{i}") for i in range(60)]) == [Joined(EAST_HOLDS)] * 60


@pytest.mark.parametrize("fault", ["lost_request", "lost_answer"])
def test_after_time_outs_a_lookup_names_the_holder_or_nobody_and_a_commit_is_lost(
    backend: Backend, fault: str
) -> None:
    backend.client().commit(claims([f"id-{i}" for i in range(60)], EAST))
    registry, faults = backend.faulty_client()
    registry.lookup([EventKey("a")])
    faults.fail(fault, 2)
    # One that timed out is spared as long as a majority answers: too few to show a win of the fast round.
    found = set(registry.lookup([EventKey(f"id-{i}") for i in range(60)]))
    assert found <= {Joined(EAST_HOLDS), Free()}
    outcomes = registry.commit(claims([f"id-{i}" for i in range(60)], WEST))
    assert outcomes == [Lost(EAST_HOLDS)] * 60


@pytest.mark.parametrize("fault", ["lost_request", "lost_answer", "unprocessed"])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_release_succeeds_whatever_requests_are_disturbed(
    backend: Backend, fault: str, batches: int
) -> None:
    registry, faults = backend.faulty_client()
    registry.commit(claims(["a", "b"], EAST))
    faults.fail(fault, batches)
    assert registry.release(claims(["a", "b"], EAST)) == [Released(), Released()]
    assert registry.lookup([EventKey("a"), EventKey("b")]) == [Free(), Free()]


def test_a_registry_that_is_down_leaves_a_commit_unknown_and_a_lookup_unavailable(backend: Backend) -> None:
    registry, faults = backend.faulty_client()
    registry.lookup([EventKey("a")])
    faults.fail("down")
    (outcome,) = registry.commit(claims(["a"], EAST))
    assert isinstance(outcome, Unknown)
    with pytest.raises(RegistryUnavailable):
        registry.lookup([EventKey("a")])
    assert isinstance(registry.release(claims(["a"], EAST))[0], Unknown)
    with pytest.raises(RegistryUnavailable):
        registry.clear(claims(["a"], EAST))


def test_a_registry_that_is_back_serves_the_same_client(backend: Backend) -> None:
    registry, faults = backend.faulty_client()
    faults.fail("down")
    registry.commit(claims(["a"], EAST))
    faults.mend()
    assert registry.commit(claims(["a"], EAST)) == [Won()]


def test_an_unknown_outcome_that_was_a_win_is_a_win_when_it_is_asked_again(backend: Backend) -> None:
    registry, faults = backend.faulty_client()
    registry.lookup([EventKey("a")])
    faults.fail("lost_answer", batches=1_000)
    assert isinstance(registry.commit(claims(["a"], EAST))[0], Unknown)
    assert backend.client().commit(claims(["a"], WEST)) == [Lost(EAST_HOLDS)]
    faults.mend()
    assert registry.commit(claims(["a"], EAST)) == [Won()]


# -- keys (B7, B8)


def test_an_id_of_3000_bytes_is_registered_beside_short_ones(backend: Backend) -> None:
    long = "k" * 2_999
    assert backend.client().commit(claims([long + "1", "short", long + "2"], EAST)) == [Won()] * 3
    assert backend.client().commit(claims([long + "1", long + "3"], WEST)) == [Lost(EAST_HOLDS), Won()]


@pytest.mark.parametrize(
    "event_id", ["nul\0", "é", "e\u0301", "'\"?", " ", "\ud800", "\U0001f600", "register", "a\nb"]
)
def test_any_text_is_an_id_of_its_own(backend: Backend, event_id: str) -> None:
    registry = backend.client()
    assert registry.commit(claims([event_id], EAST)) == [Won()]
    assert registry.lookup([EventKey(event_id), EventKey(event_id + "x")]) == [Joined(EAST_HOLDS), Free()]


def test_an_empty_id_is_refused_before_anything_is_sent(backend: Backend) -> None:
    registry = backend.client()
    with pytest.raises(ValueError, match="empty id"):
        registry.commit(claims(["a", ""], EAST))
    assert registry.lookup([EventKey("a")]) == [Free()]


# -- boundary and horizon (C1, C3)


def at(days: float, event_id: str = "a") -> EventKey:
    return EventKey(event_id, START_US + round(days * DAY_US))


def raise_boundary(backend: Backend, days: float) -> None:
    boundary_us = START_US + round(days * DAY_US)
    backend.client().register.change(lambda register: replace(register, boundary_us=boundary_us))


def test_one_id_at_two_times_is_two_events(timed: Backend) -> None:
    assert timed.client().commit([Claim(at(0), EAST), Claim(at(1), WEST)]) == [Won(), Won()]


def test_times_before_1970_are_times_like_others(timed: Backend) -> None:
    old = EventKey("a", -5)
    assert timed.client().commit([Claim(old, EAST)]) == [Won()]
    assert timed.client().lookup([old, EventKey("a", 5)]) == [Joined(EAST_HOLDS), Free()]


def test_below_the_boundary_an_event_is_too_old_for_every_call(timed: Backend) -> None:
    timed.client().commit([Claim(at(-2), EAST)])
    raise_boundary(timed, days=-1)
    assert timed.client().commit([Claim(at(-2), EAST), Claim(at(0), EAST)]) == [TooOld(), Won()]
    assert timed.client().lookup([at(-2), at(0)]) == [TooOld(), Joined(EAST_HOLDS)]


def test_a_client_that_slept_while_the_boundary_passed_does_not_win(timed: Backend) -> None:
    registry = timed.client()
    registry.lookup([at(-2)])  # knows the register as it was
    arm("task.during_register", crash=lambda: raise_boundary(timed, days=-1))
    try:
        assert registry.commit([Claim(at(-2), EAST)]) == [TooOld()]
    finally:
        disarm()


def test_at_the_horizon_an_event_is_not_committed_yet(timed: Backend) -> None:
    registry = timed.client()
    assert registry.commit([Claim(at(2), EAST), Claim(at(1.9), EAST)]) == [BeyondHorizon(), Won()]
    assert registry.lookup([at(2)]) == [BeyondHorizon()]


def test_the_horizon_moves_on_with_the_clock(timed: Backend) -> None:
    registry = timed.client()
    assert registry.commit([Claim(at(2.5), EAST)]) == [BeyondHorizon()]
    timed.clock.advance(2 * DAY_US / 1_000_000)
    assert registry.commit([Claim(at(2.5), EAST)]) == [Won()]


# -- the suite catches what it is there to catch


def test_the_suite_fails_on_a_registry_that_reads_and_then_writes() -> None:
    store, all_have_read = FaultyStore(), threading.Barrier(THREADS)
    with pytest.raises(AssertionError):
        check_that_each_id_has_one_winner(lambda: ReadsThenWrites(store, all_have_read), seed=7, ids=200)


def test_the_suite_fails_on_a_registry_that_takes_lost_answers_for_losses() -> None:
    store = FaultyStore()
    with pytest.raises(AssertionError):
        check_that_a_lost_answer_is_no_loss(TakesLostAnswersForLosses(store), store)
