"""The example dbt project: each run reads one release, and makes only days with new rows again.

Needs what `make dbt` makes, and is left out without it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.documents import ROOT
from tests.e2e.photon_process import photon

DBT = ROOT / ".venv" / "dbt" / "bin" / "dbt"
PIPELINE = """
name: ads
datacenters: {here: {logs: logs}}
primary: {files: "queries.jsonl", format: jsonl, id: query_id, time: time, time_unit: iso8601}
foreign: {files: "events.jsonl", format: jsonl, id: event_id, key: query_id, time: time, time_unit: iso8601}
"""
pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not DBT.exists(), reason="dbt is not there: make dbt"),
]


def grow(folder: Path, day: str, shown: int, clicked: int) -> None:
    """Log queries of a day, with impressions and clicks of each; then join them."""
    (folder / "logs").mkdir(exist_ok=True)
    with (
        (folder / "logs" / "queries.jsonl").open("a") as queries,
        (folder / "logs" / "events.jsonl").open("a") as events,
    ):
        for n in range(shown):
            at = {"time": f"{day}T10:00:{n:02}Z", "query_id": f"{day}-{n}"}
            print(json.dumps({**at, "country": "de"}), file=queries)
            for kind in ("shown", "clicked") if n < clicked else ("shown",):
                print(json.dumps({**at, "kind": kind, "event_id": f"{day}-{n}-{kind}"}), file=events)
    photon("join", folder / "pipeline.yaml", "--until-idle", "--engine", "local")


def run(folder: Path) -> list[tuple[object, ...]]:
    """Run the models; the rates, with the release of each."""
    environment = {
        **os.environ,
        "PHOTON_PIPELINE": str(folder / "pipeline.yaml"),
        "RATES": str(folder / "rates.duckdb"),
        "DBT_TARGET_PATH": str(folder / "target"),
        "DBT_LOG_PATH": str(folder / "dbt-logs"),
        "DO_NOT_TRACK": "1",
    }
    command = [DBT, "run", "--profiles-dir", ".", "--no-version-check"]
    done = subprocess.run(
        command, cwd=folder / "dbt", env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-3_000:]
    with duckdb.connect(str(folder / "rates.duckdb"), read_only=True) as rates:
        query = "SELECT CAST(day AS VARCHAR), country, shown, clicked, release FROM rates ORDER BY day"
        return rates.execute(query).fetchall()


def test_a_run_makes_the_days_again_that_have_new_rows_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    shutil.copytree(ROOT / "examples" / "dbt", tmp_path / "dbt")
    grow(tmp_path, "2026-01-05", 4, 2)
    grow(tmp_path, "2026-01-06", 2, 1)
    first = run(tmp_path)
    assert [row[:4] for row in first] == [("2026-01-05", "de", 4, 2), ("2026-01-06", "de", 2, 1)]
    grow(tmp_path, "2026-01-07", 3, 0)
    second = run(tmp_path)
    assert second[:2] == first, "days without a new row stay as they are"
    assert second[2][:4] == ("2026-01-07", "de", 3, 0)
    assert second[2][4] > first[0][4]  # type: ignore[operator]
    assert run(tmp_path) == second
