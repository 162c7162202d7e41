"""Claimants are kept by position, and come out as they were put in, packed or as owners for a snapshot."""

from __future__ import annotations

import random

import pytest

from photon.registry.claimants import BLOCK, Claimants
from photon.registry.entry import Claimant, Epoch, LedgerId

ONE, OTHER = LedgerId(0, 0), LedgerId(3, 7)


def claimant(number: int) -> Claimant:
    """One of several epochs, with a plan's text of any length."""
    return Claimant(
        Epoch(("north", "süd")[number % 2], 1 + number % 3), number, f"plän {number}" * (number % 4)
    )


def filled(ledger: LedgerId, positions: list[int]) -> Claimants:
    claimants = Claimants()
    for position in positions:
        claimants.put((ledger, position), claimant(position))
    return claimants


def test_each_position_has_its_claimant_and_others_have_none() -> None:
    claimants = filled(ONE, [1, 2, 5, 900])
    assert [claimants.get((ONE, at)) for at in (0, 1, 5, 6, 900, 901)] == [
        None,
        claimant(1),
        claimant(5),
        None,
        claimant(900),
        None,
    ]
    assert claimants.get((OTHER, 1)) is None
    with pytest.raises(KeyError):
        claimants[ONE, 0]


def test_positions_come_in_order() -> None:
    claimants = filled(ONE, [5])
    with pytest.raises(ValueError, match="position 5 of ledger 0-0 comes behind 5"):
        claimants.put((ONE, 5), claimant(1))


def test_what_is_packed_part_by_part_comes_back() -> None:
    random.seed(5)
    positions = sorted(random.sample(range(10_000), 500))
    claimants = filled(OTHER, positions)
    again = Claimants()
    again.put((ONE, 3), claimant(8))  # epochs have other numbers here
    for first, last in ((0, 2_000), (2_000, 7_000), (7_000, 10_000)):
        part = filled(OTHER, [one for one in positions if one < last])
        again.unpack(OTHER, part.pack(OTHER, first))
    assert list(again.items(OTHER)) == list(claimants.items(OTHER))
    assert again[ONE, 3] == claimant(8)


def test_nothing_new_is_packed_as_nothing() -> None:
    claimants = filled(ONE, [1, 2])
    assert claimants.pack(ONE, 3) == claimants.pack(OTHER, 0) == b""


def test_a_dropped_generation_takes_its_claimants_along() -> None:
    claimants = filled(ONE, [1])
    claimants.put((OTHER, 1), claimant(1))
    claimants.drop(0)
    assert claimants.ledgers() == [OTHER]
    assert len(claimants) == 1


@pytest.mark.parametrize("step", [1, 3, BLOCK - 1, BLOCK + 1])
def test_owners_say_of_each_position_which_datacenter_claims_there(step: int) -> None:
    positions = list(range(1, 3 * BLOCK, step))
    claimants = Claimants()
    claimants.put((OTHER, 0), claimant(0))
    for number, position in enumerate(positions):
        claimants.put((ONE, position), claimant(position))
        if number % 50_000 == 0:
            claimants.owners()  # blocks that are made early are right later too
    owners = claimants.owners()
    column = owners.columns()[ONE]
    assert len(column) == positions[-1] + 1
    expected = [0] * len(column)
    for position in positions:
        expected[position] = 1 + owners.datacenters.index(claimant(position).epoch.datacenter)
    assert column.tolist() == expected
