"""What may be under way while an endpoint is repaired, step by step: each ends with one winner.

Told of the product as it is in `tests/unit/test_registry_repair.py`, and of broken ones, which they catch, in
`tests/simulation/test_broken_upkeep.py`.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any

from photon.faults import arm, disarm
from photon.ledger.stores.decisions import ballot
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Accept, Insert, Prepare
from photon.registry.consensus.layout import fast_value, item_key
from photon.registry.consensus.register import Members
from photon.registry.interface import Claim, Free, Holder, Lost, Won
from photon.registry.operations.copying import RepairSuperseded
from photon.registry.operations.ranges import POSITIONS
from photon.testing.crashes import SimulatedCrash, raise_simulated_crash
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from tests.simulation.repair_site import Site

EAST, WEST, LATER = "east:e:1#p:1:0", "west:e:1#p:1:0", "east:e:2#q:1:0"
KEY = EventKey("a")
ITEM = item_key(KEY, ())
HIGH = "f" * 16  # of a proposer that outbids all others with the same counter


class LastSlotFirst:
    """A channel that sends one request after the other."""

    def exchange(
        self, send: Any, requests: Any, heard: Any, is_write: bool, until: Any = None
    ) -> Generator[list[tuple[int, list[Any]]]]:
        for index in reversed(range(len(requests))):
            replies = send(*requests[index])
            heard(index, replies, 0.0)
            yield [(index, replies)]

    def aside(self, send: Any, requests: Any, heard: Any) -> None:
        raise AssertionError("nobody is slow here")

    def in_background(self, work: Any) -> None:
        work()

    def close(self) -> None: ...


class High(random.Random):
    """Makes a proposer whose ballots are above those of others."""

    def getrandbits(self, k: int, /) -> int:
        return 2**k - 1


def before(acceptor: FaultyStore, kind: str, event: Any) -> None:
    """Have something happen just before the first such request about the id is applied."""

    def look(seen: str, batch: Any) -> None:
        if seen == kind and getattr(batch[0], "key", batch[0]) == ITEM:
            acceptor.on_request = lambda seen, batch: None
            event()

    acceptor.on_request = look


def wipe_and_repair(site: Site, slot: int) -> None:
    """What happens to an endpoint that lost its disk."""
    site.wipe(slot)
    # The pauses of a client that is under way are no time for this one.
    site.repair(slot, clock=ManualClock())


def inserts_at_a_store_that_is_gone_and_at_others_after_its_repair() -> None:
    site = Site(3)
    ways_in = [store.another_way_in() for store in site.in_use()]
    slow = site.client(ways_in, LastSlotFirst())
    slow.lookup([KEY])

    before(ways_in[1], "insert", lambda: wipe_and_repair(site, 2))
    assert slow.commit([Claim(KEY, EAST)]) == [Won()]
    site.stores[1, "old1"].fail("down")
    the_winner_must_be(site, EAST)


def promises_of_a_store_that_is_gone_and_of_another_one_after_its_repair() -> None:
    site = Site(3)
    ways_in = [store.another_way_in() for store in site.in_use()]
    slow = site.client(ways_in, LastSlotFirst(), High())
    slow.lookup([KEY])

    def repair_and_commit() -> None:
        wipe_and_repair(site, 2)
        commit_without(site, 0)

    before(ways_in[1], "prepare", lambda: ways_in[1].fail("lost_request"))
    before(ways_in[0], "prepare", repair_and_commit)
    slow.release([Claim(KEY, EAST)])
    the_winner_must_be(site, WEST)


def inserts_with_promises_of_a_store_that_is_gone_and_of_another_one_after_its_repair() -> None:
    site = Site(3)
    ways_in = [store.another_way_in() for store in site.in_use()]
    slow = site.client(ways_in, LastSlotFirst(), High())
    slow.lookup([KEY])
    slow._needs_promises = lambda: True  # type: ignore[method-assign]

    def repair_and_commit() -> None:
        wipe_and_repair(site, 2)
        commit_without(site, 0)

    before(ways_in[1], "insert", lambda: ways_in[1].fail("lost_request"))
    before(ways_in[0], "insert", repair_and_commit)
    slow.commit([Claim(KEY, EAST)])
    the_winner_must_be(site, WEST)


def a_clearing_at_a_store_that_is_gone_and_at_another_one_after_its_repair() -> None:
    site = Site(3)
    site.client().commit([Claim(KEY, EAST)])
    ways_in = [store.another_way_in() for store in site.in_use()]
    slow = site.client(ways_in, LastSlotFirst())
    slow.lookup([KEY])

    before(ways_in[1], "replace", lambda: wipe_and_repair(site, 2))
    before(ways_in[0], "replace", lambda: ways_in[0].fail("down"))
    slow.clear([Claim(KEY, EAST)])
    site.stores[1, "old1"].fail("down")
    outcome = site.client().commit([Claim(KEY, EAST)])
    assert outcome == [Lost(Holder("east", None))], f"{EAST} was cleared, and was told {outcome} after that"


def a_lookup_at_a_store_that_is_gone_and_at_others_after_its_repair() -> None:
    site = Site(3)
    ways_in = [store.another_way_in() for store in site.in_use()]
    slow = site.client(ways_in, LastSlotFirst())
    slow.lookup([KEY])
    wipe_and_repair(site, 2)
    for way_in in ways_in:  # inserts that were late, one of them at the store that is gone
        way_in.insert([Insert(ITEM, fast_value(EAST))])
    (outcome,) = slow.lookup([KEY])
    assert outcome == Free(), f"{outcome} was told, and nobody had won"


def members_that_were_never_agreed_on_asked_in_between() -> None:
    site = Site(3)
    agreed, proposed = site.members, Members(2, ("old0", "old1", "proposed"))
    site.stores[2, "proposed"] = FaultyStore(site.clock)
    tokens = {(0, "old0"): EAST, (1, "old1"): EAST, (2, "old2"): LATER, (2, "proposed"): EAST}
    for place, token in tokens.items():
        site.stores[place].insert([Insert(ITEM, fast_value(token))])
    client, first = site.client(channel=LastSlotFirst()), site.stores[0, "old0"]

    def hear_of_a_change() -> None:
        """As another thread of this client does: of one half-way, and then that it did not come about."""
        client.endpoints.follow(proposed)
        before(first, "read", lambda: client.endpoints.follow(agreed))

    before(first, "insert", hear_of_a_change)
    (outcome,) = client.commit([Claim(KEY, WEST)])
    assert outcome == Won(), f"{outcome} was told, and nobody had won"


def a_promise_whose_accept_arrives_after_the_repair() -> None:
    site = Site(3)
    late = ballot(5, HIGH)
    for store in site.in_use()[1:]:
        store.prepare([Prepare(ITEM, late)])
    wipe_and_repair(site, 2)
    commit_without(site, 1)
    for store in site.in_use()[:2]:
        store.accept([Accept(ITEM, late, fast_value(EAST))])
    site.in_use()[2].fail("down")
    the_winner_must_be(site, WEST)


def a_promise_over_a_value_whose_accept_arrives_after_the_repair() -> None:
    site = Site(3)
    late = ballot(5, HIGH)
    first, second, third = site.in_use()
    for store in (first, second):  # two of three: nobody has won
        store.insert([Insert(ITEM, fast_value(EAST))])
    for store in (second, third):  # and by these two another one may go on with a value of its own
        store.prepare([Prepare(ITEM, late)])
    wipe_and_repair(site, 2)
    the_winner_must_be(site, EAST)
    second.accept([Accept(ITEM, late, fast_value(WEST))])
    first.fail("down")
    the_winner_must_be(site, EAST)


def a_repair_that_died_goes_on_with_what_it_had_not_copied() -> None:
    site = Site(3)
    keys = [EventKey(f"a{number}") for number in range(40)]
    assert site.client().commit([Claim(key, EAST) for key in keys]) == [Won()] * 40
    site.wipe(2)
    inserts = itertools.count(1)

    def die_half_way(kind: str, batch: Any) -> None:
        if kind == "insert" and batch[0].key.p != POSITIONS and next(inserts) == 20:
            raise SimulatedCrash

    with suppress(SimulatedCrash):
        site.repair(2, on_request=die_half_way, page_items=1, items_between_notes=1)
    assert any(key.p == POSITIONS for key in site.client().endpoints.acceptors[2].items), (
        "it left no position"
    )
    # Before it compares the endpoints, which mends what the new store lacks.
    arm("repair.after_counted", crash=raise_simulated_crash)
    with suppress(SimulatedCrash):
        site.repair(2, page_items=1, items_between_notes=1)
    disarm()
    site.in_use()[1].fail("down")
    outcomes = site.client().commit([Claim(key, LATER) for key in keys])
    others = [outcome for outcome in outcomes if outcome != Lost(Holder("east", EAST))]
    assert not others, f"{EAST} won, and one who came later was told {others[0]}"


def a_repair_that_goes_on_while_another_one_has_taken_its_place() -> None:
    site = Site(3)
    first, second = site.in_use()[:2]
    undecided = ballot(3, HIGH)

    def repair_another_and_commit() -> None:
        for _ in range(10_000):
            if second.items[ITEM].promised > undecided:
                break
            time.sleep(0.001)  # a thread of the first repair is just asking it
        wipe_and_repair(site, 1)
        commit_without(site, 0)

    def leave_a_value_at_one_store() -> None:
        third = site.client().endpoints.acceptors[2]
        assert isinstance(third, FaultyStore)
        second.prepare([Prepare(ITEM, undecided)])
        second.accept([Accept(ITEM, undecided, fast_value(EAST))])
        before(third, "prepare", lambda: third.fail("lost_request"))
        before(first, "prepare", repair_another_and_commit)

    site.wipe(2)
    arm("repair.after_counted", crash=leave_a_value_at_one_store)
    try:
        site.repair(2)
    except RepairSuperseded:
        pass
    finally:
        disarm()
    the_winner_must_be(site, WEST)


def a_winner_of_whom_one_endpoint_that_is_left_knows() -> None:
    site = Site(3)
    commit_without(site, 0)
    site.wipe(2)
    # Before it compares the endpoints, which mends what the new store lacks.
    arm("repair.after_counted", crash=raise_simulated_crash)
    try:
        site.repair(2)
    except SimulatedCrash:
        pass
    finally:
        disarm()
    site.in_use()[1].fail("down")
    the_winner_must_be(site, WEST)


def the_winner_must_be(site: Site, token: str) -> None:
    outcome = site.client().commit([Claim(KEY, LATER)])
    assert outcome == [Lost(Holder(token[:4], token))], (
        f"{token} won, and one who came later was told {outcome}"
    )


def commit_without(site: Site, slot: int) -> None:
    """Another one registers the id while a store is down for a moment."""
    registry = site.client()
    site.in_use()[slot].fail("down")
    assert registry.commit([Claim(KEY, WEST)]) == [Won()]
    site.in_use()[slot].mend()


ALL = (
    inserts_at_a_store_that_is_gone_and_at_others_after_its_repair,
    promises_of_a_store_that_is_gone_and_of_another_one_after_its_repair,
    inserts_with_promises_of_a_store_that_is_gone_and_of_another_one_after_its_repair,
    a_clearing_at_a_store_that_is_gone_and_at_another_one_after_its_repair,
    a_lookup_at_a_store_that_is_gone_and_at_others_after_its_repair,
    members_that_were_never_agreed_on_asked_in_between,
    a_promise_whose_accept_arrives_after_the_repair,
    a_promise_over_a_value_whose_accept_arrives_after_the_repair,
    a_repair_that_died_goes_on_with_what_it_had_not_copied,
    a_repair_that_goes_on_while_another_one_has_taken_its_place,
    a_winner_of_whom_one_endpoint_that_is_left_knows,
)
