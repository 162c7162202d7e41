"""The traffic generator: its promises, checked against the files by a reader that knows nothing of it."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from examples.demo.live_traffic import LiveTraffic
from examples.demo.stories import ILLS
from examples.demo.traffic import Traffic
from photon.process.clock import MICROSECONDS
from tests.support.manual_clock import ManualClock

SEED = 20260105
FORMATS = [("jsonl", "jsonl"), ("csv", "csv"), ("tsv", "jsonl"), ("jsonl", "tsv")]
LINE_LIMIT_BYTES = 2**20


def small(**settings: object) -> Traffic:
    """A few seconds of traffic, every ill three times unless told otherwise."""
    defaults: dict[str, object] = {
        "seed": SEED, "primary_per_second": 40.0, "foreign_per_second": 10.0, "duration_seconds": 20.0,
        "ills": {ill.name: 3 for ill in ILLS},
    }  # fmt: skip
    return Traffic(**(defaults | settings))  # type: ignore[arg-type]


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def read_record(line: bytes, columns: list[str] | None, format: str) -> dict[str, str] | None:
    """A line as a plain reader understands it; None if it is malformed."""
    if len(line) > LINE_LIMIT_BYTES:
        return None
    try:
        text = line.decode()
        if format == "jsonl":
            return {name: str(value) for name, value in json.loads(text).items()}
    except ValueError:
        return None
    assert columns is not None
    values = text.split("\t") if format == "tsv" else next(csv.reader([text]))
    return dict(zip(columns, values, strict=True)) if len(values) == len(columns) else None


def read_side(folder: Path, format: str, id_column: str) -> tuple[list[dict[str, str]], int]:
    """All good records of the files of one side, and how many lines are malformed."""
    good, bad = [], 0
    for path in sorted(folder.iterdir()):
        lines = path.read_bytes().removesuffix(b"\n").split(b"\n")
        delimiter = "\t" if format == "tsv" else ","
        columns = None if format == "jsonl" else lines.pop(0).decode().split(delimiter)
        for line in lines:
            record = read_record(line, columns, format)
            well = record and record.get(id_column) and "yesterday" not in record["time"]
            if record and well:
                good.append(record)
            bad += not well
    return good, bad


def first_queries(queries: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    """Return the earliest query of each id (all texts of times are equally long)."""
    first: dict[str, dict[str, str]] = {}
    for query in queries:
        known = first.setdefault(query["query_id"], query)
        if query["time"] < known["time"]:
            first[query["query_id"]] = query
    return first


def classify(folder: Path, traffic: Traffic) -> tuple[Counter[str], dict[str, tuple[str, str]]]:
    """Counts of one datacenter's folder by class, and the joined values, by brute force."""
    queries, bad_queries = read_side(folder / "queries", traffic.primary_format, "query_id")
    clicks, bad_clicks = read_side(folder / "clicks", traffic.foreign_format, "click_id")
    first = first_queries(queries)
    counts = Counter(primary=len(queries), primary_dead_letters=bad_queries)
    counts.update(foreign=len(clicks) + bad_clicks, dead_letters=bad_clicks)
    joined: dict[str, tuple[str, str]] = {}
    for click in clicks:
        query = first.get(click.get("query_id", ""))
        if not click.get("query_id"):
            counts["skipped"] += 1
        elif query is None:
            counts["unjoinable"] += 1
        elif click["click_id"] in joined:
            counts["duplicates"] += 1
        else:
            joined[click["click_id"]] = (query["query_id"], query["text"])
    return counts, joined


def assert_files_hold_what_is_expected(folder: Path, traffic: Traffic) -> None:
    expected = traffic.expected_outcomes()
    values = {click: (query.id, query.text) for click, query in expected.joined.items()}
    for name in traffic.datacenters:
        counts, joined = classify(folder / "logs" / name, traffic)
        assert joined == values
        assert len(joined) == expected.joined_total
        for key in ("foreign", "unjoinable", "dead_letters", "skipped", "duplicates", "primary"):
            assert (key, counts[key]) == (key, getattr(expected, key))
        assert counts["primary_dead_letters"] == expected.primary_dead_letters


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    small().write_all(tmp_path / "a")
    small().write_all(tmp_path / "b")
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


@pytest.mark.parametrize("formats", FORMATS, ids="+".join)
def test_brute_force_over_the_files_finds_what_is_expected(formats: tuple[str, str], tmp_path: Path) -> None:
    traffic = small(primary_format=formats[0], foreign_format=formats[1])
    traffic.write_all(tmp_path)
    assert_files_hold_what_is_expected(tmp_path, traffic)


@pytest.mark.parametrize("ill", [ill.name for ill in ILLS])
def test_each_ill_alone_comes_to_what_it_says(ill: str, tmp_path: Path) -> None:
    traffic = small(ills={ill: 5})
    traffic.write_all(tmp_path)
    assert_files_hold_what_is_expected(tmp_path, traffic)


def test_three_datacenters_hold_the_same_records_cut_differently(tmp_path: Path) -> None:
    traffic = small(datacenters=("east", "north", "west"))
    traffic.write_all(tmp_path)
    assert_files_hold_what_is_expected(tmp_path, traffic)
    lines = [read_lines(tmp_path / "logs" / name) for name in traffic.datacenters]
    assert sorted(lines[0]) == sorted(lines[1]) == sorted(lines[2])
    assert len({tuple(one) for one in lines}) == 3


