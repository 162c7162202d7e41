"""Times of cron in the pipeline file: whether one is well formed, and how seldom it comes."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise

_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_PART = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?")
# A pause is looked for in nine years that begin with one of a leap day: the 29th of February comes twice.
_FIRST_DAY, _DAYS = date(2024, 1, 1), 9 * 366


def parse_cron(text: str) -> str:
    """Return the text, if it is a time of cron; ValueError says what was expected."""
    fields = _fields(text)
    if len(fields) != len(_RANGES) or not all(fields):
        raise ValueError(
            "five fields of cron: minute 0-59, hour 0-23, day 1-31, month 1-12, weekday 0-6 (0: Sunday); "
            "each *, a number, a range, or a list of them, with /step behind * or a range; such as 17 * * * *"
        )
    _, _, days, months, _ = fields
    longest_month = max(29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31 for month in months)
    if min(days) > longest_month and text.split()[-1] == "*":
        raise ValueError("a day that comes in one of its months")
    return text


@lru_cache
def longest_pause(text: str) -> timedelta:
    """Return the longest time between two turns of a schedule."""
    minutes, hours, *_ = _fields(text)
    at = sorted(60 * hour + minute for hour in hours for minute in minutes)
    days = [offset for offset in range(_DAYS) if _comes_on(_FIRST_DAY + timedelta(days=offset), text)]
    within_a_day = [later - earlier for earlier, later in pairwise(at)]
    between_days = [24 * 60 * (later - earlier) + at[0] - at[-1] for earlier, later in pairwise(days)]
    return timedelta(minutes=max(within_a_day + between_days))


def _comes_on(day: date, text: str) -> bool:
    """Whether a schedule has a turn on this day: where both kinds of days are named, either is enough."""
    _, _, days, months, weekdays = _fields(text)
    if day.month not in months:
        return False
    is_day, is_weekday = day.day in days, day.isoweekday() % 7 in weekdays
    names_both = "*" not in text.split()[2::2]
    return is_day or is_weekday if names_both else is_day and is_weekday


@lru_cache
def _fields(text: str) -> tuple[frozenset[int], ...]:
    texts = text.split()
    fields = tuple(_field(each, *bounds) for each, bounds in zip(texts, _RANGES, strict=False))
    return fields if len(texts) == len(fields) else ()


def _field(text: str, least: int, most: int) -> frozenset[int]:
    """Return the numbers that a field means; none if it is not well formed."""
    numbers: set[int] = set()
    for match in map(_PART.fullmatch, text.split(",")):
        if match is None:
            return frozenset()
        first, last, step = (int(digits) if digits else None for digits in match.groups())
        if first is None:
            first, last = least, most
        elif last is None:
            last = first if step is None else -1  # a step needs a range
        if step == 0 or not least <= first <= last <= most:
            return frozenset()
        numbers |= set(range(first, last + 1, step or 1))
    return frozenset(numbers)
