"""Rows that others took, by the commands: joined again one by one or by days, or acknowledged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.commands import photon

pytestmark = pytest.mark.server

PIPELINE = """
name: searches
datacenters: {east: {logs: logs}}
primary: {files: "queries.csv", format: csv, id: query, time: at}
foreign: {files: "clicks.csv", format: csv, id: click, key: query, time: at}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """Three clicks of two days were joined, and others took the rows of c1 and c3."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "queries.csv").write_text("query,at\nq1,1700000000\nq2,1700086400\n")
    (tmp_path / "logs" / "clicks.csv").write_text(
        "click,query,at\nc1,q1,1700000001\nc2,q1,1700000002\nc3,q2,1700086401\n"
    )
    file = tmp_path / "p.yaml"
    file.write_text(PIPELINE)
    join(file)
    DeltaTable(tmp_path / "lake" / "east" / "joined_events").delete("_event_id in ('c1', 'c3')")
    return file


def join(file: Path) -> None:
    done = photon("join", file, "--complete", "--engine", "local")
    assert done.exit_code == 0, done.output


def told(*words: str | Path) -> Any:
    done = photon(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def joined(file: Path) -> list[str]:
    table = DeltaTable(file.parent / "lake" / "east" / "joined_events").to_pyarrow_table()
    return sorted(table["_event_id"].to_pylist())


@pytest.mark.parametrize(
    ("words", "back"),
    [
        (["--event", "c1"], ["c1", "c2"]),
        (["--event", "c2"], ["c2"]),
        (["--day", "2023-11-15"], ["c2", "c3"]),
        (["--day", "2023-11-16"], ["c2"]),
        ([], ["c1", "c2", "c3"]),
    ],
)
def test_recovery_looks_at_what_it_is_asked_for_alone(
    pipeline: Path, words: list[str], back: list[str]
) -> None:
    ordered = told("recover", pipeline, *words)["datacenters"]["east"]["ordered"]
    assert ordered == len(back) - 1
    join(pipeline)
    assert joined(pipeline) == back


def test_what_is_acknowledged_stays_away_and_all_is_verified(pipeline: Path) -> None:
    assert photon("verify", pipeline).exit_code == 1
    assert told("acknowledge", pipeline, "east", "--rows", "--dry-run")["rows"] == 2
    done = told("acknowledge", pipeline, "east", "--rows")
    assert (done["rows"], done["is_open"]) == (2, False)
    assert ["joined_events: rows were taken by others" in one for one in done["ended"]] == [True]
    assert told("verify", pipeline)["east"]["joined"] == 3
    told("recover", pipeline)
    with (pipeline.parent / "logs" / "clicks.csv").open("a") as log:
        log.write("c1,q1,1700000001\n")
    join(pipeline)
    assert joined(pipeline) == ["c2"]


def test_rows_that_were_altered_too_are_made_right_before_others_are_acknowledged(pipeline: Path) -> None:
    table = DeltaTable(pipeline.parent / "lake" / "east" / "joined_events")
    table.update(updates={"query": "'other'"}, predicate="_event_id = 'c2'")
    refused = photon("acknowledge", pipeline, "east", "--rows")
    assert refused.exit_code == 3, refused.output
    assert "UPDATE in version" in refused.output
    assert f"photon verify {pipeline}" in refused.output
    rebuilt = photon("backfill", pipeline, "-d", "east", "--day", "2023-11-14", "--rebuild")
    assert rebuilt.exit_code == 0, rebuilt.output
    told("recover", pipeline)
    join(pipeline)
    told("verify", pipeline)
    DeltaTable(table.table_uri).delete("_event_id = 'c1'")
    assert told("acknowledge", pipeline, "east", "--rows")["rows"] == 1


def test_a_verification_that_goes_on_from_kept_results_goes_by_the_list_too(pipeline: Path) -> None:
    assert photon("verify", pipeline, "--record").exit_code == 1
    told("acknowledge", pipeline, "east", "--rows")
    for _ in range(2):
        assert told("verify", pipeline, "--record")["east"]["joined"] == 3


def restored(table: DeltaTable) -> None:
    table.restore(table.version() - 1)


def inserted(table: DeltaTable) -> None:
    version = table.version()
    table.load_as_version(version - 1)
    rows = table.to_pyarrow_table(filters=[("_event_id", "in", ["c1", "c3"])])
    write_deltalake(table.table_uri, rows, mode="append")


@pytest.fixture(params=[restored, inserted], ids=lambda one: one.__name__)
def put_back(request: pytest.FixtureRequest, pipeline: Path) -> DeltaTable:
    """Somebody has brought rows back that a person had acknowledged as taken."""
    told("acknowledge", pipeline, "east", "--rows")
    assert photon("verify", pipeline, "--record").exit_code == 0
    table = DeltaTable(pipeline.parent / "lake" / "east" / "joined_events")
    request.param(table)
    assert joined(pipeline) == ["c1", "c2", "c3"]
    return table


def test_rows_that_are_there_again_are_told_until_they_are_deleted(
    pipeline: Path, put_back: DeltaTable
) -> None:
    for news in ("2 rows", "2 (told before) rows"):
        done = photon("verify", pipeline, "--record")
        assert done.exit_code == 1, "kept results forget it"
        assert f"{news} that were acknowledged as taken and are there again" in done.output
        assert f"photon acknowledge {pipeline} east --rows" in done.output
    (delete,) = re.findall(r"DELETE FROM joined_events WHERE (.*?\)),", done.output)
    DeltaTable(put_back.table_uri).delete(delete)
    assert joined(pipeline) == ["c2"]
    assert photon("verify", pipeline, "--record").exit_code == 0


def test_rows_that_are_to_stay_are_acknowledged_anew(pipeline: Path, put_back: DeltaTable) -> None:
    assert told("acknowledge", pipeline, "east", "--rows")["rows"] == 0
    assert photon("verify", pipeline, "--record").exit_code == 0
    join(pipeline)
    assert joined(pipeline) == ["c1", "c2", "c3"]


def test_a_query_says_that_others_took_rows(pipeline: Path) -> None:
    with (pipeline.parent / "logs" / "clicks.csv").open("a") as log:
        log.write("c4,q2,1700086402\n")
    join(pipeline)
    for _ in range(2):
        done = photon("sql", "SELECT count(*) AS n FROM joined", pipeline, "--format", "json")
        assert json.loads(done.stdout) == [{"n": 2}]
        assert "east: joined_events: rows were taken by others: DELETE in version" in done.stderr
    told("acknowledge", pipeline, "east", "--rows")
    join(pipeline)
    assert "changed by others" not in photon("sql", "FROM joined", pipeline).stderr
