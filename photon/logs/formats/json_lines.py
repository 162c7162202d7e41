"""The values in JSON lines, as text columns: those of some keys, or of all.

Strings stay as they are; null and what is missing are null; numbers and true/false keep their own text;
arrays and objects are compact JSON. Of a key that occurs twice the last counts. A name such as `user.id`
is the key of that name, else `id` in the object `user` (`value_of`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pyarrow_json

from photon.logs.formats.json_blocks import DEEPEST, Way, is_flat, is_in_braces, read_records, ways_to
from photon.logs.formats.lines import (
    BLANK,
    SMALLEST_BLOCK,
    LineReader,
    LineTexts,
    in_halves,
    join_lines,
    one_array,
)

_TOO_DEEP = f"not valid JSON: nested more than {DEEPEST} levels deep"
_OVER_SEVERAL_LINES = "not valid JSON: a value over several lines; write each object on a line"
_QUICK_DECIMAL = pa.decimal128(38, 9)


class _Number(str):
    """The text of a number: nested in other values it is written without quotes."""


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def decode_record(raw: bytes) -> dict[str, str | None]:
    """The values of one line by key, as text; ValueError says why it is not a record."""
    text = raw.decode().removeprefix("\ufeff")  # of a file that was put behind another
    if not text.strip(" \t\r"):
        raise ValueError(BLANK)
    try:
        record = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if text.strip() in ("{", "["):
            raise ValueError(_OVER_SEVERAL_LINES) from None
        raise ValueError(f"not valid JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if not isinstance(record, dict):
        raise ValueError(f"not a JSON object but {_kind(record)}")
    if not all(value is None or type(value) is str for value in record.values()):
        if _depth(record) > DEEPEST:
            raise ValueError(_TOO_DEEP)
        record = {key: _as_text(value) for key, value in record.items()}
    if "\\u" in text:  # only there a lone half of a character can come from
        try:
            "".join(part for item in record.items() for part in item if part is not None).encode()
        except UnicodeEncodeError:
            raise ValueError("not valid JSON: half a surrogate pair") from None
    return record


def value_of(record: Mapping[str, str | None], name: str) -> str | None:
    """The value of a key of `decode_record`; without that key, `a.b` is `b` in the object of the key `a`."""
    if name in record or "." not in name:
        return record.get(name)
    outer, _, inner = name.partition(".")
    text = record.get(outer)
    if text is None or not text.startswith("{"):
        return None
    try:
        return value_of(decode_record(text.encode()), inner)
    except ValueError:  # a text that only begins like an object
        return None


def _depth(value: object) -> int:
    """How many arrays and objects are inside each other, without recursion."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return str(value) if isinstance(value, str) else _compact(value)


def _compact(value: object) -> str:
    """A nested value as JSON without spaces, numbers as they were written."""
    match value:
        case _Number():
            return str(value)
        case list():
            return "[" + ",".join(map(_compact, value)) + "]"
        case dict():
            return "{" + ",".join(f"{_quote(key)}:{_compact(item)}" for key, item in value.items()) + "}"
        case str():
            return _quote(value)
        case _:
            return {True: "true", False: "false", None: "null"}[value]  # type: ignore[index]


_quote = json.JSONEncoder(ensure_ascii=False).encode


def _kind(value: object) -> str:
    kinds = {
        list: "an array",
        str: "a string or number",
        _Number: "a string or number",
        bool: "true or false",
    }
    return kinds.get(type(value), "null")


class JsonLines(LineReader):
    """JSON lines: an object a line."""

    def record(self, raw: bytes) -> Mapping[str, str | None]:
        return decode_record(raw)

    def value(self, record: Mapping[str, str | None], name: str) -> str | None:
        return value_of(record, name)

    def texts(
        self, raws: pa.Array, names: Sequence[str], valued: Collection[str] = (), data: bytes | None = None
    ) -> LineTexts:
        """Many lines at once where that says the same. To join them takes a tenth of reading them."""
        block = _read_json_block(raws, names, valued, data)
        if block is not None:
            return block
        if len(raws) <= SMALLEST_BLOCK:
            return super().texts(raws, names)
        return in_halves(raws, lambda half: self.texts(half, names, valued))

    def all_texts(self, raws: pa.Array) -> dict[str, pa.Array] | None:
        return read_whole_json_lines(raws)


def _read_json_block(
    raws: pa.Array, names: Sequence[str], valued: Collection[str], data: bytes | None
) -> LineTexts | None:
    """All lines at once; None where that might say another thing than `decode_record` of each."""
    if len(raws) <= SMALLEST_BLOCK // 4:
        return None
    data = join_lines(raws) if data is None else data
    ways = ways_to(names, raws, data)
    if ways is None:
        return None
    columns = read_records(raws, data, ways, [name in valued for name in names])
    columns = columns or _read_by_pyarrow(raws, data, dict(zip(names, ways, strict=True)), valued)
    return None if columns is None else LineTexts(columns, {})


