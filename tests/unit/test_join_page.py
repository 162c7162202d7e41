"""The page of a comparison of joins tells every fault, and notes by hand outlive it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.join_page import SCENARIOS, TITLES, page_of, write_page


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


def test_what_was_written_by_hand_outlives_the_next_page(tmp_path: Path) -> None:
    (tmp_path / "page-notes.md").write_text("a note")
    for command in ("one", "another"):
        write_page(tmp_path / "page.md", found_of(), command)
    assert (tmp_path / "page-notes.md").read_text() == "a note"
    assert "(page-notes.md)" in (tmp_path / "page.md").read_text()
