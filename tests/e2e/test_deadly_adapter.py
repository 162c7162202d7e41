"""An adapter that kills its worker on one event, raises or hangs on others: the rest goes on (A11, A17)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.e2e.photon_process import joined_rows, photon_json

PIPELINE = """
name: deadly
datacenters: {east: {logs: logs}}
primary: {files: "queries.jsonl", format: jsonl, id: query, time: at}
foreign: {files: "clicks.jsonl", format: jsonl, id: click, key: query, time: at}
adapter: deadly_adapter:join
limits: {task_timeout: 30s}
"""
ADAPTER = """
import os

from photon.adapters import per_event


@per_event
def join(foreign, primary):
    if foreign["click"] == "kills":
        os._exit(1)
    while foreign["click"] == "hangs":
        pass
    if foreign["click"] == "raises":
        raise ValueError("no such click")
    return {**primary, **foreign}
"""


@pytest.mark.spark
@pytest.mark.server
@pytest.mark.slow
def test_the_events_on_which_an_adapter_dies_raises_or_hangs_are_dead_letters_and_the_rest_joins(
    tmp_path: Path,
) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    (tmp_path / "deadly_adapter.py").write_text(ADAPTER)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "queries.jsonl").write_text(json.dumps({"query": "q", "at": 5}) + "\n")
    clicks = ["a", "b", "raises", "c", "kills", "d", "hangs"]
    lines = [json.dumps({"click": click, "query": "q", "at": 6}) + "\n" for click in clicks]
    (tmp_path / "logs" / "clicks.jsonl").write_text("".join(lines))
    pipeline = tmp_path / "pipeline.yaml"
    counts = photon_json("join", pipeline, "--complete")["east"]
    assert (counts["joined"], counts["dead_letters"], counts["pending"]) == (4, 3, 0)
    assert sorted(joined_rows(pipeline)["click"].to_pylist()) == ["a", "b", "c", "d"]
    letters = DeltaTable(str(tmp_path / "lake" / "east" / "dead_letters")).to_pyarrow_table()
    reasons = dict(zip(letters["event_id"].to_pylist(), letters["reason"].to_pylist(), strict=True))
    assert "no such click" in reasons["raises"]
    assert "kept its batch from ending" in reasons["kills"]
    assert "longer than 1.5 s, at deadly_adapter.py" in reasons["hangs"]
