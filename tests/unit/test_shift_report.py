"""A shift reports its batches, rows and latencies every so often."""

from __future__ import annotations

from collections import Counter

import pytest

from photon.dispatcher.retrying import BatchReport
from photon.dispatcher.shift.report import MOST_REMEMBERED, MOST_SAMPLES, ShiftLog
from photon.process.quantiles import Sample

SECOND = 1_000_000


def batch(joined: int = 0, *latencies_seconds: float) -> BatchReport:
    return BatchReport(1, Counter(joined=joined), 0.0, Sample.of(latencies_seconds))


def test_a_report_is_due_once_its_time_has_come() -> None:
    log = ShiftLog(every_seconds=60)
    log.add(batch(), 0)
    assert not log.is_due(60 * SECOND - 1)
    assert log.is_due(60 * SECOND)


def test_without_a_batch_there_is_nothing_to_report() -> None:
    assert not ShiftLog(every_seconds=60).is_due(3600 * SECOND)


def test_a_report_covers_what_came_since_the_last_one() -> None:
    log = ShiftLog(every_seconds=60)
    log.add(batch(5, 9.0), 0)
    log.report(60 * SECOND)
    log.add(batch(20, 0.5), 0)
    log.add(batch(10, 0.5), 0)
    report = log.report(90 * SECOND)
    assert (report.batches, report.joined, report.seconds) == (2, 30, 30)
    assert report.joined_per_second == 1
    assert report.latency is not None
    assert report.latency.p99_seconds == 0.5


def test_a_report_without_rows_has_no_latency() -> None:
    log = ShiftLog(every_seconds=60)
    log.add(batch(), 0)
    assert log.report(60 * SECOND).latency is None


def test_the_next_report_is_due_so_long_after_the_last() -> None:
    log = ShiftLog(every_seconds=60)
    log.add(batch(), 0)
    log.report(100 * SECOND)
    log.add(batch(), 0)
    assert not log.is_due(159 * SECOND)
    assert log.is_due(160 * SECOND)


def test_percentiles_hold_over_more_batches_than_are_kept_one_by_one() -> None:
    log = ShiftLog(every_seconds=60)
    batches = 2 * MOST_SAMPLES + 7
    for number in range(batches):
        log.add(batch(1, number / batches), 0)
    latency = log.report(60 * SECOND).latency
    assert latency is not None
    assert latency.p50_seconds == pytest.approx(0.5, abs=0.01)
    assert latency.p99_seconds == pytest.approx(0.99, abs=0.01)


def test_a_long_shift_remembers_its_latest_reports() -> None:
    log = ShiftLog(every_seconds=1)
    for second in range(MOST_REMEMBERED + 10):
        log.report(second * SECOND)
    assert [report.at_us // SECOND for report in log.reports] == list(range(10, MOST_REMEMBERED + 10))


def test_a_shift_begins_with_its_first_batch_not_when_it_waits_in_line() -> None:
    log = ShiftLog(every_seconds=60)
    log.add(BatchReport(1, Counter(), 2.0), 500 * SECOND)
    assert log.report(510 * SECOND).seconds == 12
