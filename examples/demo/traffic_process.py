"""A process that writes live traffic while others read it: beside a measurement, and in the demo."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

from examples.demo.live_traffic import LiveRun, LiveTraffic
from examples.demo.traffic import Traffic
from photon.pipeline.location import Location
from photon.process.errors import UserError
from photon.process.operating_system import handled_by

STOP_SECONDS = 60.0  # the generator stops within a tick; a busy machine may let it wait


class GeneratorFailed(UserError):
    """The generator died, or did not stop."""


@dataclass(frozen=True)
class Generator:
    """A generator at work."""

    process: multiprocessing.process.BaseProcess
    is_calm: Event
    should_stop: Event
    results: Connection

    def lives(self) -> bool:
        """Whether it still writes, or has ended in order."""
        return self.process.exitcode in (None, 0)

    def calm(self) -> None:
        """Have it log no more clicks, only queries: what was clicked before can still be joined."""
        self.is_calm.set()

    def stop(self) -> LiveRun:
        """Stop it, with every line written whole; what it has written. GeneratorFailed if it can't say."""
        self.should_stop.set()
        if not self.results.poll(STOP_SECONDS):
            raise GeneratorFailed(f"the generator did not stop within {STOP_SECONDS:.0f} s")
        try:
            run: LiveRun = self.results.recv()
        except EOFError:
            raise GeneratorFailed("the generator died; its own message is above") from None
        return run


@contextlib.contextmanager
def generating(
    traffic: Traffic, folder: Path, logs: Mapping[str, Location] | None = None
) -> Iterator[Generator]:
    """A process that logs the traffic below `folder`; stopped at the end, and when this process is gone.

    `logs`: where datacenters have theirs instead.
    """
    spawn = multiprocessing.get_context("spawn")
    is_calm, should_stop = spawn.Event(), spawn.Event()
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(
        target=_generate,
        args=(LiveTraffic(traffic, folder, logs=logs), is_calm, should_stop, sender, os.getpid()),
        daemon=True,
    )
    with handled_by(signal.SIG_IGN, signal.SIGINT):  # the parent decides when it stops, no terminal
        process.start()
    sender.close()  # this process's copy: else the end of the generator would go unnoticed
    try:
        yield Generator(process, is_calm, should_stop, receiver)
    finally:
        should_stop.set()
        process.join(STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        receiver.close()


def _generate(
    traffic: LiveTraffic, is_calm: Event, should_stop: Event, results: Connection, parent: int
) -> None:
    def stops() -> bool:
        return should_stop.is_set() or os.getppid() != parent

    results.send(traffic.run(stops, is_calm.is_set))
    results.close()
