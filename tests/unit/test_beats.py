"""Signs of life of epochs: when they are given, what they cost, and whose silence counts (protocol E6)."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from photon.dispatcher.recovery.announcing import BEATS_IN_SILENCE, Announcer
from photon.dispatcher.recovery.holders import EpochState, SilenceWatch, epoch_state_of
from photon.process.clock import SystemClock
from photon.process.machine import Machine
from photon.registry.entry import Epoch
from photon.registry.register import Members, Register
from tests.support.manual_clock import ManualClock
from tests.support.memory_ledgers import MemoryLedgers, memory_registry
from tests.support.one_thread import OneThread

SECOND_US = 1_000_000
SILENT_AFTER = timedelta(seconds=30)
BEAT_SECONDS = SILENT_AFTER.total_seconds() / BEATS_IN_SILENCE
LONGEST_WAIT_SECONDS = 30.0
EPOCH, OTHER = Epoch("west", 1), Epoch("east", 1)


class Process:
    """An epoch's announcer without a thread, and the ledgers that it meets."""

    def __init__(self, ledgers: MemoryLedgers | None = None) -> None:
        self.ledgers = ledgers or MemoryLedgers()
        self.clock = ManualClock()
        self.hangs = False
        self.announcer = Announcer(
            memory_registry(self.ledgers), EPOCH, SILENT_AFTER, self.clock, lambda: self.hangs
        )

    @property
    def beats(self) -> int:
        return self.ledgers.decided.beats.get(EPOCH, 0)

    def pass_beats(self, count: float) -> None:
        self.clock.advance(count * BEAT_SECONDS)


@pytest.fixture
def process() -> Process:
    return Process()


def test_a_batch_begins_with_a_sign_of_life(process: Process) -> None:
    process.announcer.begun()
    assert process.beats == 1


def test_many_short_batches_cost_one_write_in_a_sixth_of_a_silence(process: Process) -> None:
    for _ in range(100):
        process.announcer.begun()
        process.announcer.completed()
        process.pass_beats(0.05)
    assert process.ledgers.calls["beat"] == 5


def test_an_idle_epoch_asks_nobody(process: Process) -> None:
    with process.announcer.working(is_open=False, machine=OneThread()):
        process.clock.advance(3_600)
    assert process.ledgers.calls["beat"] == process.ledgers.calls["beats"] == 0


def test_a_next_process_goes_on_from_the_beats_of_the_one_before(process: Process) -> None:
    process.announcer.begun()
    later = Process(process.ledgers)
    later.announcer.begun()
    assert later.beats == 2


def test_a_process_that_finds_a_batch_open_gives_a_sign_of_life_before_it_runs_it(process: Process) -> None:
    with process.announcer.working(is_open=True, machine=OneThread()):
        assert process.beats == 1


def test_a_beat_that_failed_is_given_a_second_later(process: Process) -> None:
    process.ledgers.is_away = True
    process.announcer.begun()
    process.ledgers.is_away = False
    process.announcer.begun()
    assert process.beats == 0
    process.clock.advance(1)
    process.announcer.begun()
    assert process.beats == 1


def test_a_process_that_hangs_in_a_batch_gives_no_signs_of_life(process: Process) -> None:
    for hangs, beats in ((False, 1), (True, 1), (False, 2)):
        process.hangs = hangs
        process.announcer.begun()
        assert process.beats == beats
        process.pass_beats(1)


def test_the_end_of_a_process_does_not_wait_for_a_registry_that_does_not_answer(process: Process) -> None:
    process.ledgers.is_away = True
    with process.announcer.working(is_open=True, machine=OneThread()):
        calls = process.ledgers.calls.total()
    assert process.ledgers.calls.total() == calls


