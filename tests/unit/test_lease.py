"""The lock, its lease, its successor and its heartbeat say who runs a datacenter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.dispatcher.shift import lease as lease_module
from photon.dispatcher.shift.ending import telling_status
from photon.dispatcher.shift.lease import (
    ENDING_SECONDS,
    MOST_CAUSE_CHARACTERS,
    NO_EXECUTOR,
    AlreadyRunning,
    DatacenterLock,
    Heartbeat,
    Lease,
    LeaseStatus,
    holder_of,
    lease_status_of,
)
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from tests.support.manual_clock import ManualClock

LEASE = Lease.of_this_process("run-1", began_us=5, length_us=60)
HOLDS_UNTIL_KILLED = """
import sys, time
from pathlib import Path
from photon.dispatcher.shift.lease import DatacenterLock, Lease
lock = DatacenterLock(Path(sys.argv[1]), "east", Lease.of_this_process("run-of-another", 0, None))
print("has it", flush=True)
time.sleep(600)
"""


@contextmanager
def another_process_that_holds_it(state: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_UNTIL_KILLED, str(state)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "has it\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def waiting_to_take_over(
    state: Path, should_stop: threading.Event
) -> Iterator[list[DatacenterLock | Exception]]:
    came: list[DatacenterLock | Exception] = []

    def wait() -> None:
        try:
            came.append(DatacenterLock.take_over(state, "east", lambda: LEASE, should_stop.is_set))
        except Exception as error:
            came.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while lease_status_of(state).successor is None and not came:
            assert time.monotonic() < deadline, "nobody waits"
            time.sleep(0.01)  # the other thread has to wait first
        yield came
        thread.join(30)
    finally:
        should_stop.set()
        thread.join(30)


def test_nobody_runs_a_datacenter_that_never_ran(tmp_path: Path) -> None:
    assert lease_status_of(tmp_path / "none") == LeaseStatus(None, False, 0, None)
    assert holder_of(tmp_path / "none") is None


def test_the_lock_says_who_holds_it_for_whom_and_until_when(tmp_path: Path) -> None:
    lock = DatacenterLock(tmp_path, "east", LEASE)
    status = lease_status_of(tmp_path)
    assert (status.lease, status.is_locked, status.successor) == (LEASE, True, None)
    assert (LEASE.process, LEASE.ends_us, LEASE.is_here) == (os.getpid(), 65, True)
    lock.release(70)


def test_the_lease_counts_tries_that_fail_until_a_batch_goes_through(tmp_path: Path) -> None:
    lock = DatacenterLock(tmp_path, "east", LEASE)
    for at_us in (7, 8, 9):
        assert lease_status_of(tmp_path).failing is None
        lock.tell_failure(f"try {at_us}: " + "x" * 999 + "\nin java.lang", at_us)
    lease = lease_status_of(tmp_path).failing
    assert lease is not None
    assert (lease.failed_tries, lease.fails_since_us, lease.fails_because[:9]) == (3, 7, "try 9: xx")
    assert len(lease.fails_because) == MOST_CAUSE_CHARACTERS
    lock.tell_progress()
    assert lease_status_of(tmp_path).lease == LEASE
    lock.tell_failure("", 10)
    told = lease_status_of(tmp_path).lease
    assert told is not None
    assert (told.failed_tries, told.fails_since_us) == (1, 10)
    lock.release(70)


def test_a_lock_that_was_let_go_in_order_says_so_and_what_was_seen_last(tmp_path: Path) -> None:
    DatacenterLock(tmp_path, "east", LEASE).release(99, idle_seen="signature")
    status = lease_status_of(tmp_path)
    assert status.lease is not None
    assert not status.is_locked
    assert (status.lease.released_us, status.lease.idle_seen) == (99, "signature")


def test_a_shorter_lease_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    DatacenterLock(tmp_path, "east", LEASE).release(99, idle_seen="s" * 500)
    lock = DatacenterLock(tmp_path, "east", LEASE)
    assert lease_status_of(tmp_path).lease == LEASE
    lock.release(100)


def test_a_second_process_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    with (
        another_process_that_holds_it(tmp_path) as other,
        pytest.raises(AlreadyRunning, match=f"by process {other.pid} .run run-of-another of Dagster"),
    ):
        DatacenterLock(tmp_path, "east", LEASE)


def test_a_process_that_was_killed_holds_nothing_and_let_nothing_go_in_order(tmp_path: Path) -> None:
    with another_process_that_holds_it(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        status = lease_status_of(tmp_path)
    assert status.lease is not None
    assert not status.is_locked
    assert (status.lease.process, status.lease.run) == (other.pid, "run-of-another")
    assert status.lease.released_us is None


def test_a_successor_takes_over_when_the_holder_lets_go(tmp_path: Path) -> None:
    lock = DatacenterLock(tmp_path, "east", LEASE)
    with waiting_to_take_over(tmp_path, threading.Event()) as came:
        assert lock.has_successor()
        assert lease_status_of(tmp_path).successor == os.getpid()
        lock.release(1)
    assert isinstance(came[0], DatacenterLock)
    assert not came[0].has_successor()
    came[0].release(2)


def test_a_successor_takes_over_when_the_holder_is_killed(tmp_path: Path) -> None:
    with (
        another_process_that_holds_it(tmp_path) as other,
        waiting_to_take_over(tmp_path, threading.Event()) as came,
    ):
        other.kill()
    assert isinstance(came[0], DatacenterLock)
    came[0].release(2)


def test_a_third_process_is_refused_and_told_who_waits(tmp_path: Path) -> None:
    lock = DatacenterLock(tmp_path, "east", LEASE)
    with waiting_to_take_over(tmp_path, threading.Event()) as came:
        with pytest.raises(AlreadyRunning, match=f"process {os.getpid()} waits in line"):
            DatacenterLock.take_over(tmp_path, "east", lambda: LEASE, lambda: False)
        lock.release(1)
    assert isinstance(came[0], DatacenterLock)
    came[0].release(2)


def test_a_successor_stops_waiting_when_a_stop_is_requested(tmp_path: Path) -> None:
    lock, should_stop = DatacenterLock(tmp_path, "east", LEASE), threading.Event()
    with waiting_to_take_over(tmp_path, should_stop) as came:
        should_stop.set()
    assert isinstance(came[0], StoppedWaiting)
    assert not lock.has_successor()
    lock.release(1)


def test_a_lock_file_that_can_not_be_read_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4711")
    assert lease_status_of(tmp_path).lease is None


def test_a_lease_is_never_told_as_that_of_a_process_that_is_gone_while_another_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DatacenterLock(tmp_path, "east", LEASE).release(1)
    taken: list[DatacenterLock] = []
    is_locked = lease_module._is_locked

    def taken_just_after(path: Path) -> bool:
        held = is_locked(path)
        if not taken:
            taken.append(DatacenterLock(tmp_path, "east", LEASE))
        return held

    monkeypatch.setattr(lease_module, "_is_locked", taken_just_after)
    status = lease_status_of(tmp_path)
    taken[0].release(2)
    assert (status.lease, status.is_locked) == (LEASE, True)


def test_only_a_holder_with_recent_signs_of_life_is_live() -> None:
    beat = LeaseStatus(LEASE, True, beat_us=100 * MICROSECONDS)
    assert beat.is_live(110 * MICROSECONDS, lease_seconds=10)
    assert not beat.is_live(110 * MICROSECONDS + 1, lease_seconds=10)
    assert not beat.is_live(0, lease_seconds=10), "the clock was set back, and it has not beaten since"
    assert not LeaseStatus(LEASE, False, beat_us=100 * MICROSECONDS).is_live(100 * MICROSECONDS, 10)


def written_us(state: Path) -> int:
    """The time that the process itself gave its last heartbeat: the kernel has its own."""
    return (state / "lock").stat().st_mtime_ns // 1_000


def check_that_it_beats(state: Path, at_us: int) -> None:
    deadline = time.monotonic() + 30
    while written_us(state) != at_us:
        assert time.monotonic() < deadline, "no sign of life"
        time.sleep(0.005)  # another thread beats


def test_the_heart_beats_as_long_as_the_main_loop_makes_progress(tmp_path: Path) -> None:
    lock, clock = DatacenterLock(tmp_path, "east", LEASE), ManualClock(1_000 * MICROSECONDS)
    heartbeat = Heartbeat(lock, lease_seconds=0.02, stuck_seconds=5, clock=clock)
    try:
        check_that_it_beats(tmp_path, 1_000 * MICROSECONDS)
        clock.advance(4)
        check_that_it_beats(tmp_path, 1_004 * MICROSECONDS)
        heartbeat.progress()
        clock.advance(4)
        check_that_it_beats(tmp_path, 1_008 * MICROSECONDS)
    finally:
        heartbeat.stop()
        lock.release(0)


def test_a_main_loop_that_hangs_has_no_heartbeat_until_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock, clock = DatacenterLock(tmp_path, "east", LEASE), ManualClock(1_000 * MICROSECONDS)
    heartbeat = Heartbeat(lock, lease_seconds=0.02, stuck_seconds=5, clock=clock)
    try:
        clock.set_back(100)
        check_that_it_beats(tmp_path, 900 * MICROSECONDS)
        clock.advance(6)
        deadline = time.monotonic() + 30
        while "no progress" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.005)  # gives the thread time to notice
        assert written_us(tmp_path) == 900 * MICROSECONDS
        heartbeat.progress()
        check_that_it_beats(tmp_path, 906 * MICROSECONDS)
    finally:
        heartbeat.stop()
        lock.release(0)


# -- a command waits for a process that is about to end


ENDS_IF_ASKED = """
import sys
from pathlib import Path
from photon.dispatcher.shift.lease import DatacenterLock, Lease
parent = int(sys.argv[2]) or None
lock = DatacenterLock(Path(sys.argv[1]), "east", Lease.of_this_process("", 0, None, parent))
if sys.argv[3]:
    lock.announce_end()
