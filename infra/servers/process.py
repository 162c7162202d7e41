"""A server of one machine in a process of its own: started, killed, stalled, and gone with who started it."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from photon.process.lifeline import bound_to_this_thread

START_SECONDS = 60.0  # DynamoDB Local on a busy machine; dynoxide takes milliseconds, MinIO half a second
START_POLL_SECONDS = 0.02
# Below the ports that a kernel gives to connections: one of those could take a killed server's port.
PORTS = range(20_000, 30_000)
_CLAIMS: list[socket.socket] = []


class ServerProcess(ABC):
    """One server with its folder and port, which it keeps through kills.

    Its process ends with the thread that started it.
    """

    start_seconds = START_SECONDS

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_steady_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What starts it; its folder is there."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves requests."""

    def environment(self) -> Mapping[str, str]:
        """What it has in its environment beside that of this process."""
        return {}

    @property
    def is_running(self) -> bool:
        """Whether there is a process; it may be stalled."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of its process, which runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers. TimeoutError if it does not."""
        if self.is_running:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment()},
                preexec_fn=bound_to_this_thread(),
            )
        deadline = time.monotonic() + self.start_seconds
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
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