def _read_by_pyarrow(
    raws: pa.Array, data: bytes, ways: Mapping[str, Way], valued: Collection[str]
) -> tuple[pa.Array, ...] | None:
    """The values of lines that may hold NaN; None where pyarrow might see another thing than Python.

    No object spans two lines (`json_records`), so as many objects as lines means one in each.
    """
    if not _is_plain(data):
        return None
    schema = _guess_schema(raws[0].as_py(), ways, valued)
    if schema is None:
        return None
    try:
        table = _read_json(data, schema, "ignore")
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(raws):
        return None
    columns = [_at(table, way) for way in ways.values()]
    return None if _may_have_minus_zero(columns, data) else tuple(map(_as_strings, columns))


def _at(table: pa.Table, way: Way) -> pa.ChunkedArray:
    """The values at the end of a way into objects."""
    outermost, *inner = way
    return pc.struct_field(table[outermost], inner) if inner else table[outermost]


def _read_json(data: bytes, schema: pa.Schema, others: str) -> pa.Table:
    # One thread and one block, so that the rows are in order and no line straddles two blocks.
    return pyarrow_json.read_json(
        pa.BufferReader(data),
        pyarrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pyarrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )


def _is_plain(data: bytes) -> bool:
    """Lines without what pyarrow and Python see differently."""
    # The first is a number to pyarrow, to Python only as Infinity; the second ends the name of a key.
    return not _holds(data, b"Inf") and not _holds(data, b"\\u0000")


def _holds(data: bytes, part: bytes) -> bool:
    """Whether bytes hold others; to look for the first of them alone takes a twentieth of the time."""
    return part[:1] in data and part in data


def _guess_schema(first: bytes, ways: Mapping[str, Way], valued: Collection[str]) -> pa.Schema | None:
    """The types of a block, from its first line; a wrong guess only costs time."""
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return None
    fields: dict[str, Any] = {}
    for name, way in ways.items():
        value, level = record, fields
        for key in way:
            value = value.get(key) if isinstance(value, dict) else None
        kind = _guess_type(value, name in valued)
        for key in way[:-1]:
            level = level.setdefault(key, {})
            if not isinstance(level, dict):
                return None  # both an object and what is in it are wanted
        if kind is None or level.setdefault(way[-1], kind) != kind:
            return None
    return pa.schema(_struct(fields))


def _guess_type(value: object, only_value: bool) -> pa.DataType | None:
    if isinstance(value, bool | list | dict) or (isinstance(value, float) and not only_value):
        return None
    number = _QUICK_DECIMAL if only_value else pa.int64()
    return number if isinstance(value, int | float) else pa.string()


def _struct(fields: Mapping[str, Any]) -> pa.StructType:
    return pa.struct([(k, _struct(v) if isinstance(v, dict) else v) for k, v in fields.items()])


_MINUS_ZERO = re.compile(rb"-0(?<=[:\s]-0)[\s,}]")  # also in a text, which only costs time


def _may_have_minus_zero(columns: Iterable[pa.ChunkedArray], data: bytes) -> bool:
    """Whether one of the integers may be written as -0, which pyarrow's parser reads as 0."""
    has_zero = any(pa.types.is_integer(each.type) and pc.any(pc.equal(each, 0)).as_py() for each in columns)
    return has_zero and _MINUS_ZERO.search(data) is not None


def _as_strings(column: pa.ChunkedArray) -> pa.Array:
    array = one_array(column)
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


# -- all keys of JSON lines at once

_SAMPLE_LINES = 16  # from which the keys and types of a block are guessed; a wrong guess only costs time
_GUESSES = 3  # a guess finds what the one before it has missed


def read_whole_json_lines(raws: pa.Array) -> dict[str, pa.Array] | None:
    """All values of lines that are UTF-8, as `decode_record` has them, by key; null where a line has none.

    None where pyarrow's parser might see another thing than Python's, or lose how a number is written.
    """
    data = join_lines(raws)
    if not len(raws) or not _is_plain(data) or not is_in_braces(raws) or not is_flat(raws, data):
        return None
    types = _sampled_types(raws)
    for _ in range(_GUESSES):
        if types is None:
            return None
        try:
            table = pyarrow_json.read_json(
                pa.BufferReader(data),
                pyarrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                pyarrow_json.ParseOptions(
                    explicit_schema=pa.schema(types), unexpected_field_behavior="infer"
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(raws):
            return None
        missed = {name: table[name].type for name in table.column_names if name not in types}
        if not missed:
            if _may_have_minus_zero(table.columns, data):
                return None
            return {name: _as_strings(table[name]) for name in table.column_names}
        # What looks like a time is inferred to be one, and would lose its text.
        types |= {name: kind if kind in _EXACT_TYPES else pa.string() for name, kind in missed.items()}
    return None


_EXACT_TYPES = (pa.int64(), pa.bool_())


def _sampled_types(raws: pa.Array) -> dict[str, pa.DataType] | None:
    types: dict[str, pa.DataType] = {}
    step = -(-len(raws) // _SAMPLE_LINES)
    for raw in raws.take(pa.array(range(0, len(raws), step))).to_pylist():
        try:
            record = json.loads(raw)
        except (ValueError, RecursionError):
            return None
        for name, value in record.items():
            if isinstance(value, float):
                return None
            if value is not None:
                kind = {bool: pa.bool_(), int: pa.int64()}.get(type(value), pa.string())
                if types.setdefault(name, kind) != kind:
                    return None
    return types
