"""The local registry (`endpoints: local`): one dynoxide per folder, for all processes of a machine.

Each user holds a shared lock on `users.lock`. A supervisor process starts the server, writes `server.json`
once it answers, and stops it when nobody holds that lock any more. The kernel drops the lock of a dead
process, so a server never outlives its users, not even after `kill -9`.

dynoxide listens on the loopback address only. DynamoDB Local, which takes its place where it has to, can't be
told to: it answers on every interface of the machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from photon.errors import UserError
from photon.process.operating_system import is_held, is_stopped, state_of, what_ends
from photon.registry.errors import RegistryUnavailable
from photon.registry.servers.local_supervisor import (
    CANNOT_EXECUTE,
    DATABASES,
    START_SECONDS,
    STOP_SECONDS,
    USERS_POLL_SECONDS,
    WAIT_POLL_SECONDS,
    Running,
    ServerKind,
    answers,
    server_command,
    try_lock,
)
from photon.toolchain.dynoxide import prebuilt

NAMES: dict[ServerKind, str] = {
    "dynoxide": "dynoxide",
    "dynamodb-local": "DynamoDB Local",
}
LOG_TAIL_BYTES = 600
LEAVE_SECONDS = 0.2
STOPS_WITHIN_SECONDS = USERS_POLL_SECONDS + STOP_SECONDS + 1.0  # a supervisor looks, stops a server, ends
_MODULE = "photon.registry.servers.local_supervisor"  # run as the supervisor


class LocalServer:
    """A user of the server of one folder: it runs for as long as somebody holds it.

    Thread-safe. A fork of this process is a user too, until it ends.
    """

    def __init__(self, folder: Path, kind: ServerKind) -> None:
        self.folder = folder
        self.kind = kind
        self._lock = threading.Lock()
        self._users: IO[bytes] | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None

    def ensure(self) -> str:
        """The URL of a server that answers, started if need be, and held until `leave`.

        RegistryUnavailable, with the reason and the remedy, if it does not start within `START_SECONDS`,
        whoever is to start it. RegistryMismatch if the folder has the data of a server of another kind.
        """
        deadline = time.monotonic() + START_SECONDS
        with self._lock:  # the one that holds it gives up before we have to
            try:
                self._hold(deadline)
                return self._wait_until_running(deadline)
            except OSError as error:
                if error.filename is not None and not Path(error.filename).is_relative_to(self.folder):
                    raise RegistryUnavailable(
                        f"the local registry's server can't be started: {error}; make that file executable, "
                        "or remove it, and it is fetched anew"
                    ) from error
                raise RegistryUnavailable(
                    f"the local registry's folder {self.folder} can't be used: {error}; make it writable"
                ) from error

    def leave(self) -> None:
        """Hold the server no longer; it stops when nobody else holds it."""
        if not self._lock.acquire(timeout=LEAVE_SECONDS):
            return  # somebody of this process still waits for the server, and ends with the process
        try:
            if self._users is not None:
                self._users.close()
                self._users = None
        finally:
            self._lock.release()

    def see_it_stop(self) -> None:
        """Wait until a server that this process has started, and left, has stopped, or others use it."""
        if self._supervisor is None:
            return
        deadline = time.monotonic() + STOPS_WITHIN_SECONDS
        while self._supervisor.poll() is None and time.monotonic() < deadline and not self._is_used():
            time.sleep(WAIT_POLL_SECONDS)

    def _is_used(self) -> bool:
        """Whether somebody holds the server. A supervisor that is stopping it holds the lock alone."""
        with (self.folder / "users.lock").open("ab") as users:
            return not try_lock(users, fcntl.LOCK_EX) and try_lock(users, fcntl.LOCK_SH)

    def _hold(self, deadline: float) -> None:
        if self._users is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            users = (self.folder / "users.lock").open("ab")
            # Wait for a supervisor that is just stopping the server: it holds the lock exclusively.
            while not try_lock(users, fcntl.LOCK_SH):
                if time.monotonic() >= deadline:
                    users.close()
                    raise self._not_in_time()
                time.sleep(WAIT_POLL_SECONDS)
            self._users = users

    def _wait_until_running(self, deadline: float) -> str:
        while time.monotonic() < deadline:
            running = running_server(self.folder)
            if running is not None:
                return running.url
            if not is_supervised(self.folder):
                self._start_supervisor()
            time.sleep(WAIT_POLL_SECONDS)
        raise self._not_in_time()

    def _start_supervisor(self) -> None:
        if self._supervisor is not None and self._supervisor.poll() is None:
            return  # ours is on its way
        try:
            server_command(self.kind, self.folder, port=0)
        except UserError as error:
            raise RegistryUnavailable(f"the local registry can't be started: {error}") from error
        except OSError as error:  # the command asks Java for its version
            raise _not_executed(str(error.filename), error.strerror or str(error)) from error
        if self._supervisor is not None and self._supervisor.returncode not in (0, -signal.SIGKILL):
            ended, self._supervisor = self._supervisor.returncode, None
            if ended == CANNOT_EXECUTE:
                named, _, reason = self._log_end().rpartition("\n")[2].rpartition(": ")
                raise _not_executed(named, reason)
            raise self._not_started("it ended before it answered")
        arguments = [str(self.folder.resolve()), self.kind]
        with (self.folder / "server.log").open("ab") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", _MODULE, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the terminal's interrupt is for its users only
                env={**os.environ, "PYTHONPATH": _python_path()},
            )

    def _not_in_time(self) -> RegistryUnavailable:
        return self._not_started(f"no answer within {START_SECONDS:.0f} s")

    def _log_end(self) -> str:
        try:
            log = (self.folder / "server.log").read_bytes()
        except OSError as error:
            return str(error)
        return log[-LOG_TAIL_BYTES:].decode(errors="replace").strip()

    def _not_started(self, reason: str) -> RegistryUnavailable:
        log, end = self.folder / "server.log", self._log_end()
        return RegistryUnavailable(
            f"the local registry, {NAMES[self.kind]} in {self.folder}, did not start: {reason}. Mend what its"
            f" log {log} says, or end the process `{_MODULE} {self.folder.resolve()}` if one hangs, and start"
            f' again. If {DATABASES[self.kind]} is damaged, its ids are lost: docs/operations.md, "A lost'
            f' registry". The end of the log: {end!r}'
        )


def _not_executed(program: str, reason: str) -> RegistryUnavailable:
    """The system refuses to run the server's program, for this reason."""
    file = Path(program)
    if file.is_file() and not os.access(file, os.X_OK):
        remedy = f"make it executable: chmod +x {shlex.quote(program)}"
    else:
        remedy = (
            f"it is no program for this machine ({platform.machine()}), or its disk runs none: remove "
            f"{shlex.quote(program)} and fetch it again: make setup"
        )
    return RegistryUnavailable(
        f"the local registry can't be started: its server {program} can't be executed ({reason}); {remedy}"
    )


