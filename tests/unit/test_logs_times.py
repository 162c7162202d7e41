import json
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal, localcontext

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.logs.files import ByteRange, LogFile
from photon.logs.formats.times import (
    EARLIEST_US,
    LATEST_US,
    TimeStyle,
    _number_block,
    event_time_problem,
    parse_event_times,
    parse_times,
    time_us,
)
from photon.logs.parse import read_events
from photon.pipeline.sections import Limits, PrimaryLog
from photon.pipeline.values import UNITS_PER_SECOND

UNITS = ["s", "ms", "us", "ns"]


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("1331901000.37", "s", 1_331_901_000_370_000),
        ("1331901000.1234567", "s", 1_331_901_000_123_456),
        ("0.1", "us", 0),
        ("-0.1", "us", -1),
        ("-1.0000001", "s", -1_000_001),
        ("+5", "s", 5_000_000),
        ("1.5e3", "s", 1_500_000_000),
        ("1521911720600123", "us", 1_521_911_720_600_123),
        ("1521911720600123456", "ns", 1_521_911_720_600_123),
        ("1521911720600.5", "ms", 1_521_911_720_600_500),
        ("5.", "s", 5_000_000),
        (".5", "s", 500_000),
    ],
)
def test_a_number_becomes_whole_microseconds_exactly(text, unit, expected):
    assert parse_times(pa.array([text]), unit).to_pylist() == [expected]


@pytest.mark.parametrize(
    "text", ["abc", "", " 1", "1 ", "1_000", "nan", "inf", ".", "-", "1e", "1e5000", "\u0661"]
)
def test_what_is_not_a_number_is_null(text):
    assert parse_times(pa.array([text, "1"]), "s").to_pylist() == [None, 1_000_000]


@pytest.mark.parametrize("text", ["1e30", "253402300800", "-62135596801", "9" * 60])
def test_a_time_beyond_the_years_1_to_9999_is_null(text):
    assert parse_times(pa.array([text]), "s").to_pylist() == [None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0" * 5000 + "7", 7),
        (str(2**128 + 7), None),
        ("7." + "0" * 5000, 7),
        ("-7." + "0" * 5000 + "1", -8),
        ("7" * 5000, None),
    ],
)
def test_no_number_is_too_long_to_be_told(text, expected):
    assert parse_times(pa.array([text]), "us").to_pylist() == [expected]


def test_the_bounds_themselves_are_times():
    texts = pa.array([str(EARLIEST_US), str(LATEST_US), str(LATEST_US + 1)])
    assert parse_times(texts, "us").to_pylist() == [EARLIEST_US, LATEST_US, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2012-03-16T12:30:00Z", "2012-03-16T12:30:00+00:00"),
        ("2012-03-16 12:30:00", "2012-03-16T12:30:00+00:00"),
        ("2012-03-16T12:30:00.123456789Z", "2012-03-16T12:30:00.123456+00:00"),
        ("2012-03-16T12:30:00,5", "2012-03-16T12:30:00.500000+00:00"),
        ("2012-03-16T14:30:00+02:00", "2012-03-16T12:30:00+00:00"),
        ("2012-03-16T10:00:00-0230", "2012-03-16T12:30:00+00:00"),
        ("2012-03-16t12:30:00z", "2012-03-16T12:30:00+00:00"),
        ("2012-03-16", "2012-03-16T00:00:00+00:00"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00+00:00"),
        ("1969-12-31T23:59:59.9999999", "1969-12-31T23:59:59.999999+00:00"),
        ("2012-03-16T24:00:00Z", "2012-03-17T00:00:00+00:00"),
        ("2011-12-31T24:00:00+01:00", "2011-12-31T23:00:00+00:00"),
        ("2012-03-16 12:30:00 UTC", "2012-03-16T12:30:00+00:00"),
        ("2012-03-16 12:30:00 GMT", "2012-03-16T12:30:00+00:00"),
        ("2012-03-16 12:30:00 +0200", "2012-03-16T10:30:00+00:00"),
        ("2012-03-16 12:30:00.25 -02:30", "2012-03-16T15:00:00.250000+00:00"),
        ("2012/03/16 12:30:00", "2012-03-16T12:30:00+00:00"),
        ("20120316T123000Z", "2012-03-16T12:30:00+00:00"),
        ("20120316T1230+0200", "2012-03-16T10:30:00+00:00"),
        ("20120316T123000.5", "2012-03-16T12:30:00.500000+00:00"),
        ("2012-W11-5T12:30:00Z", "2012-03-16T12:30:00+00:00"),
        ("2012-076", "2012-03-16T00:00:00+00:00"),
        ("Fri, 16 Mar 2012 12:30:00 GMT", "2012-03-16T12:30:00+00:00"),
        ("16 Mar 2012 12:30:00 -0230", "2012-03-16T15:00:00+00:00"),
        ("16/Mar/2012:12:30:00 +0000", "2012-03-16T12:30:00+00:00"),
        ("[16/Mar/2012:12:30:00 +0200]", "2012-03-16T10:30:00+00:00"),
    ],
)
def test_iso_text_without_a_zone_is_utc_and_digits_beyond_microseconds_are_floored(text, expected):
    delta = datetime.fromisoformat(expected) - datetime(1970, 1, 1, tzinfo=UTC)
    expected_us = (delta.days * 86_400 + delta.seconds) * 10**6 + delta.microseconds
    assert parse_times(pa.array([text]), "iso8601").to_pylist() == [expected_us]
    assert time_us(text, "iso8601") == expected_us


