"""The parts of `python -m bench registry` measure what they say; how much, the command says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.distant_clients import (
    EVENTS_PER_SECOND,
    LEDGERS,
    NEAREST_SECONDS,
    SECONDS,
    WEATHERS,
    DistantClients,
)
from bench.ledger_costs import IDS, KEY_BYTES, WRITE_BYTES, Cost, cost_of, measured_costs
from bench.ledger_costs import table_of as cost_table_of
from bench.ledger_rates import batches_of, join
from bench.view_sizes import measure_view
from photon.registry.form import MOST_ENTRY_BYTES
from photon.registry.segments import HOLD_BYTES
from tests.documents import ROOT
from tests.support.memory_ledgers import MemoryLedgers, memory_registry
from tests.support.shares import a_share


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


# -- views at size


def test_a_view_that_another_process_opens_has_all_ids_that_were_claimed(tmp_path: Path) -> None:
    found = measure_view(tmp_path, ids=100_000, ids_per_batch=20_000)
    assert HOLD_BYTES <= found.bytes_per_id < HOLD_BYTES + 2
    assert found.snapshot_bytes < 100_000
    assert min(found.start_seconds, found.start_after_crash_seconds, found.lookups_per_second) > 0


# -- distance


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("ledgers", a_share(LEDGERS, 0, of=2))
def test_drivers_far_away_win_each_id_once(weather: str, ledgers: int) -> None:
    claimed = DistantClients(weather, 3, ledgers, seconds=20.0).measure()
    assert claimed.batches > 2
    assert claimed.won_twice == 0
    assert claimed.unknown_batches == 0
    assert claimed.p50_seconds > 4 * NEAREST_SECONDS  # a round and its check, there and back
    assert claimed.slower_events_per_second > EVENTS_PER_SECOND / 20  # neither waits for the other's end


@pytest.mark.parametrize("endpoints", a_share([3, 5], 0, of=2))
@pytest.mark.parametrize("weather", ["calm", "some down"])
def test_a_batch_far_away_takes_two_round_trips_with_all_endpoints_and_with_some_of_them(
    weather: str, endpoints: int
) -> None:
    claimed = DistantClients(weather, endpoints, seconds=SECONDS).measure()
    assert claimed.p50_round_trips < 2.1
    assert claimed.p90_round_trips < 3


# -- costs


@pytest.mark.parametrize("cost", measured_costs(), ids=lambda one: f"{one.ids_per_entry} ids")
def test_a_write_is_paid_by_the_whole_item(cost: Cost) -> None:
    found = cost_of(cost.ids_per_entry)
    assert found.entry_bytes <= MOST_ENTRY_BYTES
    units_an_entry = found.write_units * found.ids_per_entry / IDS
    assert (units_an_entry - 1) * WRITE_BYTES < found.entry_bytes + KEY_BYTES <= units_an_entry * WRITE_BYTES


def test_ids_in_ledgers_take_less_than_a_twentieth_of_a_write_each() -> None:
    assert cost_of(50).write_units < IDS / 20


def test_the_table_of_costs_is_that_of_the_operations_guide() -> None:
    text = (ROOT / "docs/operations/registry.md").read_text()
    assert "\n".join(cost_table_of(measured_costs())) in text