def default_kind() -> ServerKind:
    """dynoxide where there is one to fetch for this machine, else DynamoDB Local."""
    return "dynamodb-local" if prebuilt() is None else "dynoxide"


def kind_of(folder: Path) -> ServerKind:
    """The server whose data the folder has: another one would find no id there, and join all again."""
    for kind, database in DATABASES.items():
        if (folder / database).exists():
            return kind
    return default_kind()


def has_data(folder: Path) -> bool:
    """Whether a local registry was ever made in this folder."""
    return any((folder / database).exists() for database in DATABASES.values())


def hanging(folder: Path) -> str:
    """Name the process of a server that does not answer, and the command that ends it."""
    running = _named_in(folder)
    if running is None:
        return f"no server runs there; look at {folder / 'server.log'}"
    if is_stopped(running.supervisor_pid):
        return f"{_of_server(running.server_pid)}; its supervisor: {what_ends(running.supervisor_pid)}"
    return _of_server(running.server_pid)


def _of_server(process: int) -> str:
    """Name the remedy for a server that has not answered."""
    if is_held(process):
        return f"its server: {what_ends(process)}, and the next command starts another"
    return (
        f"its server, process {process}, may be slow: try again. If it never answers: kill -9 {process}, and "
        "the next command starts another"
    )


def is_starting(folder: Path) -> bool:
    """Whether a server is on its way: its supervisor works, and has none yet that answers."""
    running = _named_in(folder)
    if running is None:
        return is_supervised(folder)
    return not state_of(running.supervisor_pid)  # left by one that was killed


def is_silent(folder: Path) -> bool:
    """Whether a server is to run there, and does not answer now. None is started."""
    running = _named_in(folder)
    if running is None or not state_of(running.supervisor_pid) or not is_supervised(folder):
        return False
    return not answers(running.url)


def content_of(folder: Path) -> object:
    """Return a mark that stays the same for as long as nobody writes to the registry in this folder."""
    found = []
    for name in sorted(set(DATABASES.values())):
        for file, counts_empty in ((folder / name, True), (folder / f"{name}-wal", False)):
            with contextlib.suppress(OSError):
                status = file.stat()
                if status.st_size or counts_empty:
                    found.append((file.name, status.st_size, status.st_mtime_ns))
    return tuple(found)


def running_server(folder: Path) -> Running | None:
    """The server of the folder, if it is supervised and answers."""
    running = _named_in(folder)
    return running if running is not None and is_supervised(folder) and answers(running.url) else None


def _named_in(folder: Path) -> Running | None:
    """The server that the folder names, which may have been killed."""
    try:
        return Running(**json.loads((folder / "server.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_supervised(folder: Path) -> bool:
    """Whether a supervisor lives: it holds `server.lock` for all its life."""
    try:
        with (folder / "server.lock").open("ab") as lock:
            return not try_lock(lock, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _python_path() -> str:
    """Where the supervisor finds this very package, wherever it was started from."""
    package = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
