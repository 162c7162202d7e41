"""Datacenters under load, each a process of its own, over three endpoints of a registry.

A process comes from a server that has imported everything before: a start takes a tenth of a second.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from examples.demo.live_traffic import LiveTraffic
from examples.demo.traffic import Traffic
from infra.servers.stores import StoreServer, fastest_kind, store_servers
from photon.dispatcher.dispatcher import Mode
from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.dispatcher.shift.run import run_shift
from photon.pipeline.file import load_pipeline
from photon.process import faults
from photon.process.clock import SystemClock
from photon.process.errors import UserError
from photon.process.lifeline import end_with
from photon.registry.opening import close_registries, init_registry
from tests.e2e.outages.cable import Cable
from tests.e2e.outages.checker import faults_in, read_logs
from tests.e2e.outages.release_reader import faults_in_newest_release

ENDPOINTS = 3
PATIENCE_SECONDS = 240.0
POLL_SECONDS = 0.02
REFUSED = 3
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "photon.join.joiner"])
_OPENS_REGISTRIES = threading.Lock()


class Failed(AssertionError):
    """A datacenter did what no fault explains; the message says what, and where its log is."""


class DatacenterProcess:
    """One datacenter of a pipeline: at most one process at a time, which may be killed, stopped, or asked."""

    def __init__(self, pipeline: Path, name: str) -> None:
        self.pipeline, self.name = pipeline, name
        self.log = pipeline.parent / f"{name}.log"
        self.counts = pipeline.parent / f"{name}.json"
        self._process: Any = None
        self._asks: Connection | None = None
        self._joins = self._is_refused = False

    @property
    def pid(self) -> int:
        pid: int = self._process.pid
        return pid

    @property
    def lives(self) -> bool:
        """Say whether a process is there, stopped or not. Failed if one has ended by itself with an error."""
        if self._process is None:
            return False
        code = self._process.exitcode
        if code is not None and code not in (0, -signal.SIGKILL):
            raise Failed(f"datacenter {self.name} ended with status {code}; see {self.log}:\n{self.tail()}")
        return code is None

    @property
    def refused(self) -> bool:
        """Say whether the process ended with an error that a person can mend; it can be started again."""
        if self._process is not None and self._process.exitcode == REFUSED:
            self._process = None
            self._is_refused = True
        return self._is_refused

    @property
    def is_stopped(self) -> bool:
        with suppress(psutil.NoSuchProcess):
            return self.lives and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        return False

    def start(self, mode: Mode = "stop") -> None:
        """Start it, unless it runs."""
        if self.lives:
            return
        self._drop()
        self._joins = self._is_refused = False
        asked, self._asks = FORKS.Pipe()
        self._process = FORKS.Process(
            target=_run,
            args=(self.pipeline, self.name, mode, asked, self.log, self.counts),
            daemon=True,
        )
        self._process.start()
        asked.close()

    def wait_until_it_joins(self) -> None:
        """Wait until it has passed a point of a batch, or is gone. Failed after a while."""

        def has_begun() -> bool:
            assert self._asks is not None
            if not self._joins and self._asks.poll():
                with suppress(EOFError, ConnectionResetError):  # the process was killed
                    self._joins = bool(self._asks.recv())
            return self._joins or not self.lives

        until(has_begun, f"datacenter {self.name} joins")

    def arm(self, point: str, number: signal.Signals) -> None:
        """Have it send itself a signal at this fault point: `NAME` or `NAME:COUNT`."""
        assert self._asks is not None
        with suppress(BrokenPipeError):  # the process was killed
            self._asks.send((point, int(number)))

    def kill(self) -> None:
        """Kill the process, as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def end(self) -> None:
        """Ask it to end in order, and wait."""
        if not self.lives:
            return
        assert self._asks is not None
        with suppress(BrokenPipeError):
            self._asks.send(None)
        self.wait()

    def wait(self) -> None:
        """Wait for its end. Failed if that is not one in order."""
        self._process.join(PATIENCE_SECONDS)
        if self.lives:
            raise Failed(f"datacenter {self.name} did not end; see {self.log}:\n{self.tail()}")

    @property
    def waits(self) -> bool:
        """Say whether the process has logged that it waits for something unavailable."""
        return "waits:" in self.log.read_text(errors="replace")

    def tail(self) -> str:
        """Return the end of the datacenter's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])

    def close(self) -> None:
        self.kill()
        self._drop()

    def _drop(self) -> None:
        if self._asks is not None:
            self._asks.close()
            self._asks = None


def _run(pipeline: Path, name: str, mode: Mode, asked: Connection, log: Path, counts: Path) -> None:
    """Run a datacenter in its process: join until asked to end; then write the counts to a file."""
    end_with(os.getppid())  # the fork server, which ends with whoever began it
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(filename=log, format="%(asctime)s %(process)d %(message)s", level=logging.INFO)
    ends = threading.Event()
    threading.Thread(target=_listen, args=(asked, ends), daemon=True).start()
    _say_when_it_joins(asked)
    callbacks = Callbacks(ends.is_set, on_wait=lambda reason: logging.info("waits: %s", reason))
    try:
        result = run_shift(load_pipeline(pipeline), name, mode, callbacks=callbacks)
    except StoppedWaiting as stopped:
        logging.info("%s", stopped)
        return
    except BaseException as error:
        logging.exception("datacenter %s ends", name)
        os._exit(REFUSED if isinstance(error, UserError) else 1)
    counts.write_text(json.dumps(result.counts.as_dict()))
    close_registries()


def _say_when_it_joins(asked: Connection) -> None:
    says = ExitStack()

    def passed(name: str, place: object) -> None:
        if name in faults.FAULT_POINTS:
            says.close()
            asked.send(True)

    says.enter_context(faults.watched(passed))


def _listen(asked: Connection, ends: threading.Event) -> None:
    while True:
        try:
            ask = asked.recv()
        except (EOFError, OSError):
            os._exit(0)  # the test that started this process is gone
        if ask is None:
            ends.set()
            continue
        point, number = ask

        def send(number: int = number) -> None:
            os.kill(os.getpid(), number)

        faults.arm(point, send)


class World:
    """Datacenters, endpoints, and traffic that is logged while it lives."""

    def __init__(
        self, folder: Path, traffic: Traffic, endpoints: list[StoreServer], more: str = "", registry: str = ""
    ) -> None:
        self.folder, self.traffic, self.endpoints = folder, traffic, endpoints
        urls = "".join(f"    - {{url: {server.url}}}\n" for server in endpoints)
        registry = f"registry:\n  deadline: 4s\n{registry}" + (f"  endpoints:\n{urls}" if endpoints else "")
        self.file = traffic.write_pipeline(folder, "outages", registry + more)
        for name in traffic.datacenters:
            for side in ("queries", "clicks"):
                (folder / "logs" / name / side).mkdir(parents=True)
        with _OPENS_REGISTRIES:  # worlds of other threads share what is closed here
            init_registry(load_pipeline(self.file), SystemClock())
            close_registries()
        self.datacenters = {name: DatacenterProcess(self.file, name) for name in traffic.datacenters}
        self._ends = threading.Event()
        self._writer = threading.Thread(target=self._write)

    def log_traffic(self) -> None:
        """Log traffic from now on."""
        self._writer.start()

    def begin(self) -> None:
        """Log traffic from now on, and start every datacenter."""
        self.log_traffic()
        for datacenter in self.datacenters.values():
            datacenter.start()

    def end_traffic(self) -> None:
        self._ends.set()
        if self._writer.is_alive():
            self._writer.join()

    @contextmanager
    def cables_of(self, name: str) -> Iterator[list[Cable]]:
        """Have a datacenter, before it starts, reach each endpoint by a cable of its own."""
        datacenter, text = self.datacenters[name], self.file.read_text()
        with ExitStack() as stack:
            cables = [stack.enter_context(closing(Cable(server.url))) for server in self.endpoints]
            for server, cable in zip(self.endpoints, cables, strict=True):
                text = text.replace(server.url, cable.url)
            datacenter.pipeline = self.folder / f"{name}.yaml"
            datacenter.pipeline.write_text(text)
            yield cables

    def copy_endpoints(self, to: Path) -> None:
        """Copy what each endpoint has, one after the other, while joins go on."""
        for number, server in enumerate(self.endpoints):
            server.kill()
            shutil.copytree(server.folder, to / str(number))
            server.start()

    def put_endpoints_back(self, copies: Path) -> None:
        """Have all endpoints as they were when they were copied."""
        for server in self.endpoints:
            server.kill()
        for number, server in enumerate(self.endpoints):
            shutil.rmtree(server.folder)
            shutil.copytree(copies / str(number), server.folder)
            server.start()

    def complete(self) -> dict[str, dict[str, int]]:
        """End the traffic, and join all that is there to the end; the counts of each datacenter."""
        self.end_traffic()
        for datacenter in self.datacenters.values():
            datacenter.end()
        for datacenter in self.datacenters.values():
            datacenter.start("complete")
        for datacenter in self.datacenters.values():
            datacenter.wait()
        return {name: json.loads(one.counts.read_text()) for name, one in self.datacenters.items()}

    def faults(self, counts: Mapping[str, Mapping[str, int]]) -> list[str]:
        """Find what is wrong with tables, with these counts, and with what the newest release says."""
        logs = [read_logs(self.folder / "logs" / name) for name in counts]
        return [*faults_in(self.folder, counts), *faults_in_newest_release(self.file, logs)]

    def close(self) -> None:
        self.end_traffic()
        for datacenter in self.datacenters.values():
            datacenter.close()

    def _write(self) -> None:
        LiveTraffic(self.traffic, self.folder).run(self._ends.is_set)


@contextmanager
def world(
    folder: Path, traffic: Traffic, more: str = "", registry: str = "", stores: int = ENDPOINTS
) -> Iterator[World]:
    """A world in a new folder, with more sections and settings of its registry; nothing is left running.

    Without `stores` its registry is the local one.
    """
    with ExitStack() as stack:
        endpoints = stack.enter_context(store_servers(fastest_kind(), folder / "endpoints", stores))
        made = World(folder, traffic, endpoints, more, registry)
        stack.callback(made.close)
        yield made


def until(true: Any, what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for what another process does: no clock of ours moves it."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds:.0f} s: {what}")
        time.sleep(POLL_SECONDS)
