"""A pipeline of two datacenters and one click: what the processes do is tried, not what they join."""

from __future__ import annotations

from pathlib import Path

PIPELINE = """
name: searches
datacenters: {east: {logs: logs}, west: {logs: logs}}
primary: {files: "queries.csv", format: csv, id: query, time: at}
foreign: {files: "clicks.csv", format: csv, id: click, key: query, time: at}
"""


def one_click(folder: Path) -> Path:
    """The pipeline file in a folder, with its logs."""
    (folder / "logs").mkdir()
    (folder / "logs" / "queries.csv").write_text("query,at\nq1,1700000000\n")
    (folder / "logs" / "clicks.csv").write_text("click,query,at\nc1,q1,1700000002\n")
    file = folder / "p.yaml"
    file.write_text(PIPELINE)
    return file
