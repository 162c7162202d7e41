"""What every IdRegistry promises of ids that are given up: after a death half-way, by release, by clearing.

Rules B4 to B6 of the protocol. The rest of the suite is in `test_registry_contract`.
"""

from __future__ import annotations

import threading

from photon.clock import SystemClock
from photon.ledger.stores.copies import Done
from photon.ledger.stores.decisions import ballot, majority
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Accept, Insert, Prepare, Promised, Refused, Stored
from photon.registry.consensus.layout import Cleared, encode_value, fast_value, item_key
from photon.registry.interface import Claim, Free, Holder, Joined, Lost, Released, Won
from tests.contract.registry_backends import Backend
from tests.contract.registry_checks import EAST, EAST_HOLDS, THIRD, WEST, claims

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


def test_one_who_was_in_a_round_does_not_bring_a_cleared_token_back(backend: Backend) -> None:
    first = backend.client()
    first.commit(claims(["a"], EAST))
    first.close()  # no endpoint takes its claim any more that has not done so by now
    item, late = item_key(EventKey("a"), ()), ballot(5, "f" * 16)
    up = [a for a in backend.acceptors if isinstance(a.read([item])[0], Stored)]
    assert len(up) >= majority(len(backend.acceptors))
    assert all(isinstance(a.prepare([Prepare(item, late)])[0], Promised) for a in up)
    assert backend.client().clear(claims(["a"], EAST)) == 1
    for acceptor in up:
        assert isinstance(acceptor.accept([Accept(item, late, fast_value(EAST))])[0], Refused)
    assert backend.client().commit(claims(["a"], EAST)) == [Lost(Holder("east", None))]
    for acceptor in up:
        assert acceptor.accept([Accept(item, late, encode_value(Cleared("east")))]) == [Done()]


def test_an_endpoint_that_promised_refuses_every_accept_below_that(backend: Backend) -> None:
    item, value = item_key(EventKey("a"), ()), fast_value(EAST)
    promised, lower = ballot(5, "f" * 16), ballot(5, "0" * 16)
    up = [a for a in backend.acceptors if isinstance(a.prepare([Prepare(item, promised)])[0], Promised)]
    assert len(up) >= majority(len(backend.acceptors))
    for acceptor in up:
        assert acceptor.accept([Accept(item, lower, value)]) == [Refused(Stored(promised=promised))]
        assert acceptor.prepare([Prepare(item, lower)]) == [Refused(Stored(promised=promised))]
        assert acceptor.accept([Accept(item, promised, value)]) == [Done()]
        assert acceptor.accept([Accept(item, lower, fast_value(WEST))]) == [
            Refused(Stored(value, promised, promised))
        ]


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
    assert registry.release(claims(["a"], WEST)) == [Lost(EAST_HOLDS)]
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
    assert registry.release(claims(["a"], EAST)) == [Lost(Holder("east", None))]


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