def read_lines(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.rglob("*.jsonl")) for line in path.read_bytes().splitlines()]


def where(folder: Path, text: str) -> list[tuple[str, int]]:
    """Files below `folder` and line numbers that hold a text."""
    return [
        (path.name, number)
        for path in sorted(folder.rglob("*.jsonl"))
        for number, line in enumerate(path.read_bytes().splitlines())
        if text.encode() in line
    ]


def test_a_click_logged_twice_in_one_file_is_in_one_stream_and_else_in_two(tmp_path: Path) -> None:
    traffic = small(ills={"click_twice_same_file": 1, "click_twice_other_file": 1})
    traffic.write_all(tmp_path)
    clicks = tmp_path / "logs" / "east" / "clicks"
    same = where(clicks, f"c{SEED}-click_twice_same_file-0000")
    other = where(clicks, f"c{SEED}-click_twice_other_file-0000")
    assert (len(same), len({name for name, _ in same})) == (2, 1)
    assert (len(other), len({name for name, _ in other})) == (2, 2)


def test_a_click_that_is_logged_twice_says_the_same_twice_also_live(tmp_path: Path) -> None:
    traffic = small(ills={"click_twice_same_file": 2, "click_twice_other_file": 2})
    traffic.write_all(tmp_path / "at once")
    LiveTraffic(traffic, tmp_path / "live", ManualClock(1_800_000_000 * MICROSECONDS)).run()
    for folder in (tmp_path / "at once", tmp_path / "live"):
        clicks, _ = read_side(folder / "logs" / "east" / "clicks", "jsonl", "click_id")
        twice = [one for one in clicks if "twice" in one["click_id"]]
        assert len(twice) == 8
        assert len({tuple(one.items()) for one in twice}) == 4


def test_logs_that_are_there_are_not_appended_to(tmp_path: Path) -> None:
    small(ills={}).write_all(tmp_path)
    before = digests(tmp_path)
    with pytest.raises(FileExistsError):
        small(ills={}).write_all(tmp_path)
    assert digests(tmp_path) == before


def test_an_unknown_ill_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no ill is called 'plague'.*click_before_query"):
        small(ills={"plague": 1})


def test_live_traffic_writes_all_of_it_and_says_when(tmp_path: Path) -> None:
    traffic = small(late_seconds=5.0)
    start_us = 1_800_000_000 * MICROSECONDS
    run = LiveTraffic(traffic, tmp_path, ManualClock(start_us)).run()
    assert_files_hold_what_is_expected(tmp_path, traffic)
    assert run.lines == sum(1 for _ in traffic.deliveries())
    assert run.most_behind_seconds <= 0.011
    clicks, _ = read_side(tmp_path / "logs" / "east" / "clicks", "jsonl", "click_id")
    assert all(start_us <= int(click["logged_at"]) <= start_us + 60 * MICROSECONDS for click in clicks)


def test_logs_of_whole_files_have_the_same_lines_as_logs_that_grow(tmp_path: Path) -> None:
    traffic = Traffic(1, ("one",), duration_seconds=2)
    for name, seconds in (("grown", None), ("whole", 0.1)):
        replace(traffic, whole_file_seconds=seconds).write_all(tmp_path / name)
    lines = {
        name: sorted(b"".join(path.read_bytes() for path in (tmp_path / name).rglob("*.jsonl")).splitlines())
        for name in ("grown", "whole")
    }
    assert lines["whole"] == lines["grown"] != []


def test_calm_traffic_logs_no_new_click_but_the_queries_of_those_it_has_logged(tmp_path: Path) -> None:
    clock = ManualClock(0)
    traffic = small(ills={"query_minutes_late": 3}, late_seconds=5.0)
    LiveTraffic(traffic, tmp_path, clock).run(is_calm=lambda: clock.now_us() > 8 * MICROSECONDS)
    for name in traffic.datacenters:
        clicks, _ = read_side(tmp_path / "logs" / name / "clicks", "jsonl", "click_id")
        queries, _ = read_side(tmp_path / "logs" / name / "queries", "jsonl", "query_id")
        assert clicks
        assert max(int(click["logged_at"]) for click in clicks) <= 8.1 * MICROSECONDS
        assert {click["query_id"] for click in clicks} <= {query["query_id"] for query in queries}
        assert max(int(query["logged_at"]) for query in queries) > 15 * MICROSECONDS


def test_a_row_joined_twice_is_a_disagreement() -> None:
    counts = right_counts()
    counts["west"]["joined"] += 1
    counts["west"]["joined_elsewhere"] -= 1
    assert any("joined by all" in text for text in small().expected_outcomes().disagreements(counts))


def test_a_lost_click_is_a_disagreement() -> None:
    counts = right_counts()
    counts["east"]["joined"] -= 1
    assert any(
        "east: joined + joined_elsewhere" in text
        for text in small().expected_outcomes().disagreements(counts)
    )


def right_counts() -> dict[str, dict[str, int]]:
    """Return the counts that two datacenters print for `small()`: east joins all, west nothing."""
    expected = small().expected_outcomes()
    same = {
        name: getattr(expected, name) for name in ("foreign", "unjoinable", "dead_letters", "skipped")
    } | {"pending": 0}
    records = expected.joined_total + expected.duplicates
    east = {"joined": expected.joined_total, "joined_elsewhere": 0, "duplicates": expected.duplicates}
    return {"east": same | east, "west": same | {"joined": 0, "joined_elsewhere": records, "duplicates": 0}}