print("has it", flush=True)
sys.stdin.readline()
"""


@contextmanager
def a_holder(state: Path, parent: int = 0, is_ending: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock until its standard input ends."""
    command = [sys.executable, "-c", ENDS_IF_ASKED, str(state), str(parent), "yes" if is_ending else ""]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "has it\n"
        yield process


def of_a_command(state: Path, callbacks: Callbacks, clock: Clock | None = None) -> DatacenterLock:
    return DatacenterLock.wait_for(state, "east", lambda: LEASE, callbacks, clock or SystemClock())


GONE = 2**22 + 1  # no process has this number: it is beyond the kernel's greatest


@pytest.mark.parametrize(("parent", "is_ending"), [(GONE, False), (0, True)])
def test_a_command_waits_for_a_process_that_is_about_to_end_and_says_so_once(
    tmp_path: Path, parent: int, is_ending: bool
) -> None:
    said: list[str] = []
    with a_holder(tmp_path, parent, is_ending) as holder:
        assert holder.stdin is not None

        def on_wait(reason: str) -> None:
            said.append(reason)
            holder.stdin.close()  # type: ignore[union-attr]

        lock = of_a_command(tmp_path, Callbacks(on_wait=on_wait))
    assert said == [f"process {holder.pid} ends after its batch"]
    lock.release(0)


