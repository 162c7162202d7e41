"""Pages that repeat figures and settings of elsewhere say the same as these."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from bench.figures import FIGURES, page_of
from tests.documents import ROOT
from tests.unit.test_docs import DOCUMENTED

BENCHMARKS = json.loads((ROOT / "docs" / "benchmarks.json").read_text())
PAPER = json.loads((ROOT / "docs" / "figures.json").read_text())
CONTENDERS = {
    "Photon, one datacenter": "photon",
    "Photon, two datacenters racing": "photon_racing",
    "Spark stream-stream join, state in memory": "stream_memory",
    "Spark stream-stream join, state in RocksDB": "stream_rocksdb",
    "Spark batch join": "batch",
    "Flink SQL interval join, state on the heap": "flink_heap",
    "Flink SQL interval join, state in RocksDB": "flink_rocksdb",
}


def rows_of_the_comparison() -> dict[str, list[str]]:
    text = (ROOT / "docs" / "comparison.md").read_text().partition("## Figures")[2]
    rows = re.findall(r"^\| ([A-Z].+?) \| (.+) \|$", text, flags=re.MULTILINE)
    return {name: [cell.strip() for cell in re.split(r"\|", cells)] for name, cells in rows}


def runs(part: str, contender: str, scenario: str) -> list[Mapping[str, Any]]:
    return [run for run in BENCHMARKS[part] if run["contender"] == contender and run["scenario"] == scenario]


@pytest.mark.parametrize(("name", "contender"), CONTENDERS.items())
def test_the_comparison_has_the_figures_of_the_benchmark(name: str, contender: str) -> None:
    plain = runs("runs", contender, "plain")
    expected = [" and ".join(f"{run[key]:.1f}" for run in plain) for key in ("seconds", "cpu_seconds")]
    for scenario in ("late", "out_of_order"):
        expected.append(
            " and ".join(f"{run['found']['lost']:,}" for run in runs("hurts", contender, scenario))
        )
    assert rows_of_the_comparison()[name] == expected


def test_the_comparison_leaves_out_no_join_and_no_row_was_doubled_or_wrong() -> None:
    assert set(rows_of_the_comparison()) == set(CONTENDERS)
    found = [run["found"] for run in BENCHMARKS["runs"] + BENCHMARKS["hurts"]]
    assert {run["doubled"] + run["wrong"] for run in found} == {0}


def test_the_page_on_tuning_names_settings_that_there_are() -> None:
    text = (ROOT / "docs" / "tuning.md").read_text()
    named = {key for key in re.findall(r"`([a-z_]+\.[a-z_.]+)`", text) if not key.startswith("spark.driver")}
    assert len(named) > 10
    assert sorted(named - set(DOCUMENTED)) == []


def test_the_page_of_the_papers_figures_has_the_numbers_of_its_json() -> None:
    assert (ROOT / "docs" / "figures.md").read_text() == page_of(PAPER)


def test_the_page_of_the_papers_figures_shows_a_picture_of_each() -> None:
    shown = re.findall(r"\(figures-(\w+)\.svg\)", (ROOT / "docs" / "figures.md").read_text())
    assert sorted(shown) == sorted(FIGURES)
    assert all((ROOT / "docs" / f"figures-{name}.svg").is_file() for name in shown)


def test_photon_lost_and_doubled_nothing_in_the_papers_figures() -> None:
    runs = [PAPER["outage"], PAPER["peers"]["photon"], {**PAPER["delay"], "lost": PAPER["delay"]["missing"]}]
    assert [(run["lost"], run["joined_twice"]) for run in runs] == [(0, 0)] * 3
