"""The rounds over three and five endpoints in memory, with messages lost and a minority down."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from typing import Any

import pytest

from photon.errors import FormatTooNew
from photon.faults import arm, disarm
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.stores.copies import NoReply
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Replace, WriteReply
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey, item_key
from photon.registry.consensus.register import Members, decode_register
from photon.registry.interface import (
    Claim,
    CommitOutcome,
    Free,
    Holder,
    Joined,
    Lost,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.registry.quorum.outcomes import outcome_of_follower
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.crashes import SimulatedCrash, raise_simulated_crash
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"
KEY = EventKey("a")
SETTINGS = Registry(total_timeout=timedelta(seconds=5))


def endpoints(n: int) -> list[FaultyStore]:
    return [FaultyStore(ManualClock()) for _ in range(n)]


def client(acceptors: list[FaultyStore]) -> QuorumRegistry:
    return memory_registry(*acceptors, clock=ManualClock(), settings=SETTINGS)


@pytest.mark.parametrize(("n", "down"), [(3, 1), (5, 1), (5, 2)])
def test_a_minority_that_is_down_stops_nobody(n: int, down: int) -> None:
    acceptors = endpoints(n)
    registry = client(acceptors)
    for acceptor in acceptors[:down]:
        acceptor.fail("down")
    assert registry.commit([Claim(KEY, EAST)]) == [Won()]
    assert isinstance(registry.commit([Claim(KEY, WEST)])[0], Lost)
    assert isinstance(registry.lookup([KEY])[0], Joined)


@pytest.mark.parametrize(("n", "down"), [(1, 1), (3, 2), (5, 3)])
def test_without_a_majority_the_outcome_is_unknown(n: int, down: int) -> None:
    acceptors = endpoints(n)
    registry = client(acceptors)
    for acceptor in acceptors[:down]:
        acceptor.fail("down")
    assert isinstance(registry.commit([Claim(KEY, EAST)])[0], Unknown)


def test_a_value_that_one_endpoint_missed_is_still_the_winner_without_another_one() -> None:
    acceptors = endpoints(3)
    registry = client(acceptors)
    acceptors[0].fail("down")
    registry.commit([Claim(KEY, EAST)])
    acceptors[0].mend()
    acceptors[2].fail("down")
    assert isinstance(registry.commit([Claim(KEY, WEST)])[0], Lost)


@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_with_lost_messages_each_id_has_at_most_one_winner(n: int, seed: int) -> None:
    print(f"seed {seed}")
    stores = endpoints(n)
    client(stores)
    ids = [EventKey(f"id-{i}") for i in range(40)]

    def race(number: int) -> list[CommitOutcome]:
        chance = random.Random(100 * seed + number)
        ways_in = [store.another_way_in() for store in stores]
        registry = QuorumRegistry(ways_in, SETTINGS, ManualClock())
        token = f"{('east', 'west')[number % 2]}:e:{number}#p:1:0"
        outcomes: list[CommitOutcome] = []
        for key in ids:
            chance.choice(ways_in).fail(chance.choice(["lost_request", "lost_answer", "unprocessed"]))
            outcomes += registry.commit([Claim(key, token)])
        registry.close()
        return outcomes

    with ThreadPoolExecutor(6) as pool:
        columns = list(zip(*pool.map(race, range(6)), strict=True))
    winners = [sum(outcome == Won() for outcome in column) for column in columns]
    assert max(winners) == 1
    decided = [column for column in columns if not any(isinstance(o, Unknown) for o in column)]
    assert decided
    assert all(sum(outcome == Won() for outcome in column) == 1 for column in decided)


def test_replies_from_before_a_change_of_members_do_not_count() -> None:
    (acceptor,) = acceptors = endpoints(1)
    registry = client(acceptors)
    other = client([acceptor.another_way_in()])
    registry.lookup([KEY])

    def change_members(kind: str, batch: object) -> None:
        if kind == "insert":
            other.register.change(lambda register: replace(register, members=Members(2, ("second",))))

    acceptor.on_request = change_members
    # The win is not taken from the fast round's replies, but from a round under the new members.
    assert registry.commit([Claim(KEY, EAST)]) == [Won()]
    (stored,) = [s for key, s in acceptor.items.items() if key.s == "ia"]
    assert stored.accepted != ""


def test_a_check_that_gets_no_answer_confirms_nothing() -> None:
    (acceptor,) = acceptors = endpoints(1)
    registry = client(acceptors)
    registry.lookup([KEY])
    acceptor.on_request = lambda kind, batch: acceptor.fail("down") if kind == "read" else acceptor.mend()
    assert isinstance(registry.commit([Claim(KEY, EAST)])[0], Unknown)


def test_a_crash_while_registering_leaves_ids_that_the_same_plan_wins_on_its_re_run() -> None:
    acceptors = endpoints(1)
    claims = [Claim(EventKey(f"id-{i}"), EAST) for i in range(100)]
    crashed = client(acceptors)
    crashed.lookup([KEY])
    arm("task.during_register:2", crash=raise_simulated_crash)
    try:
        with pytest.raises(SimulatedCrash):
            crashed.commit(claims)
    finally:
        disarm()
    assert client(acceptors).commit(claims) == [Won()] * 100


@pytest.mark.parametrize(
    ("outcome", "follower", "expected"),
    [
        (Won(), EAST, Won()),
        (Released(), WEST, None),
        (Released(), EAST, Released()),
        (Won(), WEST, Lost(Holder("east", EAST))),
        (Lost(Holder("west", "west:e:2#p:1:0")), WEST, Lost(Holder("west", "west:e:2#p:1:0"))),
        (Lost(Holder("west", None)), WEST, Lost(Holder("west", None))),
        (Lost(Holder("west", WEST)), WEST, None),  # its own: it asks, and wins again
        (TooOld(), WEST, None),  # of the leader's record: another one may say another time
        (Unknown("why"), WEST, Unknown("why")),
    ],
)
def test_a_second_claim_for_an_id_follows_from_the_first(
    outcome: CommitOutcome, follower: str, expected: CommitOutcome | None
) -> None:
    assert outcome_of_follower(EAST, outcome, follower) == expected


def test_ids_go_out_in_the_order_of_their_items_whatever_the_order_of_claims() -> None:
    (acceptor,) = acceptors = endpoints(1)
    registry = client(acceptors)
    sent: list[list[ItemKey]] = []
    acceptor.on_request = lambda kind, batch: sent.append([getattr(q, "key", q) for q in batch])
    claims = [Claim(EventKey(f"id-{number}"), EAST) for number in range(60)]
    random.Random(1).shuffle(claims)
    assert registry.commit(claims) == [Won()] * len(claims)
    inserts = sorted(keys for keys in sent if keys != [REGISTER_KEY])  # three requests, on a thread each
    assert len(inserts) == 3
    assert [key for keys in inserts for key in keys] == sorted(item_key(c.key, ()) for c in claims)


def test_of_claims_for_one_id_the_first_one_wins_though_ids_go_out_in_another_order() -> None:
    registry = client(endpoints(1))
    claims = [Claim(EventKey(event_id), token) for token in (WEST, EAST) for event_id in "cba"]
    assert registry.commit(claims) == [Won()] * 3 + [Lost(Holder("west", WEST))] * 3


def test_a_register_of_a_newer_version_is_refused() -> None:
    with pytest.raises(FormatTooNew, match="newer Photon"):
        decode_register('{"format": 99}')


def test_a_released_id_is_free_at_every_majority() -> None:
    acceptors = endpoints(3)
    registry = client(acceptors)
    registry.commit([Claim(KEY, EAST)])
    acceptors[1].fail("down")
    registry.release([Claim(KEY, EAST)])
    acceptors[1].mend()
    acceptors[0].fail("down")
    assert registry.lookup([KEY]) == [Free()]
    assert registry.commit([Claim(KEY, EAST)]) == [Released()]


def test_an_id_that_endpoints_hold_with_different_histories_is_cleared_in_one_call() -> None:
    acceptors = endpoints(3)
    registry = client(acceptors)
    registry.commit([Claim(KEY, EAST)])
    registry.release([Claim(KEY, EAST)])
    registry.commit([Claim(KEY, WEST)])
    (item,) = [key for key in acceptors[0].items if key.s == "ia"]
    for number, before in enumerate(("", "\neast:e:0#p:1:0")):
        stored = acceptors[number].items[item]
        acceptors[number].items[item] = replace(stored, value=f"T:{WEST}\n{EAST}{before}")
    assert registry.clear([Claim(KEY, WEST)]) == 1
    assert {acceptor.items[item].value for acceptor in acceptors} == {"C:west"}


def test_an_id_that_is_cleared_at_one_endpoint_after_the_other_is_counted_once() -> None:
    class ThrottlesOnce(FaultyStore):
        throttles = True

        def replace(self, batch: Sequence[Replace]) -> list[WriteReply]:
            if self.throttles:
                self.throttles = False
                return [NoReply("slow down", "throttled")] * len(batch)
            return super().replace(batch)

    registry = client([FaultyStore(ManualClock()), ThrottlesOnce(ManualClock()), FaultyStore(ManualClock())])
    registry.commit([Claim(KEY, EAST)])
    assert registry.clear([Claim(KEY, EAST)]) == 1


@pytest.mark.parametrize("n", [1, 3])
def test_one_who_prepared_before_a_clearing_does_not_bring_the_token_back(n: int) -> None:
    acceptors = endpoints(n)
    registry = client(acceptors)
    registry.release([Claim(KEY, WEST)])
    registry.commit([Claim(KEY, EAST)])  # by a ballot, so that a repeat takes a ballot too
    other = client([acceptor.another_way_in() for acceptor in acceptors])

    cleared: list[int] = []
    one_at_a_time = Lock()

    def clear_before_any_accepts_it(kind: str, batch: object) -> None:
        with one_at_a_time:
            if kind == "accept" and not cleared:
                cleared.append(registry.clear([Claim(KEY, EAST)]))

    slow = [acceptor.another_way_in() for acceptor in acceptors]
    for acceptor in slow:
        acceptor.on_request = clear_before_any_accepts_it
    client(slow).commit([Claim(KEY, EAST)])
    assert cleared == [1]
    assert isinstance(other.commit([Claim(KEY, EAST)])[0], Lost)


def test_a_clearing_that_few_endpoints_could_take_part_in_is_still_known_without_them() -> None:
    one, other, third = acceptors = endpoints(3)
    registry = client(acceptors)
    other.fail("down")
    registry.commit([Claim(KEY, EAST)])  # held by the first and the third
    other.mend()
    one.fail("down")
    assert registry.clear([Claim(KEY, EAST)]) == 1
    one.mend()
    third.fail("down")
    later = client(acceptors)
    assert later.commit([Claim(KEY, EAST)]) == [Lost(Holder("east", None))]
    assert later.lookup([KEY]) == [Joined(Holder("east", None))]


def test_a_late_clearing_of_a_token_that_was_released_leaves_the_next_owner_alone() -> None:
    acceptors = endpoints(3)
    registry = client(acceptors)
    registry.commit([Claim(KEY, EAST)])
    acceptors[2].fail("down")  # and keeps the token
    registry.release([Claim(KEY, EAST)])
    registry.commit([Claim(KEY, WEST)])
    acceptors[2].mend()
    later = client(acceptors)
    assert later.clear([Claim(KEY, EAST)]) == 0
    assert later.lookup([KEY]) == [Joined(Holder("west", WEST))]
    assert later.commit([Claim(KEY, WEST)]) == [Won()]


def test_a_clearing_that_no_majority_could_take_part_in_has_to_be_repeated() -> None:
    acceptors = endpoints(3)
    registry = client(acceptors)
    acceptors[1].fail("down")
    registry.commit([Claim(KEY, EAST)])
    acceptors[1].mend()
    acceptors[0].fail("down")
    acceptors[1].on_request = lambda kind, batch: acceptors[1].fail("down") if kind == "prepare" else None
    with pytest.raises(RegistryUnavailable):
        registry.clear([Claim(KEY, EAST)])


class Throttles(FaultyStore):
    """Does a part of the requests only, and says so; counts the writes that it was asked for."""

    def __init__(self, share: float, chance: random.Random) -> None:
        super().__init__(ManualClock())
        self.writes = 0
        self.share, self._chance = share, chance

    def _serve(self, kind: str, batch: Sequence[Any], apply: Any) -> list[Any]:
        if kind == "read":
            return super()._serve(kind, batch, apply)
        self.writes += len(batch)
        if self._chance.random() < self.share:
            return [NoReply("slow down", "throttled")] * len(batch)
        return super()._serve(kind, batch, apply)


def test_of_three_endpoints_that_throttle_30_percent_each_is_asked_for_1_6_writes_an_id_at_most() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    acceptors = [Throttles(0.0, chance) for _ in range(3)]
    registry = client(list(acceptors))
    for acceptor in acceptors:
        acceptor.share = 0.3
    ids = 500
    before = [acceptor.writes for acceptor in acceptors]
    for number in range(ids):
        assert registry.commit([Claim(EventKey(f"id-{number}"), EAST)]) == [Won()]
    asked = [(a.writes - first) / ids for a, first in zip(acceptors, before, strict=True)]
    assert max(asked) <= 1.6


def test_an_endpoint_that_throttles_everything_leaves_the_decision_to_the_others() -> None:
    throttles = Throttles(0.0, random.Random(0))
    registry = client([FaultyStore(ManualClock()), FaultyStore(ManualClock()), throttles])
    registry.lookup([KEY])
    throttles.share = 1.0
    assert registry.commit([Claim(KEY, EAST)]) == [Won()]
    assert registry.lookup([KEY]) == [Joined(Holder("east", EAST))]
