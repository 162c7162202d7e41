"""An adapter with a wrong name stops `photon join` of both datacenters, and loses nothing (A21)."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.process.errors import ADAPTER_FAILED
from tests.e2e.one_query import one_query
from tests.e2e.photon_process import joined_rows, photon, photon_json

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
    clicks = [f"c{number}" for number in range(500)]
    wrong = ADAPTER.replace("NAME", "test")
    pipeline = one_query(tmp_path, *clicks, datacenters=("east", "west"), adapter=wrong)
    join = ("join", pipeline, "--engine", "local", "--complete")
    stopped = photon(*join, status=ADAPTER_FAILED)
    assert "adapter own_adapter:join: its combine failed on" in stopped.stderr
    assert "AttributeError: 'NoneType' object has no attribute 'upper'" in stopped.stderr
    assert f"datacenter east ended with status {ADAPTER_FAILED}" in stopped.stderr
    (tmp_path / "own_adapter.py").write_text(ADAPTER.replace("NAME", "text"))
    results = photon_json(*join)
    assert [result["dead_letters"] for result in results.values()] == [0, 0]
    assert sorted(joined_rows(pipeline)["click"].to_pylist()) == sorted(clicks)
