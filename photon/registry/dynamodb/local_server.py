"""The local registry (`endpoints: local`): one dynoxide per folder, for all processes of a machine.

Each user holds a shared lock on `users.lock`. A supervisor process starts the server, writes `server.json`
once it answers, and stops it when nobody holds that lock any more. The kernel drops the lock of a dead
process, so a server never outlives its users, not even after `kill -9`.

dynoxide listens on the loopback address only. DynamoDB Local, which takes its place where it has to, can't be
told to: it answers on every interface of the machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal, cast

from photon.errors import UserError
from photon.registry.interface import RegistryMismatch, RegistryUnavailable
from photon.toolchain.dynoxide import crate_command, dynoxide_command, prebuilt
from photon.toolchain.java import java_command
from photon.toolchain.maven import dynamodb_local_jars

ServerKind = Literal["dynoxide", "dynoxide-crate", "dynamodb-local"]  # `dynoxide-crate`: for tests

DATABASES: dict[ServerKind, str] = {  # the file in its folder
    "dynoxide": "dynoxide.db",
    "dynoxide-crate": "dynoxide.db",
    "dynamodb-local": "shared-local-instance.db",  # as DynamoDB Local calls it with -sharedDb
}
NAMES: dict[ServerKind, str] = {
    "dynoxide": "dynoxide",
    "dynoxide-crate": "dynoxide",
    "dynamodb-local": "DynamoDB Local",
}
LOOPBACK = "127.0.0.1"
HEAP = "512m"
START_SECONDS = 60.0  # DynamoDB Local takes two alone, and many more on a machine that is busy
STOP_SECONDS = 5.0
HEALTH_SECONDS = 2.0
USERS_POLL_SECONDS = 0.5
WAIT_POLL_SECONDS = 0.05
PORT_ATTEMPTS = 5  # another process may take the port that was free a moment ago
LOG_TAIL_BYTES = 600
_MODULE = "photon.registry.dynamodb.local_server"  # run as the supervisor
_PR_SET_PDEATHSIG = 1
_LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers: `server.json`."""

    url: str
    server_pid: int
    supervisor_pid: int


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
        with self._lock:  # whoever holds it gives up before we have to
            refuse_data_of_another_server(self.folder, self.kind)
            try:
                self._hold(deadline)
                return self._wait_until_running(deadline)
            except OSError as error:
                raise RegistryUnavailable(
                    f"the local registry's folder {self.folder} can't be used: {error}; make it writable"
                ) from error

    def leave(self) -> None:
        """Hold the server no longer; it stops when nobody else holds it."""
        with self._lock:
            if self._users is not None:
                self._users.close()
                self._users = None

    def _hold(self, deadline: float) -> None:
        if self._users is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            users = (self.folder / "users.lock").open("ab")
            # Wait for a supervisor that is just stopping the server: it holds the lock exclusively.
            while not _try_lock(users, fcntl.LOCK_SH):
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
            if not _is_supervised(self.folder):
                self._start_supervisor()
            time.sleep(WAIT_POLL_SECONDS)
        raise self._not_in_time()

    def _start_supervisor(self) -> None:
        if self._supervisor is not None and self._supervisor.poll() is None:
            return  # ours is on its way
        if self._supervisor is not None and self._supervisor.returncode not in (0, -signal.SIGKILL):
            self._supervisor = None
            raise self._not_started("it ended before it answered")
        try:
            server_command(self.kind, self.folder, free_port())
        except UserError as error:
            raise RegistryUnavailable(f"the local registry can't be started: {error}") from error
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

    def _not_started(self, reason: str) -> RegistryUnavailable:
        log = self.folder / "server.log"
        try:
            end = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        except OSError as error:
            end = str(error)
        return RegistryUnavailable(
            f"the local registry, {NAMES[self.kind]} in {self.folder}, did not start: {reason}. Mend what its"
            f" log {log} says, or end the process `{_MODULE} {self.folder.resolve()}` if one hangs, and start"
            f' again. If {DATABASES[self.kind]} is damaged, its ids are lost: docs/operations.md, "A lost'
            f' registry". The end of the log: {end!r}'
        )


def default_kind() -> ServerKind:
    """dynoxide where there is one to fetch for this machine, else DynamoDB Local."""
    return "dynamodb-local" if prebuilt() is None else "dynoxide"


def refuse_data_of_another_server(folder: Path, kind: ServerKind) -> None:
    """RegistryMismatch if a server of another kind keeps its data in the folder: this one would find none.

    It would then join all again. DynamoDB Local was the default before dynoxide.
    """
    for other in ("dynoxide", "dynamodb-local"):
        if DATABASES[other] != DATABASES[kind] and (folder / DATABASES[other]).exists():
            raise RegistryMismatch(
                f"{folder} has a registry in {NAMES[other]} ({DATABASES[other]}), and this pipeline's local"
                f" registry is {NAMES[kind]}. To go on with what is joined, put `local_server: {other}` below"
                " `registry` in the pipeline file. To begin anew, and join everything again, move all lakes,"
                " all states and this folder away, together"
            )


@contextlib.contextmanager
def local_server(folder: Path, kind: ServerKind | None = None) -> Iterator[str]:
    """The URL of the folder's server, held for the length of a `with`; without `kind` of the default one."""
    server = LocalServer(folder, kind or default_kind())
    try:
        yield server.ensure()
    finally:
        server.leave()


