"""An adapter that kills its worker on one event, raises or hangs on others: the rest goes on (A11, A17)."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.e2e.one_query import one_query
from tests.e2e.photon_process import joined_rows, photon_json

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
    clicks = ["a", "b", "raises", "c", "kills", "d", "hangs"]
    pipeline = one_query(tmp_path, *clicks, more="limits: {task_timeout: 30s}", adapter=ADAPTER)
    counts = photon_json("join", pipeline, "--complete")["east"]
    assert (counts["joined"], counts["dead_letters"], counts["pending"]) == (4, 3, 0)
    assert sorted(joined_rows(pipeline)["click"].to_pylist()) == ["a", "b", "c", "d"]
    letters = DeltaTable(str(tmp_path / "lake" / "east" / "dead_letters")).to_pyarrow_table()
    reasons = dict(zip(letters["event_id"].to_pylist(), letters["reason"].to_pylist(), strict=True))
    assert "no such click" in reasons["raises"]
    assert "kept its batch from ending" in reasons["kills"]
    assert "longer than 1.5 s, at own_adapter.py" in reasons["hangs"]
