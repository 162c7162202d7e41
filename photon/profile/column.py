"""Describe the values of a column: numbers, times, and why they can be no ids. Pure decisions."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.formats.time_texts import format_us
from photon.logs.formats.times import parse_times
from photon.pipeline.values import TimeUnit
from photon.process.readable import counted

Kind = Literal["empty", "boolean", "integer", "decimal", "structure", "text"]

MOST_LOOKED_AT = 1_000  # values of a column, spread over all, to tell whether they are times or a count
LEAST_TIMES = 0.9  # share of a time column's values that are times
# Ports, counts of 16 bits and of some places: they wrap, or begin anew, within the life of a log.
SMALL_INTEGER = 10**6
LARGE_DIGITS = 16  # an integer of as many can only be made to differ from all others, or be a time
LEAST_FILLED = 0.9  # share of an id's values that are there: a line without one becomes a dead letter
LEAST_DISTINCT = 0.5  # share of distinct values in a column that is worth asking about
_RISING = 0.9  # share of a count's steps that go up
_MOST = 0.5  # the share of values from which on all are taken for what these look like

# Seconds since 1970 of the years 1973 to 2099: ids of as many digits reach beyond them.
_TIMES_S = range(10**8, 4_102_444_800)
_PER_SECOND: dict[TimeUnit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MOST_DIGITS = 19  # digits of a time in nanoseconds
_DATE = r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}$"
_CLOCK = r"^\d\d?:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp][Mm])?$"
_ZONE = r"([Zz]|UTC|GMT|UT|:\d\d(\.\d+)? ?[+-]\d\d(:?\d\d)?)\]?$"
_INTEGER = r"^-?\d+$"
_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
_BOOLEAN = r"^(?i:true|false)$"
_STRUCTURE = r"^(\[.*\]|\{.*\})$"
# Values of these forms differ by their making.
_MADE_TO_DIFFER = {
    "UUIDs": r"^\{?[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\}?$",
    "ULIDs": r"^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$",
    "long hexadecimal texts": r"^(0x)?[0-9a-fA-F]{16,}$",
}
_NO_IDS = {
    "durations": (
        r"^(\d+(\.\d+)?(ns|us|µs|ms|s|sec|m|min|h)|\d{1,3}:\d\d(:\d\d)?(\.\d+)?|P(\d+D)?(T[\d.HMS]+)?)$"
    ),
    "file names, paths or addresses": (
        r"^([~.]?[/\\]|[A-Za-z]:\\)|://|^[^@/]*[^@/.]\.[A-Za-z][A-Za-z0-9]{0,4}$"
    ),
    "network addresses": r"^(\d{1,3}(\.\d{1,3}){3}(:\d+)?(/\d+)?|[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7})$",
    "versions": r"^v?\d+(\.\d+){2,}$",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a sample, of which each record that was logged several times counts once."""

    name: str
    kind: Kind
    values: pa.Array  # text; null where a record has none
    count: int  # values that are no null
    different: pa.Array  # the values without nulls, each once
    is_count: bool  # nearly each value is the one before it, plus 1
    units: Counter[str]  # how many of the values looked at are times, by unit
    looked_at: int
    time_formats: tuple[str, ...]  # formats of strptime for times that Photon does not know by itself
    form: str | None  # form of the values, if they are made to differ
    why_no_id: str | None  # form of the values, if no id looks so

    @property
    def filled(self) -> float:
        """The share of the records that have a value."""
        return self.count / max(1, len(self.values))

    @property
    def distinct(self) -> float:
        """The share of different values among those that are there."""
        return len(self.different) / max(1, self.count)

    @property
    def count_again(self) -> int:
        """How many records have the value of an earlier one, and other content."""
        return self.count - len(self.different)

    @property
    def says_again(self) -> str:
        return (
            f"of {len(self.values):,}, {counted(self.count_again, 'record', 'have')} the {self.name} of an "
            "earlier one and other content"
        )

    @property
    def is_unique(self) -> bool:
        """Whether nearly each record has a value, and no other record has it."""
        return self.filled >= LEAST_FILLED and len(self.different) == self.count

    @property
    def is_date(self) -> bool:
        """Whether its values are days without a time of day."""
        return self.unit is not None and _share(self.different, _DATE) == 1

    @property
    def is_clock(self) -> bool:
        """Whether its values are times of day without a day."""
        return bool(self.count) and _share(self.different, _CLOCK) == 1

    @property
    def lacks_zone(self) -> bool:
        """Whether its values are times as text that say of no zone that they are of it."""
        return self.unit == "iso8601" and not _share(self.different, _ZONE)

    @property
    def unit(self) -> TimeUnit | None:
        """The unit in which its values are times."""
        if self.time_formats:
            return "iso8601"
        if not self.units:
            return None
        unit, count = self.units.most_common(1)[0]
        return unit if count >= LEAST_TIMES * self.looked_at else None  # type: ignore[return-value]


