"""A real Dagster daemon tells people of a datacenter that nobody runs, and that it is well again."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from orchestration.demo.process_tree import ProcessTree
from orchestration.demo.traffic import Traffic
from photon.pipeline.file import load_pipeline
from tests.e2e.own_dagster import daemon
from tests.e2e.photon_process import wait_for_rows
from tests.e2e.process_marks import soon

pytestmark = [
    *(pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900))
]

PATIENCE_SECONDS = 300.0
SETTINGS = "adapter: own:Own\nshift: {idle: 5s}\nalerts: {hook: 'hook:tell'}\n"
HOOK = """
import json
from pathlib import Path

def tell(alert):
    with (Path(__file__).parent / "told").open("a") as file:
        file.write(json.dumps(alert.as_dict()) + "\\n")
"""
ADAPTER = "from photon.adapters import merge_columns as Own\n"


def told(folder: Path) -> list[str]:
    file = folder / "told"
    return [json.loads(line)["title"] for line in file.read_text().splitlines()] if file.exists() else []


def test_a_datacenter_that_cannot_start_is_told_within_a_minute_and_once_it_joins(tmp_path: Path) -> None:
    traffic = Traffic(5, ("east",), duration_seconds=5)
    traffic.write_all(tmp_path)
    file = traffic.write_pipeline(tmp_path, more=SETTINGS)
    (tmp_path / "hook.py").write_text(HOOK)
    with ProcessTree([place.state for place in load_pipeline(file).datacenters.values()]) as tree:
        tree.start(daemon(tmp_path, file, "east"))
        assert soon(lambda: any("shift" in title for title in told(tmp_path)), PATIENCE_SECONDS)
        began = time.monotonic()
        assert soon(lambda: "[ERROR] search_clicks: health east__works" in told(tmp_path), PATIENCE_SECONDS)
        print(f"told {time.monotonic() - began:.0f} s after the first run failed")
        (tmp_path / "own.py").write_text(ADAPTER)
        wait_for_rows(file, "east", traffic.expected_outcomes().joined_total)
        assert soon(
            lambda: "[OK AGAIN] search_clicks: health east__works" in told(tmp_path), PATIENCE_SECONDS
        )
        assert tree.ended() == {}
