"""Types that are proposed: of columns that are numbers or booleans in all of a sample. Pure decisions."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import same_column
from photon.pipeline.values import ColumnType
from photon.profile.sample import JsonType, SideSample

# How a number is written that its type gives back as it was. A number with a zero before it is a code.
_INTEGER = r"^(0|-?[1-9]\d{0,18})$"
_DECIMAL = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d{1,3})?$"
_DECIMAL_COMMA = r"^[-+]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?$"
_NO_THOUSANDS = r",(\d{1,2}|\d{4,})$"  # 1,234 may be a thousand and more
_BOOLEAN = r"^(true|false|True|False|TRUE|FALSE)$"
_EXACT_DIGITS = 15  # a float64 holds any of so many; of more only some, such as those that a program printed
_NUMBERS: frozenset[JsonType] = frozenset({"integer", "decimal"})


def column_types(sample: SideSample) -> dict[str, ColumnType]:
    """The columns of a sample that are numbers or booleans in each of its records, with their types."""
    alike = Counter(map(same_column, sample.outermost))
    found = dict[str, ColumnType]()
    for name in sample.outermost:
        if name not in sample.columns or alike[same_column(name)] > 1:
            continue  # a record may have both: the one that is declared would take the name of the other
        if kind := _type_of(sample.columns[name].drop_null(), sample.json_types.get(name)):
            found[name] = kind
    return found


def decimal_commas(sample: SideSample) -> list[str]:
    """The columns whose values are numbers with decimal commas, which no type reads."""
    texts = {name: sample.columns[name].drop_null() for name in sample.outermost if name in sample.columns}
    return [
        name
        for name, some in texts.items()
        if len(some)
        and _all(some, _DECIMAL_COMMA)
        and pc.any(pc.match_substring_regex(some, _NO_THOUSANDS)).as_py()
    ]


def _type_of(texts: pa.Array, json_types: frozenset[JsonType] | None) -> ColumnType | None:
    """The type that holds all of the texts as they are; in JSON lines they must be no strings."""
    if not len(texts):
        return None
    is_number = json_types is None or json_types <= _NUMBERS
    if (json_types is None or json_types == {"boolean"}) and _all(texts, _BOOLEAN):
        return "bool"
    if is_number and _all(texts, _INTEGER) and _fits(texts, pa.int64()):
        return "int64"
    is_decimal = is_number and _all(texts, _DECIMAL) and not (json_types is None and _are_versions(texts))
    if is_decimal and _fits(texts, pa.float64()) and _is_exact(texts):
        return "float64"
    return None


def _are_versions(texts: pa.Array) -> bool:
    """Whether texts such as 1.9 and 1.10 differ in a zero at their end: as numbers 1.10 and 1.1 are one.

    A program that prints decimals prints equally many of each, or none that end in 0 but `.0`.
    """
    decimals = pc.replace_substring_regex(texts.filter(pc.match_substring(texts, ".")), r"^.*\.|[eE].*$", "")
    lengths = pc.utf8_length(decimals)
    return pc.count_distinct(lengths).as_py() > 1 and not _all(decimals, r"^0$|[1-9]$")


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _fits(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return not pa.types.is_floating(kind) or bool(pc.all(pc.is_finite(values)).as_py())


def _is_exact(texts: pa.Array) -> bool:
    """Whether a float64 holds the numbers as they are written."""
    mantissas = pc.replace_substring_regex(texts, r"[eE].*$|[-.]", "")
    is_long = pc.greater(pc.utf8_length(pc.utf8_ltrim(mantissas, "0")), _EXACT_DIGITS)
    return all(Decimal(repr(float(text))) == Decimal(text) for text in texts.filter(is_long).to_pylist())
