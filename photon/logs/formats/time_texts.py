"""Read times as text: written in a way that can be told from all others, or in a format that a user gives.

Text without a zone is of the zone that is given, else UTC. Where clocks were set back, the first of the
two moments counts; where they were set forward, a time that never was counts on from before the change.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_UTC_NAMES = ("UTC", "GMT", "UT", "Z", "z")  # other names, such as CST, mean several zones
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_OF = {name: number for number, name in enumerate(_MONTHS, 1)}
_ZONE = r"(?P<zone> ?(?:[Zz]|UTC|GMT|UT|[+-]\d\d(?::?\d\d)?))?"
_CLOCK = r"(?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?"
_SHORT_CLOCK = r"(?P<hour>\d\d)(?:(?P<minute>\d\d)(?:(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?"
_DATE = r"(?P<year>\d{4})(?P<between>[-/])(?P<month>\d\d)(?P=between)(?P<day>\d\d)"
_OTHER_DATE = r"(?P<year>\d{4})-(?:W(?P<week>\d\d)-(?P<weekday>[1-7])|(?P<ordinal>\d{3}))"
_SHORT_DATE = (
    r"(?P<year>\d{4})(?:(?P<month>\d\d)(?P<day>\d\d)|W(?P<week>\d\d)(?P<weekday>[1-7])|(?P<ordinal>\d{3}))"
)
_WEEKDAY = r"(?:Mon|Tue|Tues|Wed|Wednes|Thu|Thurs|Fri|Sat|Satur|Sun)(?:day)?"
_WAYS = tuple(
    re.compile(way, re.ASCII)
    for way in (
        rf"{_DATE}(?:(?:[Tt]| ){_CLOCK})?{_ZONE}",
        rf"{_OTHER_DATE}(?:[Tt]{_CLOCK})?{_ZONE}",
        rf"{_SHORT_DATE}(?:[Tt]{_SHORT_CLOCK})?{_ZONE}",
        rf"(?:{_WEEKDAY},? )?(?P<day>\d\d?)[ -](?P<name>[A-Za-z]{{3}})[ -](?P<year>\d{{4}}) {_CLOCK}{_ZONE}",
        rf"\[?(?P<day>\d\d?)/(?P<name>[A-Za-z]{{3}})/(?P<year>\d{{4}}):{_CLOCK}{_ZONE}\]?",
    )
)
_DAY_OR_MONTH_FIRST = re.compile(r"\d\d?([/.-])\d\d?\1(?:\d{4}|\d\d)(?!\d).*", re.ASCII | re.DOTALL)
_LONG_FRACTION = re.compile(r"([.,]\d{6})\d+", re.ASCII)


def text_us(text: str, zone: str | None = None) -> int | None:
    """Microseconds since 1970 of a time as text, exactly; None if it is none. In UTC it may be in 10000."""
    for way in _WAYS:
        if match := way.fullmatch(text):
            try:
                return _us_of(match.groupdict(), zone)
            except (ValueError, OverflowError):  # there is no such day, hour or zone
                return None
    return None


def is_day_or_month_first(text: str) -> bool:
    """Whether nobody can tell which number is the day and which the month."""
    return _DAY_OR_MONTH_FIRST.fullmatch(text) is not None


def _us_of(parts: Mapping[str, str | None], zone: str | None) -> int:
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    fraction = parts["fraction"] or ""
    is_day_end = hour == 24 and not (minute or second or fraction.strip("0"))
    if second > 60:
        raise ValueError(second)
    moment = datetime.combine(_date_of(parts), time(0 if is_day_end else hour, minute, min(second, 59)))
    moment += timedelta(days=is_day_end)
    written = (parts["zone"] or "").strip()
    us = (moment - _EPOCH) // _MICROSECOND + 10**6 * (second == 60)  # a leap second is the one after it
    us += int(fraction[:6].ljust(6, "0"))  # floored, so that before and after 1970 the order is kept
    return us - (offset_us(moment, zone) if zone and not written else _written_offset_us(written or "Z"))


def _date_of(parts: Mapping[str, str | None]) -> date:
    year = int(parts["year"] or 0)
    if week := parts.get("week"):
        return date.fromisocalendar(year, int(week), int(parts["weekday"] or 0))
    if ordinal := parts.get("ordinal"):
        if int(ordinal) > 365 + isleap(year):
            raise ValueError(ordinal)
        return date(year, 1, 1) + timedelta(days=int(ordinal) - 1)
    name = parts.get("name")
    month = int(parts["month"] or 0) if name is None else _MONTH_OF.get(name.lower(), 0)
    return date(year, month, int(parts["day"] or 0))


def _written_offset_us(zone: str) -> int:
    """How far a zone such as `+02:00` is ahead of UTC; ValueError if there is no such zone."""
    if zone in _UTC_NAMES:
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:] if len(zone) > 3 else 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (-1 if zone[0] == "-" else 1) * (60 * hours + minutes) * 60 * 10**6


def offset_us(local: datetime, zone: str) -> int:
    """How far the clocks of a zone are ahead of UTC at the first moment at which they show a time."""
    offset = local.replace(tzinfo=ZoneInfo(zone), fold=0).utcoffset()
    assert offset is not None, f"{zone} has an offset at any time"
    return offset // _MICROSECOND


# -- formats of strptime


def format_us(text: str, form: str, zone: str | None = None) -> int | None:
    """Microseconds since 1970 of a time in one of strptime's formats; None if it is not written so."""
    if (moment := _by_format(text, form)) is None and "%f" in form:
        moment = _by_format(_LONG_FRACTION.sub(r"\1", text), form)  # strptime takes six digits at most
    if moment is None:
        return None
    local = moment.replace(tzinfo=None)
    us = (local - _EPOCH) // _MICROSECOND
    if moment.tzinfo is not None:
        return us - (moment.utcoffset() or timedelta()) // _MICROSECOND
    return us if zone is None else us - offset_us(local, zone)


def _by_format(text: str, form: str) -> datetime | None:
    for spelled, is_utc in _spelled(form):
        try:
            moment = datetime.strptime(text, spelled)
        except ValueError:
            continue
        return moment.replace(tzinfo=UTC) if is_utc else moment
    return None


@lru_cache(64)
def _spelled(form: str) -> tuple[tuple[str, bool], ...]:
    """Write each name of UTC for `%Z`: strptime takes the machine's own too, and forgets which it was."""
    if "%Z" not in re.findall("%.", form):
        return ((form, False),)
    parts = re.split("(%.)", form)
    return tuple(("".join(name if p == "%Z" else p for p in parts), True) for name in _UTC_NAMES)
