"""The whole demo with its logs and lakes on a MinIO that it starts, as its user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.photon_process import PATIENCE_SECONDS
from tests.e2e.process_marks import marked
from tests.support.programs import needed

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


def test_the_demo_joins_logs_on_s3_exactly_once_into_lakes_on_s3_and_leaves_no_process(
    tmp_path: Path, mark: str
) -> None:
    needed("MinIO")
    command = [sys.executable, "-m", "examples.demo", "--lake", "s3", "--seconds", "10", "--port", "0"]
    command += ["--folder", str(tmp_path / "demo"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert marked(mark) == []
    summary = json.loads(done.stdout)
    assert (summary["holds"], summary["duplicate_rows"], summary["missing"]) == (True, 0, 0)
    assert all(equation["joined"] > 0 for equation in summary["datacenters"].values())
    assert not [name for name in ("logs", "lake") if (tmp_path / "demo" / name).exists()]
