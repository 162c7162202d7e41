"""What single values of the pipeline file may be: durations, sizes, globs, names, times of cron.

Each raises ValueError that says what was expected. Which key takes which kind is `photon.pipeline.file`.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

LONGEST = timedelta(days=36_500)  # taken from now it is within the calendar

_DURATION_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_CRON_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def parse_duration(value: object) -> timedelta:
    """`250ms`, `1.5s`, `1m`, `24h`, `7d` as a timedelta; ValueError says what was expected."""
    if isinstance(value, timedelta):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)\s*", str(value))
    if not match:
        raise ValueError("a duration: a number and one of us, ms, s, m, h, d, such as 250ms")
    seconds = float(match[1]) * _DURATION_UNITS[match[2]]
    if seconds > LONGEST.total_seconds():
        raise ValueError(f"a duration of at most {LONGEST.days}d")
    return timedelta(seconds=seconds)


def parse_size(value: object) -> int:
    """`64MiB`, `4KiB`, `100B` or a whole number of bytes; ValueError says what was expected."""
    match = re.fullmatch(r"\s*(\d+)\s*(B|KiB|MiB|GiB|)\s*", str(value))
    if not match or isinstance(value, bool) or (isinstance(value, str) and not match[2]):
        raise ValueError("a size: a whole number and one of B, KiB, MiB, GiB, such as 64MiB")
    size_bytes = int(match[1]) * _SIZE_UNITS[match[2] or "B"]
    if size_bytes == 0:
        raise ValueError("a size of at least 1B")
    return size_bytes


def _positive(value: timedelta) -> timedelta:
    if not value:
        raise ValueError("a duration longer than none")
    return value


def _one_batch(value: int) -> int:
    if value > 2**30:  # the columns of a batch have 32-bit offsets
        raise ValueError("a size of at most 1GiB")
    return value


def _distinct(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or "" in value or len(set(value)) < len(value):
        raise ValueError("a column's name, or a list of different ones")
    return value


def _glob(value: str) -> str:
    if not value.strip("/.") or value.startswith("/") or ".." in value.split("/"):
        raise ValueError("a glob below the datacenter's logs folder, such as clicks/**/*.jsonl")
    return value


def _adapter(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", value):
        raise ValueError("module:attribute, such as photon.adapters:merge_columns")
    return value


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        well_formed = is_address and parts.username is None  # it would be in every message
    except ValueError:  # a port that is no number up to 65535
        well_formed = False
    if not well_formed or re.search(r"\s", value):
        raise ValueError(
            "an address such as https://dynamodb.eu-central-1.amazonaws.com or http://127.0.0.1:8000"
        )
    return value


def _cron(value: str) -> str:
    fields = value.split()
    well_formed = len(fields) == len(_CRON_RANGES) and all(map(_is_cron_field, fields, _CRON_RANGES))
    if well_formed and _is_never(*fields[2:]):
        raise ValueError("a day that comes in one of its months")
    if not well_formed:
        raise ValueError(
            "five fields of cron: minute 0-59, hour 0-23, day 1-31, month 1-12, weekday 0-6 (0: Sunday); "
            "each *, a number, a range, or a list of them, with /step behind * or a range; such as 17 * * * *"
        )
    return value


def _is_never(days: str, months: str, weekdays: str) -> bool:
    """Whether the earliest day that is named is beyond the longest month that is."""
    named_days = [int(day) for day in re.findall(r"\d+", re.sub(r"/\d+", "", days))]
    named_months = [int(month) for month in re.findall(r"\d+", re.sub(r"/\d+", "", months))]
    if weekdays != "*" or not named_days or not named_months or "-" in months:
        return False
    longest = max(29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31 for month in named_months)
    return min(named_days) > longest


def _is_cron_field(field: str, bounds: tuple[int, int]) -> bool:
    return all(_is_cron_part(part, *bounds) for part in field.split(","))


def _is_cron_part(part: str, least: int, most: int) -> bool:
    match = re.fullmatch(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?", part)
    if match is None:
        return False
    first, last, step = (int(text) if text else None for text in match.groups())
    if first is not None and last is None and step is not None:
        return False
    numbers = [number for number in (first, last) if number is not None]
    return numbers == sorted(numbers) and all(least <= n <= most for n in numbers) and step != 0


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
Whole = Annotated[int, Field(strict=True)]  # or pydantic takes `true` for 1
Size = Annotated[int, BeforeValidator(parse_size)]
BatchSize = Annotated[Size, AfterValidator(_one_batch)]
Columns = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    AfterValidator(_distinct),
]
Format = Literal["csv", "tsv", "jsonl"]
TimeUnit = Literal["s", "ms", "us", "ns", "iso8601"]
ColumnType = Literal["string", "int64", "float64", "bool", "timestamp_us", "date", "binary"]
Glob = Annotated[str, AfterValidator(_glob)]
AdapterName = Annotated[str, AfterValidator(_adapter)]
Url = Annotated[str, AfterValidator(_url)]
Cron = Annotated[str, AfterValidator(_cron)]
