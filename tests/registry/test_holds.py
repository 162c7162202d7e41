"""Runs of holds, held against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from photon.registry.entry import Hashes, LedgerId
from photon.registry.holds import HashSet, Holds


def hashes_with_equal_halves(ids: list[int]) -> Hashes:
    """Three ids have one upper half: no reader may take one for another."""
    return np.array([(one // 3, one) for one in ids], np.uint64).reshape(-1, 2)


@pytest.mark.parametrize("seed", range(40))
def test_holds_are_what_was_said_last_of_each_id(seed: int) -> None:
    chance, holds, expected = np.random.default_rng(seed), Holds(), {}
    every = list(range(30))
    for position in range(60):
        ids = np.unique(chance.integers(0, 30, chance.integers(1, 12))).tolist()
        generation = position // 20
        if chance.random() < 0.6:
            ledger = LedgerId(generation, position % 7)
            holds.hold(ledger, position, hashes_with_equal_halves(ids))
            expected.update(dict.fromkeys(ids, (ledger, position)))
        else:
            holds.free(generation, hashes_with_equal_halves(ids))
            expected = {one: at for one, at in expected.items() if one not in ids}
        refs = holds.find(hashes_with_equal_halves(every))
        found = {
            one: (LedgerId(int(refs.generations[one]), int(refs.numbers[one])), int(refs.positions[one]))
            for one in every
            if refs.are_held[one]
        }
        assert found == expected, f"seed {seed}, position {position}"
        assert refs.ledgers() == sorted({ledger for ledger, _ in expected.values()})
        assert refs.claims() == sorted(set(expected.values()))


def test_a_generation_that_is_dropped_takes_its_holds_along() -> None:
    holds = Holds()
    holds.hold(LedgerId(0, 0), 1, hashes_with_equal_halves([1, 2]))
    holds.hold(LedgerId(1, 0), 1, hashes_with_equal_halves([2, 3]))
    holds.drop(0)
    assert holds.find(hashes_with_equal_halves([1, 2, 3])).are_held.tolist() == [False, True, True]


def test_many_small_entries_make_few_runs() -> None:
    chance, holds = np.random.default_rng(0), Holds()
    for position in range(2_000):
        holds.hold(LedgerId(0, 0), position, chance.integers(0, 2**64, (5, 2), dtype=np.uint64))
    assert len(holds.runs(0)) <= 5
    assert sum(map(len, holds.runs(0))) == 10_000


def test_among_no_ids_there_is_none() -> None:
    some = np.arange(6, dtype=np.uint64).reshape(3, 2)
    assert not HashSet(some[:0]).has(some).any()
