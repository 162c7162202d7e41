"""A process of its own that runs tasks, one after the other, as a Python worker of Spark does.

It is there in a second, where a session of Spark takes ten. What kills a task leaves the dispatcher alive.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from photon.join.messages import BatchTasks, NoWorkerStarts, TaskOutcome, WorkerDied
from photon.process.lifeline import bound_to_this_thread

CLOSE_SECONDS = 5.0  # it ends once nobody is at the other end of its pipe


class TaskProcess:
    """One process for tasks, which ends with the thread that began it."""

    workers = 1

    def __init__(self) -> None:
        """Begin the process; it imports what tasks need while others work."""
        self._line, its_end = Pipe()
        command = [sys.executable, "-P", "-m", __name__, str(its_end.fileno())]
        with its_end:
            self._process = subprocess.Popen(
                bound_to_this_thread(command), stdin=subprocess.DEVNULL, pass_fds=(its_end.fileno(),)
            )
        self._is_ready = False

    @property
    def number(self) -> int:
        return self._process.pid

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        """Run the tasks in turn. WorkerDied, NoWorkerStarts."""
        try:
            self._is_ready = self._is_ready or bool(self._line.recv())
            self._line.send(batch)
            outcomes: list[TaskOutcome] = self._line.recv()
        except (EOFError, OSError) as error:
            self.close()
            ended = f"the process of its tasks ended with status {self._process.returncode}"
            if not self._is_ready:
                raise NoWorkerStarts(f"{ended} before it could run one; what it said is above") from error
            raise WorkerDied(ended) from error
        return outcomes

    def close(self) -> None:
        self._line.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main(line: Connection) -> None:
    """Run tasks until the other end closes."""
    from photon.join.tasks import run_task  # late: who begins this process may have no task itself

    gc.freeze()  # as in Spark's workers: no look at the 100,000 objects of these modules behind each task
    line.send(True)
    with suppress(EOFError, ConnectionError):
        while True:
            batch: BatchTasks = line.recv()
            line.send([run_task(task, batch.context) for task in batch.tasks])


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
