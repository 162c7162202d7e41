"""Times of day from text: exact integer microseconds, without a float anywhere (protocol C4).

A time that can't be told is a null, and what that means is for the caller to say. Text without a zone
is UTC. Digits beyond microseconds are floored, so that before and after 1970 the order is kept.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.values import UNITS_PER_SECOND, TimeUnit

EARLIEST_US = -62_135_596_800_000_000  # the year 1, as far back as Delta's timestamps go
LATEST_US = 253_402_300_799_999_999  # the end of the year 9999
_SMALLEST_BLOCK = 64  # below it, one by one is as quick as another attempt on half of it
_NANOSECONDS = 10**9  # what the quick way counts in; texts with more decimals take the exact one
_SHOWN = 80
_QUICK_DIGITS = 36  # pyarrow 26 takes 39 digits and more for some other number, without an error
_LARGEST_EXPONENT = 30  # the year 9999 in nanoseconds has 21 digits
_DIGITS = 60  # before and behind the point, as many as may matter
_NUMBER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?", re.ASCII)
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?)?"
    r"([Zz]|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)


def parse_times(texts: pa.Array, unit: TimeUnit) -> pa.Array:
    """Microseconds since 1970 UTC (int64) of each text; null where it is null, bad, or beyond all years."""
    if len(texts) == 0:
        return pa.array([], pa.int64())
    quick = _iso_block(texts) if unit == "iso8601" else _number_block(texts, unit)
    if quick is not None:
        return quick
    if len(texts) <= _SMALLEST_BLOCK:
        return pa.array(
            [None if text is None else time_us(text, unit) for text in texts.to_pylist()], pa.int64()
        )
    half = len(texts) // 2
    return pa.concat_arrays([parse_times(texts[:half], unit), parse_times(texts[half:], unit)])


def time_us(text: str, unit: TimeUnit) -> int | None:
    """One time, exactly; None if it is bad or beyond the years 1 to 9999."""
    value = _iso_us(text) if unit == "iso8601" else _number_us(text, unit)
    return value if value is not None and EARLIEST_US <= value <= LATEST_US else None


def time_problem(text: str, unit: TimeUnit) -> str:
    """Why `time_us` does not take a text for a time."""
    shown = repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
    if (_iso_us(text) if unit == "iso8601" else _number_us(text, unit)) is not None:
        return f"time {shown} is not between the years 1 and 9999"
    return f"time {shown} is not {'an ISO 8601 time' if unit == 'iso8601' else f'a number of {unit}'}"


def _number_us(text: str, unit: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    sign, whole, decimals, exponent = match[1], match[2], match[3] or "", int(match[4] or 0)
    if not whole + decimals:
        return None
    if exponent > _LARGEST_EXPONENT or len(whole.lstrip("0")) > _DIGITS:
        return LATEST_US + 1  # or far before: in no case a time
    if decimals[_DIGITS:].strip("0"):  # of digits so small, floor must only know that there are some
        decimals = decimals[:_DIGITS] + "1"
    digits = Fraction(
        int(sign + whole[-_DIGITS:] + decimals[: _DIGITS + 1]), 10 ** len(decimals[: _DIGITS + 1])
    )
    microseconds = digits * Fraction(10) ** exponent * 10**6 / UNITS_PER_SECOND[unit]
    return microseconds.numerator // microseconds.denominator


def _iso_us(text: str) -> int | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:  # a leap second is the second after it
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        offset_minutes = _offset_minutes(match[8] or "Z")
    except ValueError:
        return None
    if second > 60:
        return None
    seconds = (
        (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
        + (second == 60)
        - 60 * offset_minutes
    )
    return seconds * 10**6 + int((match[7] or "")[:6].ljust(6, "0"))


def _offset_minutes(zone: str) -> int:
    """How far a zone such as `+02:00` is ahead of UTC; ValueError if there is no such zone."""
    if zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:] if len(zone) > 3 else 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (-1 if zone[0] == "-" else 1) * (60 * hours + minutes)


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


def _iso_block(texts: pa.Array) -> pa.Array | None:
    """All at once, where they are all written as the first is; None otherwise."""
    first = _ISO.fullmatch(next((text for text in texts[:_SMALLEST_BLOCK].to_pylist() if text), ""))
    if first is None:
        return None
    resolution, per_us = ("ns", 1000) if len(first[7] or "") > 6 else ("us", 1)
    try:
        times = texts.cast(pa.timestamp(resolution, "UTC" if first[8] else None)).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    values = times.fill_null(0).to_numpy(zero_copy_only=False) // per_us
    return _in_range(values, times.is_valid().to_numpy(zero_copy_only=False))


def _in_range(values: np.ndarray, valid: np.ndarray) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~valid | (values < EARLIEST_US) | (values > LATEST_US))