@pytest.mark.parametrize(
    "text",
    ["2012-02-30T00:00:00", "2012-03-16T24:00:01", "2012-03-16T12:30:61", "16.03.2012", "", "12:30", "x"],
)
def test_what_is_no_iso_time_is_null(text):
    assert parse_times(pa.array([text, "2012-03-16"]), "iso8601").to_pylist()[0] is None


def test_nulls_stay_null():
    assert parse_times(pa.array([None, "1", None], pa.string()), "s").to_pylist() == [None, 1_000_000, None]
    assert parse_times(pa.array([None], pa.string()), "iso8601").to_pylist() == [None]
    assert parse_times(pa.array([], pa.string()), "s").to_pylist() == []


@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
    st.sampled_from(UNITS),
)
def test_any_decimal_is_floored_as_exact_arithmetic_says(value, unit):
    with localcontext(prec=200):
        scale = {"s": Decimal(10**6), "ms": Decimal(1000), "us": Decimal(1), "ns": Decimal("0.001")}[unit]
        exact = int((value * scale).to_integral_value(ROUND_FLOOR))
    expected = exact if EARLIEST_US <= exact <= LATEST_US else None
    assert time_us(str(value), unit) == expected
    assert parse_times(pa.array([str(value)]), unit).to_pylist() == [expected]


NUMBERISH = st.text("0123456789.+-eE _", max_size=14) | st.floats().map(str) | st.integers().map(str)
ISOISH = st.text("0123456789-:T Z+.,", max_size=32) | st.builds(
    "{}{}{}".format,
    st.sampled_from(
        ["2012-03-16T", "0001-01-01 ", "9999-12-31T", "1969-12-31", "2012-1-1T", "2012-03-16T12"]
    ),
    st.sampled_from(
        ["12", "12:30", "1230", "12:30:59", "123059", "23:59:60", "12:30:00.1", "12:30:00.123456789", ""]
    ),
    st.sampled_from(["", "Z", "z", "+02", "+0230", "-23:59", "+24:00", " Z", "+2"]),
)


@given(st.lists(NUMBERISH | st.none(), max_size=200), st.sampled_from(UNITS))
def test_the_quick_way_for_numbers_says_what_the_exact_way_says(texts, unit):
    expected = [None if text is None else time_us(text, unit) for text in texts]
    assert parse_times(pa.array(texts, pa.string()), unit).to_pylist() == expected


@pytest.mark.parametrize(
    ("unit", "decimals"), [("s", ".123456789"), ("ms", ".5"), ("us", ".125"), ("ns", "")]
)
def test_times_of_today_take_the_quick_way_in_every_unit(unit, decimals):
    today = str(1_793_000_000 * UNITS_PER_SECOND[unit]) + decimals
    assert _number_block(pa.array([today, f"-{today}", None]), unit) is not None


@given(st.lists(ISOISH | st.none(), max_size=3))
def test_the_quick_way_for_iso_times_says_what_the_exact_way_says(texts):
    expected = [None if text is None else time_us(text, "iso8601") for text in texts]
    assert parse_times(pa.array(texts, pa.string()), "iso8601").to_pylist() == expected


