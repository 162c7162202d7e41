"""`photon join` for two datacenters: a process that is killed comes back, and a start waits for what ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from photon.dispatcher.shift.lease import holder_of
from photon.pipeline.file import load_pipeline
from tests.e2e.photon_process import PATIENCE_SECONDS, joined_rows, kill, line_with, photon, running, stop

pytestmark = [pytest.mark.server, pytest.mark.slow]

PIPELINE = """
name: restarts
datacenters: {east: {logs: logs}, west: {logs: logs}}
primary: {files: "queries.jsonl", format: jsonl, id: query, time: at}
foreign: {files: "clicks.jsonl", format: jsonl, id: click, key: query, time: at}
adapter: waiting_adapter:join
"""
# Once it has begun, it ends when there is a file `go`.
ADAPTER = """
import time
from pathlib import Path

from photon.adapters import per_event

HERE = Path(__file__).parent


@per_event
def join(foreign, primary):
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return foreign
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "waiting_adapter.py").write_text(ADAPTER)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "queries.jsonl").write_text(json.dumps({"query": "q", "at": 5}) + "\n")
    (tmp_path / "logs" / "clicks.jsonl").touch()
    return tmp_path / "pipeline.yaml"


def click(pipeline: Path, name: str) -> None:
    with (pipeline.parent / "logs" / "clicks.jsonl").open("a") as log:
        log.write(json.dumps({"click": name, "query": "q", "at": 6}) + "\n")


def soon(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # another process works: there is no clock to inject


def test_a_start_right_after_a_kill_finds_no_process_left_and_joins_what_was_begun(pipeline: Path) -> None:
    click(pipeline, "c")
    with running("join", pipeline, "--engine", "local") as first:
        soon(lambda: (pipeline.parent / "begun").exists())
        kill(first)
        (pipeline.parent / "go").touch()
        photon("join", pipeline, "--engine", "local", "--complete")
    assert joined_rows(pipeline)["click"].to_pylist() == ["c"]


def test_a_process_that_is_killed_is_started_again_and_joins_on(pipeline: Path) -> None:
    (pipeline.parent / "go").touch()
    states = [place.state for place in load_pipeline(pipeline).datacenters.values()]
    with running("join", pipeline, "--engine", "local") as join:
        soon(lambda: all(holder_of(state) is not None for state in states))
        killed = holder_of(states[0])
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        assert "datacenter east ended by SIGKILL: starting it again in 1 s" in line_with("ended by", join)
        soon(lambda: holder_of(states[0]) not in (None, killed))
        assert stop(join) == 0
    click(pipeline, "c")
    photon("join", pipeline, "--engine", "local", "--complete")
    assert joined_rows(pipeline)["click"].to_pylist() == ["c"]
