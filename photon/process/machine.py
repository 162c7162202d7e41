"""The machine under a process gives it time, chance, and threads beside the one that runs batches."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from photon.process.clock import Clock, SystemClock

T = TypeVar("T")


@dataclass(frozen=True)
class Machine:
    """The clock, the chance and the threads of one process."""

    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)

    def worker(self, name: str) -> Executor:
        """One thread that does what it is given in turn; leaving it waits for the rest."""
        return ThreadPoolExecutor(1, name)

    def ask(self, name: str, question: Callable[[], T]) -> Future[T]:
        """Ask on a thread of its own. One that hangs is left alone, and ends with the process."""
        answer: Future[T] = Future()
        self.keep_running(name, lambda: give_answer(answer, question))
        return answer

    def keep_running(self, name: str, loop: Callable[[], None]) -> threading.Thread | None:
        """Run a loop beside. None where nothing runs beside: its owner takes a turn when it is called."""
        thread = threading.Thread(target=loop, name=name, daemon=True)
        thread.start()
        return thread


def give_answer(answer: Future[T], question: Callable[[], T]) -> None:
    """Have a future return or raise as the question does."""
    try:
        answer.set_result(question())
    except BaseException as error:  # handed to who asked
        answer.set_exception(error)
