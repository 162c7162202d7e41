"""Pages that repeat figures and settings of elsewhere say the same as these."""

from __future__ import annotations

import json
import re

from bench.figures import FIGURES, page_of
from tests.documents import ROOT
from tests.unit.test_docs import DOCUMENTED

BENCHMARKS = json.loads((ROOT / "docs" / "benchmarks.json").read_text())
PAPER = json.loads((ROOT / "docs" / "figures.json").read_text())


def test_no_join_of_the_benchmark_doubled_a_row_or_made_a_wrong_one() -> None:
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
