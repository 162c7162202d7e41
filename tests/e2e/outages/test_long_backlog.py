"""A datacenter that was stopped for long catches up with a backlog many times the memory that it takes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.photon_process import PATIENCE_SECONDS, joined_rows, photon

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

PIPELINE = """
name: backlog
datacenters: {east: {logs: logs}, west: {logs: logs}}
primary: {files: "queries/*.jsonl", format: jsonl, id: query, time: at}
foreign: {files: "clicks/*.jsonl", format: jsonl, id: click, key: query, time: at}
limits: {batch_foreign: 1MiB}
"""
SHORT_FILES, LONG_FILES = 2, 30  # several batches, and many
QUERIES_A_FILE, CLICKS_A_FILE = 25_000, 2_500
TEXT = "x" * 400  # makes a query as long as a real one
# Joins a datacenter until it is idle, and prints the most memory that its process had.
CATCH_UP = """
import resource, sys
from photon.pipeline.file import load_pipeline
from photon.dispatcher.shift.run import run_shift

result = run_shift(load_pipeline(sys.argv[1]), sys.argv[2], "until_idle")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, result.seconds)
"""


@dataclass(frozen=True)
class CaughtUp:
    """Memory and time that a process took to read the whole backlog."""

    backlog_bytes: int
    most_bytes: int
    seconds: float


def write_logs(folder: Path, files: int) -> int:
    """Write queries and clicks into so many files each, and return their bytes."""
    for number in range(files):
        queries = (
            {"query": f"q{number}-{i}", "at": number * 100 + i / 1e4, "text": TEXT}
            for i in range(QUERIES_A_FILE)
        )
        clicks = (
            {"click": f"c{number}-{i}", "query": f"q{number}-{i * 10}", "at": number * 100 + i / 1e3}
            for i in range(CLICKS_A_FILE)
        )
        for side, records in (("queries", queries), ("clicks", clicks)):
            path = folder / "logs" / side / f"{number:04}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return sum(path.stat().st_size for path in (folder / "logs").rglob("*.jsonl"))


def catch_up(folder: Path, files: int) -> CaughtUp:
    """The west catches up with what the east has joined while it was stopped."""
    folder.mkdir()
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(PIPELINE)
    backlog_bytes = write_logs(folder, files)
    photon("registry", "init", pipeline)
    photon("join", pipeline, "-d", "east", "--until-idle", "--engine", "local")
    command = [sys.executable, "-c", CATCH_UP, str(pipeline), "west"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    most_bytes, seconds = done.stdout.split()
    assert len(set(joined_rows(pipeline)["_event_id"].to_pylist())) == files * CLICKS_A_FILE
    return CaughtUp(backlog_bytes, int(most_bytes), float(seconds))


def test_the_memory_of_a_catch_up_does_not_grow_with_its_backlog(tmp_path: Path) -> None:
    short, long = catch_up(tmp_path / "short", SHORT_FILES), catch_up(tmp_path / "long", LONG_FILES)
    print(short, long, sep="\n")
    more_bytes = long.backlog_bytes - short.backlog_bytes
    # A ninth, measured: the index is mapped, and the allocator keeps what it had. It is 200 MB with batches
    # of 64 MiB, of a backlog of 230 MB.
    assert long.most_bytes - short.most_bytes < more_bytes / 3
