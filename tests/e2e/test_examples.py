"""The examples, joined as they stand there: what becomes of each record, and the exact rows."""

from __future__ import annotations

import importlib
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from examples.three_streams.make_logs import DATACENTERS, make_logs
from tests.documents import ROOT
from tests.e2e.photon_process import joined_rows, photon, photon_json

pytestmark = [pytest.mark.server, pytest.mark.slow]
Rows = dict[str, dict[str, Any]]


def join(name: str, tmp_path: Path) -> tuple[dict[str, int], Rows]:
    """Join a copy of an example; the records by what became of them, and the rows by their event's id."""
    folder = tmp_path / name
    shutil.copytree(ROOT / "examples" / name, folder, ignore=shutil.ignore_patterns("logs", "lake", "state"))
    importlib.import_module(f"examples.{name}.make_logs").make_logs(folder)
    report = photon_json("join", folder / "pipeline.yaml", "--complete", "--engine", "local")["here"]
    rows = joined_rows(folder / "pipeline.yaml").to_pylist()
    kept = ("foreign", "joined", "duplicates", "filtered", "skipped", "unjoinable", "dead_letters")
    by_id = {row["_event_id"]: {k: v for k, v in row.items() if not k.startswith("_")} for row in rows}
    assert len(by_id) == len(rows) == report["joined"]
    return {name: report[name] for name in kept if report[name]}, by_id


def test_csv_responses_join_their_requests_by_an_id_of_two_columns(tmp_path: Path) -> None:
    counts, rows = join("requests", tmp_path)
    assert counts == {"foreign": 42, "joined": 40, "duplicates": 1, "unjoinable": 1}
    assert {row["request_id"] for row in rows.values()} == {f"r{number:03}" for number in range(40)}
    (seventh,) = (row for row in rows.values() if row["request_id"] == "r006")
    assert seventh == {
        "host": "web-0",
        "number": 3,
        "request_id": "r006",
        "at": "1767607201540",
        "status": 200,
        "seconds": 0.04,
        "primary_request_id": "r006",
        "primary_at": "1767607201500",
        "primary_method": "GET",
        "primary_path": "/item/6",
    }


def test_compressed_tsv_conversions_join_unless_the_arrow_adapter_filters_them(tmp_path: Path) -> None:
    counts, rows = join("conversions", tmp_path)
    assert counts == {"foreign": 30, "joined": 24, "filtered": 6}
    assert set(rows) == {f"c{number:03}" for number in range(0, 60, 2) if number % 10}
    assert rows["c002"] == {"campaign": "campaign-2", "hours_after": 1.0, "profit": 1.25}
    assert Counter(row["campaign"] for row in rows.values()) == {f"campaign-{n}": 8 for n in range(3)}


def test_responses_of_lines_of_another_kind_join_their_requests_by_a_format_of_ones_own(
    tmp_path: Path,
) -> None:
    counts, rows = join("spans", tmp_path)
    assert counts == {"foreign": 21, "joined": 20, "dead_letters": 1}
    assert set(rows) == {f"s{number}" for number in range(20)}
    assert rows["s5"] == {
        "span": "s5",
        "time": "2026-01-05T10:05:01Z",
        "trace": "t5",
        "status": 503,
        "primary_time": "2026-01-05T10:05:00Z",
        "primary_trace": "t5",
        "primary_url": '/search?q="5 a"',
    }


def test_json_payments_join_their_orders_by_a_function_on_one_pair(tmp_path: Path) -> None:
    counts, rows = join("orders", tmp_path)
    assert counts == {"foreign": 31, "joined": 27, "filtered": 3, "dead_letters": 1}
    assert set(rows) == {f"p{number:03}" for number in range(30) if number % 10}
    assert rows["p005"] == {"order_id": "o005", "cents": 600, "items": 4, "country": "us"}


def test_three_streams_join_by_a_chain_of_two_pipelines(tmp_path: Path) -> None:
    folder = tmp_path / "three_streams"
    made = shutil.ignore_patterns("logs", "lake", "state")
    shutil.copytree(ROOT / "examples" / "three_streams", folder, ignore=made)
    make_logs(folder)
    first, second = folder / "clicks.yaml", folder / "conversions.yaml"
    photon("join", first, "--complete", "--engine", "local")
    for name in DATACENTERS:
        photon("follow", first, "--once", "--to", folder / "logs" / name / "joined_clicks")
    reports = photon_json("join", second, "--complete", "--engine", "local")
    for report in reports.values():
        assert (report["foreign"], report["unjoinable"], report["pending"]) == (23, 2, 0)
    rows = {row["_event_id"]: row for row in joined_rows(second).to_pylist()}
    assert set(rows) == {f"c{number:03}" for number in range(0, 40, 2)}
    assert (
        rows["c012"].items()
        >= {
            "click_id": "k012",
            "cents": 1300,
            "position": 3,
            "query_id": "q012",
            "query": "shoes of size 12",
        }.items()
    )
    (note,) = photon_json("verify", second)["east"]["notes"]
    assert note.startswith("its fed log has 40 rows, compared with release ")
    told = photon_json("trace", second, "c012")
    assert [before["event_id"] for before in told["before"]] == ["k012"]
    assert told["before"][0]["verdict"].startswith("Joined by datacenter ")
    first.rename(folder / "elsewhere.yaml")
    said = photon("trace", second, "c012").stdout
    assert f"its primary event k012 is an event of pipeline clicks: photon trace {first} k012" in said