def column_of(name: str, values: pa.Array, json_types: frozenset[str] = frozenset()) -> Column:
    """The description of a column's values; `json_types`: which types they have in JSON lines."""
    some = values.drop_null()
    different = pc.unique(some)
    looked_at = some.take(pa.array(_spread(len(some)), pa.int64()))
    kind = _kind(different, json_types)
    form = _form(different, kind)
    is_count = _is_count(some[:MOST_LOOKED_AT].to_pylist())
    units = _units(looked_at, kind)
    formats = () if units.total() else formats_of(looked_at.to_pylist())
    return Column(
        name, kind, values, len(some), different, is_count, units, len(looked_at), formats,
        form, None if form else _why_no_id(some, different, kind),
    )  # fmt: skip


def _spread(count: int) -> list[int]:
    most = min(count, MOST_LOOKED_AT)
    return [row * count // most for row in range(most)]


def _kind(different: pa.Array, json_types: frozenset[str]) -> Kind:
    if not len(different):
        return "empty"
    if "structure" in json_types or _share(different, _STRUCTURE) >= _MOST:
        return "structure"
    if json_types == {"boolean"} or _share(different, _BOOLEAN) == 1:
        return "boolean"
    if "decimal" in json_types and not json_types & {"text", "boolean"}:
        return "decimal"
    if _share(different, _INTEGER) == 1:
        return "integer"
    return "decimal" if _share(different, _NUMBER) == 1 else "text"


def _form(different: pa.Array, kind: Kind) -> str | None:
    if kind == "integer" and _share(different, rf"^-?\d{{{LARGE_DIGITS},}}$") == 1:
        return f"integers of {LARGE_DIGITS} digits or more"
    if kind != "text":
        return None
    return next((form for form, pattern in _MADE_TO_DIFFER.items() if _share(different, pattern) == 1), None)


def _why_no_id(some: pa.Array, different: pa.Array, kind: Kind) -> str | None:
    if kind == "integer" and _begins_anew(some):
        return "a count that begins anew"
    if kind == "integer":
        # Text of up to 18 digits is within 64 bits; longer ones are not small.
        small = pc.match_substring_regex(different, rf"^-?0*\d{{1,{len(str(SMALL_INTEGER)) - 1}}}$")
        return "small integers" if pc.all(small).as_py() else None
    if kind != "text":
        return {"empty": "no values", "structure": "arrays or objects", "decimal": "decimal numbers"}.get(
            kind, "true and false"
        )
    if _share(different, r"\s") > 0:
        return "texts with blanks"
    return next((form for form, pattern in _NO_IDS.items() if _share(different, pattern) >= _MOST), None)


def _begins_anew(texts: pa.Array) -> bool:
    """Whether integers rise one after the other, and after a large one come small ones again."""
    try:
        numbers = texts.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:  # beyond 64 bits
        return False
    steps = np.diff(numbers)
    falls = (numbers[:-1] >= SMALL_INTEGER) & (numbers[1:] < SMALL_INTEGER)
    return bool(len(steps) and (steps > 0).mean() >= _RISING and falls.any())


def _share(texts: pa.Array, pattern: str) -> float:
    """The share of texts in which the pattern is found."""
    return float(pc.mean(pc.match_substring_regex(texts, pattern).cast(pa.int8())).as_py() or 0)


def _is_count(texts: list[str]) -> bool:
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 19]
    steps = sum(after - before == 1 for before, after in itertools.pairwise(numbers))
    return len(numbers) > 1 and steps >= LEAST_TIMES * (len(texts) - 1)


