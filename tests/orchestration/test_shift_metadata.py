"""Metadata of a datacenter are small enough to be stored every minute, and their numbers add up."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dagster import MetadataValue
from PIL import Image

from photon.assets.logs import log_metadata
from photon.assets.pictures import SHARES, shares_plot
from photon.assets.shift_reports import equation, shift_metadata, union_metadata, with_row_count
from photon.dispatcher.shift.growth import Growth, LogSize
from photon.dispatcher.shift.report import MOST_REMEMBERED, Latency, ShiftReport
from photon.process.clock import MICROSECONDS
from photon.read import Watermark
from photon.state.completeness.estimate import Completeness
from photon.state.outcomes import Counts
from photon.state.view import StateView

SECOND, NOON_US = MICROSECONDS, 1_767_607_200_000_000
# 2,880 of them a day are to stay below a quarter of the 50 MB that Dagster's storage may grow by.
MOST_PICTURE_BYTES = 6_000

COUNTS = Counts(foreign=1000, primary=9000, classes={"joined": 960, "pending": 39, "unjoinable": 1})
GROWTH = Growth(
    primary=LogSize(3, 1000, 100),
    foreign=LogSize(2, 500, 10),
    signature="s",
    state=StateView("e", 7, COUNTS, watermark_us=5),
    lag_seconds=1.25,
)


USUAL = Latency(0.25, 0.5, 1.5)


def report(minute: int, latency: Latency | None = USUAL) -> ShiftReport:
    return ShiftReport(minute * 60 * SECOND, 60.0, 100, 120, latency)


def test_a_report_says_how_fast_and_how_far_a_datacenter_is_in_a_series_of_its_own() -> None:
    metadata = shift_metadata("east", [report(1)], GROWTH, None, is_complete=False)
    numbers = {name: value for name, value in metadata.items() if isinstance(value, int | float)}
    assert numbers == {
        "east_joined": 960,
        "east_pending": 39,
        "east_joined_per_second": 2.0,
        "east_unread_files": 0,
        "east_backlog_bytes": 110,
        "east_lag_seconds": 1.25,
        "east_latency_p50_seconds": 0.25,
        "east_latency_p90_seconds": 0.5,
        "east_latency_p99_seconds": 1.5,
    }


def test_rows_in_doubt_and_ids_used_again_are_numbers_where_there_are_some() -> None:
    counts = replace(COUNTS, ambiguous=3, reused_primaries=4)
    growth = replace(GROWTH, state=replace(GROWTH.state, counts=counts))
    told = shift_metadata("east", [report(1)], growth, None, is_complete=False)
    assert (told["east_ambiguous"], told["east_reused_primaries"]) == (3, 4)
    assert "east_conflicting" not in told


def test_a_report_is_a_sentence_too() -> None:
    metadata = shift_metadata("east", [report(1)], GROWTH, None, is_complete=False)
    assert metadata["says"] == (
        "east joined 120 events in 100 batches within 60 s; 39 wait, 110 bytes unread; batch 7 of epoch e"
    )


def test_what_was_not_measured_is_left_out() -> None:
    growth = replace(GROWTH, lag_seconds=None)
    metadata = shift_metadata("east", [report(1, latency=None)], growth, None, is_complete=True)
    assert not {"east_lag_seconds", "east_latency_p50_seconds"} & set(metadata)


def test_the_equation_names_the_classes_that_there_are() -> None:
    assert equation(COUNTS).splitlines()[2:] == [
        "|foreign|1,000|",
        "|= joined|960|",
        "|+ unjoinable|1|",
        "|+ pending|39|",
    ]


def test_the_shares_are_a_picture_small_enough_for_each_report() -> None:
    reports = [
        replace(
            report(minute),
            classes={
                "joined": 900 + minute % 7,
                "joined_elsewhere": 900 - minute % 11,
                "duplicates": minute % 3,
                "unjoinable": 30 + minute % 13,
                "dead_letters": 20 + minute % 5,
            },
        )
        for minute in range(MOST_REMEMBERED)
    ]
    markdown = shares_plot(reports)
    assert markdown is not None
    png = base64.b64decode(markdown.partition("base64,")[2].rstrip(")"))
    assert len(png) <= MOST_PICTURE_BYTES
    with Image.open(io.BytesIO(png)) as picture:
        drawn = [colour for _, colour in picture.convert("RGB").getcolors() or []]
        assert picture.width >= 700, "legible in the UI without a zoom"
    for name, _, colour, *_ in SHARES:
        assert min(distance(bytes.fromhex(colour[1:]), one) for one in drawn) < 16, f"{name} is not there"


def test_of_a_thousand_records_three_dead_letters_and_three_unjoinable_ones_are_seen_apart() -> None:
    classes = {"joined": 994, "unjoinable": 3, "dead_letters": 3}
    markdown = shares_plot([replace(report(minute), classes=classes) for minute in range(10)])
    assert markdown is not None
    png = base64.b64decode(markdown.partition("base64,")[2].rstrip(")"))
    with Image.open(io.BytesIO(png)) as picture:
        below_the_legend = picture.convert("RGB").crop((0, picture.height // 5, *picture.size))
        height = below_the_legend.height
        found = {
            name: rows_of(below_the_legend, colour)
            for name, _, colour, *_ in SHARES
            if name in ("unjoinable", "dead_letters")
        }
    for name, rows in found.items():
        assert len(rows) > 30, f"{name} can't be seen"
        assert max(rows) < 0.8 * height, f"{name} lies on the axis"


def rows_of(picture: Image.Image, colour: str) -> list[int]:
    """The rows of all dots that have a colour."""
    wanted, width = bytes.fromhex(colour[1:]), picture.width
    pixels = picture.tobytes()
    dots = (pixels[at : at + 3] for at in range(0, len(pixels), 3))
    return [number // width for number, dot in enumerate(dots) if distance(wanted, dot) < 16]


def distance(one: Iterable[int], other: Any) -> int:
    """Measure how much two colours differ, of 255, in the worst of red, green and blue."""
    return max(int(abs(a - b)) for a, b in zip(one, other, strict=True))


def test_reports_without_records_are_no_picture_of_shares() -> None:
    assert shares_plot([report(1), replace(report(2), classes={"joined": 1})]) is None


def test_a_delay_of_old_logs_is_said_in_words_and_flattens_no_plot() -> None:
    old = report(1, Latency(0.5, 3_600.0, 220_000.0))
    metadata = shift_metadata("east", [old], GROWTH, None, is_complete=False)
    assert (metadata["east_latency_p50_seconds"], metadata["east_latency_p90_seconds"]) == (0.5, 3_600.0)
    assert str(metadata["east_latency_p99_seconds"]).startswith("3 days, as old as the logs were")


def test_the_row_count_is_that_of_all_datacenters_together() -> None:
    assert with_row_count({"east_rows": 3, "west_rows": 4, "says": "x"})["dagster/row_count"] == 7
    assert "dagster/row_count" not in with_row_count({"says": "x"})


def test_a_report_says_up_to_when_rows_are_complete() -> None:
    said = Completeness("e", 7, NOON_US, NOON_US, NOON_US - SECOND, NOON_US, 0.999, 3, 1_000, 2)
    metadata = shift_metadata("east", [report(1)], GROWTH, said, is_complete=True)
    assert metadata["east_complete_up_to"] == MetadataValue.timestamp((NOON_US - SECOND) / MICROSECONDS)
    assert metadata["east_mostly_complete_up_to"] == MetadataValue.timestamp(NOON_US / MICROSECONDS)
    assert metadata["east_came_late"] == 2
    assert metadata["complete"] == (
        "east is complete up to 2026-01-05 09:59:59 UTC, 99.9 % up to 2026-01-05 10:00:00 UTC, as of "
        "2026-01-05 10:00:00 UTC; 2 of the latest 1,000 records (0.20%) came late, with logs read beyond "
        "them"
    )


def test_the_union_of_datacenters_that_have_said_nothing_has_no_time() -> None:
    assert union_metadata(Watermark({})) == {}


def test_an_observation_of_the_logs_names_the_datacenter_in_every_number() -> None:
    said = log_metadata("west", GROWTH)
    assert said["foreign_log"] == {"west_files": 2, "west_bytes": 500, "west_unread_bytes": 10}
    assert {"west_watermark", "west_lag_seconds"} <= set(said["primary_log"])
