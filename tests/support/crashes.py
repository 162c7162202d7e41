"""Crashes at named points, in tests that stay within one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from photon.process.faults import arm, disarm


class SimulatedCrash(BaseException):
    """A `BaseException`, so that no `except Exception` of the engine survives its own death."""


@dataclass
class Crash:
    """Notes whether the crash has happened."""

    has_happened: bool = False


def raise_simulated_crash() -> None:
    """Die, as far as one can without ending the process."""
    raise SimulatedCrash


@contextmanager
def crash_at(point: str) -> Iterator[Crash]:
    """Crash within this block at a point of `ALL_FAULT_POINTS`: `NAME`, or `NAME:COUNT` for a later passing.

    The block ends there, and the test goes on behind it. One point at a time is armed in a process.
    """
    crash = Crash()
    arm(point, raise_simulated_crash)
    try:
        yield crash
    except SimulatedCrash:
        crash.has_happened = True
    finally:
        disarm()


@contextmanager
def dies_at(point: str) -> Iterator[None]:
    """Crash as `crash_at` does; fail if nothing in the block passes that point."""
    with crash_at(point) as crash:
        yield
    assert crash.has_happened, f"nothing passed {point}"


def failing(error: Exception) -> Callable[[], None]:
    """Raise this error: an action of `at`."""

    def fail() -> None:
        raise error

    return fail


@contextmanager
def at(point: str, action: Callable[[], object]) -> Iterator[None]:
    """Do something else within this block, once: where it passes a point. An error if it does not pass it."""
    passed = list[str]()

    def act() -> None:
        passed.append(point)
        action()

    arm(point, act)
    try:
        yield
    finally:
        disarm()
    assert passed, f"nothing passed {point}"
