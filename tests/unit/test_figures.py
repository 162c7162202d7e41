"""The figures' numbers on a small run: batches grow with the load, old ledgers fade and new ones grow."""

from __future__ import annotations

import pytest

from bench import figure_batching, figure_resharding
from bench.figure_batching import Load, Served, Tally, drive, served
from bench.figure_resharding import Sizes, Story, sizes_over_time
from photon.registry.entry import Epoch
from tests.support.memory_ledgers import memory_registry

# -- figure 10


def load(ids_per_second: float) -> Served:
    one = Load(ids_per_second, seconds=0.5, datacenters=1)
    return served(one, [drive(memory_registry(), one, Epoch("east", 1), home=0)])


def test_entries_grow_far_less_than_ids() -> None:
    light, heavy = load(40), load(8_000)
    assert heavy.ids_per_second > 5 * light.ids_per_second
    assert heavy.ids_per_entry > 20 * light.ids_per_entry
    assert light.ids_per_entry < 10


def test_a_driver_claims_in_its_home_ledger_alone() -> None:
    registry = memory_registry()
    one = Load(2_000, seconds=0.3, datacenters=4)
    tally = drive(registry, one, Epoch("east", 1), home=0)
    (state,) = registry.view.states.values()
    assert tally.ids > 0
    assert state.next_position == 1 + tally.entries  # its genesis, and the batches


# -- figure 11


STORY = Story(
    days=10, reshard_on_day=3, before=2, after=6, keep_days=2, roll_days=2, looks_a_day=2, ids_of_a_look=40
)


@pytest.fixture(scope="module")
def sizes() -> list[Sizes]:
    return list(sizes_over_time(memory_registry(), STORY))


def test_old_ledgers_fade_away_as_they_are_collected_and_new_ones_take_their_place(
    sizes: list[Sizes],
) -> None:
    fullest = max(one.old_bytes for one in sizes)
    assert sizes[-1].old_bytes == 0
    assert sizes[-1].old_ledgers == 0
    assert sizes[-1].new_bytes > fullest / 2
    new_bytes = [one.new_bytes for one in sizes]
    first = next(index for index, size in enumerate(new_bytes) if size)
    assert new_bytes[first : first + 4] == sorted(new_bytes[first : first + 4])


def test_ids_of_a_few_days_are_there_at_any_time(sizes: list[Sizes]) -> None:
    later = [one for one in sizes if one.day > STORY.keep_days + STORY.roll_days + 1]
    total = [one.old_bytes + one.new_bytes for one in later]
    assert max(total) < 2.5 * min(total)


def test_both_figures_can_be_drawn(sizes: list[Sizes]) -> None:
    point = served(Load(110, 2.0), [Tally(100, 10, 2.0)])
    assert figure_batching.draw([point, point], "memory").axes
    assert len(figure_resharding.draw(sizes, STORY, "memory").axes) == 2
