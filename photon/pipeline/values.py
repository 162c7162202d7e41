"""The types of single values in the pipeline file: durations, sizes, globs, names, times of cron.

A wrong value raises ValueError with what was expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from photon.pipeline.cron import parse_cron
from photon.pipeline.location import Location, parse_s3_url

PIPELINE_NAME = r"^[a-z][a-z0-9_-]{0,62}$"
LONGEST = timedelta(days=36_500)  # taken from now it is within the calendar

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # units that times in logs may have
MICROSECONDS_OF_UNITS = {  # units of durations in the pipeline file
    "us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3_600 * 10**6, "d": 86_400 * 10**6,
}  # fmt: skip
_SIZE_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_duration(value: object) -> timedelta:
    """Read `250ms`, `1.5s`, `1m`, `24h`, `7d`; ValueError says what was expected."""
    if isinstance(value, timedelta):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)\s*", str(value))
    if not match:
        raise ValueError("a duration: a number and one of us, ms, s, m, h, d, such as 250ms")
    seconds = float(match[1]) * MICROSECONDS_OF_UNITS[match[2]] / 10**6
    if seconds > LONGEST.total_seconds():
        raise ValueError(f"a duration of at most {LONGEST.days}d")
    return timedelta(seconds=seconds)


def parse_size(value: object) -> int:
    """Read `64MiB`, `4KiB`, `100B` or a whole number of bytes; ValueError says what was expected."""
    match = re.fullmatch(r"\s*(\d+)\s*(B|KiB|MiB|GiB|)\s*", str(value))
    if not match or isinstance(value, bool) or (isinstance(value, str) and not match[2]):
        raise ValueError("a size: a whole number and one of B, KiB, MiB, GiB, such as 64MiB")
    size_bytes = int(match[1]) * _SIZE_UNITS[match[2] or "B"]
    if size_bytes == 0:
        raise ValueError("a size of at least 1B")
    return size_bytes


def _must(be_right: Callable[[Any], object], expected: str) -> AfterValidator:
    def check(value: object) -> object:
        if not be_right(value):
            raise ValueError(expected)
        return value

    return AfterValidator(check)


def _is_bare_address(text: str) -> bool:
    parts = urlsplit(text)
    return parts.path in ("", "/") and not (parts.query or parts.fragment)


def _is_address(value: str) -> bool:
    try:
        parts = urlsplit(value)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number up to 65535
        return False
    # A user's name and password would be in every message.
    return is_server and parts.username is None and not re.search(r"\s", value)


def _folder(value: object, info: ValidationInfo) -> object:
    """Read a local folder, relative to that of the pipeline file, which is the context of the validation."""
    if not isinstance(value, str):
        return value
    if scheme := _scheme(value):
        raise ValueError(f"a local folder: {scheme} is not supported yet")
    return info.context / value if info.context else value


def _location(value: object, info: ValidationInfo) -> object:
    """Read a local folder, or one on S3, which the datacenter's `storage` says how to reach."""
    if not isinstance(value, str) or (scheme := _scheme(value)) is None:
        return _folder(value, info)
    if scheme != "s3":
        raise ValueError(f"a local folder, or a URL such as s3://bucket/folder: {scheme} is not supported")
    storage = info.data.get("storage")
    return parse_s3_url(value, getattr(storage, "endpoint_url", None), getattr(storage, "region", None))


def _scheme(value: str) -> str | None:
    found = re.match(r"([a-z0-9]+)://", value)
    return found[1] if found else None


