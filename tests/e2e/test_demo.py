"""The whole demo, as its user starts it: Dagster, two datacenters, a killed shift, verification, the end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from examples.demo.process_tree import END_SECONDS
from tests.e2e.process_marks import marked, soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(720)]

DEMO_SECONDS = 640.0  # all phases at their bounds; two cores take 150
JOINING_SECONDS = 180.0


@dataclass(frozen=True)
class Running:
    """A demo that runs, and what it has said so far."""

    process: subprocess.Popen[bytes]
    said_file: Path

    def said(self) -> str:
        return self.said_file.read_text()

    def wait_for(self, *texts: str) -> None:
        """Wait until the demo has said a match of each regular expression."""

        def has_said() -> bool:
            assert self.process.poll() is None, self.said()
            return all(re.search(text, self.said()) for text in texts)

        assert soon(has_said, JOINING_SECONDS), self.said()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "demo"


def started(folder: Path, *options: str) -> Running:
    said = folder.parent / f"said-{uuid.uuid4().hex}"
    command = [sys.executable, "-m", "examples.demo", "--folder", str(folder), "--port", "0", *options]
    with said.open("wb") as file:
        return Running(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file), said)


def run_whole(folder: Path) -> dict[str, Any]:
    demo = started(folder, "--seconds", "10", "--json")
    printed, _ = demo.process.communicate(timeout=DEMO_SECONDS)
    assert demo.process.returncode == 0, demo.said()
    summary: dict[str, Any] = json.loads(printed)
    return summary


def test_the_demo_joins_exactly_once_through_a_kill_and_leaves_no_process(folder: Path, mark: str) -> None:
    summary = run_whole(folder)
    assert marked(mark) == []
    assert (summary["holds"], summary["duplicate_rows"], summary["missing"]) == (True, 0, 0)
    for equation in summary["datacenters"].values():
        foreign = equation.pop("foreign")
        assert foreign == sum(equation.values())
        assert equation["joined"] > 0
        assert equation["pending"] == 0
    assert summary["rows"]["without"].keys() == {"east"}, "the other datacenter carries on alone"
    assert summary["rows"]["after"]["west"] > 0, "the killed one joins again"
    assert summary["recovery_seconds"] > 0  # how long is measured by make bench-killed-shift
    assert summary["latency_undisturbed"]["rows"] > 0
    assert Path(summary["plot"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_staying_goes_on_with_what_the_demo_left_until_ctrl_c(folder: Path, mark: str) -> None:
    if not (folder / "dagster").is_dir():  # else what the test above has left
        run_whole(folder)
    rows_before = len(list(folder.glob("lake/*/joined_events/*/*.parquet")))
    demo = started(folder, "--stay")
    demo.wait_for("east: run .*: joins", "west: run .*: joins")
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(END_SECONDS) == 0
    assert marked(mark) == []
    assert len(list(folder.glob("lake/*/joined_events/*/*.parquet"))) > rows_before
