"""The deadline of a task: what takes longer is ended, whatever it catches (protocol A17)."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from photon.join import deadline as module
from photon.join.deadline import CallTooSlow, TaskTimedOut, call_deadline, deadline


def test_what_never_returns_is_ended_though_it_catches_its_exceptions() -> None:
    def hang() -> None:
        with deadline(0.01):
            while True:
                try:
                    pass
                except Exception:
                    continue

    with pytest.raises(TaskTimedOut, match=r"longer than 0\.01 s .*, at test_task_deadline\.py"):
        hang()


def test_an_alarm_that_a_finaliser_swallows_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPEAT_SECONDS", 0.01)
    swallowed: list[bool] = []

    def hang() -> None:
        with deadline(0.01):
            while True:
                try:
                    while True:
                        pass
                except TaskTimedOut:  # the interpreter does so in a finaliser
                    if swallowed:
                        raise
                    swallowed.append(True)

    with pytest.raises(TaskTimedOut):
        hang()
    assert swallowed == [True]


def test_what_returns_in_time_leaves_no_alarm_and_the_handler_and_timer_that_were_there() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    before = signal.getitimer(signal.ITIMER_REAL)
    with deadline(3_600):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 3_000
    assert signal.getsignal(signal.SIGALRM) == handler
    assert bool(signal.getitimer(signal.ITIMER_REAL)[0]) == bool(before[0])


def test_another_thread_than_the_main_one_has_no_deadline() -> None:
    done: list[bool] = []

    def work() -> None:
        with deadline(0.001):
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_process_that_does_not_hear_of_its_deadline_is_ended() -> None:
    program = """
from photon.join import deadline
deadline.GRACE_SECONDS = 0.01
while True:
    try:
        with deadline.deadline(0.01):
            while True:
                try:
                    while True:
                        pass
                except BaseException:
                    pass
    except BaseException:
        pass
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr


def test_a_call_that_hangs_is_ended_within_its_task_whatever_it_catches() -> None:
    def hang() -> None:
        with call_deadline(0.01):
            while True:
                try:
                    pass
                except Exception:
                    continue

    with deadline(3_600):
        with pytest.raises(CallTooSlow, match=r"longer than 0\.01 s, at test_task_deadline\.py"):
            hang()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 3_000


def test_the_deadline_of_a_task_that_is_nearer_than_that_of_a_call_counts() -> None:
    def hang() -> None:
        with deadline(0.01), call_deadline(3_600):
            while True:
                pass

    with pytest.raises(TaskTimedOut):
        hang()
