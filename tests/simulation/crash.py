"""The death of the process, in tests that stay within one process."""

from __future__ import annotations


class SimulatedCrash(BaseException):
    """A `BaseException`, so that no `except Exception` of the engine survives its own death."""


def raise_simulated_crash() -> None:
    raise SimulatedCrash