def _units(texts: pa.Array, kind: Kind) -> Counter[str]:
    """The units in which the values are times of our days.

    A log may have numbers of one unit and times as text in one column: that unit reads both.
    """
    found = [_unit_of_number(text) for text in texts.to_pylist()]
    units: Counter[str] = Counter(unit for unit in found if unit)
    if kind == "text" and len(units) < 2:  # seven or eight digits may be a date, and mostly are none
        others = texts.filter(pa.array([unit is None for unit in found], pa.bool_()))
        if iso := len(others) - parse_times(others, "iso8601").null_count:
            of_numbers = next(iter(units), "s")
            return Counter({"iso8601" if of_numbers == "s" else of_numbers: iso + units.total()})
    return units


def _unit_of_number(text: str) -> TimeUnit | None:
    """The unit in which a number is a time of our days; None: it is none, or no number."""
    number = re.fullmatch(r"(\d+)(\.\d*)?", text)
    if number is None or len(number[1]) > _MOST_DIGITS:
        return None
    return next((unit for unit, per in _PER_SECOND.items() if int(number[1]) // per in _TIMES_S), None)


def units_seen(column: Column) -> str:
    """How many values are times of which unit; else what the values are."""
    if column.units.total():
        return ", ".join(
            f"{n:,} of {column.looked_at:,} values in {unit}" for unit, n in column.units.items()
        )
    if not len(column.different):
        return "empty"
    return f"its values are no times, such as {column.different[0].as_py()!r}"


def described(columns: dict[str, Column]) -> str:
    """Describe each column in a few words."""
    return ", ".join(f"{column.name} ({_like(column)})" for column in columns.values()) or "no column"


def _like(column: Column) -> str:
    if column.kind == "empty":
        return "empty"
    if column.time_formats:
        return "times as " + " or ".join(column.time_formats)
    if column.units.total() >= LEAST_TIMES * column.looked_at:
        return "times in " + " and ".join(column.units)
    like = [f"{column.distinct:.0%} distinct", column.form or column.why_no_id]
    return ", ".join(filter(None, like)) + (", a count" if column.is_count else "")


# -- formats in which times may be written that Photon does not know by itself


LEAST_WRITTEN = 0.9  # share of the values in a column of times
_TRIED = 20  # values that tell whether a format is worth trying on all
_DATES = (
    "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y",
    "%b %d, %Y", "%B %d, %Y", "%d %B %Y", "%b %d %Y",
)  # fmt: skip
_CLOCKS = ("", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M", "%I:%M:%S %p", "%I:%M %p", "%H:%M:%S,%f")
_BETWEEN_DATE_AND_CLOCK = (" ", ", ", "T")
_ZONES = ("", " %z", "%z")
_WHOLE = (
    "%a %b %d %H:%M:%S %Y",
    "%Y%m%d%H%M%S",
    "%Y.%m.%d %H:%M:%S",
    "%a %b %d %Y %H:%M:%S",
    "%Y/%m/%d %I:%M:%S %p",
)
# Only such texts are worth some hundred tries.
_LOOKS_LIKE_ONE = re.compile(
    r"\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}\b.*|\d{4}[./]\d\d[./]\d\d.*|\d{14}|.*\b[A-Z][a-z]{2,8}\b.*\d{4}.*",
    re.DOTALL,
)


def _all_formats() -> tuple[str, ...]:
    dated = (
        date + (between + clock if clock else "") + (zone if clock else "")
        for date, between, clock, zone in itertools.product(_DATES, _BETWEEN_DATE_AND_CLOCK, _CLOCKS, _ZONES)
    )
    return tuple(dict.fromkeys((*_WHOLE, *dated)))


_FORMATS = _all_formats()


def formats_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The formats in which nearly all texts are times; several if the day may be the month."""
    some = texts[:: max(1, len(texts) // _TRIED)]
    if not some or not all(map(_LOOKS_LIKE_ONE.fullmatch, some)):
        return ()
    likely = [form for form in _FORMATS if _share_of_format(some, form) >= LEAST_WRITTEN]
    return tuple(form for form in likely if _share_of_format(texts, form) >= LEAST_WRITTEN)


def _share_of_format(texts: Sequence[str], form: str) -> float:
    return sum(format_us(text, form) is not None for text in texts) / len(texts)
