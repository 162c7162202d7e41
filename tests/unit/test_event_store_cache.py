"""CacheEventStore: what it keeps, what it forgets, and what that costs."""

from __future__ import annotations

import gc
import tracemalloc

import pyarrow as pa

from photon.event_store.interface import PrimaryEvent
from photon.event_store.memory import EVENT_OVERHEAD_BYTES, CacheEventStore
from photon.logs.parse import PRIMARY_EVENTS


def event(event_id: str, raw: bytes = b"raw", time_us: int = 1) -> PrimaryEvent:
    return PrimaryEvent(event_id, time_us, file_number=3, offset_bytes=7, raw=raw, header=b"h")


def room_for(events: int) -> int:
    cache = CacheEventStore(10**6)
    cache.put([event("a")])
    return cache.events.used_bytes * events


def test_an_event_comes_back_as_it_was_put() -> None:
    cache = CacheEventStore(10_000)
    cache.put([event("a")])
    assert cache.get("a") == event("a")
    assert cache.get("b") is None


def test_the_least_recently_used_event_goes_first() -> None:
    cache = CacheEventStore(room_for(2))
    cache.put([event("a"), event("b")])
    cache.get("a")
    cache.put([event("c")])
    assert [cache.get(each) is not None for each in "abc"] == [True, False, True]


def test_an_event_larger_than_the_whole_cache_pushes_nothing_out() -> None:
    cache = CacheEventStore(room_for(2))
    cache.put([event("a"), event("big", bytes(10_000))])
    assert cache.get("a") is not None
    assert cache.get("big") is None


def test_putting_an_event_again_takes_its_room_once() -> None:
    cache = CacheEventStore(10_000)
    cache.put([event("a")])
    used_bytes = cache.events.used_bytes
    cache.put([event("a", time_us=2)])
    assert cache.events.used_bytes == used_bytes
    assert cache.get("a") == event("a", time_us=2)


def test_a_table_of_events_is_remembered_row_by_row() -> None:
    rows = [{"_file": 3, "_offset": 7, "_raw": b"raw", "_id": each, "_time_us": 1} for each in "ab"]
    cache = CacheEventStore(10_000)
    cache.put_table(pa.Table.from_pylist(rows, PRIMARY_EVENTS), b"h")
    assert [cache.get(each) for each in "ab"] == [event("a"), event("b")]


def test_the_bytes_it_counts_are_no_less_than_those_it_takes() -> None:
    cache = CacheEventStore(10**9)
    gc.collect()
    tracemalloc.start()
    try:
        cache.put(event(f"event number {i}", f"raw {i}".encode(), time_us=2**40 + i) for i in range(50_000))
        taken_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken_bytes <= cache.events.used_bytes <= 2 * taken_bytes
    assert cache.events.used_bytes > 50_000 * EVENT_OVERHEAD_BYTES
