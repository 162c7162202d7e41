"""A pipeline of one query and clicks on it: what processes do is tried, not what they join."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

PIPELINE = """
name: clicks
datacenters:
{datacenters}
primary: {{files: "queries.jsonl", format: jsonl, id: query, time: at}}
foreign: {{files: "clicks.jsonl", format: jsonl, id: click, key: query, time: at}}
{more}
"""


def one_query(
    folder: Path,
    *clicks: str,
    datacenters: Sequence[str] = ("east",),
    more: str = "",
    adapter: str = "",
) -> Path:
    """Write a pipeline file and its logs in a folder. `adapter`: the text of a module whose `join` is one."""
    (folder / "logs").mkdir()
    query = {"query": "q", "at": 5, "text": "garden"}
    (folder / "logs" / "queries.jsonl").write_text(json.dumps(query) + "\n")
    file = folder / "pipeline.yaml"
    log_clicks(file, *clicks)
    if adapter:
        (folder / "own_adapter.py").write_text(adapter)
        more += "\nadapter: own_adapter:join\n"
    places = "\n".join(f"  {name}: {{logs: logs}}" for name in datacenters)
    file.write_text(PIPELINE.format(datacenters=places, more=more))
    return file


def log_clicks(pipeline: Path, *clicks: str) -> None:
    with (pipeline.parent / "logs" / "clicks.jsonl").open("a") as log:
        log.writelines(json.dumps({"click": click, "query": "q", "at": 6}) + "\n" for click in clicks)