def running_server(folder: Path) -> Running | None:
    """The server of the folder, if it is supervised and answers."""
    try:
        running = Running(**json.loads((folder / "server.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return running if _is_supervised(folder) and answers(running.url) else None


def _is_supervised(folder: Path) -> bool:
    """Whether a supervisor lives: it holds `server.lock` for all its life."""
    try:
        with (folder / "server.lock").open("ab") as lock:
            return not _try_lock(lock, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _try_lock(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _python_path() -> str:
    """Where the supervisor finds this very package, wherever it was started from."""
    package = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))


# -- the supervisor's process


def supervise(folder: Path, kind: ServerKind) -> int:
    """Run a server in `folder` until nobody uses it: the exit status of the supervisor."""
    with (folder / "server.lock").open("ab") as lock:
        if not _take_lock(lock):
            return 0  # another supervisor is there
        with (folder / "users.lock").open("ab") as users:
            if _try_lock(users, fcntl.LOCK_EX):
                return 0  # nobody wants a server any more
            use_write_ahead_log(kind, folder)
            server = _start_server(folder, kind)
            if server is None:
                return 1
            try:
                _serve(server, users)
            finally:
                _stop(server)
                (folder / "server.json").unlink(missing_ok=True)
    return 0


def _take_lock(lock: IO[bytes]) -> bool:
    # Others hold it shared for an instant, to see whether there is a supervisor.
    for _ in range(20):
        if _try_lock(lock, fcntl.LOCK_EX):
            return True
        time.sleep(WAIT_POLL_SECONDS)
    return False


def _start_server(folder: Path, kind: ServerKind) -> subprocess.Popen[bytes] | None:
    """A server that answers, with its `server.json` written; None if none would start (see the log)."""
    deadline = time.monotonic() + START_SECONDS
    for _ in range(PORT_ATTEMPTS):
        port = free_port()
        url = f"http://{LOOPBACK}:{port}"
        server = subprocess.Popen(
            server_command(kind, folder, port),
            stdin=subprocess.DEVNULL,
            cwd=folder,
            preexec_fn=die_with_parent,
        )
        while server.poll() is None and time.monotonic() < deadline:
            # Another one that has taken the port may answer too.
            if answers(url) and listens(server.pid, port):
                unfinished = folder / "server.json.new"
                unfinished.write_text(json.dumps(asdict(Running(url, server.pid, os.getpid()))))
                unfinished.replace(folder / "server.json")
                return server
            time.sleep(WAIT_POLL_SECONDS)
        _stop(server)
        if time.monotonic() >= deadline:
            break
    return None


def _serve(server: subprocess.Popen[bytes], users: IO[bytes]) -> None:
    """Return when the server has died, or when nobody uses it; the users' lock is then held."""
    while server.poll() is None and not _try_lock(users, fcntl.LOCK_EX):
        time.sleep(USERS_POLL_SECONDS)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


# -- the server's process


def server_command(kind: ServerKind, folder: Path, port: int) -> list[str]:
    """The command of a server that keeps its data in `folder` and runs there.

    JavaMissing, DynoxideMissing or DynamoDBLocalMissing, with the remedy, if it is not on this machine.
    """
    if kind != "dynamodb-local":
        program = dynoxide_command() if kind == "dynoxide" else crate_command()
        # Its SQLite has a write-ahead log, synced before a transaction is answered (synchronous = FULL).
        return [program, "--host", LOOPBACK, "--port", str(port), "--db-path", str(folder / DATABASES[kind])]
    jars = dynamodb_local_jars()
    return [
        java_command(),
        f"-Xmx{HEAP}",
        "-XX:+UseSerialGC",  # quicker to start, and small
        f"-Djava.library.path={jars}",
        *("-cp", f"{jars}/*"),
        "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
        *("-port", str(port)),
        *("-dbPath", str(folder)),
        "-sharedDb",
        "-disableTelemetry",
    ]


def use_write_ahead_log(kind: ServerKind, folder: Path) -> None:
    """Have DynamoDB Local's SQLite append to a log instead of rewriting a journal; the file remembers it.

    It is as durable, with one fsync an insert instead of four: 645 instead of 294 inserts/s on two busy
    cores. dynoxide does so by itself.
    """
    if kind == "dynamodb-local":
        with contextlib.closing(sqlite3.connect(folder / DATABASES[kind])) as connection:
            connection.execute("PRAGMA journal_mode = WAL")


def answers(url: str) -> bool:
    """Whether a DynamoDB server answers at `url`: it asks for credentials, or says that it is well."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", "/")
        return b"dynamodb" in connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_port() -> int:
    """A port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(pid: int, port: int) -> bool:
    """Whether it is this process that listens on the port; asked on Linux, assumed elsewhere."""
    if sys.platform != "linux":
        return True
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    sockets = {
        f"socket:[{row[9]}]" for row in rows if row[3] == _LISTEN and int(row[1].split(":")[1], 16) == port
    }
    try:
        return any(os.readlink(open_file) in sockets for open_file in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False  # it ended, or closed a file, just now


def die_with_parent() -> None:
    """Run in a new process: the kernel ends it when the thread that started it ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_in_order(*_: object) -> None:
    sys.exit(1)  # so that the server is stopped on the way out


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end_in_order)
    sys.exit(supervise(Path(sys.argv[1]), cast(ServerKind, sys.argv[2])))
