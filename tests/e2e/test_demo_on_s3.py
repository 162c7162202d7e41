"""The whole demo with its logs and lakes on a MinIO that it starts, as its user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.minio_server import has_minio
from tests.e2e.photon_process import photon
from tests.e2e.process_marks import marked

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.skipif(not has_minio(), reason="there is no MinIO on this machine: make minio")
def test_the_demo_joins_logs_on_s3_exactly_once_into_lakes_on_s3_and_leaves_no_process(
    tmp_path: Path, mark: str
) -> None:
    done = photon(
        "demo", "--folder", tmp_path / "demo", "--port", "0", "--seconds", "10", "--lake", "s3", "--json"
    )
    assert marked(mark) == []
    summary = json.loads(done.stdout)
    assert (summary["holds"], summary["duplicate_rows"], summary["missing"]) == (True, 0, 0)
    assert all(equation["joined"] > 0 for equation in summary["datacenters"].values())
    assert not [name for name in ("logs", "lake") if (tmp_path / "demo" / name).exists()]
