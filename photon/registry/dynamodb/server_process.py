"""A DynamoDB-compatible server on this machine as a process: its command, its store, whether it answers."""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import os
import signal
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Literal

from photon.toolchain.dynoxide import dynoxide_command
from photon.toolchain.fetch import dynamodb_local_dir, java_command

ServerKind = Literal["dynamodb-local", "dynoxide"]

HEAP = "512m"
HEALTH_SECONDS = 2.0

DATABASES: dict[ServerKind, str] = {  # the file in its folder
    "dynamodb-local": "shared-local-instance.db",  # as DynamoDB Local calls it with -sharedDb
    "dynoxide": "dynoxide.db",
}
_PR_SET_PDEATHSIG = 1
_LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp


def server_command(kind: ServerKind, folder: Path, port: int) -> list[str]:
    """The command of a server that keeps its data in `folder`, to be run there.

    JavaMissing or DynoxideMissing, with the remedy, if it is not on this machine.
    """
    if kind == "dynoxide":
        database = str(folder / DATABASES[kind])
        return [dynoxide_command(), "--port", str(port), "--db-path", database, "--log", "quiet"]
    jars = dynamodb_local_dir()
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
    """Have the server's SQLite append to a log instead of rewriting a journal; the file remembers it.

    dynoxide does so by itself. For DynamoDB Local one fsync an insert instead of four, and as durable: 645
    instead of 294 inserts/s, two busy cores.
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
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(pid: int, port: int) -> bool:
    """Whether it is this process that listens on the port (asked of Linux; elsewhere taken for granted)."""
    if sys.platform != "linux":
        return True
    sockets: set[str] = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        rows = [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []
        sockets |= {f"socket:[{row[9]}]" for row in rows if row[3] == _LISTEN and _port_of(row[1]) == port}
    try:
        return any(os.readlink(open_file) in sockets for open_file in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False  # it ended, or closed a file, just now


def _port_of(address: str) -> int:
    return int(address.split(":")[1], 16)


def die_with_parent() -> None:
    """To be run in a new process: the kernel ends it when the thread that started it ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
