"""Repairing one endpoint of three and five in memory: while others commit, and through crashes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from photon.clock import MICROSECONDS
from photon.faults import REPAIR_FAULT_POINTS, arm, disarm
from photon.ledger.errors import RegistryUnavailable
from photon.ledger.stores.copies import NoReply
from photon.ledger.stores.decisions import ballot
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Accept, Insert, Page, Prepare
from photon.registry.consensus.decisions import chosen_value
from photon.registry.consensus.layout import REGISTER_KEY, ItemKey, fast_value
from photon.registry.consensus.marks import Mark
from photon.registry.consensus.register import Members, encode_register
from photon.registry.interface import Claim, Free, Holder, Lost, Released, TooOld, Won
from photon.registry.operations.copying import PATIENCE_SECONDS, RepairSuperseded
from photon.registry.operations.gc import gc_pass, raise_boundary
from photon.registry.operations.repair import Refilled
from photon.testing.crashes import SimulatedCrash, raise_simulated_crash
from tests.simulation import repair_stories
from tests.simulation.repair_site import Site
from tests.simulation.repair_stories import LastSlotFirst

EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"


def keys(prefix: str, count: int = 30) -> list[EventKey]:
    return [EventKey(f"{prefix}{i}") for i in range(count)]


def commit(site: Site, wanted: list[EventKey], token: str) -> list[object]:
    return [*site.client().commit([Claim(key, token) for key in wanted])]


@pytest.mark.parametrize("n", [3, 5])
def test_a_wiped_endpoint_has_every_id_after_its_repair(n: int) -> None:
    site = Site(n)
    commit(site, keys("a"), EAST)
    site.wipe(1)
    assert site.repair(1).copied == 30
    for other in range(n // 2):  # the repaired one is needed now
        site.stores[(0, "old0") if other == 0 else (2, "old2")].fail("down")
    assert all(isinstance(o, Lost) for o in commit(site, keys("a"), WEST))


@pytest.mark.parametrize("n", [3, 5])
def test_a_value_that_only_a_majority_with_the_lost_store_had_is_still_the_winner(n: int) -> None:
    site = Site(n)
    others = [site.stores[slot, f"old{slot}"] for slot in range(n) if slot != 1][: n // 2]
    for other in others:
        other.fail("down")  # so that the store that gets lost is one of the majority
    assert commit(site, keys("a"), EAST) == [Won()] * 30
    for other in others:
        other.mend()
    site.wipe(1)
    site.repair(1)
    site.stores[n - 1, f"old{n - 1}"].fail("down")  # one that had them
    assert all(isinstance(outcome, Lost) for outcome in commit(site, keys("a"), WEST))


def test_marks_are_copied_and_raised_after_a_repair() -> None:
    site = Site(3)
    client = site.client()
    client.marks.publish("e", Mark(7))
    site.wipe(1)
    site.repair(1)
    site.stores[0, "old0"].fail("down")  # of the two that have it for sure
    assert site.client().marks.read(["e"]) == {"e": Mark(7)}
    client.marks.publish("e", Mark(8))
    assert site.client().marks.read(["e"]) == {"e": Mark(8)}


def test_a_client_that_knows_nothing_of_the_repair_goes_on_with_the_new_store() -> None:
    site = Site(3)
    client = site.client()
    client.commit([Claim(key, EAST) for key in keys("a")])
    site.wipe(2)
    site.repair(2)
    site.clock.advance(60)
    assert client.commit([Claim(key, EAST) for key in keys("b")]) == [Won()] * 30
    site.clock.advance(60)
    client.commit([Claim(key, EAST) for key in keys("c")])
    assert client.endpoints.active.members == client.register.read().members
    site.stores[0, "old0"].fail("down")
    outcomes = client.commit([Claim(key, WEST) for key in [*keys("a"), *keys("b"), *keys("c")]])
    assert all(isinstance(outcome, Lost) for outcome in outcomes)


def test_a_client_that_was_idle_through_a_repair_goes_on_while_another_endpoint_is_down() -> None:
    site = Site(3)
    client, reader = site.client(), site.client()
    client.commit([Claim(key, EAST) for key in keys("a")])
    reader.lookup(keys("a"))
    site.wipe(2)
    site.repair(2)
    site.stores[0, "old0"].fail("down")
    assert client.commit([Claim(key, EAST) for key in keys("b")]) == [Won()] * 30
    assert len(reader.lookup(keys("a"))) == 30
    outcomes = site.client().commit([Claim(key, WEST) for key in [*keys("a"), *keys("b")]])
    assert all(isinstance(outcome, Lost) for outcome in outcomes)


def test_a_client_that_was_idle_through_two_repairs_finds_the_one_store_that_it_knows() -> None:
    site = Site(3)
    client = site.client()
    client.commit([Claim(key, EAST) for key in keys("a")])
    for slot in (0, 2):
        site.wipe(slot)
        site.repair(slot)
    assert client.commit([Claim(key, WEST) for key in keys("a")]) == [Lost(Holder("east", EAST))] * 30


def test_what_is_committed_during_a_repair_is_found_at_every_endpoint_after_it() -> None:
    site = Site(3)
    commit(site, keys("a"), EAST)
    site.wipe(0)
    during: list[object] = []
    done = site.repair(0, while_made=lambda: during.extend(commit(site, keys("b"), WEST)))
    assert during == [Won()] * 30
    assert done.copied + done.mended == 60
    for key in [*keys("a"), *keys("b")]:
        copies = site.copies(key)
        assert all(len(copy) == 1 for copy in copies)  # type: ignore[arg-type]
        assert len({copy[0].value for copy in copies}) == 1  # type: ignore[index]


def test_released_ids_stay_released_and_cleared_ones_cleared_through_a_repair() -> None:
    site = Site(3)
    client = site.client()
    commit(site, keys("a"), EAST)
    client.release([Claim(key, EAST) for key in keys("a", 10)])
    client.clear([Claim(key, EAST) for key in keys("a")[10:20]])
    site.wipe(0)
    site.repair(0)
    site.stores[1, "old1"].fail("down")
    found = site.client().lookup(keys("a"))
    assert found[:10] == [Free()] * 10
    assert [o.holder.token for o in found[10:20]] == [None] * 10  # type: ignore[union-attr]
    assert commit(site, keys("a", 10), EAST) == [Released()] * 10


@pytest.mark.parametrize("point", REPAIR_FAULT_POINTS)
def test_a_repair_that_crashed_is_run_again(point: str) -> None:
    site = Site(3)
    commit(site, keys("a"), EAST)
    site.wipe(1)
    arm(point, crash=raise_simulated_crash)
    try:
        with pytest.raises(SimulatedCrash):
            site.repair(1)
    finally:
        disarm()
    assert commit(site, keys("b"), EAST) == [Won()] * 30  # nobody waits for it
    site.repair(1)
    members = site.client().register.read().members
    assert (members.down, members.fresh) == ((), ())
    site.stores[0, "old0"].fail("down")
    assert all(isinstance(outcome, Lost) for outcome in commit(site, [*keys("a"), *keys("b")], WEST))


def test_an_attempt_from_before_a_repair_does_not_count_after_it() -> None:
    site = Site(3)
    client = site.client(channel=LastSlotFirst())
    client.lookup(keys("a"))
    repaired: list[Refilled] = []

    def repair_in_between(kind: str, batch: object) -> None:
        if kind == "read" and not repaired and any(k.s == "ia0" for k in site.stores[0, "old0"].items):
            repaired.append(Refilled(Members(0, ()), 0, 0, False))
            site.wipe(2)
            repaired.append(site.repair(2))

    site.stores[2, "old2"].on_request = repair_in_between
    # All three inserted it; the check finds other members, so that it is won by a round under these.
    assert client.commit([Claim(EventKey("a0"), EAST)]) == [Won()]
    assert len(repaired) == 2
    assert [copy[0].accepted != "" for copy in site.copies(EventKey("a0"))].count(True) >= 2  # type: ignore[index]


def test_of_two_repairs_at_once_the_first_is_told_that_it_does_not_count() -> None:
    site = Site(3)
    commit(site, keys("a"), EAST)
    site.wipe(1)
    with pytest.raises(RepairSuperseded):
        site.repair(1, while_made=lambda: site.repair(1) and None)
    site.stores[0, "old0"].fail("down")
    assert all(isinstance(outcome, Lost) for outcome in commit(site, keys("a"), WEST))


def test_no_repair_begins_while_too_few_others_are_in_use() -> None:
    site = Site(3)
    site.wipe(1)
    arm("repair.after_down", crash=raise_simulated_crash)
    try:
        with pytest.raises(SimulatedCrash):
            site.repair(1)
    finally:
        disarm()
    with pytest.raises(RegistryUnavailable, match="repair those first"):
        site.repair(2)


def test_a_repair_of_the_wrong_endpoint_changes_nothing() -> None:
    site = Site(3)
    commit(site, keys("a"), EAST)
    site.wipe(1)
    with pytest.raises(RegistryUnavailable, match="is number 3 the one"):
        site.repair(2)
    assert commit(site, keys("b"), EAST) == [Won()] * 30
    site.repair(1)
    site.stores[0, "old0"].fail("down")
    assert all(isinstance(outcome, Lost) for outcome in commit(site, [*keys("a"), *keys("b")], WEST))


def test_a_repair_that_reached_only_the_endpoint_it_is_about_holds_up_nobody() -> None:
    site = Site(3)
    commit(site, keys("a"), EAST)
    others = [site.stores[slot, f"old{slot}"] for slot in (0, 1)]
    for store in others:
        store.on_request = lambda kind, batch, store=store: (
            store.fail("lost_request") if kind == "accept" and '"down":[2]' in batch[0].value else None
        )
    with pytest.raises(RegistryUnavailable):
        site.repair(2)
    for store in others:
        store.on_request = lambda kind, batch: None
        store.mend()
    assert commit(site, keys("b"), EAST) == [Won()] * 30


@pytest.mark.parametrize("kind", ["unclear", "unreachable"])
def test_a_page_that_gets_no_answer_is_asked_for_again(
    kind: Literal["unclear", "unreachable"],
) -> None:
    site = Site(3)
    commit(site, keys("a"), EAST)
    site.wipe(1)
    store = site.stores[0, "old0"]
    answers: list[NoReply] = [NoReply("no answer", kind)]
    scan = store.scan_shard
    store.scan_shard = lambda *wanted: answers.pop() if answers else scan(*wanted)  # type: ignore[method-assign]
    assert site.repair(1).copied == 30
    assert not answers


def test_after_a_repair_all_five_agree_on_what_was_under_way_at_two_of_them() -> None:
    site = Site(5)
    site.wipe(0)

    def leave_a_commit_half_way() -> None:
        for slot in (3, 4):
            site.stores[slot, f"old{slot}"].insert([Insert(repair_stories.ITEM, fast_value(EAST))])

    arm("repair.after_counted", crash=leave_a_commit_half_way)
    try:
        assert site.repair(0).mended == 1
    finally:
        disarm()
    assert [[stored.value for stored in copy] for copy in site.copies(EventKey("a"))] == [  # type: ignore[attr-defined]
        [fast_value(EAST)]
    ] * 5


def test_a_repair_does_not_wait_for_another_endpoint_of_five_that_is_down() -> None:
    site = Site(5)
    commit(site, keys("a"), EAST)
    site.stores[0, "old0"].fail("down")
    site.wipe(4)
    began_us = site.clock.now_us()
    assert site.repair(4).copied == 30
    assert site.clock.now_us() - began_us < PATIENCE_SECONDS * MICROSECONDS


def test_without_a_majority_of_the_others_a_repair_ends_and_the_slot_stays_down() -> None:
    site = Site(3)
    commit(site, keys("a"), EAST)
    site.wipe(1)
    with pytest.raises(RegistryUnavailable):
        site.repair(1, while_made=lambda: site.stores[0, "old0"].fail("down"))
    site.stores[0, "old0"].mend()
    assert site.client().register.read().members.down == (1,)


def test_a_register_that_is_half_written_is_chosen_before_it_is_believed() -> None:
    site = Site(3)
    raised = encode_register(replace(site.client().register.read(), boundary_us=7))
    first, own = site.stores[0, "old0"], ballot(9, "f" * 16)
    first.prepare([Prepare(REGISTER_KEY, own)])
    first.accept([Accept(REGISTER_KEY, own, raised)])  # and then its client died
    site.stores[2, "old2"].fail("down")  # or those that have not heard of it might be asked alone
    assert site.client().register.read().boundary_us == 7
    site.stores[2, "old2"].mend()
    site.stores[0, "old0"].fail("down")
    assert site.client().register.read().boundary_us == 7
    stored = [site.stores[slot, f"old{slot}"].items[REGISTER_KEY] for slot in range(3)]
    assert chosen_value(stored, 3) is not None


@pytest.mark.parametrize("story", repair_stories.ALL)
def test_what_is_late_through_a_repair_changes_no_winner(story: Callable[[], None]) -> None:
    story()  # each ends with a check of the winner


# -- beside gc (C2)


def aged(prefix: str, at_us: int, count: int = 30) -> list[EventKey]:
    return [EventKey(f"{prefix}{i}", at_us=at_us) for i in range(count)]


def values_of(site: Site, wanted: list[EventKey]) -> list[object]:
    return [found for key in wanted for store in site.copies(key) for found in store]  # type: ignore[attr-defined]


def test_a_repair_tells_how_far_its_copying_and_its_comparison_are() -> None:
    site = Site(3)
    commit(site, aged("young", 50), EAST)
    site.wipe(1)
    said: list[str] = []
    site.repair(1, say=said.append)
    ends = [text.split("; ")[0] for text in said if ": all of " in text]
    shards = ends[0].split(" of ")[1]
    assert ends == [f"copies ids: all of {shards}", f"compares the endpoints: all of {shards}"]


def test_gc_tells_how_far_it_is_at_all_endpoints_together() -> None:
    site = Site(3)
    commit(site, aged("old", 5), EAST)
    said: list[str] = []
    gc_pass(site.client(), raise_boundary(site.client(), 10), say=said.append)
    assert max(said, key=lambda text: int(text.split("; ")[1].split()[0])).endswith("; 90 items")


def test_a_repair_does_not_bring_back_what_gc_deleted() -> None:
    site = Site(3)
    old, young = aged("old", 5), aged("young", 50)
    commit(site, old + young, EAST)
    site.wipe(1)
    register = raise_boundary(site.client(), 10)
    slept = site.stores[0, "old0"]
    slept.fail("down")  # so that it still has what the other one has not
    done = gc_pass(site.client(), register)
    assert [one.deleted.items for one in done] == [0, 0, 30]
    slept.mend()
    assert site.repair(1).copied == 30
    assert [len(site.copies(key)[1]) for key in old] == [0] * 30  # type: ignore[arg-type]
    assert [len(site.copies(key)[2]) for key in old] == [0] * 30  # type: ignore[arg-type]
    assert commit(site, old, WEST) == [TooOld()] * 30
    gc_pass(site.client(), register)
    assert values_of(site, old) == []
    assert all(isinstance(outcome, Lost) for outcome in commit(site, young, WEST))


def test_what_a_repair_was_just_copying_goes_with_the_next_pass_and_is_never_won() -> None:
    site = Site(3)
    old = aged("old", 5)
    commit(site, old, EAST)
    site.wipe(1)

    def run_gc() -> None:
        gc_pass(site.client(), raise_boundary(site.client(), 10))

    # The repair has read the register and a page of ids; then a whole gc passes.
    first = site.stores[0, "old0"]
    scan_shard, passed = first.scan_shard, threading.Event()

    def scan_and_let_gc_pass(shard: str, below: str, after: ItemKey | None, limit: int) -> Page | NoReply:
        page = scan_shard(shard, below, after, limit)
        if isinstance(page, Page) and page.items and not passed.is_set():
            passed.set()
            run_gc()
        return page

    first.scan_shard = scan_and_let_gc_pass  # type: ignore[method-assign]
    site.repair(1)
    assert commit(site, old, WEST) == [TooOld()] * 30
    assert values_of(site, old) != []
    run_gc()
    assert values_of(site, old) == []
