"""Processes that end with the thread that started them, and servers among them.

A server keeps its folder and its port while it is killed, stalled and started again.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from photon.process.lifeline import bound_to_this_thread

START_SECONDS = 60.0  # DynamoDB Local on a busy machine; dynoxide takes milliseconds, MinIO half a second
START_POLL_SECONDS = 0.02
# Below the ports that a kernel gives to connections: one of those could take a killed server's port.
PORTS = range(20_000, 30_000)
_CLAIMS: list[socket.socket] = []


class ServerProcess(ABC):
    """One server with its folder and port, which it keeps through kills.

    `with` starts it, and kills it at the end of the block. Its process ends with the thread that started it.
    """

    start_seconds = START_SECONDS

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_steady_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command that starts it; its folder is there."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves requests."""

    def environment(self) -> Mapping[str, str]:
        """Variables that its process gets beside those of this one."""
        return {}

    @property
    def is_running(self) -> bool:
        """Whether there is a process; it may be stalled."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of its process, which runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers. TimeoutError if it does not."""
        if self.is_running:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        own = {**os.environ, **self.environment()}
        self._process = start_process(self.command(), self.folder / "server.log", cwd=self.folder, env=own)
        deadline = time.monotonic() + self.start_seconds
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"{self.url} does not answer; see {self.folder / 'server.log'}")
            time.sleep(START_POLL_SECONDS)

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stall(self) -> None:
        """Let it answer nobody, with its connections open, until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, with all that was asked since it stopped."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def start_process(command: Sequence[str | Path], log: Path, **more: Any) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, which adds what it prints to `log`. `more`: as for `Popen`.

    Its process ends with the thread that started it.
    """
    with log.open("ab") as file:
        return subprocess.Popen(
            bound_to_this_thread(command),
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=more.pop("stdout", file),
            stderr=file,
            start_new_session=True,
            **more,
        )


def end_process(process: subprocess.Popen[bytes], patience_seconds: float) -> None:
    """Ask a process to end, with SIGTERM. After so long kill it, and whatever it has left behind."""
    family = [] if process.poll() is not None else family_of(process.pid)
    if family:
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience_seconds)
    kill_all(family)
    with suppress(ProcessLookupError):  # its session has the processes that it started since
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def family_of(pid: int) -> list[psutil.Process]:
    """A process and all below it, itself as the last; none if it is gone."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        return [*parent.children(recursive=True), parent]
    return []


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """kill -9, as when a machine loses power."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def cpu_seconds_of(processes: Iterable[psutil.Process]) -> float:
    """CPU that these processes, and those that ended below them, have used so far."""
    used = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            used += sum(process.cpu_times()[:4])
    return used


def free_steady_port() -> int:
    """A port that is free, that no connection takes, and that no other caller gets while this process lives.

    A server binds the port's TCP socket later, and again after a kill. So its UDP socket is the claim.
    """
    while True:
        port = random.SystemRandom().choice(PORTS)
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _CLAIMS.append(claim)
        return port
