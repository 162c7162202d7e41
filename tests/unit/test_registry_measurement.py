"""The parts of `python -m bench registry` measure what they say; how much, the command says."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from bench.distant_clients import (
    EVENTS_PER_SECOND,
    LEDGERS,
    NEAREST_SECONDS,
    SECONDS,
    WEATHERS,
    Claimed,
    DistantClients,
    table_of,
)
from bench.ledger_costs import IDS, KEY_BYTES, WRITE_BYTES, Cost, cost_of, measured_costs
from bench.ledger_costs import table_of as cost_table_of
from bench.ledger_rates import EPOCH, LedgerRates, batches_of, join
from bench.registry_measurement import PATIENT, Stores, lines_of
from bench.small_entries import SmallEntries, entries, measure_small_entries
from bench.view_sizes import ViewSize, measure_view
from photon.registry.entry import Epoch, LedgerId
from photon.registry.form import MOST_ENTRY_BYTES
from photon.registry.id_registry import IdRegistry
from photon.registry.segments import HOLD_BYTES
from photon.registry.view import View
from tests.documents import ROOT
from tests.support.memory_ledgers import MemoryLedgers, memory_registry


def test_all_that_is_claimed_is_closed_in_the_end() -> None:
    registry = memory_registry()
    join(registry, batches_of(3, 50, 0))
    hashes = batches_of(1, 50, 2)[0].hashes
    assert registry.holders(hashes).are_joins.all()
    assert not any(state.unclosed for state in registry.view.states.values())


def test_a_close_rides_with_the_next_batch() -> None:
    ledgers = MemoryLedgers()
    join(memory_registry(ledgers), batches_of(3, 50, 0))
    (values,) = ledgers.values.values()
    assert len(values) == 1 + 3 + 1  # the genesis, a batch each, and the last close


def test_batches_of_other_epochs_have_other_ids() -> None:
    first, second = (batches_of(1, 50, 0, Epoch("east", number))[0] for number in (1, 2))
    assert not (first.hashes == second.hashes).all(axis=1).any()


def test_the_tables_have_a_line_for_each_measurement() -> None:
    rate = LedgerRates(500, 20_000.0, 0.025, 10.0, 2.0, 0.2, 0.7, 22.0)
    claimed = Claimed(9, 4_000.0, 1_900.0, 1.5, 2.5, 2.0, 3.0, unknown_batches=4, won_twice=0)
    found = {
        "rates": [{"stores": str(Stores("dynoxide", 3, 1)), **asdict(rate)}],
        "distance": [{"endpoints": 3, "ledgers": 8, "weather": "some down", **asdict(claimed)}],
        "costs": [],
        "size": asdict(ViewSize(50_000_000, 22.0, 200_000.0, 0.5, 2.0, 9_000, 4_400_000, 900_000.0, 1.1)),
        "small": asdict(SmallEntries(172_800, 40.0, 30.0, 0.002, 200.0, 30.0)),
    }
    lines = list(lines_of(found))
    assert lines[2].startswith("3 dynoxide, 1 down")
    assert lines[2].split()[-7:] == ["20,000", "25.0", "10.0", "2.0", "0.20", "0.70", "22.0"]
    assert lines[4].split()[-3:] == ["2.0,", "3.0", "4"]
    assert lines[-3].startswith("a view of 50,000,000 ids: 22.0 bytes an id")
    assert lines[-1].endswith("idle polling 0.20% of a core")
    assert len(lines) == 5 + 2 + len(measured_costs()) + 3


# -- views at size


def test_a_view_that_another_process_opens_has_all_ids_that_were_claimed(tmp_path: Path) -> None:
    found = measure_view(tmp_path, ids=100_000, ids_per_batch=20_000)
    assert HOLD_BYTES <= found.bytes_per_id < HOLD_BYTES + 2
    assert found.snapshot_bytes < 100_000
    assert min(found.start_seconds, found.start_after_crash_seconds, found.lookups_per_second) > 0


def test_small_entries_are_those_of_batches_that_close_each_other() -> None:
    view = View(memory_registry().register, "test")
    assert view.take(LedgerId(0, 0), list(entries(20))) == 21
    assert len(view.claimants) == 20
    assert view.closed_through(EPOCH) == 19


@pytest.mark.server
def test_small_entries_are_read_copied_and_dropped(tmp_path: Path) -> None:
    found = measure_small_entries(tmp_path, PATIENT, 100)
    assert (found.entries, found.polling < 0.1) == (100, True)


# -- distance


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("ledgers", LEDGERS)
def test_drivers_far_away_win_each_id_once(weather: str, ledgers: int) -> None:
    claimed = DistantClients(weather, 3, ledgers, seconds=20.0).measure()
    assert claimed.batches > 2
    assert claimed.won_twice == 0
    assert claimed.unknown_batches == 0
    assert claimed.p50_seconds > 4 * NEAREST_SECONDS  # a round and its check, there and back
    assert claimed.slower_events_per_second > EVENTS_PER_SECOND / 20  # neither waits for the other's end


def test_a_batch_far_away_takes_two_round_trips_with_all_endpoints_and_with_some_of_them() -> None:
    for endpoints in (3, 5):
        for weather in ("calm", "some down"):
            claimed = DistantClients(weather, endpoints, seconds=SECONDS).measure()
            assert claimed.p50_round_trips < 2.1
            assert claimed.p90_round_trips < 3


def test_a_driver_that_gets_no_answer_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from photon.registry.errors import RegistryUnavailable

    claim, failures = IdRegistry.claim, [RegistryUnavailable("broken")] * 3

    def broken(self: IdRegistry, *what: object) -> object:
        if failures:
            raise failures.pop()
        return claim(self, *what)  # type: ignore[arg-type]

    monkeypatch.setattr(IdRegistry, "claim", broken)
    assert DistantClients("calm", 3, seconds=5.0).measure().unknown_batches == 3


def test_the_table_names_endpoints_ledgers_and_weather() -> None:
    claimed = asdict(Claimed(9, 4_000.0, 1_900.0, 1.5, 2.5, 2.0, 3.0, 0, 0))
    _, line = table_of([{"endpoints": 5, "ledgers": 2, "weather": "calm", **claimed}])
    assert line.startswith("5 endpoints, 2 ledgers, calm")


# -- costs


@pytest.mark.parametrize("cost", measured_costs(), ids=lambda one: f"{one.ids_per_entry} ids")
def test_a_write_is_paid_by_the_whole_item(cost: Cost) -> None:
    found = cost_of(cost.ids_per_entry)
    assert found.entry_bytes <= MOST_ENTRY_BYTES
    units_an_entry = found.write_units * found.ids_per_entry / IDS
    assert (units_an_entry - 1) * WRITE_BYTES < found.entry_bytes + KEY_BYTES <= units_an_entry * WRITE_BYTES


def test_each_further_datacenter_reads_and_writes_nothing() -> None:
    one, three = cost_of(500, readers=0), cost_of(500, readers=2)
    assert three.write_units == one.write_units
    assert three.read_units == 3 * one.read_units


def test_ids_in_ledgers_take_less_than_a_twentieth_of_a_write_each() -> None:
    assert cost_of(50).write_units < IDS / 20


def test_the_table_of_costs_is_that_of_the_operations_guide() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    assert "\n".join(cost_table_of(measured_costs())) in text
