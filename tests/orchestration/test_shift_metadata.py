"""What is shown of a datacenter: little enough to be stored every minute, and all that adds up."""

from __future__ import annotations

import base64
import io
from dataclasses import replace

from dagster import MetadataValue
from PIL import Image

from assets.logs import OBSERVED_EVERY_SECONDS, ObservedLogs
from assets.pictures import latency_plot
from assets.reporting import equation, shift_metadata
from photon.clock import MICROSECONDS
from photon.completeness.estimate import Completeness
from photon.join.outcomes import OUTCOME_CLASSES, Counts
from photon.shift.growth import Growth, LogSize
from photon.shift.report import MOST_REMEMBERED, Latency, ShiftReport
from photon.state.view import StateView

SECOND, NOON_US = MICROSECONDS, 1_767_607_200_000_000
# 2,880 of them a day are to stay below a quarter of the 50 MB that Dagster's storage may grow by.
MOST_PICTURE_BYTES = 3_000

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


def test_a_report_has_every_term_of_the_equation_as_a_number() -> None:
    metadata = shift_metadata([report(1)], GROWTH, None, with_picture=False)
    terms = {name: metadata[name] for name in OUTCOME_CLASSES}
    assert sum(terms.values()) == metadata["foreign"] == 1000
    assert terms["joined"] == 960


def test_a_report_says_how_fast_and_how_far_it_is() -> None:
    metadata = shift_metadata([report(1)], GROWTH, None, with_picture=False)
    expected = {
        "joined_per_second": 2.0,
        "read_bytes": 1390,
        "backlog_bytes": 110,
        "lag_seconds": 1.25,
        "latency_p90_seconds": 0.5,
        "epoch": "e",
        "batch": 7,
    }
    assert {name: metadata[name] for name in expected} == expected


def test_what_was_not_measured_is_left_out() -> None:
    growth = replace(GROWTH, lag_seconds=None)
    metadata = shift_metadata([report(1, latency=None)], growth, None, with_picture=True)
    assert not {"lag_seconds", "latency_p50_seconds", "latency"} & set(metadata)


def test_the_equation_names_the_classes_that_there_are() -> None:
    assert equation(COUNTS).splitlines()[2:] == [
        "|foreign|1,000|",
        "|= joined|960|",
        "|+ unjoinable|1|",
        "|+ pending|39|",
    ]


def test_the_picture_is_a_small_png_even_of_the_longest_shift() -> None:
    reports = [
        report(minute, Latency(0.3 + minute % 7 / 20, 0.6 + minute % 11 / 10, 1.5 + minute % 13 / 5))
        for minute in range(MOST_REMEMBERED)
    ]
    markdown = latency_plot(reports)
    assert markdown is not None
    png = base64.b64decode(markdown.partition("base64,")[2].rstrip(")"))
    assert len(png) <= MOST_PICTURE_BYTES
    with Image.open(io.BytesIO(png)) as picture:
        colours = picture.getcolors()
    assert colours is not None
    assert len(colours) >= 5  # paper, axes and three lines


def test_one_report_is_no_picture() -> None:
    assert latency_plot([report(1), report(2, latency=None)]) is None


def test_logs_are_observed_when_they_have_changed_and_not_too_often() -> None:
    first = ObservedLogs("as it was", 0, 0)
    later_us = OBSERVED_EVERY_SECONDS * SECOND
    assert first.is_due(None)
    assert ObservedLogs("grown", 0, later_us).is_due(first)
    assert ObservedLogs("as it was", 10, later_us).is_due(first)
    assert not ObservedLogs("as it was", 0, later_us).is_due(first)
    assert not ObservedLogs("grown", 0, later_us - 1).is_due(first)


def test_a_report_says_up_to_when_rows_are_complete() -> None:
    said = Completeness("e", 7, NOON_US, NOON_US, NOON_US - SECOND, NOON_US, 0.999, 3, 1_000, 2)
    metadata = shift_metadata([report(1)], GROWTH, said, with_picture=False)
    assert metadata["complete_up_to"] == MetadataValue.timestamp((NOON_US - SECOND) / MICROSECONDS)
    assert metadata["mostly_complete_up_to"] == MetadataValue.timestamp(NOON_US / MICROSECONDS)
