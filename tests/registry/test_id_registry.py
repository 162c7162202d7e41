"""The registry as one process has it: claims with closes, frees, settled tails, signs of life, epochs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from photon.registry import closing, epochs
from photon.registry.appending import seal
from photon.registry.closing import Closing, Rowless
from photon.registry.entry import Claimant, Epoch, LedgerId, Mask
from photon.registry.errors import OtherTable, RegistryUnavailable
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.form import decode
from photon.registry.generations import roll
from photon.registry.id_registry import EpochOver, IdRegistry
from photon.registry.positions import Chosen, Offer, Tail, Undecided
from photon.registry.register import with_generation
from tests.registry.in_memory import EAST, LEFT, RIGHT, WEST, claims_of, hashes_of, held_and_joined, with_rows
from tests.support.crashes import SimulatedCrash
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

FIRST, SECOND, THIRD = (Claimant(EAST, batch, f"plan {batch}") for batch in (1, 2, 3))
OTHER = Claimant(WEST, 1, "plan of west")
ONE, TWO = LedgerId(0, 0), LedgerId(0, 1)


def entries(ledgers: MemoryLedgers, ledger: LedgerId) -> int:
    return len(ledgers.values[ledger])


# -- closes that ride along


def test_a_close_rides_with_the_next_claim_in_one_entry(ledgers: MemoryLedgers, east: IdRegistry) -> None:
    east.claim(claims_of(FIRST, 1, 2))
    east.claim(claims_of(SECOND, 3), Closing(EAST, 1, with_rows(1)))
    assert entries(ledgers, ONE) == 3
    assert held_and_joined(east.view, 1, 2, 3) == [(True, True), (False, False), (True, False)]


def test_a_ledger_that_the_next_batch_does_not_meet_is_closed_beside_it(
    ledgers: MemoryLedgers, east: IdRegistry
) -> None:
    east.claim(claims_of(FIRST, LEFT, RIGHT))
    ledgers.calls.clear()
    east.claim(claims_of(SECOND, 2), Closing(EAST, 1, with_rows(LEFT, RIGHT)))
    assert held_and_joined(east.view, LEFT, RIGHT) == [(True, True), (True, True)]
    assert (entries(ledgers, ONE), entries(ledgers, TWO)) == (3, 3)
    assert ledgers.calls["offer"] == 1


def test_what_a_sealed_ledger_had_not_closed_is_closed_in_its_child(
    ledgers: MemoryLedgers, east: IdRegistry
) -> None:
    east.claim(claims_of(FIRST, LEFT, RIGHT))
    ledgers.change(lambda register: with_generation(register, 0, 1))
    east.read_register()
    seal(east.view, ledgers, TWO)
    east.claim(claims_of(SECOND, 2), Closing(EAST, 1, with_rows(LEFT, RIGHT)))
    assert held_and_joined(east.view, LEFT, RIGHT) == [(True, True), (True, True)]


def test_a_batch_whose_ids_others_hold_closes_what_is_due_all_the_same(
    east: IdRegistry, west: IdRegistry
) -> None:
    west.claim(claims_of(OTHER, 2))
    east.claim(claims_of(FIRST, LEFT, RIGHT))
    found = east.claim(claims_of(SECOND, 2), Closing(EAST, 1, with_rows(LEFT, RIGHT)))
    assert found.holder(0) == OTHER
    assert held_and_joined(east.view, LEFT, RIGHT) == [(True, True), (True, True)]


def test_rows_are_looked_for_once_in_each_ledger(east: IdRegistry) -> None:
    asked = []

    def rowless(at: ClaimsAt, one: Unclosed) -> Mask:
        asked.append(at[0])
        return with_rows(LEFT, RIGHT)(at, one)

    east.claim(claims_of(FIRST, LEFT, RIGHT))
    east.claim(claims_of(SECOND, 2, 13), Closing(EAST, 1, rowless))
    assert sorted(asked) == [ONE, TWO]


def test_a_close_with_nothing_unclosed_asks_nobody(ledgers: MemoryLedgers, east: IdRegistry) -> None:
    east.claim(claims_of(FIRST, 1))
    east.close(Closing(EAST, 1, with_rows(1)))
    roll(east.view, ledgers, 1)
    ledgers.calls.clear()
    east.close(Closing(EAST, 1, with_rows(1)))
    assert not ledgers.calls


@pytest.mark.parametrize("most", [1, 2, 100])
def test_frees_that_are_too_many_to_ride_go_before_in_parts(
    east: IdRegistry, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "MOST_FREES", most)
    monkeypatch.setattr(closing, "MOST_RIDING", 1)
    east.claim(claims_of(FIRST, 1, 2, 3, 4))
    east.claim(claims_of(SECOND, 5), Closing(EAST, 1, with_rows(4)))
    assert held_and_joined(east.view, 1, 2, 3, 4, 5) == [(False, False)] * 3 + [(True, True), (True, False)]


def test_an_id_that_the_riding_close_frees_is_won_by_the_claims_beside_it(east: IdRegistry) -> None:
    east.claim(claims_of(FIRST, 1))
    found = east.claim(claims_of(SECOND, 1, 2), Closing(EAST, 1, with_rows()))
    assert found.are_of(SECOND).tolist() == [True, True]


# -- two records of one event in one plan


def test_of_two_claims_of_one_id_in_a_batch_the_first_is_won(east: IdRegistry) -> None:
    claims = claims_of(FIRST, 1, 2, 1)
    assert east.claim(claims).are_won(claims).tolist() == [True, True, False]


def test_a_claim_is_won_at_its_own_place_alone(east: IdRegistry) -> None:
    first, again = claims_of(FIRST, 1, 2), claims_of(FIRST, 1, 2)
    again.files[1] = 7
    east.claim(first)
    assert east.claim(again).are_won(again).tolist() == [True, False]
    assert east.claim(first).are_won(first).all()


# -- tails


class WithUndecidedTail(MemoryLedgers):
    """Some ledgers end with a copy that proves nothing until somebody offers there."""

    def __init__(self, ledgers: int = 1) -> None:
        super().__init__(ledgers=ledgers)
        self.undecided: dict[LedgerId, bytes] = {}

    def read(self, first: Mapping[LedgerId, int]) -> dict[LedgerId, Tail]:
        tails = super().read(first)
        return {
            one: Tail(tail.values, "undecided") if one in self.undecided else tail
            for one, tail in tails.items()
        }

    def offer(self, offers: Mapping[LedgerId, Offer]) -> dict[LedgerId, Chosen | Undecided]:
        for ledger in offers:
            if value := self.undecided.pop(ledger, None):
                self.values.setdefault(ledger, []).append(value)
        return super().offer(offers)


@pytest.mark.parametrize("is_carried_on", [True, False])
def test_an_undecided_tail_is_settled_by_a_no_op(is_carried_on: bool) -> None:
    ledgers = WithUndecidedTail(2)
    east, west = memory_registry(ledgers, "east"), memory_registry(ledgers, "west")
    west.claim(claims_of(OTHER, 1))
    tail = ledgers.values[ONE].pop()
    ledgers.undecided[ONE] = tail if is_carried_on else b""
    east.catch_up()
    assert held_and_joined(east.view, 1) == [(is_carried_on, False)]
    last = decode(ledgers.values[ONE][-1])
    assert (last.writer, last.claims is None) == (("west", False) if is_carried_on else ("east", True))


def test_a_genesis_that_is_undecided_is_settled_too() -> None:
    ledgers = WithUndecidedTail()
    east, west = memory_registry(ledgers, "east"), memory_registry(ledgers, "west")
    west.claim(claims_of(OTHER, 1))
    roll(west.view, ledgers, 1)
    ledgers.undecided[LedgerId(1, 0)] = ledgers.values.pop(LedgerId(1, 0))[0]
    east.catch_up()
    assert east.view.states[LedgerId(1, 0)].is_open


def test_reading_on_writes_nothing_at_an_undecided_tail() -> None:
    ledgers = WithUndecidedTail()
    east, reader = memory_registry(ledgers, "east"), memory_registry(ledgers, "reader")
    east.claim(claims_of(FIRST, 1))
    ledgers.undecided[ONE] = ledgers.values[ONE].pop()
    ledgers.calls.clear()
    reader.read_on()
    assert ledgers.calls["offer"] == 0
    assert held_and_joined(reader.view, 1) == [(False, False)]


# -- lost answers


@pytest.mark.parametrize("lost", [1, 2])
def test_an_answer_that_is_lost_is_settled_by_offering_again(
    ledgers: MemoryLedgers, east: IdRegistry, lost: int
) -> None:
    ledgers.lost_answers = lost
    assert east.claim(claims_of(FIRST, 1)).are_of(FIRST).all()
    assert entries(ledgers, ONE) == 2


def test_a_claim_that_nobody_heard_of_is_there_for_the_next_run(
    ledgers: MemoryLedgers, east: IdRegistry
) -> None:
    ledgers.lost_answers = 3
    with pytest.raises(RegistryUnavailable):
        east.claim(claims_of(FIRST, 1))
    again = memory_registry(ledgers, "east, started again")
    again.catch_up()
    assert again.claim(claims_of(FIRST, 1)).are_of(FIRST).all()
    assert entries(ledgers, ONE) == 2


# -- frees


def test_joins_of_some_claimants_are_freed_in_all_ledgers(ledgers: MemoryLedgers, east: IdRegistry) -> None:
    east.claim(claims_of(FIRST, LEFT, RIGHT))
    east.claim(claims_of(SECOND, 2, 13))
    east.close(Closing(EAST, 2, with_rows(LEFT, RIGHT, 2, 13)))
    roll(east.view, ledgers, 1)
    east.free(hashes_of(LEFT, RIGHT, 2, 13), lambda claimant: claimant == FIRST)
    assert held_and_joined(east.view, LEFT, RIGHT, 2, 13) == [(False, False)] * 2 + [(True, True)] * 2


def test_what_is_not_closed_is_not_freed(east: IdRegistry) -> None:
    east.claim(claims_of(FIRST, 1))
    east.free(hashes_of(1), lambda claimant: True)
    assert held_and_joined(east.view, 1) == [(True, False)]


def test_frees_that_are_too_many_for_an_entry_take_several(
    ledgers: MemoryLedgers, east: IdRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("photon.registry.closing.MOST_FREES", 2)
    east.claim(claims_of(FIRST, 1, 2, 3, 4, 5))
    east.close(Closing(EAST, 1, with_rows(1, 2, 3, 4, 5)))
    before = entries(ledgers, ONE)
    east.free(hashes_of(1, 2, 3, 4, 5), lambda claimant: True)
    assert held_and_joined(east.view, 1, 2, 3, 4, 5) == [(False, False)] * 5
    assert entries(ledgers, ONE) == before + 3


# -- signs of life


# -- epochs


class Lake:
    """A lake that notes which epochs were fenced; `rows`: the ids that have one."""

    def __init__(self, *rows: int) -> None:
        self.rows = rows
        self.fenced: list[Epoch] = []
        self.reads = 0

    def fence(self, epoch: Epoch) -> None:
        self.fenced.append(epoch)

    def rowless(self) -> Rowless:
        self.reads += 1

        def rowless(at: ClaimsAt, one: Unclosed) -> Mask:
            assert one.claimant.epoch in self.fenced
            return with_rows(*self.rows)(at, one)

        return rowless


def test_epochs_are_numbered_above_the_register_and_all_that_tables_know(east: IdRegistry) -> None:
    assert epochs.begin_epoch(east, "east", 0, "table 1") == Epoch("east", 1)
    assert epochs.begin_epoch(east, "east", 0, "table 1") == Epoch("east", 2)
    assert epochs.begin_epoch(east, "east", 7, "table 1") == Epoch("east", 8)
    assert epochs.begin_epoch(east, "west", 0, "table 2") == Epoch("west", 1)
    assert east.register.tables == {"east": "table 1", "west": "table 2"}


def test_no_epoch_of_another_table_begins_once_one_is_noted(east: IdRegistry, west: IdRegistry) -> None:
    epochs.begin_epoch(east, "east", 0, "table 1")
    with pytest.raises(OtherTable, match="table 1"):
        epochs.begin_epoch(west, "east", 0, "table 2")
    register = east.read_register()
    assert (register.epochs, register.tables) == ({"east": 1}, {"east": "table 1"})


def test_an_epoch_is_ended_with_all_before_it(east: IdRegistry, west: IdRegistry) -> None:
    later = Epoch("east", 2)
    east.claim(claims_of(FIRST, 1, 2))
    east.claim(claims_of(Claimant(later, 1, "later"), LEFT + 2, RIGHT))
    lake = Lake(1, RIGHT)
    epochs.end_epochs(west, "east", 2, lake.fence, lake.rowless)
    assert lake.fenced == [EAST, later]
    assert held_and_joined(west.view, 1, 2, LEFT + 2, RIGHT) == [
        (True, True),
        (False, False),
        (False, False),
        (True, True),
    ]
    for epoch in (EAST, later):
        with pytest.raises(EpochOver):
            east.claim(claims_of(Claimant(epoch, 5, "late"), 7))


def test_an_epoch_that_is_over_is_not_fenced_again(east: IdRegistry, west: IdRegistry) -> None:
    lake = Lake()
    epochs.end_epochs(west, "east", 1, lake.fence, lake.rowless)
    epochs.end_epochs(east, "east", 2, lake.fence, lake.rowless)
    assert lake.fenced == [EAST, Epoch("east", 2)]


def test_a_table_is_not_read_for_epochs_that_hold_nothing(east: IdRegistry) -> None:
    lake = Lake()
    epochs.end_epochs(east, "east", 3, lake.fence, lake.rowless)
    assert lake.reads == 0


def test_what_a_lake_that_is_given_up_had_not_closed_is_free(east: IdRegistry, west: IdRegistry) -> None:
    east.claim(claims_of(FIRST, 1))
    east.claim(claims_of(SECOND, 2), Closing(EAST, 1, with_rows(1)))
    epochs.give_up_epochs(west, "east", 1)
    assert held_and_joined(west.view, 1, 2) == [(True, True), (False, False)]


def test_who_dies_over_ending_an_epoch_is_followed_by_who_sees_that(
    ledgers: MemoryLedgers, east: IdRegistry, west: IdRegistry
) -> None:
    east.claim(claims_of(FIRST, LEFT, RIGHT))
    lake = Lake(LEFT)

    def dies_over_the_first(at: ClaimsAt, one: Unclosed) -> Mask:
        assert one.claimant.epoch == EAST
        raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        epochs.end_epochs(west, "east", 2, lake.fence, lambda: dies_over_the_first)
    east.read_on()
    assert epochs.unfinished(east) == [EAST]
    epochs.end_epochs(east, "east", 1, lake.fence, lake.rowless)
    assert epochs.unfinished(east) == []
    assert lake.fenced == [EAST, Epoch("east", 2)]
    assert held_and_joined(east.view, LEFT, RIGHT) == [(True, True), (False, False)]


def test_an_epoch_is_live_while_it_is_the_newest_and_nobody_has_ended_it(
    ledgers: MemoryLedgers, east: IdRegistry, west: IdRegistry
) -> None:
    epoch = epochs.begin_epoch(east, "east", 0, "table")
    assert epochs.is_live(east, epoch)
    next_one = epochs.begin_epoch(east, "east", 0, "table")
    assert not epochs.is_live(east, epoch)
    epochs.end_epochs(west, "east", 2, lambda epoch: None, lambda: with_rows())
    assert epochs.is_live(east, next_one)
    east.read_on()
    assert not epochs.is_live(east, next_one)
