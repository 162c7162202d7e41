"""Workers of Spark that can't start, or all die: the status says so soon, with the cause and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.one_query import one_query
from tests.e2e.photon_process import joined_rows, photon, photon_json, running, status_with, stop

NO_PYTHON = "spark.executorEnv.PYTHONHOME=/nonexistent"
CLICKS = [f"c{number:03}" for number in range(100)]
KILLS = """
import os

from photon.adapters import per_event


@per_event
def join(foreign, primary):
    os._exit(1)
"""
IS_MENDED = KILLS.replace("os._exit(1)", "return {**primary, **foreign}")


@pytest.mark.spark
@pytest.mark.server
@pytest.mark.slow
def test_workers_that_cannot_start_are_waited_for_and_then_all_is_joined(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path, *CLICKS)
    with running("join", pipeline, "-d", "east", "--spark", NO_PYTHON) as joining:
        said = status_with("east WAITS for ", pipeline)
        assert said.splitlines()[0].endswith("east waits for what is unavailable")
        cause = "no Python worker of Spark can start: ModuleNotFoundError: No module named 'encodings'"
        assert f"{cause}; mend that" in said
        assert stop(joining) == 0
    counts = photon_json("join", pipeline, "--until-idle")["east"]
    assert (counts["joined"], counts["dead_letters"]) == (len(CLICKS), 0)


@pytest.mark.spark
@pytest.mark.server
@pytest.mark.slow
def test_workers_that_all_die_are_told_with_the_cause_and_what_to_type(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path, *CLICKS, adapter=KILLS)
    with running("join", pipeline, "-d", "east") as joining:
        said = status_with("east FAILS: ", pipeline)
        assert "east joins nothing, for its batches fail" in said.splitlines()[0]
        (told,) = [line for line in said.splitlines() if "NEEDS YOU: joins nothing since " in line]
        assert "Python worker exited unexpectedly" in told
        assert told.endswith(f"kill {joining.pid}, then photon join {pipeline} -d east")
        assert stop(joining) == 0
    (tmp_path / "own_adapter.py").write_text(IS_MENDED)
    counts = photon_json("join", pipeline, "--until-idle")["east"]
    assert counts["joined"] + counts["dead_letters"] == len(CLICKS)
    assert len(joined_rows(pipeline)) == counts["joined"] > 0
    assert "FAILS" not in photon("status", pipeline).stdout
