"""The plot of a live measurement: which rows are in it, and how often."""

from __future__ import annotations

from pathlib import Path

from bench.plots import draw_live, first_seen, shares_within
from orchestration.demo.latency import SeenRow, TimeSpan
from photon.process.clock import MICROSECONDS

WINDOW = TimeSpan(0, 100 * MICROSECONDS)


def row(click: str, written: float, readable: float) -> SeenRow:
    return SeenRow(
        click, ("east", "1", 1, "0"), round(written * MICROSECONDS), round(readable * MICROSECONDS)
    )


def test_a_row_that_compaction_shows_again_counts_as_it_was_first_seen() -> None:
    rows = [row("a", 1, 60), row("a", 1, 2), row("b", 1, 3)]
    assert [(one.click_id, one.latency_us // MICROSECONDS) for one in first_seen(rows)] == [
        ("a", 1),
        ("b", 2),
    ]


def test_a_share_says_how_many_rows_took_no_longer() -> None:
    rows = [row("a", 1, 5), row("b", 1, 2), row("c", 1, 3), row("d", 1, 4)]
    assert shares_within(rows, WINDOW).to_dict() == {1.0: 0.25, 2.0: 0.5, 3.0: 0.75, 4.0: 1.0}


def test_rows_outside_the_window_are_not_in_the_distribution() -> None:
    rows = [row("a", 1, 2), row("b", 1, 200)]
    assert shares_within(rows, WINDOW).to_dict() == {1.0: 1.0}


def test_the_plot_is_written_in_the_form_that_its_name_says(tmp_path: Path) -> None:
    draw_live([row(str(n), n, n + 1) for n in range(20)], WINDOW, tmp_path / "live.svg")
    assert "<svg" in (tmp_path / "live.svg").read_text()
