"""Times of day from text: exact integer microseconds, without a float anywhere (protocol C4).

A time that can't be told is a null, and what that means is for the caller to say. Text without a zone is
UTC, unless the log has a zone. Digits beyond microseconds are floored, so that before and after 1970 the
order is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.formats.time_texts import format_us, is_day_or_month_first, text_us
from photon.pipeline.sections import Log
from photon.pipeline.values import UNITS_PER_SECOND, TimeUnit
from photon.process.clock import MICROSECONDS

EARLIEST_US = -62_135_596_800_000_000  # the year 1, as far back as Delta's timestamps go
LATEST_US = 253_402_300_799_999_999  # the end of the year 9999
_SMALLEST_BLOCK = 64  # below it, one by one is as quick as another attempt on half of it
_NANOSECONDS = 10**9  # the unit of the quick way; texts with more decimals take the exact one
_SHOWN = 80
_QUICK_DIGITS = 36  # pyarrow 26 takes 39 digits and more for some other number, without an error
_LARGEST_EXPONENT = 30  # the year 9999 in nanoseconds has 21 digits
_DIGITS = 60  # before and behind the point, as many as may matter
_NUMBER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?", re.ASCII)
_PLAIN_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TimeStyle:
    """How a log writes its times."""

    unit: TimeUnit = "s"  # the unit of numbers; `iso8601`: they are seconds
    formats: tuple[str, ...] = ()  # formats of strptime; with them nothing else is a time
    zone: str | None = None  # the zone of times that name none; None: UTC


def style_of(log: Log) -> TimeStyle:
    """The style of a log's times."""
    return TimeStyle(log.time_unit, log.time_format, log.time_zone)


def time_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """The times of these columns: of the one, or of day and time of day; null where one of two is missing."""
    if len(columns) == 1:
        return columns[0]
    texts = (each.cast(pa.string()) for each in columns)
    some = [
        pc.if_else(pc.greater(pc.binary_length(each), 0), each, pa.scalar(None, pa.string()))
        for each in texts
    ]
    return pc.binary_join_element_wise(*some, " ")


def parse_event_times(texts: pa.Array, style: TimeStyle) -> pa.Array:
    """Microseconds since 1970 UTC (int64) of each text, in any of the ways that a log of this style may have.

    Null where it is null, bad, or beyond all years. Numbers of the style's unit may come as int64.
    """
    if pa.types.is_integer(texts.type):
        return _whole_numbers(texts, style.unit)
    if style.formats:
        return _parse(texts, lambda text: event_time_us(text, style), lambda some: None)
    unit = "s" if style.unit == "iso8601" else style.unit

    def quick(some: pa.Array) -> pa.Array | None:
        found = None if style.unit == "iso8601" else _number_block(some, unit)
        if found is None and style.zone is None:
            found = _iso_block(some)
        return found

    return _parse(texts, lambda text: event_time_us(text, style), quick)


def event_time_us(text: str, style: TimeStyle) -> int | None:
    """One time of a log, exactly; None if it is bad or beyond the years 1 to 9999."""
    return _within(_event_us(text, style))


def _event_us(text: str, style: TimeStyle) -> int | None:
    text = text.strip(" ")
    if style.formats:
        found = (format_us(text, form, style.zone) for form in style.formats)
        return next((us for us in found if us is not None), None)
    if style.unit != "iso8601" and (us := _number_us(text, style.unit)) is not None:
        return us
    us = text_us(text, style.zone)
    return _number_us(text, "s") if us is None and style.unit == "iso8601" else us


def event_time_problem(text: str, style: TimeStyle) -> str:
    """Why `event_time_us` does not take a text for a time."""
    shown = repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
    if _event_us(text, style) is not None:
        return f"time {shown} is not between the years 1 and 9999"
    if style.formats:
        return f"time {shown} is not written as {' or '.join(map(repr, style.formats))} (time_format)"
    if is_day_or_month_first(text.strip(" ")):
        return (
            f"time {shown} may begin with the day or with the month: "
            "say which with time_format, such as '%d/%m/%Y %H:%M:%S'"
        )
    expected = "an ISO 8601 time" if style.unit == "iso8601" else f"a number of {style.unit}"
    return f"time {shown} is not {expected}"


def parse_times(texts: pa.Array, unit: TimeUnit) -> pa.Array:
    """Microseconds since 1970 UTC (int64) of each text that is a time in this unit alone, else null."""
    quick = _iso_block if unit == "iso8601" else lambda some: _number_block(some, unit)
    return _parse(texts, lambda text: time_us(text, unit), quick)


