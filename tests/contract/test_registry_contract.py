"""What every IdRegistry promises: one suite, over stores in memory, DynamoDB Local and dynoxide.

Rules B1 to B8 and C1, C3 of the protocol, as far as one endpoint shows them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat

import pytest

from photon.clock import SystemClock
from photon.faults import arm, disarm
from photon.registry.acceptor import Accept, Done, Insert, Prepare, Promised, Refused
from photon.registry.decisions import ballot, majority
from photon.registry.dynamodb import DynamoAcceptor
from photon.registry.interface import (
    BeyondHorizon,
    Claim,
    EventKey,
    Free,
    Holder,
    Joined,
    Lost,
    NotHeld,
    RegistryUnavailable,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.registry.layout import Cleared, encode_value, fast_value, item_key
from photon.testing.memory_registry import MemoryAcceptor
from tests.contract.broken_registries import ReadsThenWrites, TakesLostAnswersForLosses
from tests.contract.registry_backends import (
    DAY_US,
    START_US,
    Backend,
    dynamodb_backend,
    memory_backend,
)
from tests.contract.registry_checks import (
    THREADS,
    check_that_a_lost_answer_is_no_loss,
    check_that_each_id_has_one_winner,
    claims,
    token,
)

EAST, WEST, THIRD = token("east", 1), token("west", 2), token("east", 3, batch=2)
EAST_HOLDS, WEST_HOLDS = Holder("east", EAST), Holder("west", WEST)
BACKENDS = [
    "memory",
    "memory-3",
    "memory-5",
    "memory-3-one-down",
    "memory-5-two-down",
    pytest.param("dynamodb-local", marks=pytest.mark.server),
    pytest.param("dynamodb-local-batches", marks=pytest.mark.server),
    pytest.param("dynoxide", marks=pytest.mark.server),
    pytest.param("dynoxide-batches", marks=pytest.mark.server),
    pytest.param("dynoxide-3", marks=pytest.mark.server),
]


MEMORY = {  # how many endpoints, and how many of them are down
    "memory": (1, 0),
    "memory-3": (3, 0),
    "memory-5": (5, 0),
    "memory-3-one-down": (3, 1),
    "memory-5-two-down": (5, 2),
}


def make_backend(kind: str, request: pytest.FixtureRequest, timed: bool) -> Backend:
    if kind.startswith("memory"):
        return memory_backend(timed, *MEMORY[kind])
    if kind.startswith("dynoxide"):
        servers = request.getfixturevalue("dynoxide")[: 3 if kind == "dynoxide-3" else 1]
    else:
        servers = [request.getfixturevalue("dynamodb")]
    return dynamodb_backend(servers, timed, repeat(not kind.endswith("-batches")))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made = make_backend(request.param, request, timed=False)
    yield made
    made.close()


@pytest.fixture(params=BACKENDS)
def timed(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A registry of ids that carry their time."""
    made = make_backend(request.param, request, timed=True)
    yield made
    made.close()


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
    # Three servers and 32 clients on two cores: each id costs three rounds at each, and many more tries.
    ids = 400 if isinstance(backend.acceptors[0], DynamoAcceptor) and len(backend.acceptors) > 1 else 2_000
    check_that_each_id_has_one_winner(lambda: backend.client(SystemClock()), seed=7, ids=ids)


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


# -- the same id twice in one call (B7, A9)


def test_of_two_tokens_for_one_id_in_one_call_the_first_wins(backend: Backend) -> None:
    both = [*claims(["a"], EAST), *claims(["b"], WEST), *claims(["a"], WEST)]
    assert backend.client().commit(both) == [Won(), Won(), Lost(EAST_HOLDS)]


def test_one_token_twice_in_one_call_wins_twice(backend: Backend) -> None:
    assert backend.client().commit(claims(["a", "a"], EAST)) == [Won(), Won()]


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


# -- somebody died half-way (B4)


def test_a_promise_of_somebody_who_died_holds_up_nobody(backend: Backend) -> None:
    prepare = Prepare(item_key(EventKey("a"), ()), ballot(5, "f" * 16))
    for acceptor in backend.acceptors:
        acceptor.prepare([prepare])
    assert backend.client().lookup([EventKey("a")]) == [Free()]
    assert backend.client().commit(claims(["a"], EAST)) == [Won()]
    assert backend.client().commit(claims(["a"], WEST)) == [Lost(EAST_HOLDS)]


def test_an_id_whose_holder_was_promised_over_is_still_his(backend: Backend) -> None:
    backend.client().commit(claims(["a"], EAST))
    for acceptor in backend.acceptors:
        acceptor.prepare([Prepare(item_key(EventKey("a"), ()), ballot(5, "f" * 16))])
    assert backend.client().commit(claims(["a"], WEST)) == [Lost(EAST_HOLDS)]
    assert backend.client().commit(claims(["a"], EAST)) == [Won()]


def test_one_who_was_amid_a_round_does_not_bring_a_cleared_token_back(backend: Backend) -> None:
    backend.client().commit(claims(["a"], EAST))
    item, late = item_key(EventKey("a"), ()), ballot(5, "f" * 16)
    up = [a for a in backend.acceptors if isinstance(a.prepare([Prepare(item, late)])[0], Promised)]
    assert len(up) >= majority(len(backend.acceptors))
    assert backend.client().clear(claims(["a"], EAST)) == 1
    for acceptor in up:
        assert isinstance(acceptor.accept([Accept(item, late, fast_value(EAST))])[0], Refused)
    assert backend.client().commit(claims(["a"], EAST)) == [Lost(Holder("east", None))]
    for acceptor in up:
        assert acceptor.accept([Accept(item, late, encode_value(Cleared("east")))]) == [Done()]


