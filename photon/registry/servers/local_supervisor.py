"""The supervisor of a local registry: a process that runs one server for as long as somebody uses it.

It imports little, for whoever starts it waits: neither Arrow nor the pipeline file's reader. Its users are
`local_server`.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal, cast

from photon.process.lifeline import bound_to_this_thread
from photon.toolchain.dynoxide import dynoxide_command
from photon.toolchain.java import java_command
from photon.toolchain.maven import dynamodb_local_jars

ServerKind = Literal["dynoxide", "dynamodb-local"]

DATABASES: dict[ServerKind, str] = {  # the file in its folder
    "dynoxide": "dynoxide.db",
    "dynamodb-local": "shared-local-instance.db",  # as DynamoDB Local calls it with -sharedDb
}
LOOPBACK = "127.0.0.1"
HEAP = "512m"
START_SECONDS = 60.0  # DynamoDB Local takes two alone, and many more on a machine that is busy
STOP_SECONDS = 5.0
HEALTH_SECONDS = 2.0
USERS_POLL_SECONDS = 0.5
WAIT_POLL_SECONDS = 0.01  # a command that only asks waits for it
LOCK_TRIES = 100  # a second
CANNOT_EXECUTE = 126  # as a shell ends: the server's program is there, and the system does not run it
PORT_ATTEMPTS = 5  # another process may take the port that was free a moment ago
_LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers: `server.json`."""

    url: str
    server_pid: int
    supervisor_pid: int


def try_lock(file: IO[bytes], kind: int) -> bool:
    """Take a lock on a file, shared or exclusive, if nobody else stands against it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def supervise(folder: Path, kind: ServerKind) -> int:
    """Run a server in `folder` until nobody uses it: the exit status of the supervisor."""
    with (folder / "server.lock").open("ab") as lock:
        if not _take_lock(lock):
            return 0  # another supervisor is there
        with (folder / "users.lock").open("ab") as users:
            if try_lock(users, fcntl.LOCK_EX):
                return 0  # nobody wants a server any more
            use_write_ahead_log(kind, folder)
            try:
                server = _start_server(folder, kind)
            except OSError as error:
                print(f"{error.filename or error}: {error.strerror}", file=sys.stderr)
                return CANNOT_EXECUTE
            if server is None:
                return 1
            try:
                _serve(server, users)
            finally:
                _stop(server)
                _forget_server(folder / "server.json")
    return 0


def _forget_server(file: Path) -> None:
    # Who begins anew removes the folder at once, and it may be another supervisor's by now.
    with contextlib.suppress(OSError, ValueError):
        if json.loads(file.read_bytes())["supervisor_pid"] == os.getpid():
            file.unlink()


def _take_lock(lock: IO[bytes]) -> bool:
    # Others hold it shared for an instant, to see whether there is a supervisor.
    for _ in range(LOCK_TRIES):
        if try_lock(lock, fcntl.LOCK_EX):
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
            preexec_fn=bound_to_this_thread(),
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
    while server.poll() is None and not try_lock(users, fcntl.LOCK_EX):
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
    if kind == "dynoxide":
        program = dynoxide_command()
        # dynoxide syncs its write-ahead log before it answers a transaction (synchronous = FULL).
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
        return False  # the process ended, or closed a file, just now


def _end_in_order(*_: object) -> None:
    sys.exit(1)  # so that the server is stopped on the way out


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end_in_order)
    sys.exit(supervise(Path(sys.argv[1]), cast(ServerKind, sys.argv[2])))