def time_us(text: str, unit: TimeUnit) -> int | None:
    """One time in this unit alone, exactly; None if it is bad or beyond the years 1 to 9999."""
    return _within(text_us(text) if unit == "iso8601" else _number_us(text, unit))


def _within(us: int | None) -> int | None:
    return us if us is not None and EARLIEST_US <= us <= LATEST_US else None


def _parse(
    texts: pa.Array,
    exact: Callable[[str], int | None],
    quick: Callable[[pa.Array], pa.Array | None],
) -> pa.Array:
    """The times of all texts: as one block where that is sure to say the same, else halved, or one by one."""
    if len(texts) == 0:
        return pa.array([], pa.int64())
    block = quick(texts)
    if block is not None:
        return block
    if len(texts) <= _SMALLEST_BLOCK:
        return pa.array([None if text is None else exact(text) for text in texts.to_pylist()], pa.int64())
    half = len(texts) // 2
    return pa.concat_arrays([_parse(texts[:half], exact, quick), _parse(texts[half:], exact, quick)])


def _number_us(text: str, unit: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, whole, decimals, exponent = match[1], match[2], match[3] or "", int(match[4] or 0)
    if not whole + decimals:
        return None
    if exponent > _LARGEST_EXPONENT or len(whole.lstrip("0")) > _DIGITS:
        return LATEST_US + 1  # or far before: in no case a time
    if decimals[_DIGITS:].strip("0"):  # floor must only know that there are such small digits
        decimals = decimals[:_DIGITS] + "1"
    digits = Fraction(
        int(sign + whole[-_DIGITS:] + decimals[: _DIGITS + 1]), 10 ** len(decimals[: _DIGITS + 1])
    )
    microseconds = digits * Fraction(10) ** exponent * 10**6 / UNITS_PER_SECOND[unit]
    return microseconds.numerator // microseconds.denominator


def _number_block(texts: pa.Array, unit: str) -> pa.Array | None:
    """All at once, as whole nanoseconds in 64 bits; None if any of them is not that plain."""
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _QUICK_DIGITS:
        return None
    if pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py():
        return None  # exponents have their own bounds there
    try:
        decimals = texts.cast(pa.decimal128(38, len(str(_NANOSECONDS // UNITS_PER_SECOND[unit])) - 1))
    except pa.ArrowInvalid:
        return None
    words = np.frombuffer(decimals.buffers()[1], dtype="<i8").reshape(-1, 2)
    words = words[decimals.offset : decimals.offset + len(decimals)]
    low, high = words[:, 0], words[:, 1]
    valid = decimals.is_valid().to_numpy(zero_copy_only=False)
    if bool(((high != low >> 63) & valid).any()):  # a value of more than 64 bits
        return None
    return _in_range(low // (_NANOSECONDS // 10**6), valid)


def _whole_numbers(numbers: pa.Array, unit: str) -> pa.Array:
    """Numbers of a unit that is no smaller than nanoseconds."""
    values = numbers.fill_null(0).to_numpy()
    valid = numbers.is_valid().to_numpy(zero_copy_only=False)
    per_second = UNITS_PER_SECOND[unit]
    if per_second > MICROSECONDS:
        return _in_range(values // (per_second // MICROSECONDS), valid)
    us = MICROSECONDS // per_second
    is_time = (EARLIEST_US // us <= values) & (values <= LATEST_US // us)  # the product of others may not fit
    return pa.array(np.where(is_time, values, 0) * us, pa.int64(), mask=~(valid & is_time))


def _iso_block(texts: pa.Array) -> pa.Array | None:
    """All at once, where they are all written as the first is; None otherwise."""
    first = _PLAIN_ISO.fullmatch(next((text for text in texts[:_SMALLEST_BLOCK].to_pylist() if text), ""))
    if first is None:
        return None
    resolution, per_us = ("ns", 1000) if len(first[1] or "") > 6 else ("us", 1)
    try:
        times = texts.cast(pa.timestamp(resolution, "UTC" if first[2] else None)).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    values = times.fill_null(0).to_numpy(zero_copy_only=False) // per_us
    return _in_range(values, times.is_valid().to_numpy(zero_copy_only=False))


def _in_range(values: np.ndarray, valid: np.ndarray) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~valid | (values < EARLIEST_US) | (values > LATEST_US))
