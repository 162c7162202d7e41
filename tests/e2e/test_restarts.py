"""`photon join` for two datacenters: a process that is killed comes back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from photon.dispatcher.shift.lease import holder_of
from tests.e2e.one_query import one_query
from tests.e2e.photon_process import PATIENCE_SECONDS, joined_rows, line_with, photon, running, stop
from tests.e2e.process_marks import soon

pytestmark = [pytest.mark.server, pytest.mark.slow]


def test_a_process_that_is_killed_is_started_again_and_joins_on(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path, "c1", datacenters=("east", "west"))
    east, west = tmp_path / "state" / "east", tmp_path / "state" / "west"
    with running("join", pipeline, "--engine", "local") as join:
        assert soon(lambda: None not in (holder_of(east), holder_of(west)), PATIENCE_SECONDS)
        killed = holder_of(east)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        assert "datacenter east ended by SIGKILL: starting it again in 1 s" in line_with("ended by", join)
        assert soon(lambda: holder_of(east) not in (None, killed), PATIENCE_SECONDS)
        assert stop(join) == 0
    photon("join", pipeline, "--engine", "local", "--complete")
    assert joined_rows(pipeline)["click"].to_pylist() == ["c1"]
