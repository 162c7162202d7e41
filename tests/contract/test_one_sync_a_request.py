"""Dynoxide syncs before it acknowledges: a store that forgets what it acknowledged lets two win (B10)."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from infra.servers.dynamodb import ServerKind, answers, server_command
from infra.servers.process import START_SECONDS, free_steady_port
from infra.servers.stores import dynamodb_client, is_available
from photon.registry.address import LOCAL_REGION
from photon.registry.stores.copies import Done, Insert, Key
from photon.registry.stores.dynamo import LEDGER_TABLE, DynamoStore

PUTS = 5

pytestmark = [pytest.mark.server, pytest.mark.slow]


@contextmanager
def traced(kind: ServerKind, folder: Path, trace: Path) -> Iterator[str]:
    """Run a server whose syncs are written to `trace`, and yield its URL."""
    port = free_steady_port()
    tracer = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
    process = subprocess.Popen([*tracer, *server_command(kind, folder, port)], cwd=folder)
    try:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_SECONDS
        while not answers(url):
            if process.poll() is not None:
                pytest.skip("processes can't be traced here")
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield url
    finally:
        for server in psutil.Process(process.pid).children() if process.poll() is None else []:
            server.kill()  # the tracer ends with it; without the tracer it would live on
        process.wait()


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace on this machine")
@pytest.mark.skipif(not is_available("dynoxide"), reason="there is no dynoxide on this machine")
def test_an_entry_is_synced_once_before_it_is_answered(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with traced("dynoxide", tmp_path, trace) as url:
        store = DynamoStore("ledgers", lambda: dynamodb_client(url, LOCAL_REGION, timedelta(seconds=20), 1))
        dynamodb_client(url, LOCAL_REGION, timedelta(seconds=20), 1).create_table(
            TableName="ledgers", **LEDGER_TABLE
        )
        synced = [syncs(trace)]
        for position in range(PUTS):
            assert store.insert(Insert(Key("1.0-0", position), bytes(20_000))) == Done()
            synced.append(syncs(trace))
    assert [after - before for before, after in pairwise(synced)] == [1] * PUTS


def syncs(trace: Path) -> int:
    """Count the syncs of the database's log. Only the line on which a call begins names the file."""
    return trace.read_text().count("dynoxide.db-wal")
