"""Sequences of events that broke drafts of the ledgers' rules, each told again (L1 to L12).

Stories of stores are told with the stores: a view made while an endpoint is down, one position made twice
with other bytes, a copy with a bad checksum, a writer that sleeps through a repair. Those of a start and of
refill are told with the dispatcher and the operations too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from photon.registry import closing, epochs
from photon.registry.appending import append, open_ledger, seal
from photon.registry.closing import Closing, Rowless, close_batches, close_of, end_epoch
from photon.registry.entry import FOR_EVER, Claimant, Entry, Epoch, LedgerId
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.generations import drop, raise_boundary, roll
from photon.registry.id_registry import EpochOver, IdRegistry, claim
from photon.registry.positions import Change, Chosen, Offer
from photon.registry.register import Register, with_boundary, with_epoch, with_generation
from photon.registry.view import Holders, View, catch_up
from photon.registry.view_store import ViewStore
from tests.registry.in_memory import EAST, WEST, PositionsInMemory, claims_of, hashes_of, with_rows
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

FIRST, SECOND = Claimant(EAST, 1, "plan 1"), Claimant(EAST, 2, "plan 2")
OTHER = Claimant(WEST, 1, "plan of west")
LEFT, RIGHT = 1, 12  # ids: of two ledgers one has the left one, the other the right one


def own(holders: Holders, claimant: Claimant) -> list[bool]:
    found: list[bool] = holders.are_of(claimant).tolist()
    return found


def held_and_joined(view: View, *ids: int) -> list[tuple[bool, bool]]:
    found = view.holders(hashes_of(*ids))
    return list(zip(found.are_held.tolist(), found.are_joins.tolist(), strict=True))


def append_close(view: View, store: PositionsInMemory, ledger: LedgerId, through: int, rows: Rowless) -> None:
    """Append one close in one ledger, as somebody does who dies behind it."""
    append(view, store, {ledger: lambda state: close_of(state, EAST, through, rows)})


class OfferedBefore(PositionsInMemory):
    """Something else happens before the next offer comes."""

    before: Callable[[], object] | None = None

    def offer(self, offers: Mapping[LedgerId, Offer]) -> dict[LedgerId, Chosen]:
        before, self.before = self.before, None
        if before is not None:
            before()
        return super().offer(offers)


# -- a process that sleeps, and copies


@pytest.mark.parametrize("ledgers_after", [None, 1, 3], ids=["no roll", "merged", "split"])
def test_a_sleeper_claims_where_its_batch_was_never_closed_and_the_next_close_frees_that(
    ledgers_after: int | None,
) -> None:
    store = PositionsInMemory(2)
    owner, sleeper = store.view("owner"), store.view("a copy that slept")
    claim(owner, store, claims_of(FIRST, LEFT))
    close_batches(owner, store, Closing(EAST, 1, with_rows(LEFT)))  # in the left ledger alone
    if ledgers_after is not None:
        roll(owner, store, ledgers_after)
    assert own(claim(sleeper, store, claims_of(FIRST, RIGHT)), FIRST) == [True]
    claim(owner, store, claims_of(SECOND, 13))
    close_batches(owner, store, Closing(EAST, 2, with_rows(LEFT, 13)))
    assert held_and_joined(owner, LEFT, RIGHT, 13) == [(True, True), (False, False), (True, True)]
    west = store.view("west")
    catch_up(west, store)
    assert own(claim(west, store, claims_of(OTHER, RIGHT)), OTHER) == [True]


def test_a_close_is_made_anew_behind_a_claim_that_came_before_it() -> None:
    store = OfferedBefore(1)
    owner, clone = store.view("owner"), store.view("clone")
    claim(owner, store, claims_of(FIRST, 1))
    store.before = lambda: claim(clone, store, claims_of(FIRST, 2))
    close_batches(owner, store, Closing(EAST, 1, with_rows(1)))
    assert held_and_joined(owner, 1, 2) == [(True, True), (False, False)]


def test_a_copied_state_folder_appends_nothing_that_counts_and_ends() -> None:
    store = PositionsInMemory()
    owner, copy = store.view("owner"), store.view("copy")
    claim(owner, store, claims_of(FIRST, 1))
    close_batches(owner, store, Closing(EAST, 1, with_rows(1)))
    length = len(store.values[LedgerId(0, 0)])
    for ids in ((1, 2), (3,), (4, 5)):
        with pytest.raises(EpochOver):
            claim(copy, store, claims_of(Claimant(EAST, 1, "another plan"), *ids))
    assert len(store.values[LedgerId(0, 0)]) == length


def test_state_and_lake_that_were_put_back_together_are_behind_what_the_view_saw_closed() -> None:
    store = PositionsInMemory(2)
    owner = store.view("owner")
    for claimant, one in ((FIRST, LEFT), (SECOND, RIGHT)):
        claim(owner, store, claims_of(claimant, one))
        close_batches(owner, store, Closing(EAST, claimant.batch, with_rows(LEFT, RIGHT)))
    put_back = store.view("state and lake of batch 1")
    catch_up(put_back, store)
    assert put_back.closed_through(EAST) == 2
    with pytest.raises(EpochOver):
        claim(put_back, store, claims_of(Claimant(EAST, 2, "made anew"), 13))
    third = Claimant(EAST, 3, "the one after")
    assert own(claim(owner, store, claims_of(third, 13)), third) == [True]


def test_a_clone_does_not_claim_again_what_the_first_part_of_a_close_has_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closing, "MOST_FREES", 1)
    store, ledger = PositionsInMemory(), LedgerId(0, 0)
    owner, clone = store.view("owner"), store.view("clone")
    claim(owner, store, claims_of(FIRST, 1, 2, 3))
    append_close(owner, store, ledger, 1, with_rows(3))
    catch_up(clone, store)
    with pytest.raises(EpochOver):
        claim(clone, store, claims_of(FIRST, 1, 2, 3))
    close_batches(owner, store, Closing(EAST, 1, with_rows(3)))
    assert held_and_joined(owner, 1, 2, 3) == [(False, False), (False, False), (True, True)]


def test_nothing_is_a_join_before_the_last_part_of_a_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "MOST_FREES", 2)
    store, ledger = PositionsInMemory(), LedgerId(0, 0)
    owner, reader = store.view("owner"), store.view("reader")
    ids = tuple(range(9))
    claim(owner, store, claims_of(FIRST, *ids))
    for freed in (2, 4):
        append_close(owner, store, ledger, 1, with_rows(*ids[5:]))
        catch_up(reader, store)
        assert held_and_joined(reader, *ids) == [(False, False)] * freed + [(True, False)] * (9 - freed)
    append_close(owner, store, ledger, 1, with_rows(*ids[5:]))
    catch_up(reader, store)
    assert held_and_joined(reader, *ids) == [(False, False)] * 5 + [(True, True)] * 4


# -- epochs that end


def test_an_epoch_that_one_of_two_parents_closed_is_void_in_their_child_and_no_join() -> None:
    store = PositionsInMemory(2)
    owner, survivor = store.view("owner"), store.view("survivor")
    claim(owner, store, claims_of(FIRST, LEFT, RIGHT, 13))
    append_close(survivor, store, LedgerId(0, 0), FOR_EVER, with_rows(LEFT, 13))
    roll(survivor, store, 1)
    assert held_and_joined(survivor, LEFT, RIGHT, 13) == [(True, True), (True, False), (True, False)]
    with pytest.raises(EpochOver):
        claim(owner, store, claims_of(FIRST, 14))
    end_epoch(survivor, store, EAST, with_rows(LEFT, 13))
    assert held_and_joined(survivor, LEFT, RIGHT, 13) == [(True, True), (False, False), (True, True)]


@pytest.mark.parametrize("ledgers_after", [None, 1, 3], ids=["no roll", "merged", "split"])
def test_who_dies_halfway_through_ending_an_epoch_leaves_it_to_the_next(ledgers_after: int | None) -> None:
    store = PositionsInMemory(2)
    owner, survivor, another = (store.view(name) for name in ("owner", "survivor", "another"))
    claim(owner, store, claims_of(FIRST, LEFT, RIGHT))
    append_close(survivor, store, LedgerId(0, 0), FOR_EVER, with_rows())
    if ledgers_after is not None:
        roll(another, store, ledgers_after)
    catch_up(another, store)
    assert another.is_over(EAST)
    assert held_and_joined(another, LEFT, RIGHT) == [(False, False), (True, False)]
    end_epoch(another, store, EAST, with_rows())
    assert held_and_joined(another, LEFT, RIGHT) == [(False, False)] * 2
    with pytest.raises(EpochOver):
        claim(owner, store, claims_of(FIRST, 13))


def test_an_epoch_that_ended_before_any_ledger_was_open_claims_in_none() -> None:
    store = PositionsInMemory(2)
    survivor, owner = View(store.register, "survivor"), View(store.register, "owner, which slept")
    end_epoch(survivor, store, EAST, with_rows())
    with pytest.raises(EpochOver):
        claim(owner, store, claims_of(FIRST, LEFT, RIGHT))


def test_an_epoch_is_ended_in_ledgers_too_that_were_opened_and_orphaned_while_it_was() -> None:
    """Whoever ends it appends to a ledger that is dropped, and has not read yet that there are children."""
    store = OfferedBefore(1)
    east, survivor = store.view("east"), store.view("survivor")
    another = store.view("another, which rolls and collects")

    def others_are_faster() -> None:
        roll(another, store, 2)
        raise_boundary(another, store, 101)
        assert drop(another, store) == [0]

    store.before = others_are_faster
    end_epoch(survivor, store, EAST, with_rows())
    with pytest.raises(EpochOver):
        claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=200))


def test_what_a_dead_holder_had_is_won_by_who_lost_to_it() -> None:
    store = PositionsInMemory()
    owner, west = store.view("owner"), store.view("west")
    claim(owner, store, claims_of(FIRST, 1, 2))
    lost = claim(west, store, claims_of(OTHER, 1, 2))
    assert own(lost, OTHER) == [False, False]
    assert not lost.are_joins.any()
    end_epoch(west, store, EAST, with_rows(2))
    again = claim(west, store, claims_of(OTHER, 1, 2))
    assert own(again, OTHER) == [True, False]
    assert again.are_joins.tolist() == [False, True]


def test_no_epoch_begins_while_a_refill_goes_on_and_none_has_a_number_that_a_table_knows() -> None:
    store = PositionsInMemory()
    register, first = with_epoch(store.register, "east")
    with pytest.raises(RegistryUnavailable, match="no epoch begins before that has ended"):
        with_epoch(Register("p", "s", register.members, is_refilling=True), "east")
    put_back = store.register
    assert with_epoch(put_back, "east", known=first.number)[1] == Epoch("east", 2)
    assert with_epoch(register, "east", known=0)[1] == Epoch("east", 2)


# -- generations


class ChangedBefore(PositionsInMemory):
    """Somebody else comes first when the register is changed for the first time."""

    before: Callable[[], object] | None = None

    def change(self, change: Change) -> Register:
        before, self.before = self.before, None
        if before is not None:
            before()
        return super().change(change)


def test_a_ledger_whose_parents_were_put_back_to_before_their_seals_is_refused() -> None:
    store = PositionsInMemory(2)
    east = store.view("east")
    claim(east, store, claims_of(FIRST, LEFT, RIGHT))
    roll(east, store, 1)
    del store.values[LedgerId(0, 1)][-1]
    with pytest.raises(RegistryMismatch, match="ledger 1-0 is open, and its parents have no end"):
        catch_up(View(store.register, "new"), store)


def test_two_rollers_with_different_numbers_open_one_generation() -> None:
    store = ChangedBefore(1)
    one, other = store.view("one"), store.view("other")
    store.before = partial(roll, other, store, 3)
    assert roll(one, store, 2) == 1
    assert [each.ledgers for each in store.register.generations] == [1, 3]
    assert one.states.keys() == other.states.keys()
    assert all(state.is_open for state in one.states.values())


def test_a_ledger_that_was_announced_before_a_boundary_is_born_with_what_its_parents_have() -> None:
    store = PositionsInMemory(2)
    east = store.view("east")
    store.change(lambda register: with_generation(register, 0, 1))
    raise_boundary(east, store, 101)
    child = LedgerId(1, 0)
    assert not east.states[child].is_open
    open_ledger(east, store, child)
    assert east.states[child].boundary_us == 101
    assert claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=100)).are_too_old.all()


def test_a_boundary_that_the_register_alone_has_drops_nothing() -> None:
    store = PositionsInMemory()
    east = store.view("east")
    claim(east, store, claims_of(FIRST, 1, time_us=100))
    close_batches(east, store, Closing(EAST, 1, with_rows(1)))
    roll(east, store, 2)
    store.change(partial(with_boundary, boundary_us=101))
    catch_up(east, store)
    assert drop(east, store) == []
    assert held_and_joined(east, 1) == [(True, True)]
    raise_boundary(east, store, 101)
    assert drop(east, store) == [0]


def test_a_generation_stays_while_a_sealed_ledger_without_the_boundary_has_no_open_child() -> None:
    """Else the child would be born without the boundary, and would give its ids away a second time."""
    store = PositionsInMemory(2)
    east = store.view("east")
    claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=100))
    close_batches(east, store, Closing(EAST, 1, with_rows(LEFT, RIGHT)))
    roll(east, store, 2)
    view = store.view("a roller that dies")
    catch_up(view, store)
    store.change(lambda register: with_generation(register, 1, 2))
    seal(view, store, LedgerId(1, 1))
    collector = store.view("a collector that has come to one ledger")
    catch_up(collector, store)
    append(collector, store, {LedgerId(1, 0): lambda state: Entry(boundary_us=101)})
    assert drop(collector, store) == []
    open_ledger(view, store, LedgerId(2, 1))
    found = claim(view, store, claims_of(OTHER, RIGHT, time_us=100))
    assert own(found, FIRST) == [True]


class NeverForgets(PositionsInMemory):
    """Its items are not deleted: whoever drops a generation dies before that."""

    def forget(self, ledgers: Sequence[LedgerId]) -> None:
        raise RegistryUnavailable("the collector died")


def test_items_that_a_collector_left_and_those_that_came_late_go_with_the_next_collection() -> None:
    store = NeverForgets(2)
    east = store.view("east")
    claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=100))
    roll(east, store, 1)
    raise_boundary(east, store, 101)
    with pytest.raises(RegistryUnavailable):
        drop(east, store)
    assert {ledger.generation for ledger in store.values} == {0, 1}
    next_one = PositionsInMemory()
    next_one.decided = store.decided
    for _ in range(2):
        assert drop(east, next_one) == []
        assert {ledger.generation for ledger in next_one.values} == {1}
        next_one.values[LedgerId(0, 1)] = [b"an insert that came late"]


def test_readers_from_before_and_after_a_drop_agree_on_what_is_claimed_later() -> None:
    store = PositionsInMemory(2)
    east, before = store.view("east"), store.view("reads before the drop, and after it")
    claim(east, store, claims_of(FIRST, LEFT, RIGHT, time_us=100))
    roll(east, store, 1)
    claim(east, store, claims_of(SECOND, 13, time_us=200))
    raise_boundary(east, store, 101)
    catch_up(before, store)
    assert drop(east, store) == [0]
    later = claims_of(OTHER, LEFT, RIGHT, 13, time_us=150)
    west = store.view("west")
    assert own(claim(west, store, later), OTHER) == [True, True, False]
    after = View(store.register, "knows nothing of before")
    for view in (before, after):
        catch_up(view, store)
        assert own(view.holders(later.hashes), OTHER) == [True, True, False]
        assert own(view.holders(later.hashes), SECOND) == [False, False, True]


def test_who_inserts_into_a_ledger_that_was_deleted_learns_from_its_check_that_it_won_nothing() -> None:
    store = PositionsInMemory(2)
    east, sleeper = store.view("east"), store.view("sleeps through the drop")
    claim(east, store, claims_of(FIRST, LEFT, time_us=100))
    roll(east, store, 1)
    raise_boundary(east, store, 101)
    assert drop(east, store) == [0]
    found = claim(sleeper, store, claims_of(OTHER, RIGHT, 13, time_us=100))
    assert own(found, OTHER) == [False, False]
    assert found.are_too_old.all()
    assert sleeper.states.keys() == {LedgerId(1, 0)}


def test_entries_that_were_read_before_a_drop_do_not_count_when_the_check_comes_behind_it() -> None:
    store = PositionsInMemory()
    east = store.view("east")
    claim(east, store, claims_of(FIRST, 1, time_us=100))
    close_batches(east, store, Closing(EAST, 1, with_rows(1)))
    reader = View(store.register, "reads entries, then the register")
    values = store.read({LedgerId(0, 0): 0})
    roll(east, store, 1)
    raise_boundary(east, store, 101)
    drop(east, store)

    class ReadBefore(PositionsInMemory):
        """Its first read brings what was there before the drop."""

        def read(self, first: Mapping[LedgerId, int]) -> dict[LedgerId, Sequence[bytes]]:
            return values if first.keys() == values.keys() else store.read(first)

    slow = ReadBefore()
    slow.decided.register = store.register
    catch_up(reader, slow)
    found = reader.holders(hashes_of(1), np.array([100]))
    assert (found.are_held.tolist(), found.are_too_old.tolist()) == ([False], [True])


# -- starts, signs of life, copies that are put back


def versions(registry: IdRegistry, ledgers: MemoryLedgers, collects: bool) -> int:
    """The batch that the view knows as closed, after one with claims, and a collection or none."""
    registry.claim(claims_of(FIRST, 1))
    registry.close(Closing(EAST, 1, with_rows(1)))
    if collects:
        roll(registry.view, ledgers, 1)
        raise_boundary(registry.view, ledgers, 101)
        assert drop(registry.view, ledgers) == [0]
    return registry.view.closed_through(EAST)


@pytest.mark.parametrize("collects", [False, True])
@pytest.mark.parametrize("table_version", [1, 11, 2**53])
def test_a_start_behind_empty_batches_a_fence_or_a_collection_finds_no_close_beyond_the_table(
    table_version: int, collects: bool
) -> None:
    ledgers = MemoryLedgers()
    east = memory_registry(ledgers, "east")
    closed = versions(east, ledgers, collects)
    ledgers.is_away = True
    for batch in range(2, 12):  # they commit all the same
        east.claim(claims_of(Claimant(EAST, batch, "empty")))
        east.close(Closing(EAST, batch, with_rows()))
    ledgers.is_away = False
    started = memory_registry(ledgers, "east, started again")
    started.catch_up()
    assert started.view.closed_through(EAST) == (0 if collects else closed) <= table_version


def test_signs_of_life_are_given_while_a_batch_claims_on_and_on() -> None:
    ledgers = MemoryLedgers()
    east, west = memory_registry(ledgers, "east"), memory_registry(ledgers, "west")
    is_claiming, may_end = Event(), Event()

    def takes_long(call: str) -> None:
        if call == "offer":
            is_claiming.set()
            assert may_end.wait(10)

    ledgers.on_call = takes_long
    batch = Thread(target=lambda: east.claim(claims_of(FIRST, 1)))
    batch.start()
    assert is_claiming.wait(10)
    for number in (1, 2):
        east.beat(EAST, number)
        assert west.beats([EAST]) == {EAST: number}
    may_end.set()
    batch.join()
    assert east.holders(hashes_of(1)).are_of(FIRST).all()


def test_a_view_that_was_stored_is_newer_than_a_registry_that_is_put_back(tmp_path: Path) -> None:
    ledgers = MemoryLedgers()
    before = ledgers.copy()
    store = ViewStore(tmp_path, tmp_path / "runs")
    east = IdRegistry(ledgers, store.load(ledgers.register, "east"), store)
    east.claim(claims_of(FIRST, 1))
    east.close_view()
    ledgers.put_back(before)
    again = ViewStore(tmp_path, tmp_path / "runs")
    started = IdRegistry(ledgers, again.load(ledgers.register, "east, started again"), again)
    started.view.remedy = "Put the ids of all rows back"
    for _ in range(2):
        with pytest.raises(RegistryMismatch, match=r"a copy was put back\. Put the ids of all rows back"):
            started.catch_up()
    again.close()


@pytest.mark.parametrize("others_go_on", [False, True])
def test_a_registry_that_is_put_back_by_less_than_a_batch_while_it_runs_is_refused_by_the_next_claim(
    others_go_on: bool,
) -> None:
    ledgers = MemoryLedgers()
    east, west = memory_registry(ledgers, "east"), memory_registry(ledgers, "west")
    east.claim(claims_of(FIRST, 1))
    west.read_on()
    middle = ledgers.copy()
    east.claim(claims_of(FIRST, 2))
    ledgers.put_back(middle)
    if others_go_on:
        west.claim(claims_of(OTHER, 3))
    with pytest.raises(RegistryMismatch, match="a copy was put back"):
        east.claim(claims_of(SECOND, 4))


def test_who_won_before_a_refill_and_slept_through_it_starts_again() -> None:
    ledgers = MemoryLedgers()
    east = memory_registry(ledgers, "east")
    epoch = epochs.begin_epoch(east, "east", 0, "table")
    plan = Claimant(epoch, 1, "plan")
    assert east.claim(claims_of(plan, 1)).are_of(plan).all()
    ledgers.change(lambda register: replace(register, is_refilling=True))
    with pytest.raises(RegistryUnavailable, match="are being put back"):
        east.claim(claims_of(plan, 2))
    ledgers.change(lambda register: replace(register, incarnation=2, is_refilling=False))
    with pytest.raises(RegistryMismatch, match="was made anew"):
        east.claim(claims_of(plan, 3))


def test_a_lake_that_cannot_be_read_keeps_its_epochs_unfinished_and_nobody_else_from_beginning() -> None:
    ledgers = MemoryLedgers()
    east, west = memory_registry(ledgers, "east"), memory_registry(ledgers, "west")
    epoch = epochs.begin_epoch(west, "west", 0, "west's table")
    west.claim(claims_of(Claimant(epoch, 1, "plan"), 1))

    def cannot_be_read() -> Rowless:
        raise OSError("the lake can't be read")

    with pytest.raises(OSError, match="can't be read"):
        epochs.end_epochs(east, "west", 1, lambda ended: None, cannot_be_read)
    assert held_and_joined(east.view, 1) == [(True, False)]
    assert epochs.begin_epoch(east, "east", 0, "east's table") == EAST
    assert own(east.claim(claims_of(FIRST, 1, 2)), FIRST) == [False, True]
    west.read_on()
    epochs.end_epochs(west, "west", 1, lambda ended: None, lambda: with_rows(1))
    assert epochs.unfinished(west) == []
    assert held_and_joined(west.view, 1) == [(True, True)]
