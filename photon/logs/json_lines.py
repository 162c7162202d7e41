"""The values in JSON lines, as text columns: those of some keys, or of all.

Strings stay as they are; null and what is missing are null; numbers and true/false keep their own text;
arrays and objects are compact JSON. Of a key that occurs twice the last counts. A name such as `user.id` is
the key of that name, else `id` in the object `user` (`value_of`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pyarrow_json

from photon.logs.lines import BLANK, SMALLEST_BLOCK, LineTexts, in_halves, join_lines, one_array

_DEEPEST = 200  # levels of nesting; pyarrow's parser, which recurses, overflows the stack at some 10,000
_TOO_DEEP = f"not valid JSON: nested more than {_DEEPEST} levels deep"
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
        if _depth(record) > _DEEPEST:
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


def read_json_lines(
    raws: pa.Array, names: Sequence[str], valued: Collection[str] = (), data: bytes | None = None
) -> LineTexts:
    """The values of `names` in lines that are UTF-8, as strings.

    `valued`: of these only a number's value matters, not how it is written. `data`: the lines joined, if they
    are at hand; to join them takes a tenth of the time of reading them.
    """
    block = _read_json_block(raws, names, valued, data)
    if block is not None:
        return block
    if len(raws) <= SMALLEST_BLOCK:
        return _read_each(raws, names)
    return in_halves(raws, lambda half: read_json_lines(half, names, valued))


def _read_each(raws: pa.Array, names: Sequence[str]) -> LineTexts:
    failures: dict[int, str] = {}
    values: list[list[str | None]] = [[] for _ in names]
    for row, raw in enumerate(raws.to_pylist()):
        try:
            record = decode_record(raw)
        except ValueError as error:
            failures[row] = str(error)
            record = {}
        for name, column in zip(names, values, strict=True):
            column.append(value_of(record, name))
    return LineTexts(tuple(pa.array(column, pa.string()) for column in values), failures)


def _read_json_block(
    raws: pa.Array, names: Sequence[str], valued: Collection[str], data: bytes | None
) -> LineTexts | None:
    """All lines at once; None where pyarrow's parser might see another thing than Python's.

    Every line begins with `{` and ends with `}`, so that no object can span two of them (nothing
    joins a `}` to a `{`), and as many objects as lines means one in each.
    """
    if len(raws) <= SMALLEST_BLOCK // 4:
        return None
    data = join_lines(raws) if data is None else data
    if not _is_plain(raws, data):
        return None
    inside = [name for name in names if "." in name]
    if inside and _is_flat(raws, data):
        inside = []
    if any(json.dumps(name).encode() in data for name in inside):
        return None  # a key of that very name goes before one in an object
    ways = {name: tuple(name.split(".")) if name in inside else (name,) for name in names}
    schema = _guess_schema(raws[0].as_py(), ways, valued)
    if schema is None:
        return None
    try:
        table = _read_json(data, schema, "ignore")
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(raws):
        return None
    columns = [_at(table, ways[name]) for name in names]
    if _may_have_minus_zero(columns, data):
        return None
    return LineTexts(tuple(map(_as_strings, columns)), {})


def _at(table: pa.Table, way: tuple[str, ...]) -> pa.ChunkedArray:
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


def _is_plain(raws: pa.Array, data: bytes) -> bool:
    """Each line in braces, not deeply nested, without what parsers see differently."""
    return bool(
        not _holds(data, b"Inf")  # a number to pyarrow, to Python only as Infinity
        and not _holds(data, b"\\u0000")  # in a key it is the end of the name to pyarrow
        and _is_in_braces(raws)
        and (_is_flat(raws, data) or _most(raws, b"[") + _most(raws, b"{") <= _DEEPEST)
    )


def _holds(data: bytes, part: bytes) -> bool:
    """Whether bytes hold others; to look for the first of them alone takes a twentieth of the time."""
    return part[:1] in data and part in data


def _is_in_braces(raws: pa.Array) -> bool:
    """Each line begins with `{` and ends with `}`."""
    offsets = np.frombuffer(raws.buffers()[1], np.int32)[raws.offset : raws.offset + len(raws) + 1]
    if (offsets[1:] == offsets[:-1]).any():
        return False
    codes = np.frombuffer(raws.buffers()[2], np.uint8)
    return bool((codes[offsets[:-1]] == ord("{")).all() and (codes[offsets[1:] - 1] == ord("}")).all())


def _is_flat(raws: pa.Array, data: bytes) -> bool:
    """No line has an array, or an object but itself."""
    codes = np.frombuffer(data, np.uint8)  # counted in half the time that the bytes take to count
    return b"[" not in data and int(np.count_nonzero(codes == ord("{"))) == len(raws)


def _most(raws: pa.Array, part: bytes) -> int:
    """How often `part` occurs in a line, at most."""
    return int(pc.max(pc.count_substring(raws, part)).as_py())


def _guess_schema(
    first: bytes, ways: Mapping[str, tuple[str, ...]], valued: Collection[str]
) -> pa.Schema | None:
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
    if not len(raws) or not _is_plain(raws, data) or not _is_flat(raws, data):
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