# -- release (B5)


def test_a_released_id_is_free_and_another_token_wins_it(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a"], EAST))
    assert registry.release(claims(["a"], EAST)) == [Released()]
    assert registry.lookup([EventKey("a")]) == [Free()]
    assert registry.commit(claims(["a"], WEST)) == [Won()]


def test_a_released_token_never_wins_again(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a"], EAST))
    registry.release(claims(["a"], EAST))
    assert registry.commit(claims(["a"], EAST)) == [Released()]
    assert registry.lookup([EventKey("a")]) == [Free()]


def test_an_insert_that_arrives_after_the_release_of_its_token_does_nothing(backend: Backend) -> None:
    backend.client().release(claims(["a"], EAST))
    for acceptor in backend.acceptors:
        acceptor.insert([Insert(item_key(EventKey("a"), ()), fast_value(EAST))])
    assert backend.client().lookup([EventKey("a")]) == [Free()]
    assert backend.client().commit(claims(["a"], EAST)) == [Released()]


def test_a_token_released_long_ago_never_wins_however_many_came_after_it(backend: Backend) -> None:
    registry = backend.client()
    for later in (EAST, WEST, THIRD):
        registry.commit(claims(["a"], later))
        registry.release(claims(["a"], later))
    assert registry.commit([Claim(EventKey("a"), t) for t in (EAST, WEST, THIRD)]) == [Released()] * 3


def test_releasing_twice_is_releasing_once(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a"], EAST))
    assert registry.release(claims(["a", "a"], EAST)) == [Released(), Released()]
    assert registry.release(claims(["a"], EAST)) == [Released()]


def test_nobody_releases_the_id_of_another_token(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a"], EAST))
    assert registry.release(claims(["a"], WEST)) == [NotHeld(EAST_HOLDS)]
    assert registry.lookup([EventKey("a")]) == [Joined(EAST_HOLDS)]


def test_of_a_token_committed_and_released_at_once_the_release_stays(backend: Backend) -> None:
    ids = [f"id-{i}" for i in range(50)]
    registry = backend.client(SystemClock())
    registry.lookup([EventKey("a")])
    committer = threading.Thread(target=lambda: [registry.commit(claims([i], EAST)) for i in ids])
    committer.start()
    released = [backend.client(SystemClock()).release(claims([i], EAST))[0] for i in ids]
    committer.join()
    assert released == [Released()] * 50
    assert registry.lookup([EventKey(i) for i in ids]) == [Free()] * 50


# -- clear (B6)


def test_clearing_keeps_the_owner_and_drops_the_token(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a"], EAST))
    assert registry.clear(claims(["a"], EAST)) == 1
    assert registry.lookup([EventKey("a")]) == [Joined(Holder("east", None))]
    assert registry.commit(claims(["a"], WEST)) == [Lost(Holder("east", None))]


def test_a_retry_after_clearing_is_never_a_win(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a"], EAST))
    registry.clear(claims(["a"], EAST))
    assert registry.commit(claims(["a"], EAST)) == [Lost(Holder("east", None))]


def test_a_cleared_id_is_never_released(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a"], EAST))
    registry.clear(claims(["a"], EAST))
    assert registry.release(claims(["a"], EAST)) == [NotHeld(Holder("east", None))]


def test_only_the_named_token_is_cleared(backend: Backend) -> None:
    registry = backend.client()
    registry.commit([*claims(["a"], EAST), *claims(["b"], WEST)])
    assert registry.clear([*claims(["a"], WEST), *claims(["b", "absent"], WEST)]) == 1
    assert registry.lookup([EventKey("a"), EventKey("b")]) == [
        Joined(EAST_HOLDS),
        Joined(Holder("west", None)),
    ]


def test_clearing_again_changes_nothing(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a"], EAST))
    assert [registry.clear(claims(["a", "a"], EAST)), registry.clear(claims(["a"], EAST))] == [1, 0]


def test_tokens_are_found_of_ids_that_have_one(backend: Backend) -> None:
    registry = backend.client()
    registry.commit(claims(["a", "cleared"], EAST))
    registry.clear(claims(["cleared"], EAST))
    found = registry.tokens_anywhere([EventKey(i) for i in ("a", "cleared", "absent", "a")])
    assert found == [{EAST}, frozenset(), frozenset(), {EAST}]


def test_a_token_that_came_after_a_release_is_cleared_too(backend: Backend) -> None:
    registry = backend.client()
    registry.release(claims(["a"], EAST))
    registry.commit(claims(["a"], WEST))
    assert registry.clear(claims(["a"], WEST)) == 1
    assert registry.lookup([EventKey("a")]) == [Joined(Holder("west", None))]


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
    shards = {f"0-{shard:05d}": START_US + round(days * DAY_US) for shard in range(16)}
    backend.client().register.change(lambda register: replace(register, boundaries_us=shards))


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
    arm("task.amid_register", crash=lambda: raise_boundary(timed, days=-1))
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
    store, all_have_read = MemoryAcceptor(), threading.Barrier(THREADS)
    with pytest.raises(AssertionError):
        check_that_each_id_has_one_winner(lambda: ReadsThenWrites(store, all_have_read), seed=7, ids=200)


def test_the_suite_fails_on_a_registry_that_takes_lost_answers_for_losses() -> None:
    store = MemoryAcceptor()
    with pytest.raises(AssertionError):
        check_that_a_lost_answer_is_no_loss(TakesLostAnswersForLosses(store), store)
