"""`photon verify` of little: no Spark, the same promises."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import photon

pytestmark = pytest.mark.server

PIPELINE = """
name: searches
datacenters: {east: {logs: logs}, west: {logs: logs}}
primary: {files: "queries.csv", format: csv, id: query, time: at}
foreign: {files: "clicks.csv", format: csv, id: click, key: query, time: at}
adapter: chatty:join
"""
CHATTY = """
from photon.adapters import per_event

@per_event
def join(foreign, primary):
    print("joining")
    return {"query": primary["query"]}
"""
VERIFY = """
import sys
from photon.cli.main import main
try:
    main(["verify", *sys.argv[1:]])
finally:
    assert "pyspark" not in sys.modules, "Spark was imported"
"""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datacenters that have joined three clicks."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "logs").mkdir()
    (folder / "logs" / "queries.csv").write_text("query,at\nq1,1700000000\nq2,1700000001\n")
    (folder / "logs" / "clicks.csv").write_text(
        "click,query,at\nc1,q1,1700000002\nc2,q2,1700000003\nc3,q9,1700000004\n"
    )
    (folder / "chatty.py").write_text(CHATTY)
    file = folder / "p.yaml"
    file.write_text(PIPELINE)
    done = photon("join", file, "--complete", "--engine", "local")
    assert done.exit_code == 0, done.output
    return file


def verify(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", VERIFY, *map(str, words)], capture_output=True, text=True)


def test_little_is_verified_without_spark_and_what_an_adapter_prints_is_not_the_report(
    pipeline: Path,
) -> None:
    done = verify(pipeline, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [told[name]["foreign"] for name in ("east", "west")] == [3, 3]
    assert told["east"]["joined"] + told["west"]["joined"] == 2
    assert "joining" in done.stderr


def test_a_recorded_verification_goes_on_from_what_was_kept(pipeline: Path) -> None:
    first, again = verify(pipeline, "--record", "--json"), verify(pipeline, "--record", "--json")
    assert (first.returncode, again.returncode) == (0, 0), again.stderr
    before, after = (json.loads(done.stdout)["east"] for done in (first, again))
    assert after["records_read"] < before["records_read"]
    assert after["joined"] == before["joined"]


def test_rows_that_are_gone_are_a_violation(pipeline: Path, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    copy = tmp_path / "copy"
    shutil.copytree(pipeline.parent, copy, ignore=shutil.ignore_patterns("*.lock", "server.json"))
    for name in ("east", "west"):
        DeltaTable(copy / "lake" / name / "joined_events").delete()
    done = verify(copy / "p.yaml", "--all")
    assert done.returncode == 1, done.stderr
    assert "VIOLATION missing" in done.stdout


def test_a_persons_own_column_is_no_wrong_value_and_their_constraint_is_named(
    pipeline: Path, tmp_path: Path
) -> None:
    from deltalake import DeltaTable, Field

    copy = tmp_path / "copy"
    shutil.copytree(pipeline.parent, copy, ignore=shutil.ignore_patterns("*.lock", "server.json"))
    for name in ("east", "west"):
        table = copy / "lake" / name / "joined_events"
        DeltaTable(table).alter.add_columns([Field("label", "string")])  # type: ignore[arg-type]
        DeltaTable(table).update({"label": "'theirs'"})
        DeltaTable(table).alter.add_constraint({"theirs": "label IS NULL OR label = 'theirs'"})
    done = verify(copy / "p.yaml", "--all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ALTER TABLE delta.`{copy}/lake/east/joined_events` DROP CONSTRAINT theirs" in done.stdout


@pytest.mark.parametrize("name", ["a[b]", "a{b,c}", "a*b?c"])
def test_a_path_that_would_be_a_pattern_is_verified_without_spark(
    tmp_path: Path, pipeline: Path, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for each in ("p.yaml", "chatty.py"):
        shutil.copy(pipeline.with_name(each), folder)
    shutil.copytree(pipeline.with_name("logs"), folder / "logs")
    joined = photon("join", folder / "p.yaml", "--complete", "--engine", "local")
    assert joined.exit_code == 0, joined.output
    done = verify(folder / "p.yaml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 2
