"""Readings for the live page: one for all viewers, in bounded time, with a bounded number of threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from photon.page.asking import SHARE_OF_A_CORE, Busy, InTurn, Shared
from photon.process.in_time import NotInTime
from tests.support.manual_clock import ManualClock


class Counter:
    """A reading that counts how often it was done; it may hang, or fail."""

    def __init__(self) -> None:
        self.times = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.error: Exception | None = None

    def __call__(self) -> int:
        self.times += 1
        self.goes_on.wait()
        if self.error is not None:
            raise self.error
        return self.times

    @contextmanager
    def hanging(self) -> Iterator[None]:
        self.goes_on.clear()
        yield
        self.goes_on.set()


def shared(read: Callable[[], int], clock: ManualClock) -> Shared[int]:
    return Shared("the lake of east", read, 2.0, clock)


def test_all_who_ask_within_some_seconds_have_one_reading() -> None:
    clock, read = ManualClock(), Counter()
    one = shared(read, clock)

    async def ask() -> None:
        assert await asyncio.gather(*(one.answer(5) for _ in range(20))) == [1] * 20
        clock.advance(1.9)
        assert await one.answer(5) == 1
        clock.advance(0.1)
        assert await one.answer(5) == 2

    asyncio.run(ask())


def test_an_error_is_shared_too() -> None:
    clock, read = ManualClock(), Counter()
    read.error = OSError("no such mount")
    one = shared(read, clock)

    async def ask() -> None:
        for _ in range(3):
            with pytest.raises(OSError, match="no such mount"):
                await one.answer(5)

    asyncio.run(ask())
    assert read.times == 1


def test_a_reading_that_hangs_is_named_and_keeps_one_thread_however_often_somebody_asks() -> None:
    clock, read = ManualClock(), Counter()
    one = shared(read, clock)

    async def ask() -> None:
        with read.hanging():
            for _ in range(5):
                clock.advance(60)
                with pytest.raises(NotInTime, match="the lake of east: no answer within"):
                    await one.answer(0.01)
        assert await one.answer(5) >= 1

    asyncio.run(ask())
    assert read.times <= 2


def test_an_answer_stands_for_a_while_where_the_next_one_takes_its_time() -> None:
    clock, read = ManualClock(), Counter()
    one = Shared("the lake of east", read, 2.0, clock, stands_seconds=10.0)

    async def ask() -> None:
        assert await one.answer(5) == 1
        with read.hanging():
            clock.advance(9)
            assert await one.answer(0.01) == 1
            clock.advance(1)
            with pytest.raises(NotInTime):
                await one.answer(0.01)

    asyncio.run(ask())


def test_a_reading_that_takes_much_of_a_core_is_repeated_less_often() -> None:
    clock, read = ManualClock(), Counter()

    def slow() -> int:
        until = time.thread_time() + 4.0 * SHARE_OF_A_CORE
        while time.thread_time() < until:
            pass
        return read()

    one = shared(slow, clock)

    async def ask() -> None:
        await one.answer(5)
        clock.advance(3.9)
        assert await one.answer(5) == 1
        clock.advance(60)
        assert await one.answer(5) == 2

    asyncio.run(ask())


def test_what_is_read_in_turn_waits_for_the_reading_before_or_says_that_it_does() -> None:
    first, second, line = Counter(), Counter(), InTurn("a trace")

    async def ask() -> None:
        with first.hanging():
            with pytest.raises(NotInTime, match="a trace: no answer within"):
                await line.answer(first, 0.01)
            with pytest.raises(Busy, match="a trace: an earlier question is not answered yet"):
                await line.answer(second, 5, wait_seconds=0.01)
            assert second.times == 0
        assert await line.answer(second, 5) == 1

    asyncio.run(ask())


def test_two_at_once_are_read_one_after_the_other() -> None:
    running: list[int] = []
    most: list[int] = []

    def read() -> int:
        running.append(1)
        most.append(len(running))
        threading.Event().wait(0.02)
        running.pop()
        return 1

    line = InTurn("a trace")

    async def ask() -> None:
        await asyncio.gather(*(line.answer(read, 5) for _ in range(5)))

    asyncio.run(ask())
    assert max(most) == 1
