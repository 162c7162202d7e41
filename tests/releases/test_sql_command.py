"""`photon sql` and `photon releases`, as people call them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import click
import psutil
import pyarrow.parquet as pq
import pytest

from photon.cli.main import main
from photon.cli.sql import is_pipeline_file
from tests.releases.lakes import Lakes, new_lakes
from tests.support.commands import photon

COUNT = "SELECT count(*) AS n FROM joined"
AT_WORK_SECONDS = 0.5  # processor time that only a query which counts takes behind the prompt


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Lakes:
    return two_releases(tmp_path_factory.mktemp("read"))


@pytest.fixture
def lakes(read: Lakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lakes:
    """Lakes that no test changes, and their pipeline file in a folder of the test's own."""
    shutil.copy(read.pipeline.file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return read


@pytest.fixture
def own_lakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lakes:
    monkeypatch.chdir(tmp_path)
    return two_releases(tmp_path)


def two_releases(folder: Path) -> Lakes:
    """Release 1 has four rows, and release 2 six."""
    made = new_lakes(folder / "lakes", folder)
    made.append("east")
    made.append("west")
    made.release()
    made.append("east")
    made.release()
    return made


@pytest.mark.parametrize("words", [[COUNT], [COUNT, "pipeline.yaml"], ["pipeline.yaml", COUNT]])
def test_a_query_is_answered_of_the_newest_release_wherever_the_file_stands(
    lakes: Lakes, words: list[str]
) -> None:
    done = photon("sql", *words, "--format", "csv")
    assert (done.exit_code, done.stdout) == (0, "n\n6\n"), done.output


def test_a_release_is_named_by_number_or_time(lakes: Lakes) -> None:
    of_first = lakes.made[0].release.made_at.isoformat()
    for words in (["--release", "1"], ["--as-of", of_first]):
        assert photon("sql", COUNT, *words, "--format", "csv").stdout == "n\n4\n"
    assert photon("sql", COUNT, "--release", "1", "--as-of", of_first).exit_code == 2


def test_each_format_has_all_rows_and_a_table_is_for_people(lakes: Lakes) -> None:
    query = "SELECT _event_id, value, 1.50 AS price FROM joined ORDER BY 1 LIMIT 2 -- so many"
    assert photon("sql", query, "--format", "csv").stdout == "_event_id,value,price\ne0,0,1.50\ne1,0,1.50\n"
    found = json.loads(photon("sql", query, "--format", "json").stdout)
    assert found == [{"_event_id": name, "value": 0, "price": 1.5} for name in ("e0", "e1")]
    told = photon("sql", query).stdout
    assert "_event_id" in told
    assert "│ e0" in told


def test_numbers_that_json_has_not_are_text(lakes: Lakes, tmp_path: Path) -> None:
    query = """SELECT 'nan'::DOUBLE AS a, [1.5, '-inf'::FLOAT] AS b, {'c': 'inf'::DOUBLE} AS c,
        '"NaN", \\' AS said, 'x' || chr(10) || 'Infinity' AS lines"""
    photon("sql", query, "-o", tmp_path / "rows.json")
    for said in (photon("sql", query, "--format", "json").stdout, (tmp_path / "rows.json").read_text()):
        assert json.loads(said, parse_constant=pytest.fail) == [
            {
                "a": "NaN",
                "b": [1.5, "-Infinity"],
                "c": {"c": "Infinity"},
                "said": '"NaN", \\',
                "lines": "x\nInfinity",
            }
        ]


def test_sums_of_integers_are_exact_in_parquet(lakes: Lakes, tmp_path: Path) -> None:
    query = """SELECT sum(n) AS "the sum", count(*) AS n FROM (VALUES (9223372036854775807), (9)) AS t(n)"""
    photon("sql", query, "-o", tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == [{"the sum": 9223372036854775816, "n": 2}]


def test_a_link_stays_and_the_file_that_it_names_is_written(lakes: Lakes, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("rows.csv")
    assert photon("sql", COUNT, "-o", tmp_path / "link.csv").exit_code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "rows.csv").read_text() == "n\n6\n"


def test_lakes_that_are_not_mounted_are_named(own_lakes: Lakes, tmp_path: Path) -> None:
    (tmp_path / "lakes").rename(tmp_path / "away")
    for words in (["sql", COUNT], ["releases"]):
        said = photon(*words).output
        assert f"mount {own_lakes.lake('east')} and {own_lakes.lake('west')} or put it back" in said


def test_a_file_is_written_whole_or_not_at_all(lakes: Lakes, tmp_path: Path) -> None:
    target = tmp_path / "rows.parquet"
    assert photon("sql", "SELECT * FROM joined", "-o", target).exit_code == 0
    assert pq.read_table(target).num_rows == 6
    before = target.read_bytes()
    failed = photon("sql", "SELECT error('no more') FROM joined", "-o", target)
    assert failed.exit_code != 0
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["SELECT 1,\n nosuch FROM joined"], 2, "LINE 2:  nosuch FROM joined\n         ^^^^^^"),
        (["SELECT", "1", "FROM", "joined"], 2, "in quotes"),
        (["SELEC 1"], 2, "syntax error"),
        (["SELECT * FROM nosuch"], 2, "nosuch"),
        (["SELECT 1; SELECT 2", "-o", "x.csv"], 2, "one query"),
        (
            ["SELECT 1; SELECT 2", "--format", "json"],
            2,
            "--format json takes the answer of one query, found 2",
        ),
        (["SELECT 1; SELECT 2", "--format", "parquet"], 2, "--format parquet takes the answer of one query"),
        (["SELECT 1", "-o", "x.csv", "--format", "table"], 2, ".parquet"),
        (["SELECT * FROM read_text('/etc/passwd')"], 2, "disabled by configuration"),
        (["FROM 'rows.csv'"], 2, "reads the views alone"),
        ([COUNT, "--as-of", "soon"], 2, "2026-01-31T10:42"),
        ([COUNT, "--release", "9"], 3, "photon releases"),
        ([COUNT, "-o", "nowhere/x.csv"], 2, "there is no folder"),
        ([COUNT, "-o", "/dev/null", "--format", "csv"], 2, "is no file"),
        ([COUNT, "-o", "pipeline.yaml", "--format", "csv"], 2, "is the pipeline file"),
        ([COUNT, "-o", "x.txt"], 2, "--format"),
        ([COUNT, "nowhere.yaml"], 2, "nowhere.yaml"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_message(
    lakes: Lakes, words: list[str], status: int, told: str
) -> None:
    done = photon("sql", *words)
    assert done.exit_code == status, done.output
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


NO_QUERIES = [
    "COPY joined TO 'x.csv'",
    "PREPARE s AS SELECT 1",
    "ATTACH ':memory:' AS other",
    "INSERT INTO joined SELECT * FROM joined",
    "DROP VIEW joined",
    "CREATE OR REPLACE TEMP VIEW joined AS SELECT 1",
    "SET TimeZone = 'Asia/Tokyo'",
]


@pytest.mark.parametrize("statement", NO_QUERIES)
def test_a_statement_that_is_no_query_is_refused(lakes: Lakes, statement: str) -> None:
    done = photon("sql", said=f"{statement};\n")
    assert done.exit_code == 2
    assert "photon sql takes queries" in done.stderr


def test_what_only_reads_is_taken(lakes: Lakes) -> None:
    statements = """
        EXPLAIN ANALYZE SELECT count(*) FROM joined;
        EXPLAIN (FORMAT json) SELECT 1;
        SUMMARIZE joined;
        DESCRIBE joined; SHOW TABLES; VALUES (1); (SELECT 1) UNION SELECT 2; -- all read
        WITH RECURSIVE n AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM n WHERE n < 3) FROM n;
        PIVOT joined ON value USING count(*);
    """
    done = photon("sql", said=statements.replace("; ", ";\n"))
    assert done.exit_code == 0, done.output


def test_a_lake_that_lacks_rows_of_a_release_is_named_with_the_remedy(own_lakes: Lakes) -> None:
    own_lakes.table("east").load().delete("_event_id = 'e0'")
    done = photon("sql", COUNT)
    assert done.exit_code == 3
    assert "datacenter east" in done.stderr


def test_a_data_file_that_is_cut_short_is_named_with_the_remedy(own_lakes: Lakes) -> None:
    for path in own_lakes.table("east").folder.glob("_event_date=*/*.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    done = photon("sql", COUNT)
    assert done.exit_code == 3
    assert "lakes/east/joined_events/" in done.stderr
    assert "is cut short: put" in done.stderr
    assert "Traceback" not in done.stderr


def test_before_the_first_release_both_commands_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_lakes(tmp_path / "lakes", tmp_path)
    monkeypatch.chdir(tmp_path)
    asked = photon("sql", COUNT)
    assert asked.exit_code == 3
    assert "photon join" in asked.stderr
    listed = photon("releases")
    assert listed.exit_code == 0
    assert "photon join" in listed.stdout


def test_releases_are_listed_with_their_rows_and_as_of_a_time(lakes: Lakes) -> None:
    lines = photon("releases").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["release 1", "release 2"]
    assert lines[0].endswith("4 rows")
    said = json.loads(photon("releases", "--last", "1", "--json").stdout)
    assert said["kept"] == 2
    assert [one["number"] for one in said["releases"]] == [2]
    assert said["releases"][0]["cut"][0] == {"datacenter": "east", "epoch": 1, "batch": 2}
    first = lakes.made[0].release.made_at.isoformat()
    assert photon("releases", "--as-of", first).stdout.startswith("release 1")


# -- the prompt


def test_a_script_on_standard_input_ends_at_the_first_error(lakes: Lakes) -> None:
    done = photon("sql", "--format", "csv", said=f"{COUNT};\nSELECT\n 1 AS one;\nSELECT nosuch;\n{COUNT};\n")
    assert done.exit_code == 2
    assert done.stdout == "n\n6\none\n1\n"
    assert "nosuch" in done.stderr


def test_what_comes_before_a_query_that_is_no_sql_is_answered(lakes: Lakes) -> None:
    done = photon("sql", "--format", "csv", said=f"{COUNT}; SELECT ';' AS one;\nSELEC 2;\n{COUNT};\n")
    assert done.exit_code == 2
    assert done.stdout == "n\n6\none\n;\n"
    assert "SELEC" in done.stderr


def test_a_query_is_no_pipeline_file() -> None:
    assert is_pipeline_file("a/b.yaml")
    assert not is_pipeline_file("SELECT * FROM 'b.yaml'")


def test_at_a_prompt_errors_and_ctrl_c_end_a_statement_and_not_the_prompt(lakes: Lakes) -> None:
    photon_of_python = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'photon'; from photon.cli.main import main; main()",
        "sql",
    ]
    terminal, end = os.openpty()
    running = subprocess.Popen(photon_of_python, stdin=end, stdout=end, stderr=end, start_new_session=True)
    os.close(end)
    said: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(terminal, 4096):
                said.append(piece)
        except OSError:
            return

    reading = threading.Thread(target=read)
    reading.start()

    def until(text: str, count: int = 1) -> None:
        deadline = time.monotonic() + 120
        while b"".join(said).decode().count(text) < count:
            assert time.monotonic() < deadline, b"".join(said).decode()
            time.sleep(0.02)

    def until_at_work(since_seconds: float) -> None:
        deadline = time.monotonic() + 120
        while psutil.Process(running.pid).cpu_times().user < since_seconds + AT_WORK_SECONDS:
            assert time.monotonic() < deadline, b"".join(said).decode()
            time.sleep(0.02)

    until("photon> ")
    os.write(terminal, b"help\n")
    until("DESCRIBE joined;")
    os.write(terminal, b"SELECT nosuch;\n")
    until("photon: Binder Error")
    before_seconds = psutil.Process(running.pid).cpu_times().user
    os.write(terminal, b"SELECT 'begun', count(*) FROM range(1000000000000) WHERE range % 7 = 3;\n")
    until_at_work(before_seconds)
    os.kill(running.pid, signal.SIGINT)
    until("photon: interrupted")
    os.write(terminal, b"SELECT 40 + 2 AS answer;\n")
    until("42 ")
    os.write(terminal, b"\\q\n")
    assert running.wait(60) == 0
    reading.join()
    os.close(terminal)


def test_both_commands_are_in_a_group_of_the_help() -> None:
    said = photon("--help").stdout
    (line,) = (line for line in said.splitlines() if line.startswith("read "))
    assert line.split()[1:3] == ["sql,", "releases"]
    assert isinstance(main, click.Group)


WIDE = 9007199254740993  # a float has no such number
SUM = f"sum({WIDE})"
NAMES_TWICE = {
    "SELECT 1 AS a, 2 AS A": [1, 2],
    "SELECT a.n, b.n FROM (SELECT 1 AS n) AS a, (SELECT 2 AS n) AS b": [1, 2],
    "SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS A": [1, 2, 3, 4],
    'SELECT 1 AS "q""x", 2 AS "Q""x", 3 AS "#1"': [1, 2, 3],
}


@pytest.mark.parametrize("query", NAMES_TWICE)
def test_columns_of_one_name_keep_their_own_values_in_each_format(
    lakes: Lakes, tmp_path: Path, query: str
) -> None:
    values = NAMES_TWICE[query]
    assert photon("sql", query, "-o", "x.parquet").exit_code == 0
    (row,) = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert list(row.values()) == values
    (row,) = json.loads(photon("sql", query, "--format", "json").stdout)
    assert list(row.values()) == values
    lines = photon("sql", query, "--format", "csv").stdout.splitlines()
    assert lines[1] == ",".join(map(str, values))
    shown = [line for line in photon("sql", query).stdout.splitlines() if line.startswith("│")]
    assert [int(cell) for cell in shown[-1].strip("│").split("│")] == values


@pytest.mark.parametrize(
    ("nested", "expected"),
    [
        (f"[{SUM}]", [WIDE]),
        (f"{{'HUGEINT': {SUM}, 'a b': 1}}", {"HUGEINT": WIDE, "a b": 1}),
        (f"MAP {{1: {SUM}}}", [(1, WIDE)]),
        (f"MAP {{{SUM}: [{{'x': {SUM}}}]}}", [(WIDE, [{"x": WIDE}])]),
        (f"array_value({SUM}, 1::HUGEINT)", [WIDE, 1]),
        (f"row({SUM}, 2)", {"element1": WIDE, "element2": 2}),
        (f"{{'k': {WIDE}::UHUGEINT}}", {"k": WIDE}),
        (f"union_value(h := {SUM})", {"element1": 0, "h": WIDE}),
    ],
)
def test_sums_stay_exact_at_every_depth(lakes: Lakes, tmp_path: Path, nested: str, expected: object) -> None:
    done = photon("sql", f"SELECT {nested} AS n, {nested} AS N", "-o", "x.parquet")
    assert done.exit_code == 0, done.output
    (row,) = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert list(row.values()) == [expected, expected]
    for form in ("csv", "json", "table"):
        assert str(WIDE) in photon("sql", f"SELECT {nested} AS n", "--format", form).stdout


@pytest.mark.parametrize(
    "query",
    [
        "EXPLAIN ANALYZE CREATE TABLE t (a INT)",
        "explain /* x */ analyze COPY (SELECT 1) TO 'x.csv'",
        "EXPLAIN DROP VIEW joined",
        "EXPLAIN (ANALYZE, FORMAT json) CREATE TEMP TABLE t AS SELECT 1",
        "EXPLAIN (FORMAT json) UPDATE joined SET _batch = 1",
        "CREATE TABLE t AS PIVOT joined ON _epoch USING count(*)",
        "EXPLAIN ANALYZE COPY (PIVOT joined ON _epoch USING count(*)) TO 'x.csv'",
    ],
)
def test_explain_takes_a_query_alone(lakes: Lakes, query: str) -> None:
    done = photon("sql", query)
    assert done.exit_code == 2, done.output
    assert "photon sql takes queries" in done.stderr


@pytest.mark.parametrize(
    "query",
    [
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE FROM joined",
        "EXPLAIN (FORMAT json) WITH a AS (SELECT 1) FROM a",
        "explain analyze /* of the table */ SELECT 'CREATE'",
        "/* why */ EXPLAIN -- it\n FROM joined",
        "EXPLAIN PIVOT joined ON _epoch USING count(*)",
    ],
)
def test_explain_of_a_query_is_answered(lakes: Lakes, query: str) -> None:
    assert photon("sql", query).exit_code == 0
