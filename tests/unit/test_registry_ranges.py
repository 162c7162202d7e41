"""Work through shards: several at once, noted as it goes, and gone on with where it stopped."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.ledger.stores.channel import Threads
from photon.ledger.stores.deadline import Deadline
from photon.registry.consensus.acceptor import ABSENT, Insert
from photon.registry.consensus.layout import ItemKey
from photon.registry.endpoints.endpoints import Endpoints
from photon.registry.operations.ranges import POSITIONS, HowFar, Position, PositionItem, Ranges, in_threads
from photon.testing.crashes import SimulatedCrash
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock

WORK = "work on the first store"
KEY = ItemKey(POSITIONS, "work")


class Store:
    """A store that has the position, and shards with so many pages of one item each."""

    def __init__(self, pages: Mapping[str, int]) -> None:
        self.acceptor = FaultyStore(ManualClock())
        self.pages = pages
        self.done: Counter[tuple[str, int]] = Counter()
        self.die_after: int | None = None

    def item(self) -> PositionItem:
        return PositionItem(Endpoints([self.acceptor], Threads(1), ManualClock()), "work")

    def ranges(
        self, work: str = WORK, shards: Sequence[str] = (), between: int = 1, how_far: HowFar | None = None
    ) -> Ranges:
        item = self.item()
        found = read(item)
        return Ranges(shards or list(self.pages), work, item, lambda: 7, found, between, how_far)

    def work(self, shard: str, after: ItemKey | None) -> Iterator[tuple[ItemKey | None, int]]:
        for page in range(0 if after is None else int(after.s) + 1, self.pages[shard]):
            if self.die_after is not None:
                if not self.die_after:
                    raise SimulatedCrash
                self.die_after -= 1
            self.done[shard, page] += 1
            is_last = page == self.pages[shard] - 1
            yield None if is_last else ItemKey(shard, str(page)), 1

    def everything(self) -> set[tuple[str, int]]:
        return {(shard, page) for shard, pages in self.pages.items() for page in range(pages)}


def one_after_the_other(works: Sequence[Callable[[], None]], stop: Callable[[], None]) -> None:
    for work in works:
        work()


@pytest.mark.parametrize("at_once", [1, 3, 50])
def test_every_page_of_every_shard_is_worked_on_once(at_once: int) -> None:
    store = Store({f"s{number}": number + 1 for number in range(20)})
    ranges = store.ranges()
    ranges.work_through(store.work, at_once)
    assert store.done == Counter(store.everything())
    assert ranges.items == 210


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=8),
    st.lists(st.integers(0, 12), max_size=5),
    st.integers(1, 4),
    st.booleans(),
)
def test_however_often_it_dies_no_page_is_left_out(
    pages: list[int], deaths: list[int], at_once: int, in_turn: bool
) -> None:
    store = Store({f"s{number}": count for number, count in enumerate(pages)})
    for die_after in deaths:
        store.die_after = die_after
        with suppress(SimulatedCrash):
            store.ranges().work_through(store.work, at_once, one_after_the_other if in_turn else in_threads)
    store.die_after = None
    store.ranges().work_through(store.work, at_once)
    assert set(store.done) == store.everything()


def test_one_that_goes_on_looks_at_nothing_twice_but_what_was_not_noted() -> None:
    store = Store({f"s{number}": 10 for number in range(10)})
    store.die_after = 57
    with suppress(SimulatedCrash):
        store.ranges(between=10).work_through(store.work, 1)
    store.die_after = None
    again = store.ranges(between=10)
    assert (again.resumed, again.items) == (True, 50)
    again.work_through(store.work, 1)
    assert sum(store.done.values()) == 107
    assert set(store.done) == store.everything()


def test_what_is_done_has_nothing_left_until_it_is_forgotten() -> None:
    store = Store({"a": 3, "b": 3})
    ranges = store.ranges()
    ranges.work_through(store.work, 2)
    store.ranges().work_through(store.work, 2)
    assert sum(store.done.values()) == 6
    item = store.item()
    read(item)
    item.forget()
    assert store.acceptor.read([KEY]) == [ABSENT]
    store.ranges().work_through(store.work, 2)
    assert sum(store.done.values()) == 12


def test_little_work_notes_nothing() -> None:
    store = Store({"a": 3})
    store.ranges(between=10).work_through(store.work, 1)
    assert store.acceptor.read([KEY]) == [ABSENT]


@pytest.mark.parametrize("change", [{"work": "another work"}, {"shards": ["b"]}], ids=["work", "shards"])
def test_a_position_of_something_else_does_not_count(change: dict[str, object]) -> None:
    store = Store({"a": 5, "b": 5})
    store.die_after = 4
    with suppress(SimulatedCrash):
        store.ranges().work_through(store.work, 1)
    store.die_after, store.done = None, Counter()
    ranges = store.ranges(**change)  # type: ignore[arg-type]
    ranges.work_through(store.work, 1)
    expected = {(shard, page) for shard, page in store.everything() if shard in change.get("shards", "ab")}  # type: ignore[operator]
    assert store.done == Counter(expected)


def test_shards_that_are_there_no_more_make_it_begin_anew_with_each_shard_once() -> None:
    store = Store({"a": 2, "b": 2, "c": 2})
    store.die_after = 5
    with suppress(SimulatedCrash):
        store.ranges(shards=["a", "b", "c"]).work_through(store.work, 1)
    store.die_after, store.done = None, Counter()
    store.ranges(shards=["a", "b"]).work_through(store.work, 1)
    assert store.done == Counter({(shard, page): 1 for shard in "ab" for page in range(2)})


def test_a_position_that_a_newer_version_has_noted_does_not_count() -> None:
    store = Store({"a": 2})
    newer = json.dumps({"format": 2, "and": "more"})
    store.acceptor.insert([Insert(KEY, newer)])
    ranges = store.ranges()
    assert not ranges.resumed
    ranges.work_through(store.work, 1)
    assert store.ranges().resumed, "it was not replaced"


def test_of_two_who_note_at_once_each_leaves_a_position_that_is_true() -> None:
    store = Store({"a": 4})
    first, second = store.item(), store.item()
    first.note(Position(WORK, "a", {"a": "1"}))
    second.note(Position(WORK, "a", {"a": "0"}))  # meets the first one's, and is left to the next time
    assert read(first) == read(second) == Position(WORK, "a", {"a": "1"})
    second.note(Position(WORK, "a", {"a": "2"}))
    assert read(first) == Position(WORK, "a", {"a": "2"})


def read(item: PositionItem) -> Position | None:
    return item.read(Deadline(ManualClock(), 0))


def test_a_position_is_read_as_it_was_noted() -> None:
    store = Store({"a": 4})
    position = Position(WORK, "a", {"a": "k", "b": None}, items=5, at_us=9)
    store.item().note(position)
    assert read(store.item()) == position
    assert replace(position, items=6) != position


@pytest.mark.parametrize("fault", ["lost_request", "lost_answer", "down"])
def test_work_goes_on_without_a_note_that_gets_no_answer(fault: str) -> None:
    store = Store({"a": 5, "b": 5})
    ranges = store.ranges()
    store.acceptor.fail(fault, 3)  # type: ignore[arg-type]
    ranges.work_through(store.work, 1)
    assert store.done == Counter(store.everything())


def told(clock: ManualClock) -> tuple[HowFar, list[str]]:
    """A HowFar, and what it says. Each look at the clock takes a second."""
    said: list[str] = []

    def elapsed_us() -> int:
        clock.advance(1)
        return clock.elapsed_us()

    return HowFar("copies ids", said.append, elapsed_us), said


def test_it_tells_after_each_page_how_many_shards_and_items_are_done_and_what_time_is_left() -> None:
    how_far, said = told(ManualClock())
    store = Store({"a": 2, "b": 1, "c": 1})
    store.ranges(how_far=how_far).work_through(store.work, 1)
    assert said == [
        "copies ids: 0 % of 3 shards; 1 items, 1 items/s",
        "copies ids: 33 % of 3 shards, 4 s left; 2 items, 1 items/s",
        "copies ids: 66 % of 3 shards, 1 shards/s, 2 s left; 3 items, 1 items/s",
        "copies ids: all of 3 shards; 4 items, 1 items/s",
    ]


def test_one_that_goes_on_tells_of_what_was_left() -> None:
    store = Store({"a": 2, "b": 2, "c": 2, "d": 2})
    store.die_after = 4
    with suppress(SimulatedCrash):
        store.ranges().work_through(store.work, 1)
    store.die_after = None
    how_far, said = told(ManualClock())
    store.ranges(how_far=how_far).work_through(store.work, 1)
    assert said[-1] == "copies ids: all of 2 shards; 4 items, 1 items/s"


def test_work_at_several_endpoints_is_told_of_together() -> None:
    how_far, said = told(ManualClock())
    stores = [Store({"a": 1}), Store({"a": 1})]
    works = [(store.ranges(how_far=how_far), store.work) for store in stores]
    for ranges, work in works:
        ranges.work_through(work, 1)
    assert [text.partition(";")[0] for text in said] == [
        "copies ids: 50 % of 2 shards, 1 shards/s, 1 s left",
        "copies ids: all of 2 shards",
    ]
