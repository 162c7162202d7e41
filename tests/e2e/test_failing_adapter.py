"""An adapter with a wrong name stops `photon join` of both datacenters, and loses nothing (A21)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from photon.errors import ADAPTER_FAILED
from tests.e2e.photon_process import joined_rows, photon, photon_json

PIPELINE = """
name: failing
datacenters: {east: {logs: logs}, west: {logs: logs}}
primary: {files: "queries.jsonl", format: jsonl, id: query, time: at}
foreign: {files: "clicks.jsonl", format: jsonl, id: click, key: query, time: at}
adapter: failing_adapter:join
"""
ADAPTER = """
from photon.adapters import per_event


@per_event
def join(foreign, primary):
    return {"click": foreign["click"], "text": primary["NAME"].upper()}
"""


@pytest.mark.server
@pytest.mark.slow
def test_an_adapter_that_fails_on_all_events_stops_the_join_and_once_mended_joins_them(
    tmp_path: Path,
) -> None:
    pipeline, adapter = tmp_path / "pipeline.yaml", tmp_path / "failing_adapter.py"
    pipeline.write_text(PIPELINE)
    adapter.write_text(ADAPTER.replace("NAME", "test"))
    (tmp_path / "logs").mkdir()
    query = json.dumps({"query": "q", "at": 5, "text": "garden"})
    (tmp_path / "logs" / "queries.jsonl").write_text(query + "\n")
    lines = [json.dumps({"click": f"c{number}", "query": "q", "at": 6}) + "\n" for number in range(500)]
    (tmp_path / "logs" / "clicks.jsonl").write_text("".join(lines))
    join = ("join", pipeline, "--engine", "local", "--complete")
    stopped = photon(*join, status=ADAPTER_FAILED)
    assert "adapter failing_adapter:join: its combine failed on" in stopped.stderr
    assert "AttributeError: 'NoneType' object has no attribute 'upper'" in stopped.stderr
    assert f"datacenter east ended with status {ADAPTER_FAILED}" in stopped.stderr
    adapter.write_text(ADAPTER.replace("NAME", "text"))
    results = photon_json(*join)
    assert [result["dead_letters"] for result in results.values()] == [0, 0]
    assert sorted(joined_rows(pipeline)["click"].to_pylist()) == sorted(f"c{n}" for n in range(500))
