"""The figures' numbers on a small run: batches grow with the load, old shards fade and new ones grow."""

from __future__ import annotations

import random

import pytest

from bench import figure_batching, figure_resharding
from bench.figure_batching import Counted, Load, Served, Tally, serve, served
from bench.figure_resharding import Sizes, Story, sizes_over_time
from photon.pipeline.sections import Registry
from photon.pipeline.values import parse_duration
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

NOON_US = 1_767_571_200_000_000
FAR_US = 2**62


# -- figure 10


def load(ids_per_second: float) -> Served:
    store = FaultyStore()
    store.slow_seconds = 0.005  # as over a network: what comes in that time waits for the next call
    registry = memory_registry(store, horizon_us=FAR_US)
    one = Load(ids_per_second, tasks=4, seconds=0.5)
    tally = serve([store], registry, one, random.Random(1))
    registry.close()
    return served(one, [tally], shards=2)


def test_requests_grow_far_less_than_ids() -> None:
    light, heavy = load(40), load(8_000)
    assert heavy.ids_per_second > 5 * light.ids_per_second
    assert heavy.ids_per_request > 3 * light.ids_per_request
    assert light.ids_per_request <= 1


def test_every_request_to_the_store_is_counted() -> None:
    store = FaultyStore()
    counted = Counted(store)
    registry = memory_registry(store, horizon_us=FAR_US)
    before = store.requests
    counted.read([])
    counted.insert([])
    assert counted.requests == store.requests - before == 2
    assert counted.reads_per_request == store.reads_per_request
    registry.close()


def test_rates_of_processes_add_up_and_are_told_for_one_shard() -> None:
    tallies = [Tally(ids=100, calls=10, requests=20, seconds=2.0), Tally(60, 6, 12, 1.0)]
    found = served(Load(110, 8, 2.0), tallies, shards=4)
    assert (found.ids_per_second, found.requests_per_second, found.ids_per_request) == (110.0, 22.0, 5.0)
    assert found.of_a_shard() == {
        "offered_ids_per_second": 27.5,
        "ids_per_second": 27.5,
        "requests_per_second": 5.5,
        "ids_per_request": 5.0,
    }


# -- figure 11


STORY = Story(days=10, reshard_on_day=3, shards=6, keep_days=2, looks_a_day=2, ids_of_a_look=40)


@pytest.fixture(scope="module")
def sizes() -> list[Sizes]:
    clock = ManualClock(NOON_US)
    settings = Registry(shards=2, horizon_step=parse_duration("12h"))
    registry = memory_registry(clock=clock, settings=settings, horizon_us=NOON_US)
    return list(sizes_over_time(registry, clock, STORY))


def test_before_the_resharding_there_are_only_old_shards(sizes: list[Sizes]) -> None:
    before = [one for one in sizes if one.day <= STORY.reshard_on_day]
    assert before
    assert all(one.new_shards == 0 and one.new_bytes == 0 and one.old_bytes > 0 for one in before)


def test_old_shards_fade_away_as_gc_passes_and_new_ones_take_their_place(sizes: list[Sizes]) -> None:
    fullest = max(one.old_bytes for one in sizes)
    assert sizes[-1].old_bytes == 0
    assert sizes[-1].new_shards == 3 * sizes[-1].old_shards
    assert sizes[-1].new_bytes == pytest.approx(fullest, rel=0.5)
    new_bytes = [one.new_bytes for one in sizes]
    first = next(index for index, size in enumerate(new_bytes) if size)
    assert new_bytes[first : first + 4] == sorted(new_bytes[first : first + 4])


def test_ids_of_a_few_days_are_there_at_any_time(sizes: list[Sizes]) -> None:
    later = [one for one in sizes if one.day > STORY.keep_days + 1]
    total = [one.old_bytes + one.new_bytes for one in later]
    assert max(total) < 2 * min(total)


def test_both_figures_can_be_drawn(sizes: list[Sizes]) -> None:
    point = served(Load(110, 8, 2.0), [Tally(100, 10, 20, 2.0)], shards=4)
    assert figure_batching.draw([point, point], "memory").axes
    assert len(figure_resharding.draw(sizes, STORY, "memory").axes) == 2