def moments(texts: list[str], style: TimeStyle) -> list[str | None]:
    found = parse_event_times(pa.array(texts), style).to_pylist()
    return [us if us is None else str(datetime.fromtimestamp(us / 1e6, UTC)) for us in found]


@pytest.mark.parametrize("unit", [*UNITS, "iso8601"])
@pytest.mark.parametrize("text", ["2026-03-01T12:00:00Z", "20260301T120000Z", "01/Mar/2026:12:00:00 +0000"])
def test_a_time_as_text_is_the_same_whatever_unit_numbers_have(text, unit):
    assert moments([text], TimeStyle(unit)) == ["2026-03-01 12:00:00+00:00"]


@pytest.mark.parametrize(
    ("text", "unit"),
    [("1.7e9", "s"), ("1.7e9", "iso8601"), ("1700000000", "iso8601"), ("1.7E12", "ms"), ("17e17", "ns")],
)
def test_a_number_has_the_unit_of_the_log_and_seconds_where_it_has_none(text, unit):
    assert moments([text], TimeStyle(unit)) == ["2023-11-14 22:13:20+00:00"]


def test_milliseconds_are_not_taken_for_seconds():
    assert moments(["1700000000000"], TimeStyle("iso8601")) == [None]


@pytest.mark.parametrize("others", [0, 1, 70, 500])
def test_how_a_time_is_read_does_not_depend_on_those_beside_it(others):
    style = TimeStyle("s")
    expected = ["2023-11-14 22:13:20+00:00"] * others + ["2026-03-01 12:00:00+00:00", None]
    assert moments(["1.7e9"] * others + ["2026-03-01T12:00:00", "soon"], style) == expected


@pytest.mark.parametrize(
    ("text", "formats", "expected"),
    [
        ("01/03/2026 12:00:00", ("%d/%m/%Y %H:%M:%S",), "2026-03-01 12:00:00+00:00"),
        ("01/03/2026 12:00:00", ("%m/%d/%Y %H:%M:%S",), "2026-01-03 12:00:00+00:00"),
        ("3.1.26 7:05", ("%m/%d/%y %H:%M", "%d.%m.%y %H:%M"), "2026-01-03 07:05:00+00:00"),
        ("2026-03-01 12:00:00.123456789", ("%Y-%m-%d %H:%M:%S.%f",), "2026-03-01 12:00:00.123456+00:00"),
        ("01 Mar 2026 12:00 PM +0200", ("%d %b %Y %I:%M %p %z",), "2026-03-01 10:00:00+00:00"),
        ("2026-03-01 12:00 UTC", ("%Y-%m-%d %H:%M %Z",), "2026-03-01 12:00:00+00:00"),
        ("2026-03-01 12:00 CET", ("%Y-%m-%d %H:%M %Z",), None),
        ("2026-03-01T12:00:00Z", ("%d/%m/%Y",), None),
    ],
)
def test_a_format_says_how_times_are_written(text, formats, expected):
    assert moments([text], TimeStyle("s", formats)) == [expected]


def test_a_time_without_a_zone_is_of_the_zone_of_the_log():
    berlin = TimeStyle("iso8601", zone="Europe/Berlin")
    texts = ["2026-01-15 12:00:00", "2026-07-15T12:00:00", "20260715T120000", "2026-07-15T12:00:00Z", "1.7e9"]
    hours = [11, 10, 10, 12]
    assert [moment[11:13] for moment in moments(texts, berlin)] == [*map(str, hours), "22"]
    formats = TimeStyle("s", ("%d.%m.%Y %H:%M",), "Europe/Berlin")
    assert moments(["15.07.2026 12:00"], formats) == ["2026-07-15 10:00:00+00:00"]


def test_of_an_hour_that_comes_twice_the_first_counts_and_one_that_never_was_goes_on_from_before():
    berlin = TimeStyle("iso8601", zone="Europe/Berlin")
    assert moments(["2026-10-25 02:30:00"], berlin) == ["2026-10-25 00:30:00+00:00"]
    assert moments(["2026-03-29 02:30:00"], berlin) == ["2026-03-29 01:30:00+00:00"]


@pytest.mark.parametrize("text", ["01/03/2026 12:00:00", "3/1/26", "01.03.2026", "31-12-2026 23:59"])
def test_a_day_that_may_be_a_month_needs_a_format_and_the_reason_says_so(text):
    assert moments([text], TimeStyle()) == [None]
    assert "time_format" in event_time_problem(text, TimeStyle())


