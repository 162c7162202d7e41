"""Shifts end, follow one another, and report on the rows that they made readable."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.shift.ending import ShiftLimits
from photon.dispatcher.shift.growth import growth_of
from photon.dispatcher.shift.lease import DatacenterLock, Lease, lease_status_of
from photon.dispatcher.shift.run import ShiftResult
from photon.process.quantiles import merge, percentiles
from tests.simulation.world import NOON_US, World

PATIENCE_SECONDS = 240


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, more="tailing: {poll_interval: 1s}")


def shift(world: World, callbacks: Callbacks | None = None, **limits: object) -> ShiftResult:
    return world.join(callbacks=callbacks, limits=ShiftLimits(run="run-1", takes_turns=True, **limits))  # type: ignore[arg-type]


class Successor:
    """Waits for the datacenter in a thread of its own, as a successor does in a process of its own."""

    def __init__(self, world: World) -> None:
        self._state = world.state()
        self.lock: DatacenterLock | None = None
        self._thread = threading.Thread(target=self._wait)

    def _wait(self) -> None:
        self.lock = DatacenterLock.take_over(
            self._state, "east", lambda: Lease.of_this_process("run-2", 0, None), lambda: False
        )

    def begin_to_wait(self, _report: BatchReport | None = None) -> None:
        if not self._thread.is_alive() and self.lock is None:
            self._thread.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while lease_status_of(self._state).successor is None:
            assert time.monotonic() < deadline, "nobody waits"
            time.sleep(0.005)  # the thread has to wait first

    def takes_over(self) -> bool:
        self._thread.join(PATIENCE_SECONDS)
        if self.lock is not None:
            self.lock.release(0)
        return self.lock is not None


def test_a_shift_leaves_when_there_was_nothing_to_do_for_so_long(world: World) -> None:
    world.events("c1")
    before_us = world.clock.now_us()
    result = shift(world, idle=timedelta(minutes=2))
    assert (result.ended, world.joined_ids()) == ("idle", ["c1"])
    assert world.clock.now_us() - before_us >= 120 * 1_000_000


def test_events_that_come_while_a_shift_is_idle_keep_it(world: World) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    slept: list[float] = []
    really_sleep = world.clock.sleep

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if sum(slept) >= 60 and len(world.joined_ids()) == 1:
            world.clicks(("c2", "q2"))
        really_sleep(seconds)

    world.clock.sleep = sleep  # type: ignore[method-assign]
    assert shift(world, idle=timedelta(minutes=2)).ended == "idle"
    assert world.joined_ids() == ["c1", "c2"]
    assert sum(slept) >= 179


def test_an_idle_shift_leaves_the_signature_of_what_it_saw(world: World) -> None:
    world.queries("q1")
    shift(world, idle=timedelta(seconds=1))
    lease = lease_status_of(world.state()).lease
    assert lease is not None
    assert lease.idle_seen == growth_of(world.pipeline, "east", NOON_US).signature


def test_a_shift_that_was_stopped_leaves_no_signature(world: World) -> None:
    world.queries("q1")
    batches: list[BatchReport] = []
    callbacks = Callbacks(should_stop=lambda: bool(batches), on_batch=batches.append)
    result = shift(world, callbacks, idle=timedelta(hours=1))
    lease = lease_status_of(world.state()).lease
    assert lease is not None
    assert (result.ended, lease.idle_seen) == ("asked", None)
    assert lease.released_us is not None


def test_a_shift_is_relieved_after_its_batch_by_a_successor(world: World) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    successor = Successor(world)

    def on_batch(report: BatchReport) -> None:
        successor.begin_to_wait(report)
        world.clicks(("c2", "q2"))

    result = shift(world, Callbacks(on_batch=on_batch), idle=timedelta(hours=1))
    assert result.ended == "relieved"
    assert successor.takes_over()
    assert world.joined_ids() == ["c1"]
    world.join()
    assert world.joined_ids() == ["c1", "c2"]


def test_a_command_is_not_relieved(world: World) -> None:
    world.events("c1")
    successor = Successor(world)
    assert world.join(callbacks=Callbacks(on_batch=successor.begin_to_wait)).ended == "done"
    assert successor.takes_over()


@pytest.mark.parametrize("is_asked", [True, False])
def test_the_lease_of_a_process_that_was_asked_to_stop_says_so(world: World, is_asked: bool) -> None:
    world.queries("q1")
    world.join(callbacks=Callbacks(should_stop=lambda: is_asked))
    lease = lease_status_of(world.state()).lease
    assert lease is not None
    assert lease.is_ending == is_asked


def test_a_shift_that_nobody_relieves_ends_when_its_time_and_the_wait_are_over(world: World) -> None:
    world.queries("q1")
    before_us = world.clock.now_us()
    result = shift(world, length=timedelta(minutes=30), relief=timedelta(minutes=1), idle=timedelta(hours=9))
    assert result.ended == "over"
    assert 1860 <= (world.clock.now_us() - before_us) / 1_000_000 <= 1870


def test_the_lease_says_when_a_successor_may_take_over(world: World) -> None:
    world.queries("q1")
    before_us = world.clock.now_us()
    shift(world, length=timedelta(minutes=30), idle=timedelta(seconds=1))
    lease = lease_status_of(world.state()).lease
    assert lease is not None
    assert (lease.run, lease.ends_us) == ("run-1", before_us + 1800 * 1_000_000)


def test_latency_is_counted_from_the_later_of_both_events_to_the_commit(world: World) -> None:
    world.queries("q1", "q2", at_us=NOON_US - 9_000_000)
    world.clicks(("c1", "q1"), at_us=NOON_US - 5_000_000)
    world.clicks(("c2", "q2"), at_us=NOON_US - 20_000_000)
    reports: list[BatchReport] = []
    began_us = world.clock.now_us()
    world.join(callbacks=Callbacks(on_batch=reports.append))
    sample = merge([report.latencies_seconds for report in reports])
    spent_seconds = (world.clock.now_us() - began_us) / 1_000_000
    least, most = percentiles([sample], [1, 100])
    assert sample.count == 2
    assert 5 <= least <= 5 + spent_seconds
    assert 9 <= most <= 9 + spent_seconds


def test_an_event_that_another_datacenter_joined_has_no_latency_here(tmp_path: Path) -> None:
    world = World(tmp_path, ["east", "west"], "home: {takeover_delay: 0s}")
    world.everywhere("c1")
    world.join("east")
    reports: list[BatchReport] = []
    world.join("west", callbacks=Callbacks(on_batch=reports.append))
    assert sum(report.counts["joined_elsewhere"] for report in reports) == 1
    assert merge([report.latencies_seconds for report in reports]).count == 0
