"""A registry's state describes its ledgers and epochs, and says how fast a ledger grows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from photon.registry.closing import Closing
from photon.registry.entry import NO_TIME_US, Claimant, Claims, Entry, Epoch
from photon.registry.epochs import begin_epoch
from photon.registry.form import encode
from photon.registry.generations import roll
from photon.registry.id_registry import IdRegistry
from photon.upkeep.registry_state import bytes_per_second, epoch_rows, ledger_rows, size_of
from tests.simulation.world import hashed
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

EAST, WEST = Epoch("east", 1), Epoch("west", 1)


def claims_of(epoch: Epoch, batch: int, *ids: str, at_us: int = 1_000_000) -> Claims:
    many = len(ids)
    places = (np.zeros(many, np.uint32), np.arange(many, dtype=np.int64))
    return Claims(Claimant(epoch, batch, "p"), hashed(*ids), np.full(many, at_us), *places)


def with_claims() -> IdRegistry:
    """East has claimed five ids and closed them, west two in another generation; one of east's is freed."""
    registry = memory_registry(MemoryLedgers(ledgers=2))
    begin_epoch(registry, "east", 0, "table")
    begin_epoch(registry, "west", 0, "table")
    registry.claim(claims_of(EAST, 1, *"abcde"))
    registry.close(Closing(EAST, 1, lambda at, one: np.zeros(len(one.hashes), bool)))
    roll(registry.view, registry.positions, 3)
    registry.claim(claims_of(WEST, 1, "f", "g"))
    registry.free(hashed("e"), lambda claimant: claimant.epoch == EAST)
    return registry


def test_ids_are_counted_where_they_are_held_and_freed_ones_no_more() -> None:
    view = with_claims().view
    rows = ledger_rows(view)
    assert [row.state for row in rows] == ["sealed"] * 2 + ["open"] * 3
    assert sum(row.ids for row in rows[:2]) == 4
    assert sum(row.ids for row in rows[2:]) == 2
    size = size_of(view)
    assert (size.generations, size.ledgers, size.ids) == (2, 5, 6)
    assert size.bytes == sum(row.bytes for row in rows) > 0


def test_the_ids_of_a_datacenter_are_those_that_its_claims_hold() -> None:
    view = with_claims().view
    of_east = np.concatenate(list(view.ids_of("east")))
    assert sorted(of_east.tolist()) == sorted(hashed(*"abcd").tolist())
    assert sum(map(len, view.ids_of("north"))) == 0


def test_epochs_tell_what_no_close_has_decided() -> None:
    rows = {row.datacenter: row for row in epoch_rows(with_claims().view)}
    assert (rows["east"].unclosed, rows["west"].unclosed) == (0, 2)
    assert (rows["east"].number, rows["east"].state) == (1, "live")


def entries(*times_us: int) -> list[bytes]:
    return [
        encode(Entry(f"w{number}", claims=claims_of(EAST, number, "a", at_us=at_us)))
        for number, at_us in enumerate(times_us, 1)
    ]


def test_a_ledger_grows_as_fast_as_the_times_of_its_events_say() -> None:
    some = entries(1_000_000, 2_000_000, 3_000_000)
    assert bytes_per_second(some) == pytest.approx((len(some[1]) + len(some[2])) / 2)


def test_a_ledger_that_is_filled_from_many_files_at_once_grows_as_fast_as_these_did() -> None:
    minutes_us = np.arange(100) * 60_000_000
    ids = [f"id-{number}" for number in range(100)]
    one = replace(claims_of(EAST, 1, *ids), times_us=minutes_us)
    some = [
        encode(Entry("w1", claims=one)),
        encode(Entry("w2", claims=replace(one, times_us=minutes_us + 1))),
    ]
    assert bytes_per_second(some) == pytest.approx(len(some[1]) / 5_940, rel=0.01)


def test_entries_without_claims_count_and_times_that_nobody_knows_do_not() -> None:
    some = entries(1_000_000, NO_TIME_US, 3_000_000)
    assert bytes_per_second(some) == pytest.approx((len(some[1]) + len(some[2])) / 2)
    assert bytes_per_second(entries(1_000_000)) is None
    assert bytes_per_second(entries(1_000_000, 1_000_000)) is None
    assert bytes_per_second([encode(Entry("w"))]) is None
