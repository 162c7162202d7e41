"""A machine with one thread: the product's work beside its batches is done at once, in turn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from photon.process.machine import Machine, give_answer

T = TypeVar("T")


class AtOnce(Executor):
    """Does all work at once. A process that the work kills dies here, not where the answer is read."""

    def submit(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        """Do the work now."""
        future: Future[T] = Future()
        try:
            future.set_result(work(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


class OneThread(Machine):
    """A machine for tests with a clock of their own: nothing runs beside the thread of the batches."""

    def worker(self, name: str) -> Executor:
        """Return an executor that does all work at once."""
        return AtOnce()

    def ask(self, name: str, question: Callable[[], T]) -> Future[T]:
        """Answer before anybody goes on."""
        answer: Future[T] = Future()
        give_answer(answer, question)
        return answer

    def keep_running(self, name: str, loop: Callable[[], None]) -> None:
        """No loop runs."""
