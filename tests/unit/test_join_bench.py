"""The comparison of joins: that the logs and their truth agree, and that no fault of a row goes unseen."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from bench.join_contenders import contender
from bench.join_flink import STATES
from bench.join_logs import PREFIX, JoinLogs
from bench.join_measurement import (
    CONTENDERS,
    HURTS,
    KILL,
    Sizes,
    measure_joins,
    ratios,
)
from bench.join_page import SCENARIOS, TITLES
from bench.join_peers import PEERS
from bench.join_rows import CommitWatch, Found, compare, read_rows

LOGS = JoinLogs(primary=2_000, foreign=300, files=5)
Records = list[dict[str, Any]]


def read(folder: Path, name: str) -> Records:
    files = sorted(folder.glob(f"{name}-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs") / "generated"
    LOGS.write(folder)
    return folder


# -- the logs


def test_the_truth_is_the_join_of_what_the_files_say(folder: Path) -> None:
    queries = {query["query_id"]: query for query in read(folder, "queries")}
    joined = {}
    for click in read(folder, "clicks"):
        query = queries[click["query_id"]]
        joined[click["click_id"]] = click | {PREFIX + name: value for name, value in query.items()}
    assert len(queries) == LOGS.primary
    assert {row["click_id"]: row for row in LOGS.expected().to_pylist()} == joined


def test_one_click_in_100_is_logged_twice(folder: Path) -> None:
    logged = Counter(click["click_id"] for click in read(folder, "clicks"))
    assert Counter(logged.values()) == {1: LOGS.foreign - 3, 2: 3}
    assert LOGS.records == logged.total()


# -- the rows


EXPECTED = LOGS.expected()


def test_the_right_rows_in_any_order_are_right() -> None:
    assert compare(EXPECTED.sort_by("session"), EXPECTED) == Found(300, 0, 0, 0)


def test_a_row_that_is_not_there_is_lost() -> None:
    assert compare(EXPECTED.slice(1), EXPECTED) == Found(299, lost=1, doubled=0, wrong=0)


def test_a_row_that_is_there_twice_is_doubled() -> None:
    rows = pa.concat_tables([EXPECTED, EXPECTED.slice(7, 1)])
    assert compare(rows, EXPECTED) == Found(301, lost=0, doubled=1, wrong=0)


@pytest.mark.parametrize("column", ["dwell_ms", "note", f"{PREFIX}latency_us", f"{PREFIX}text"])
def test_a_row_with_one_value_of_another_is_wrong(column: str) -> None:
    values = EXPECTED[column].to_pylist()
    values[3] = None
    index = EXPECTED.column_names.index(column)
    rows = EXPECTED.set_column(index, column, pa.array(values, EXPECTED[column].type))
    assert compare(rows, EXPECTED) == Found(300, lost=0, doubled=0, wrong=1)


def test_a_row_of_no_event_is_wrong() -> None:
    rows = pa.concat_tables([EXPECTED, JoinLogs(2_000, 1, seed=2).expected()])
    assert compare(rows, EXPECTED) == Found(301, lost=0, doubled=0, wrong=1)


def test_the_rows_of_all_tables_count_together(tmp_path: Path) -> None:
    tables = [tmp_path / "east", tmp_path / "west"]
    for table, rows in zip(tables, (EXPECTED.slice(0, 100), EXPECTED.slice(100)), strict=True):
        write_deltalake(table, rows)
    assert compare(read_rows(tables, EXPECTED.column_names), EXPECTED).is_right


def test_the_watch_counts_rows_as_they_are_committed(tmp_path: Path) -> None:
    watch = CommitWatch([tmp_path / "table"])
    counts = []
    for rows in (EXPECTED.slice(0, 100), EXPECTED.slice(100)):
        write_deltalake(tmp_path / "table", rows, mode="append")
        watch.look()
        counts.append(watch.rows)
    assert counts == [100, 300]


def test_the_watch_sees_a_file_of_flink_once_it_has_its_name(tmp_path: Path) -> None:
    watch = CommitWatch([tmp_path])
    hidden = tmp_path / ".part-1-0-0.inprogress.2"
    pq.write_table(EXPECTED, hidden)
    watch.look()
    before = watch.rows
    hidden.rename(tmp_path / "part-1-0-0")
    watch.look()
    assert (before, watch.rows) == (0, 300)
    assert compare(read_rows([tmp_path], EXPECTED.column_names), EXPECTED).is_right


# -- the figures


def test_a_ratio_says_how_many_times_as_fast_a_join_is() -> None:
    found = ratios({"photon": 10.0, "stream_memory": 30.0, "stream_rocksdb": 60.0})
    assert found["photon"] == {"stream_memory": 3.0, "stream_rocksdb": 6.0, "faster_stream": 3.0}
    assert found["stream_rocksdb"]["faster_stream"] == 0.5


def test_every_join_and_scenario_has_its_words_and_every_peer_its_join(tmp_path: Path) -> None:
    assert set(TITLES) == set(CONTENDERS)
    assert set(SCENARIOS) == {KILL, *(scenario.name for scenario in HURTS)}
    peers = {name for name in CONTENDERS if not name.startswith("photon")}
    assert peers == {*PEERS, *STATES}
    assert all(contender(name, tmp_path, 4).settings() for name in CONTENDERS)


def test_a_run_that_would_begin_too_late_is_left_out_and_named(tmp_path: Path) -> None:
    sizes = Sizes(600, 200, 600, 200, rounds=1, minutes=-1)
    found = measure_joins(tmp_path, sizes, ["photon", "batch"], print)
    assert found["runs"] == found["hurts"] == []
    assert list(found["left_out"]) == ["plain photon 1", "plain batch 1"]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.server
def test_photon_loses_and_doubles_nothing_whatever_happens(tmp_path: Path) -> None:
    found = measure_joins(tmp_path, Sizes(600, 200, 600, 200, rounds=1), ["photon", "photon_racing"], print)
    runs = [*found["runs"], *found["hurts"]]
    assert [run["scenario"] for run in runs] == ["plain", "plain", "late", "out_of_order", "idle", KILL]
    assert all(Found(**run["found"]).is_right for run in runs)