def _texts(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {
        key: json.dumps(one) if isinstance(one, bool | int | float) else one for key, one in value.items()
    }


def _one_or_several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _unmatched_columns(value: object) -> object:
    listed = tuple(value) if isinstance(value, list | tuple) else (value,)
    names = [name for name in listed if isinstance(name, str) and name]
    if len({name.lower() for name in names}) < len(listed):
        raise ValueError("a list of columns of the primary log, whose names differ by more than case")
    return listed


def _is_delimiting(value: str) -> bool:
    return len(value) == 1 and value.isascii() and value not in "\0\n\r"


def _tells_a_day(form: str) -> bool:
    """Whether strptime takes the format, and learns the day and the year by it."""
    codes = set(re.findall("%(.)", form))
    has_day = bool(codes & {"c", "x", "j"}) or (bool(codes & {"d"}) and bool(codes & {"m", "b", "B"}))
    has_week = bool(codes & {"a", "A", "w", "u"}) and bool(codes & {"U", "W", "V"})
    if not codes & {"Y", "y", "c", "x", "G"} or not (has_day or has_week):
        return False
    example = datetime(2026, 3, 1, 12, tzinfo=UTC)
    try:
        datetime.strptime(example.strftime(form), form)
    except ValueError:
        return False
    return True


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False
    return bool(name)


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
PositiveDuration = Annotated[Duration, _must(bool, "a duration longer than none")]
# Who has a table open reads entries of its log: a handle is opened anew within 2 minutes, a task's is not.
LogDuration = Annotated[
    Duration, _must(lambda value: value >= timedelta(minutes=5), "a duration of at least 5m")
]
Whole = Annotated[int, Field(strict=True)]  # or pydantic takes `true` for 1
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Size = Annotated[int, BeforeValidator(parse_size)]
# The columns of a batch have 32-bit offsets.
BatchSize = Annotated[Size, _must(lambda size_bytes: size_bytes <= 2**30, "a size of at most 1GiB")]
Columns = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_or_several),
    _must(
        lambda names: names and "" not in names and len(set(names)) == len(names),
        "a column's name, or a list of different ones",
    ),
]
TimeColumns = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_or_several),
    _must(
        lambda names: 1 <= len(set(names)) == len(names) <= 2 and "" not in names,
        "a column's name, or a list of two: that of the day and that of the time of day",
    ),
]
Glob = Annotated[
    str,
    _must(
        lambda glob: glob.strip("/.") and not glob.startswith("/") and ".." not in glob.split("/"),
        "a glob below the datacenter's logs folder, such as clicks/**/*.jsonl",
    ),
]
_ATTRIBUTE = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
AdapterName = Annotated[
    str,
    _must(
        re.compile(_ATTRIBUTE).fullmatch,
        "module:attribute, such as photon.adapters:merge_columns",
    ),
]
ColumnPrefix = Annotated[
    str,
    _must(
        # Foreign columns get `foreign_`: a prefix that begins like it would make two names one.
        re.compile("(?!(?i:f))[A-Za-z][A-Za-z0-9_]*").fullmatch,
        "letters, digits and _, first a letter other than f",
    ),
]
DatacenterName = Annotated[
    str,
    _must(
        re.compile("[a-z][a-z0-9_-]{0,62}").fullmatch,
        "a name of lower-case letters, digits, _ and -, a letter first",
    ),
]
Owner = Annotated[
    str,
    _must(
        re.compile(r"(team:\S+|[^\s@]+@[^\s@]+\.[^\s@]+)").fullmatch,
        "a mail address, or a team such as team:ads",
    ),
]
Url = Annotated[
    str,
    _must(
        _is_address, "an address such as https://dynamodb.eu-central-1.amazonaws.com or http://127.0.0.1:8000"
    ),
]
StoreUrl = Annotated[
    Url,
    _must(
        _is_bare_address,
        "an address without path or query, such as http://127.0.0.1:8000: "
        "the DynamoDB API is asked at the root of its server",
    ),
]
Folder = Annotated[Path, BeforeValidator(_folder)]
Place = Annotated[Location, BeforeValidator(_location)]
SubFolder = Annotated[
    str,
    _must(
        re.compile(r"(?!\.)[^/*?\[]+(/(?!\.)[^/*?\[]+)*").fullmatch,
        "a folder below the datacenter's logs folder, such as clicks",
    ),
]
ObjectsPattern = Annotated[
    str,
    _must(
        re.compile(r"((s3|gs|az)://[^/*?\[:]+/+|(?!\w+://))[^:]*[*?\[][^:]*").fullmatch,
        "a pattern of a folder or of a bucket (s3, gs, az), such as s3://bucket/clicks/**/*.parquet",
    ),
]
Cron = Annotated[str, AfterValidator(parse_cron)]
# Settings of another program, which takes all of them as text.
Settings = Annotated[dict[str, str], BeforeValidator(_texts)]
TextTable = Literal["csv", "tsv"]  # a header names the values
OwnFormat = Literal[TextTable, "jsonl", "combined", "common", "logfmt"]
TEXT_TABLES: tuple[TextTable, ...] = get_args(TextTable)
OWN_FORMATS: tuple[OwnFormat, ...] = get_args(OwnFormat)
A_FORMAT = f"{', '.join(OWN_FORMATS)}, or module:Class of a format of your own"
Format = Annotated[str, _must(re.compile("|".join((*OWN_FORMATS, _ATTRIBUTE))).fullmatch, A_FORMAT)]
Encoding = Literal["utf-8", "latin-1", "cp1252"]
ONE_BYTE_ENCODINGS: frozenset[Encoding] = frozenset({"latin-1", "cp1252"})  # each byte is a character
Delimiter = Annotated[
    str, _must(_is_delimiting, "one ASCII character that is no line end, such as ';' or \"\\t\"")
]
Quote = Annotated[
    str,
    _must(lambda value: value == "" or _is_delimiting(value), "one ASCII character, or '' for no quotes"),
]
Comment = Annotated[
    str,
    _must(
        lambda value: 0 < len(value) <= 8 and value.isascii() and value.isprintable(),
        "what comment lines begin with, such as '#'",
    ),
]
Header = Annotated[
    tuple[str, ...],
    _must(
        lambda names: names and "" not in names and len(set(names)) == len(names),
        "the names of all columns in their order, each another one",
    ),
]
UnmatchedColumns = Annotated[tuple[str, ...], BeforeValidator(_unmatched_columns)]
TimeFormats = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_or_several),
    _must(
        lambda formats: formats and all(map(_tells_a_day, formats)),
        "a format of strptime with day, month and year, such as '%d/%m/%Y %H:%M:%S', or a list of them",
    ),
]
ZoneName = Annotated[str, _must(_is_zone, "a zone of the IANA database, such as Europe/Berlin")]
TimeUnit = Literal["s", "ms", "us", "ns", "iso8601"]
_COLUMN_TYPES = ("string", "int64", "float64", "bool", "timestamp_us", "date", "binary")
_DECIMAL = re.compile(r"decimal\(([1-9]\d?), ?(\d\d?)\)")
MOST_DIGITS = 38  # that a decimal of Delta has


def decimal_digits(column_type: str) -> tuple[int, int] | None:
    """The digits of `decimal(18, 4)`, and how many of them are behind the point; None: it is no decimal."""
    found = _DECIMAL.fullmatch(column_type)
    return None if found is None else (int(found[1]), int(found[2]))


def _is_column_type(value: str) -> bool:
    digits = decimal_digits(value)
    return value in _COLUMN_TYPES if digits is None else digits[1] <= digits[0] <= MOST_DIGITS


ColumnType = Annotated[
    str,
    _must(
        _is_column_type,
        f'{", ".join(_COLUMN_TYPES)} or "decimal(18, 4)", in quotes, of at most {MOST_DIGITS} digits',
    ),
]
IdCodec = Literal["server_process_timestamp"]
IdTimeUnit = Literal["s", "ms", "us", "ns"]
