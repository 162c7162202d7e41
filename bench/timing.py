"""How long a part of a measurement takes, by the clock and of the CPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from infra.servers.process import cpu_seconds_of, family_of


@dataclass
class Spent:
    """The time that a block has taken; it is known at its end. CPU says more where others are at work."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def timed(cpu_seconds: Callable[[], float] = time.process_time) -> Iterator[Spent]:
    """Measure a block. `cpu_seconds` adds up the processes that count; without it this one counts alone."""
    spent = Spent()
    began, cpu_before = time.perf_counter(), cpu_seconds()
    yield spent
    spent.seconds, spent.cpu_seconds = time.perf_counter() - began, cpu_seconds() - cpu_before


def family_cpu_seconds() -> float:
    """CPU of this process and of all below it. Workers of Spark's tasks outlive their tasks."""
    return cpu_seconds_of(family_of(os.getpid()))
