"""JSON lines as text columns, each line on its own.

A record is an object. Strings stay as they are, null and what is missing are null, numbers and
true/false keep their own text, arrays and objects are compact JSON. Of a key that occurs twice the
last counts. Python's parser says what a line means; reading many at once with pyarrow is only quicker,
and is done where it is sure to say the same.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pyarrow_json

from photon.logs.lines import BLANK, LineTexts, concat_texts, join_lines

_SMALLEST_BLOCK = 64  # below it, one by one is as quick as another attempt on half of it
_DEEPEST = 200  # levels of nesting; pyarrow's parser, which recurses, overflows the stack at some 10,000
_TOO_DEEP = f"not valid JSON: nested more than {_DEEPEST} levels deep"
_QUICK_DECIMAL = pa.decimal128(38, 9)

_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class _Number(str):
    """The text of a number: nested in other values it is written without quotes."""


_NESTED_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def decode_record(raw: bytes) -> dict[str, str | None]:
    """The values of one line by key, as text; ValueError says why it is not a record."""
    text = raw.decode()
    if not text.strip(" \t\r"):
        raise ValueError(BLANK)
    try:
        record = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if not isinstance(record, dict):
        raise ValueError(f"not a JSON object but {_kind(record)}")
    if not all(value is None or type(value) is str for value in record.values()):
        nested = _NESTED_DECODER.decode(text)
        if _depth(nested) > _DEEPEST:
            raise ValueError(_TOO_DEEP)
        record = {key: _as_text(value) for key, value in nested.items()}
    if "\\u" in text:  # only there a lone half of a character can come from
        try:
            "".join(part for item in record.items() for part in item if part is not None).encode()
        except UnicodeEncodeError:
            raise ValueError("not valid JSON: half a surrogate pair") from None
    return record


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
    return {list: "an array", str: "a string or number", bool: "true or false"}.get(type(value), "null")


def read_json_lines(raws: pa.Array, names: Sequence[str], valued: Collection[str] = ()) -> LineTexts:
    """The values of `names` in lines that are UTF-8, as strings.

    `valued`: of these only a number's value matters, not how it is written.
    """
    block = _read_block(raws, names, valued)
    if block is not None:
        return block
    if len(raws) <= _SMALLEST_BLOCK:
        return _read_each(raws, names)
    half = len(raws) // 2
    parts = [read_json_lines(part, names, valued) for part in (raws[:half], raws[half:])]
    return concat_texts(parts, [half, len(raws) - half])


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
            column.append(record.get(name))
    return LineTexts(tuple(pa.array(column, pa.string()) for column in values), failures)


def _read_block(raws: pa.Array, names: Sequence[str], valued: Collection[str]) -> LineTexts | None:
    """All lines at once; None where pyarrow's parser might see another thing than Python's.

    Every line begins with `{` and ends with `}`, so that no object can span two of them (nothing
    joins a `}` to a `{`), and as many objects as lines means one in each.
    """
    if len(raws) <= _SMALLEST_BLOCK // 4:
        return None
    data = join_lines(raws)
    if not _is_plain(raws, data):
        return None
    schema = _guess_schema(raws[0].as_py(), names, valued)
    if schema is None:
        return None
    try:
        table = pyarrow_json.read_json(
            pa.BufferReader(data),
            pyarrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pyarrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(raws):
        return None
    columns = [_as_strings(table[name]) for name in names]
    return None if None in columns else LineTexts(tuple(columns), {})


def _is_plain(raws: pa.Array, data: bytes) -> bool:
    """Each line in braces, not deeply nested, without what parsers see differently."""
    return bool(
        b"Inf" not in data  # a number to pyarrow, to Python only as Infinity
        and pc.all(pc.starts_with(raws, b"{")).as_py()
        and pc.all(pc.ends_with(raws, b"}")).as_py()
        and (_is_flat(raws, data) or _most(raws, b"[") + _most(raws, b"{") <= _DEEPEST)
    )


def _is_flat(raws: pa.Array, data: bytes) -> bool:
    """No line has an array, or an object but itself."""
    return b"[" not in data and data.count(b"{") == len(raws)


def _most(raws: pa.Array, part: bytes) -> int:
    """How often `part` occurs in a line, at most."""
    return int(pc.max(pc.count_substring(raws, part)).as_py())


def _guess_schema(first: bytes, names: Sequence[str], valued: Collection[str]) -> pa.Schema | None:
    """The types of a block, from its first line; a wrong guess only costs time."""
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return None
    fields = []
    for name in dict.fromkeys(names):
        value = record.get(name)
        is_number = isinstance(value, int | float)
        if isinstance(value, bool | list | dict) or (isinstance(value, float) and name not in valued):
            return None
        number = _QUICK_DECIMAL if name in valued else pa.int64()
        fields.append((name, number if is_number else pa.string()))
    return pa.schema(fields)


def _as_strings(column: pa.ChunkedArray) -> pa.Array | None:
    array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    if pa.types.is_integer(array.type) and pc.any(pc.equal(array, 0)).as_py():
        return None  # it may have been written as -0
    return array if pa.types.is_string(array.type) else array.cast(pa.string())
