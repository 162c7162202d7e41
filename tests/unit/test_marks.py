"""Marks of epochs: what is published, when, and what it costs (protocol A16)."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.event_key import EventKey
from photon.recovery.announcing import Announcer, wait_us
from photon.recovery.holders import SilenceWatch, standing_of
from photon.registry.consensus.acceptor import NoReply, Stored
from photon.registry.consensus.marks import (
    NO_MARK,
    Mark,
    decode_mark,
    encode_mark,
    greatest_mark,
    mark_key,
    slots_put_back,
)
from photon.registry.consensus.register import EpochRecord, Members, Register
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry

SECOND_US = 1_000_000
LONGEST_WAIT_SECONDS = 30.0


class Client:
    """A registry over three endpoints, and what they were asked."""

    def __init__(self, endpoints: int = 3) -> None:
        self.clock = ManualClock()
        self.stores = [FaultyStore(self.clock) for _ in range(endpoints)]
        self.registry = memory_registry(*self.stores, clock=self.clock)
        self.asked: list[str] = []
        for store in self.stores:
            store.on_request = lambda kind, batch: self.asked.append(kind)

    def announcer(self, epoch: str = "e") -> Announcer:
        return Announcer(self.registry.marks, epoch, timedelta(seconds=30), self.clock)

    def mark(self, epoch: str = "e") -> Mark:
        return self.registry.marks.read([epoch])[epoch]

    def until_all_have(self, mark: Mark) -> None:
        """Wait for the store whose answer nobody waited for: it has the mark a moment later."""
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        while any(greatest_mark([store.items.get(mark_key("e"), Stored())]) != mark for store in self.stores):
            assert time.monotonic() < until, f"not all stores have {mark}"
            time.sleep(0.001)


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_mark_is_read_as_it_was_written() -> None:
    assert decode_mark(encode_mark(Mark(12, 345))) == Mark(12, 345)
    with pytest.raises(ValueError, match="is no mark"):
        decode_mark("T:1:2")


def test_the_greatest_mark_that_any_endpoint_has_counts() -> None:
    replies = [Stored("M:3:1", "a1"), NoReply("down"), Stored("M:7:0", "a2"), Stored()]
    assert greatest_mark(replies) == Mark(7, 0)
    assert greatest_mark([Stored()]) == NO_MARK


def test_what_is_published_is_read_by_all_with_one_endpoint_down(client: Client) -> None:
    client.stores[0].fail("down")
    client.registry.marks.publish("e", Mark(4, 1))
    client.stores[0].mend()
    client.stores[1].fail("down")
    assert client.mark() == Mark(4, 1)
    assert client.mark("another") == NO_MARK


def test_without_a_majority_nothing_is_published_and_nothing_is_read(client: Client) -> None:
    for store in client.stores[:2]:
        store.fail("down")
    with pytest.raises(RegistryUnavailable):
        client.registry.marks.publish("e", Mark(1))
    with pytest.raises(RegistryUnavailable):
        client.mark()


def test_a_mark_that_a_repair_has_chosen_again_is_raised_all_the_same(client: Client) -> None:
    client.registry.marks.publish("e", Mark(1))
    for store in client.stores:
        store.items[mark_key("e")] = Stored("M:1:0", accepted="a9-f", promised="a9-f")
    client.registry.marks.publish("e", Mark(2))
    assert client.mark() == Mark(2)


@pytest.mark.parametrize(
    ("published", "batch", "is_open", "since_us", "wait"),
    [
        (Mark(3), 3, False, 0, None),  # nothing to do: nothing is written, for ever
        (Mark(3), 4, False, None, 0),  # the first one
        (Mark(3), 4, False, -SECOND_US // 4, 3 * SECOND_US // 4),  # at most once a second
        (Mark(3), 3, True, -SECOND_US, 4 * SECOND_US),  # a sign of life of an open batch
        (Mark(3), 3, True, -6 * SECOND_US, -SECOND_US),
    ],
)
def test_when_a_mark_is_written(
    published: Mark, batch: int, is_open: bool, since_us: int | None, wait: int | None
) -> None:
    assert wait_us(published, batch, is_open, since_us, 0, 5 * SECOND_US) == wait


def test_batches_of_one_second_cost_one_write_at_each_endpoint() -> None:
    client = Client(endpoints=1)
    announcer = client.announcer()
    announcer.completed(1)
    client.asked.clear()
    for batch in range(2, 12):
        announcer.completed(batch)
        client.clock.advance(0.1)
    announcer.completed(12)
    assert client.asked == ["accept"]
    assert client.mark().batch == 12


def test_an_idle_epoch_asks_nobody() -> None:
    client = Client(endpoints=1)
    announcer = client.announcer()
    announcer.completed(1)
    client.asked.clear()
    client.clock.advance(3_600)
    announcer.completed(1)
    assert client.asked == []


def test_a_next_process_goes_on_from_the_mark_of_the_one_before(client: Client) -> None:
    client.announcer().completed(5)
    client.announcer().completed(5)
    assert client.mark() == Mark(5, 1)
    client.announcer().begun()
    assert client.mark() == Mark(5, 2)


def test_what_could_not_be_published_is_published_later(client: Client) -> None:
    announcer = client.announcer()
    for store in client.stores:
        store.fail("down")
    announcer.completed(3)
    for store in client.stores:
        store.mend()
    client.clock.advance(1)
    announcer.completed(3)
    assert client.mark().batch == 3


def test_a_process_that_finds_a_batch_open_gives_a_sign_of_life_before_it_runs_it(client: Client) -> None:
    with client.announcer().working(completed=3, is_open=True, in_thread=False):
        assert client.mark().beats > 0
    with pytest.raises(KeyError), client.announcer().working(3, is_open=False, in_thread=False):
        raise KeyError
    assert client.mark().batch == 3


def test_a_process_that_hangs_in_a_batch_gives_no_signs_of_life(client: Client) -> None:
    hangs = False
    marks, silent_after = client.registry.marks, timedelta(seconds=30)
    announcer = Announcer(marks, "e", silent_after, client.clock, is_stuck=lambda: hangs)
    for hangs, beats in ((False, 1), (True, 1), (False, 2)):  # noqa: B007
        client.clock.advance(silent_after.total_seconds())
        announcer.begun()
        assert client.mark().beats == beats


def test_the_end_of_a_process_does_not_wait_for_a_registry_that_does_not_answer(client: Client) -> None:
    announcer = client.announcer()
    for store in client.stores:
        store.fail("down")
    announcer.completed(3)
    client.asked.clear()
    announcer.finish()
    assert client.asked == []


def test_a_thread_publishes_while_nobody_waits_and_the_rest_at_the_end() -> None:
    registry = memory_registry()
    announcer = Announcer(registry.marks, "e", timedelta(seconds=30), registry.clock)
    announcer.start()
    for batch in range(1, 100):
        announcer.completed(batch)
    announcer.finish()
    assert registry.marks.read(["e"])["e"].batch == 99


# -- silence


def test_an_epoch_is_silent_once_its_mark_has_stood_still_for_long_enough() -> None:
    watch = SilenceWatch(30 * SECOND_US)
    for second in range(0, 30, 2):
        watch.look({"e": Mark(3, 1)}, second * SECOND_US)
        assert not watch.is_silent("e")
    watch.look({"e": Mark(3, 1)}, 30 * SECOND_US)
    assert watch.is_silent("e")
    watch.look({"e": Mark(3, 2)}, 32 * SECOND_US)
    assert not watch.is_silent("e")


def test_a_process_that_stood_still_itself_takes_nobody_for_dead_at_once() -> None:
    watch = SilenceWatch(30 * SECOND_US)
    watch.look({"e": Mark(3, 1)}, 0)
    watch.look({"e": Mark(3, 1)}, 600 * SECOND_US)
    assert not watch.is_silent("e")
    watch.look({"e": Mark(3, 1)}, 615 * SECOND_US)
    assert watch.is_silent("e")


def register_with(state: str) -> Register:
    record = EpochRecord("west", state, "table", 0)  # type: ignore[arg-type]
    return Register("p", "h", "s", Members(1, ("m",)), (), epochs={"e": record})


@pytest.mark.parametrize(
    ("epoch", "state", "is_silent", "standing"),
    [
        (("west", "e"), "live", False, "at work"),
        (("west", "e"), "live", True, "silent"),
        (("west", "e"), "revoked", False, "over"),
        (("west", "e"), "retired", False, "given up"),
        (("west", "pruned"), "live", True, "over"),
        (("west", "pruned"), "retired", True, "given up"),
        (("south", "unknown"), "live", True, "silent"),
    ],
)
def test_how_it_stands_with_a_holder(
    epoch: tuple[str, str], state: str, is_silent: bool, standing: str
) -> None:
    assert standing_of(epoch, register_with(state), is_silent) == standing


def test_a_mark_is_no_id_that_anybody_may_win(client: Client) -> None:
    client.registry.marks.publish("e", Mark(1))
    assert [type(one).__name__ for one in client.registry.lookup([EventKey("e")])] == ["Free"]


def test_a_store_with_an_older_mark_than_the_others_have_seen_there_was_put_back() -> None:
    sound = Stored(encode_mark(Mark(5), {"one": 4, "two": 4, "three": 4}), "a5-f")
    older, silent = Stored(encode_mark(Mark(2), {"one": 2}), "a3-f"), NoReply("down")
    assert slots_put_back([older, sound, silent], ["one", "two", "three"]) == {0}
    assert slots_put_back([Stored(), sound, sound], ["one", "two", "three"]) == {0}
    assert slots_put_back([older, sound, sound], ["a repaired one", "two", "three"]) == set()
    assert slots_put_back([older, older, older], ["one", "two", "three"]) == set()  # of one and the same copy


def test_a_store_that_was_put_back_stays_known_whatever_is_published_after_it(client: Client) -> None:
    marks = client.registry.marks
    marks.publish("e", Mark(1))
    client.until_all_have(Mark(1))
    copy = dict(client.stores[1].items)
    for batch in (2, 3):
        marks.publish("e", Mark(batch))
        client.until_all_have(Mark(batch))
    client.stores[1].items = copy
    for batch in (4, 5):
        marks.publish("e", Mark(batch))
    assert client.mark() == Mark(5)
    assert marks.put_back(["e"]) == [1]
    assert marks.put_back([]) == []


def test_the_last_mark_counts_too_once_the_stores_attest_it(client: Client) -> None:
    announcer = client.announcer()
    announcer.completed(1)
    copy = dict(client.stores[2].items)
    announcer.completed(1)
    client.clock.advance(1)
    announcer.completed(2)
    announcer.finish()
    client.stores[2].items = copy
    assert client.registry.marks.put_back(["e"]) == [2]


def test_a_store_that_missed_marks_and_has_its_data_is_no_alarm(client: Client) -> None:
    marks = client.registry.marks
    marks.publish("e", Mark(1))
    client.stores[0].fail("down", 100)
    for batch in (2, 3):
        marks.publish("e", Mark(batch))
    client.stores[0].mend()
    assert marks.put_back(["e"]) == []
    marks.publish("e", Mark(4))
    assert marks.put_back(["e"]) == []
