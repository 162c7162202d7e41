"""The page of a comparison of joins, its numbers and its plots; and that notes by hand outlive it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.join_measurement import curve_points
from bench.join_page import FLINK, SCENARIOS, TITLES, page_of, write_page
from bench.join_plot import cost_curve, cpu_us, throughput


def run_of(name: str, scenario: str = "plain", seconds: float = 2.0, lost: int = 0) -> dict[str, Any]:
    found = {"rows": 300, "lost": lost, "doubled": 0, "wrong": 0}
    return {
        "contender": name, "scenario": scenario, "round": 1, "seconds": seconds, "cpu_seconds": None,
        "events_per_second": 1_000.0, "found": found, "load_average": 0.5,
    }  # fmt: skip


def found_of(**more: Any) -> dict[str, Any]:
    return {
        "measured_at": "2026-01-05 10:00 UTC", "took_seconds": 60.0, "bytes": 10**6,
        "sizes": {"primary": 2_000, "foreign": 300, "late_primary": 20, "late_foreign": 3},
        "machine": {"processor": "one", "cores": 2, "memory_gib": 4.0, "system": "a system"},
        "versions": {"pyspark": "4"}, "settings": {"photon": {"command": "photon join"}},
        "runs": [run_of("photon"), run_of("stream_memory"), run_of("photon", seconds=3.0, lost=4)],
        "ratios": {"photon": {"faster_stream": 0.8}, "stream_memory": {"faster_stream": 1.0}},
        "left_out": {"plain batch 1": "it died", "kill photon 1": "it died"},
        "hurts": [run_of("stream_memory", "late", 5.0, lost=1_234)],
        "curves": [],
        **more,
    }  # fmt: skip


def test_the_page_shows_every_round_with_its_faults() -> None:
    page = page_of(found_of(), "the command")
    assert (
        "| Photon, one datacenter | 2.0 and 3.0 | ? and ? | 0.5 and 0.5 | 1,000 | 0.80 | none and 4, 0, 0 |"
        in page
    )
    assert "Left out: plain batch 1, kill photon 1 (it died)." in page
    assert f"| {SCENARIOS['late']} | {TITLES['stream_memory']} | 5.0 | 1,234, 0, 0 |" in page


def test_the_page_says_why_flink_loses_nothing_where_flink_took_part() -> None:
    assert FLINK not in page_of(found_of(), "the command")
    flink = {**found_of(), "runs": [run_of("flink_heap")], "ratios": {"flink_heap": {}}}
    assert FLINK in page_of(flink, "the command")


def curves_of() -> list[dict[str, Any]]:
    """A point a second, in the order in which they are measured."""
    points = enumerate(curve_points(20_000))
    return [{"point": vars(point), "run": run_of("photon", seconds=1.0 + n)} for n, point in points]


def test_what_was_written_by_hand_outlives_the_next_page(tmp_path: Path) -> None:
    (tmp_path / "page-notes.md").write_text("a note")
    for command in ("one", "another"):
        write_page(tmp_path / "page.md", found_of(), command)
    assert (tmp_path / "page-notes.md").read_text() == "a note"
    assert "(page-notes.md)" in (tmp_path / "page.md").read_text()


def test_a_page_links_only_what_is_there(tmp_path: Path) -> None:
    write_page(tmp_path / "page.md", found_of(), "the command")
    text = (tmp_path / "page.md").read_text()
    linked = [name for name in ("throughput", "curves", "live", "notes") if f"(page-{name}." in text]
    assert linked == ["throughput"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "page-throughput.svg", "page.json", "page.md",
    ]  # fmt: skip


def test_the_page_has_the_plots_and_numbers_of_its_run(tmp_path: Path) -> None:
    found = found_of(curves=curves_of())
    write_page(tmp_path / "page.md", found, "the command")
    assert json.loads((tmp_path / "page.json").read_text())["runs"] == found["runs"]
    for plot in ("page-throughput.svg", "page-curves.svg"):
        assert "<svg" in (tmp_path / plot).read_text()
        assert f"({plot})" in (tmp_path / "page.md").read_text()
    assert "| files of each log | 200 | 5.0 | ? | none |" in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("axis", "values"),
    [("history", [1_000, 20_000, 100_000]), ("files", [20, 200, 1_000]), ("cores", [1, 2])],
)
def test_a_curve_has_the_points_that_differ_by_its_axis_alone(axis: str, values: list[int]) -> None:
    assert [value for value, _ in cost_curve(found_of(curves=curves_of()), axis)] == values


def test_throughput_is_the_mean_of_the_rounds() -> None:
    assert throughput(found_of()) == {"photon": 1_000.0, "stream_memory": 1_000.0}


def test_cpu_of_a_run_is_said_for_each_primary_event() -> None:
    assert cpu_us(found_of(), run_of("photon") | {"cpu_seconds": 0.002}) == pytest.approx(100)
    assert cpu_us(found_of(), run_of("photon")) is None
