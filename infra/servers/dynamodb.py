"""Servers with the DynamoDB API that run on one machine: dynoxide and DynamoDB Local.

They take any key and check no signature: whoever reaches their port reads and deletes what they have. So they
are for tests, measurements and the demo. dynoxide listens on the loopback address alone; DynamoDB Local can't
be told to, and answers on every interface.
"""

from __future__ import annotations

import contextlib
import http.client
import sqlite3
from pathlib import Path
from typing import Literal

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
HEALTH_SECONDS = 2.0


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