@pytest.fixture
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each attempt try the lock once: nobody looks at the lease for a moment here."""
    monkeypatch.setattr(lease_module, "LOCK_TRIES", 1)


@pytest.mark.usefixtures("one_try")
@pytest.mark.parametrize("parent", [0, os.getpid()], ids=["of an older Photon", "alive"])
def test_a_command_beside_a_live_process_is_refused_soon(tmp_path: Path, parent: int) -> None:
    clock = ManualClock()
    with a_holder(tmp_path, parent) as holder, pytest.raises(AlreadyRunning, match=str(holder.pid)):
        of_a_command(tmp_path, Callbacks(on_wait=pytest.fail), clock)
    assert clock.elapsed_us() < ENDING_SECONDS * MICROSECONDS / 2


@pytest.mark.usefixtures("one_try")
def test_a_process_that_does_not_end_is_waited_for_so_long_and_no_longer(tmp_path: Path) -> None:
    clock = ManualClock()
    with a_holder(tmp_path, is_ending=True), pytest.raises(AlreadyRunning):
        of_a_command(tmp_path, Callbacks(), clock)
    assert clock.elapsed_us() >= ENDING_SECONDS * MICROSECONDS


def test_a_command_that_is_asked_to_stop_waits_no_longer(tmp_path: Path) -> None:
    said: list[str] = []
    callbacks = Callbacks(should_stop=lambda: bool(said), on_wait=said.append)
    with a_holder(tmp_path, is_ending=True), pytest.raises(StoppedWaiting):
        of_a_command(tmp_path, callbacks)


def test_a_lease_of_a_photon_that_named_no_parent_is_read(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"process": 5, "host": "here", "run": "", "began_us": 7}')
    lease = lease_status_of(tmp_path).lease
    assert lease is not None
    assert (lease.process, lease.parent, lease.is_ending) == (5, None, False)


def test_a_wait_for_executors_that_follows_on_another_wait_begins_anew(tmp_path: Path) -> None:
    """Broken variant: once the registry is back after minutes, the first look is an alarm on executors."""
    lock, clock = DatacenterLock(tmp_path, "east", LEASE), ManualClock(1_000 * MICROSECONDS)
    told = telling_status(Callbacks(), lock, clock)
    told.on_wait("the registry does not answer")
    clock.advance(180)
    told.on_cause("the lake does not answer")
    assert lock.lease.waits_since_us == 1_000 * MICROSECONDS, "it has joined nothing since"
    told.on_cause(f"{NO_EXECUTOR}: its master has no worker")
    clock.advance(5)
    told.on_cause(f"{NO_EXECUTOR}: its master does not answer")
    lock.release(0)
    assert lock.lease.waits_since_us == 1_180 * MICROSECONDS