def test_the_reason_names_the_formats_that_a_time_does_not_have():
    style = TimeStyle("s", ("%d/%m/%Y", "%d.%m.%Y"))
    expected = "time '2026-03-01' is not written as '%d/%m/%Y' or '%d.%m.%Y' (time_format)"
    assert event_time_problem("2026-03-01", style) == expected


def test_the_reason_shows_the_beginning_of_a_long_text():
    assert f"time '{'x' * 80}...' " in event_time_problem("x" * 81, TimeStyle())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_whole_numbers_are_the_times_that_their_texts_are(unit):
    style = TimeStyle(unit)
    per_second = UNITS_PER_SECOND[unit]
    ends = [bound * per_second // 10**6 + step for bound in (EARLIEST_US, LATEST_US) for step in range(-2, 3)]
    numbers = [0, 1, -1, -999, 999, 1_767_607_200_123, 2**63 - 1, -(2**63), None]
    numbers += [each for each in ends if abs(each) < 2**63]
    texts = [None if each is None else str(each) for each in numbers]
    found = parse_event_times(pa.array(numbers, pa.int64()), style)
    assert found.to_pylist() == parse_event_times(pa.array(texts, pa.string()), style).to_pylist()


DAY_AND_CLOCK: dict[str, tuple[dict[str, object], list[tuple[str, str]]]] = {
    "W3C": ({}, [("2026-11-28", "09:15:01"), ("2026-11-28", "09:15:01.250")]),
    "a zone beside the clock": ({}, [("2026-11-28", "10:15:01+01:00"), ("2026-11-28", "09:15:01.25Z")]),
    "a spreadsheet in Berlin": (
        {"time_format": ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S,%f"), "time_zone": "Europe/Berlin"},
        [("28.11.2026", "10:15:01"), ("28.11.2026", "10:15:01,25")],
    ),
    "digits alone": (
        {"time_format": ("%Y%m%d %H%M%S", "%Y%m%d %H%M%S.%f")},
        [("20261128", "091501"), ("20261128", "091501.250")],
    ),
}
TWO_TIMES_US = [1_795_857_301_000_000, 1_795_857_301_250_000]


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("way", DAY_AND_CLOCK)
@pytest.mark.parametrize("times", [1, 100], ids=["few", "many"])
def test_the_day_and_the_time_of_day_may_be_two_columns(form: str, way: str, times: int) -> None:
    more, rows = DAY_AND_CLOCK[way]
    log = PrimaryLog(files="*", format=form, id="id", time=["day", "clock"], **more)
    between = "\t" if form == "tsv" else ";"
    if form == "csv":
        log = log.model_copy(update={"delimiter": between})
    lines = [
        json.dumps({"id": "a", "clock": clock, "day": day})
        if form == "jsonl"
        else between.join(("a", clock, day))
        for day, clock in rows * times
    ]
    header = b"" if form == "jsonl" else between.join(("id", "clock", "day")).encode()
    data = "".join(line + "\n" for line in lines).encode()
    file = LogFile(1, "primary", "a", 1, False, header, 0, 0, b"")
    parsed = read_events(data, file, ByteRange(1, 0, len(data), 0, 0), log, Limits())
    assert parsed.events["_time_us"].to_pylist() == TWO_TIMES_US * times


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"a,,09:15:01", "no value for time column 'day'"),
        (b"a,2026-11-28,", "no value for time column 'clock'"),
        (b"a,2026-11-28,noon", "time '2026-11-28 noon' is not a number of s"),
        (b"a,2026-11-31,09:15:01", "time '2026-11-31 09:15:01' is not a number of s"),
    ],
)
def test_half_a_time_is_none_and_the_column_is_named(line: bytes, reason: str) -> None:
    log = PrimaryLog(files="*", format="csv", id="id", time=["day", "clock"])
    file = LogFile(1, "primary", "a", 1, False, b"id,day,clock", 0, 0, b"")
    data = line + b"\nb,2026-11-28,09:15:01\n"
    parsed = read_events(data, file, ByteRange(1, 0, len(data), 0, 0), log, Limits())
    assert parsed.events["_id"].to_pylist() == ["b"]
    assert parsed.dead_letters["reason"].to_pylist() == [reason]
