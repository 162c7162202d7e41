"""The values in JSON lines, as text columns: those of some keys, or of all.

Strings stay as they are; null and what is missing are null; numbers and true/false keep their own text;
arrays and objects are compact JSON. Of a key that occurs twice the last counts. A name such as `user.id`
is the key of that name, else `id` in the object `user` (`value_of`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from photon.logs.formats.json_blocks import DEEPEST, read_all_values, read_records, ways_to
from photon.logs.formats.lines import BLANK, SMALLEST_BLOCK, LineReader, LineTexts, in_halves, join_lines

_TOO_DEEP = f"not valid JSON: nested more than {DEEPEST} levels deep"
_OVER_SEVERAL_LINES = "not valid JSON: a value over several lines; write each object on a line"


class _Number(str):
    """The text of a number: nested in other values it is written without quotes."""


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_Number)


def decode_record(raw: bytes) -> dict[str, str | None]:
    """The values of one line by key, as text; ValueError says why it is not a record."""
    text = raw.decode().removeprefix("\ufeff")  # a file that was put behind another begins so
    if not text.strip(" \t\r"):
        raise ValueError(BLANK)
    try:
        record = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if text.strip() in ("{", "["):
            raise ValueError(_OVER_SEVERAL_LINES) from None
        what = error.msg.removesuffix(" at")
        raise ValueError(f"not valid JSON: {what} at character {error.pos}") from None
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

    def may_escape(self, data: bytes) -> bool:
        return b"\\u" in data

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
        return read_all_values(raws)


def _read_json_block(
    raws: pa.Array, names: Sequence[str], valued: Collection[str], data: bytes | None
) -> LineTexts | None:
    """All lines at once; None where that might say another thing than `decode_record` of each."""
    if len(raws) <= SMALLEST_BLOCK // 4:
        return None
    data = join_lines(raws) if data is None else data
    ways = ways_to(names, raws, data)
    columns = None if ways is None else read_records(raws, data, ways, [name in valued for name in names])
    return None if columns is None else LineTexts(columns, {})
