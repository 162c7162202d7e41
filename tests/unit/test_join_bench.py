"""The comparison of joins: that the logs and their truth agree, and that no fault of a row goes unseen."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from bench.flink_environment import FlinkMissing, flink
from bench.join_contenders import contender
from bench.join_flink import STATES, WATERMARK_HOURS, statements
from bench.join_logs import LATE_MS, PREFIX, SPAN_MS, START_MS, JoinLogs, place
from bench.join_measurement import (
    CONTENDERS,
    HURTS,
    KILL,
    Bench,
    Run,
    Sizes,
    curve_points,
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


@pytest.mark.parametrize("name", ["queries", "clicks"])
def test_a_line_has_20_columns_and_about_500_bytes(name: str, folder: Path) -> None:
    sizes = [len(line) for file in folder.glob(f"{name}-*") for line in file.read_text().splitlines()]
    assert {len(record) for record in read(folder, name)} == {20}
    assert 450 < sum(sizes) / len(sizes) < 550


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


def test_a_click_comes_after_its_query_and_at_most_five_minutes_later() -> None:
    rows = LOGS.expected().to_pylist()
    assert all(0 < row["time"] - row[f"{PREFIX}time"] <= 300_000 for row in rows)


def test_files_follow_one_another_in_event_time(folder: Path) -> None:
    times = [query["time"] for query in read(folder, "queries")]
    assert times == sorted(times)


def test_late_queries_are_in_the_last_file_and_an_hour_late_at_least(tmp_path: Path) -> None:
    logs = JoinLogs(2_000, 300, files=5, some_late=True)
    logs.write(tmp_path / "generated")
    *others, last = sorted((tmp_path / "generated").glob("queries-*"))
    late = [json.loads(line) for line in last.read_text().splitlines()]
    assert len(others) == 5
    assert late
    assert all(query["time"] < START_MS + SPAN_MS - LATE_MS for query in late)
    assert len(read(tmp_path / "generated", "queries")) == logs.primary


def test_an_idle_file_has_some_of_the_first_queries_and_no_later_ones(tmp_path: Path) -> None:
    logs = JoinLogs(2_000, 300, files=5, one_idle=True)
    logs.write(tmp_path / "generated")
    idle, *others = sorted((tmp_path / "generated").glob("queries-*"))
    lines = idle.read_text().splitlines()
    assert len(others) == 5
    assert len(lines) == 10
    assert all(json.loads(line)["time"] < START_MS + SPAN_MS // 10 for line in lines)
    assert len({query["query_id"] for query in read(tmp_path / "generated", "queries")}) == logs.primary


def test_logs_of_other_seeds_have_other_ids() -> None:
    others = JoinLogs(2_000, 300, files=5, seed=2).expected()
    for name in ("click_id", "query_id"):
        assert not set(others[name].to_pylist()) & set(LOGS.expected()[name].to_pylist())


def test_shuffled_files_hold_the_same_in_another_order(folder: Path, tmp_path: Path) -> None:
    place(folder, tmp_path / "in_order")
    place(folder, tmp_path / "shuffled", shuffle_seed=1)
    for name in ("queries", "clicks"):
        in_order, shuffled = (read(tmp_path / one, name) for one in ("in_order", "shuffled"))
        assert in_order != shuffled
        assert sorted(in_order, key=str) == sorted(shuffled, key=str)


def test_a_file_of_a_later_name_is_younger(folder: Path, tmp_path: Path) -> None:
    place(folder, tmp_path / "placed", shuffle_seed=1)
    ages = [file.stat().st_mtime for file in sorted((tmp_path / "placed").glob("clicks-*"))]
    assert ages == sorted(set(ages))


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


def test_without_one_of_the_columns_every_row_is_wrong() -> None:
    assert compare(EXPECTED.drop_columns(["page"]), EXPECTED) == Found(300, lost=0, doubled=0, wrong=300)


def test_without_a_table_all_is_lost(tmp_path: Path) -> None:
    rows = read_rows([tmp_path / "none"], EXPECTED.column_names)
    assert compare(rows, EXPECTED) == Found(0, lost=300, doubled=0, wrong=0)


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


def test_a_commit_without_new_rows_does_not_count(tmp_path: Path) -> None:
    watch = CommitWatch([tmp_path])
    for rows in (EXPECTED.slice(0, 100), EXPECTED.slice(100)):
        write_deltalake(tmp_path, rows, mode="append")
    watch.look()
    seen = (watch.rows, watch.last_seconds)
    DeltaTable(tmp_path).optimize.compact()
    watch.look()
    assert (watch.rows, watch.last_seconds) == seen


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


def test_the_files_of_a_delta_table_are_none_of_flinks(tmp_path: Path) -> None:
    write_deltalake(tmp_path, EXPECTED)
    watch = CommitWatch([tmp_path])
    watch.look()
    assert watch.rows == 300


# -- Flink


def test_flink_reads_every_column_of_both_logs_and_writes_it() -> None:
    queries, clicks, joined, insert = statements(Path("/logs"), Path("/table"))
    for name in EXPECTED.column_names:
        kind = "BIGINT" if pa.types.is_integer(EXPECTED.schema.field(name).type) else "STRING"
        assert f"`{name}` {kind}" in joined
        log = queries if name.startswith(PREFIX) else clicks
        assert f"`{name.removeprefix(PREFIX)}` {kind}" in log
    assert insert.startswith("INSERT INTO joined SELECT ")


def test_flinks_watermark_waits_for_longer_than_the_logs_span() -> None:
    assert WATERMARK_HOURS * 3_600_000 > SPAN_MS


def test_a_flink_that_cannot_be_had_is_left_out_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise FlinkMissing("Flink cannot be had: no network")

    monkeypatch.setattr("bench.join_contenders.flink_python", missing)
    found = measure_joins(tmp_path, Sizes(600, 200, 600, 200, rounds=1), ["flink_heap"], print)
    assert found["left_out"] == {"plain flink_heap 1": "Flink cannot be had: no network"}


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


def test_what_a_second_round_cannot_replace_is_measured_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []

    def run(bench: Bench, name: str, turn: int, kill_after_seconds: float | None = None) -> Run:
        what = KILL if kill_after_seconds else bench.scenario.name
        began.append(f"{what} {turn}")
        return Run(name, what, turn, 2.0, 1.0, 400.0, Found(200, 0, 0, 0), 0.5)

    monkeypatch.setattr(Bench, "run", run)
    measure_joins(tmp_path, Sizes(600, 200, 600, 200, curves=True), CONTENDERS, print)
    order = list(dict.fromkeys(began))
    curves = [f"{point.name} 1" for point in curve_points(600)]
    hurts = [f"{scenario.name} 1" for scenario in HURTS]
    assert order == ["plain 1", *hurts, *curves, "plain 2", f"{KILL} 1"]
    assert began.count("plain 2") == len(CONTENDERS)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", [*PEERS, *STATES])
def test_a_peer_joins_every_click_once(name: str, tmp_path: Path) -> None:
    if name in STATES and not flink().is_there():
        pytest.skip("Flink is not there: make flink")
    run = Bench(tmp_path, JoinLogs(600, 200, files=2), progress=print).run(name, 1)
    assert run.found == Found(rows=200, lost=0, doubled=0, wrong=0)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.server
def test_photon_loses_and_doubles_nothing_whatever_happens(tmp_path: Path) -> None:
    found = measure_joins(tmp_path, Sizes(600, 200, 600, 200, rounds=1), ["photon", "photon_racing"], print)
    runs = [*found["runs"], *found["hurts"]]
    assert [run["scenario"] for run in runs] == ["plain", "plain", "late", "out_of_order", "idle", KILL]
    assert all(Found(**run["found"]).is_right for run in runs)
