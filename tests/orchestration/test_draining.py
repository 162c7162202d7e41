"""An asset that ends in order when it is asked to, on real signals."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from dagster import DagsterExecutionInterruptedError

from photon.assets.runs import draining


def drained(*signals: signal.Signals) -> list[str]:
    """Send signals to some work; return its steps, and how it ended."""
    done = []
    try:
        with draining() as drain:
            for number in signals:
                os.kill(os.getpid(), number)
                done.append(f"asked: {drain.asked()}")
            done.append("worked")
    except DagsterExecutionInterruptedError:
        done.append("interrupted")
    return done


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_only_asks(number: signal.Signals) -> None:
    assert drained(number) == ["asked: True", "worked"]


def test_without_a_signal_nothing_is_raised() -> None:
    assert drained() == ["worked"]


def test_a_second_signal_ends_at_once() -> None:
    assert drained(signal.SIGINT, signal.SIGTERM) == ["asked: True", "interrupted"]


def test_who_had_the_signals_before_has_them_again() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    drained(signal.SIGINT, signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_outside_the_main_thread_it_goes_without() -> None:
    answers: list[bool] = []

    def work() -> None:
        with draining() as drain:
            answers.append(drain.asked())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [False]