def test_a_batch_that_takes_longer_than_a_silence_goes_on_giving_signs_of_life() -> None:
    ledgers, silent_after = MemoryLedgers(), timedelta(seconds=0.06)
    announcer = Announcer(memory_registry(ledgers), EPOCH, silent_after, SystemClock())
    with announcer.working(is_open=False, machine=Machine()):
        announcer.begun()  # nobody calls it again before the batch is completed
        until = time.monotonic() + LONGEST_WAIT_SECONDS
        while ledgers.decided.beats.get(EPOCH, 0) < 2 * BEATS_IN_SILENCE and time.monotonic() < until:
            time.sleep(0.001)
    assert ledgers.decided.beats[EPOCH] >= 2 * BEATS_IN_SILENCE


def test_a_thread_gives_no_sign_of_life_after_the_batch_is_completed() -> None:
    ledgers, silent_after = MemoryLedgers(), timedelta(seconds=0.006)
    announcer = Announcer(memory_registry(ledgers), EPOCH, silent_after, SystemClock())
    with announcer.working(is_open=True, machine=Machine()):
        announcer.completed()
        beats = ledgers.decided.beats.get(EPOCH, 0)
        # A real thread: one that went on would give many signs in ten silences.
        time.sleep(10 * silent_after.total_seconds())
        assert ledgers.decided.beats.get(EPOCH, 0) <= beats + 1, "one may just have been given"


# -- silence


def test_an_epoch_is_silent_once_its_beats_have_stood_still_for_long_enough() -> None:
    watch = SilenceWatch(30 * SECOND_US)
    for second in range(0, 30, 2):
        watch.look({EPOCH: 1}, second * SECOND_US)
        assert not watch.is_silent(EPOCH)
    watch.look({EPOCH: 1}, 30 * SECOND_US)
    assert watch.is_silent(EPOCH)
    watch.look({EPOCH: 2}, 32 * SECOND_US)
    assert not watch.is_silent(EPOCH)


def test_an_epoch_whose_batches_go_on_is_not_silent_though_no_beat_is_heard() -> None:
    watch = SilenceWatch(30 * SECOND_US)
    for second in range(0, 60, 15):
        watch.look({EPOCH: (1, 7 + second // 30)}, second * SECOND_US)
        assert not watch.is_silent(EPOCH)
    watch.look({EPOCH: (1, 8)}, 60 * SECOND_US)
    assert watch.is_silent(EPOCH)


def test_a_process_that_stood_still_itself_takes_nobody_for_dead_at_once() -> None:
    watch = SilenceWatch(30 * SECOND_US)
    watch.look({EPOCH: 1}, 0)
    watch.look({EPOCH: 1}, 600 * SECOND_US)
    assert not watch.is_silent(EPOCH)
    watch.look({EPOCH: 1}, 615 * SECOND_US)
    assert watch.is_silent(EPOCH)


def test_an_epoch_that_held_nothing_for_a_while_is_watched_anew() -> None:
    watch = SilenceWatch(30 * SECOND_US)
    watch.look({EPOCH: 1}, 0)
    watch.look({OTHER: 1}, 15 * SECOND_US)  # EPOCH gave no sign of life: it held nothing
    watch.look({EPOCH: 1, OTHER: 1}, 30 * SECOND_US)
    watch.look({EPOCH: 1, OTHER: 1}, 45 * SECOND_US)
    assert watch.is_silent(OTHER)
    assert not watch.is_silent(EPOCH)


@pytest.mark.parametrize(
    ("people", "is_live", "is_silent", "epoch_state"),
    [
        ({}, True, False, "at work"),
        ({}, True, True, "silent"),
        ({}, False, False, "over"),
        ({"on_hold": ("west",)}, True, False, "at work"),
        ({"given_up": ("west",)}, True, True, "over"),
        ({"given_up": ("west",), "lakes_gone": ("west",)}, True, False, "given up"),
        ({"given_up": ("east",), "lakes_gone": ("east",)}, True, False, "at work"),
    ],
)
def test_how_it_stands_with_a_holder(
    people: dict[str, tuple[str, ...]], is_live: bool, is_silent: bool, epoch_state: EpochState
) -> None:
    register = replace(Register("p", "h", Members(1, ("m",))), **people)  # type: ignore[arg-type]
    assert epoch_state_of(EPOCH, register, is_live, is_silent) == epoch_state
