"""The values of a few keys in many JSON lines at once, by msgspec: it reads all else only to know it is
JSON.

It takes what Python's parser takes, and sees the same in it, but for NaN and Infinity, which it refuses.
So it needs three times less time than pyarrow's parser, and fewer looks at a block before it may be used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from photon.logs.formats.lines import join_lines, one_array

DEEPEST = 200  # levels of nesting; parsers recurse, and overflow the stack at some thousands

Way = tuple[str, ...]  # the keys from a record to a value in it
# A value is a text, a number of which only the value matters, or a number as it is written.
Kind = Literal["text", "whole", "number"]

AT_ONCE_LINES = 4096  # all of whose values are held as objects; more of them outgrow a core's cache
_NULL = b"null"
_NUMBER_OR_NULL = frozenset("-0123456789n")  # first characters of JSON numbers and null
_WITH_AN_ESCAPE = re.compile(r'["\\/\x00-\x1f]')  # characters that JSON can write in two ways without \u


def ways_to(names: Sequence[str], raws: pa.Array, data: bytes) -> list[Way] | None:
    """Where the values of `names` are in all lines, which are joined in `data`.

    None where lines differ in it, or where one is no object, or nested too deeply.
    """
    if not is_in_braces(raws):
        return None
    is_all_flat = is_flat(raws, data)
    if not is_all_flat and _deepest(raws) > DEEPEST:
        return None
    inside = [name for name in names if "." in name]
    if inside and b"\\u" in data:
        return None  # a key, or the brace of an object in a text, may be written so
    if is_all_flat:
        inside = []
    if any(f'"{name}"'.encode() in data or _WITH_AN_ESCAPE.search(name) for name in inside):
        return None  # a key of that very name goes before one in an object
    return [tuple(name.split(".")) if name in inside else (name,) for name in names]


def read_records(
    raws: pa.Array, data: bytes, ways: Sequence[Way], only_value: Sequence[bool]
) -> tuple[pa.Array, ...] | None:
    """The values at these ways: strings, or int64 where of whole numbers only the value matters.

    None where a line is no record, or has a value of another kind than the first line.
    """
    kinds = _kinds(raws[0].as_py(), ways, only_value)
    reader = None if kinds is None else _reader(tuple(zip(ways, kinds, strict=True)))
    return None if reader is None else reader.read(data, len(raws))


def read_all_values(raws: pa.Array) -> dict[str, pa.Array] | None:
    """All values of lines that are UTF-8, as strings by key; null where a line has none.

    None where a line is no flat record, or where a key has texts and other values.
    """
    blocks: list[pa.Table] = []
    for at in range(0, len(raws), AT_ONCE_LINES):
        values = _all_values(raws[at : at + AT_ONCE_LINES])
        if not values:  # a table without columns would have no rows either
            return None
        blocks.append(pa.table(values))
    if not blocks:
        return None
    table = pa.concat_tables(blocks, promote_options="default")
    return {key: one_array(table[key]) for key in table.column_names}


def _all_values(raws: pa.Array) -> dict[str, pa.Array] | None:
    data = join_lines(raws)
    if not is_in_braces(raws) or not is_flat(raws, data):
        return None
    try:
        records = _ANY_KEYS.decode_lines(data)
        if len(records) != len(raws):
            return None
        keys = dict.fromkeys(key for record in records for key in record)
        return {key: _as_texts([record.get(key, _NULL) for record in records]) for key in keys}
    except msgspec.DecodeError:
        return None


def _as_texts(values: Sequence[msgspec.Raw | bytes]) -> pa.Array:
    """The values of one key, as they are in JSON. DecodeError if some are texts and others are not."""
    joined = b",".join(values)
    if b'"' in joined:
        return pa.array(_TEXTS.decode(b"[" + joined + b"]"), pa.string())
    return pa.array([None if text == "null" else text for text in joined.decode().split(",")], pa.string())


_ANY_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXTS = msgspec.json.Decoder(list[str | None])


def is_in_braces(raws: pa.Array) -> bool:
    """Each line begins with `{` and ends with `}`."""
    offsets = np.frombuffer(raws.buffers()[1], np.int32)[raws.offset : raws.offset + len(raws) + 1]
    if (offsets[1:] == offsets[:-1]).any():
        return False
    codes = np.frombuffer(raws.buffers()[2], np.uint8)
    return bool((codes[offsets[:-1]] == ord("{")).all() and (codes[offsets[1:] - 1] == ord("}")).all())


def is_flat(raws: pa.Array, data: bytes) -> bool:
    """No line has an array, or an object but itself."""
    codes = np.frombuffer(data, np.uint8)  # counted in half the time that the bytes take to count
    return b"[" not in data and int(np.count_nonzero(codes == ord("{"))) == len(raws)


def _deepest(raws: pa.Array) -> int:
    """How deep a line may be nested, at most."""
    return sum(int(pc.max(pc.count_substring(raws, part)).as_py()) for part in (b"[", b"{"))


def _kinds(first: bytes, ways: Sequence[Way], only_value: Sequence[bool]) -> list[Kind] | None:
    """The kind of each value in the first line; a wrong guess only costs time."""
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return None
    kinds: list[Kind] = []
    for way, is_valued in zip(ways, only_value, strict=True):
        value = record
        for key in way:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, bool | list | dict):
            return None
        is_whole = isinstance(value, int) and is_valued
        kinds.append("whole" if is_whole else "number" if isinstance(value, int | float) else "text")
    return kinds


class _ValueReader:
    """Reads the values at some ways of a record."""

    def __init__(self, wanted: Sequence[tuple[Way, Kind]]) -> None:
        """ValueError: both an object and what is in it are wanted, or msgspec takes no such key."""
        types = {"text": str | None, "whole": int | None, "number": msgspec.Raw}
        fields = _Fields()
        self._wanted = [(fields.add(way, types[kind]), kind) for way, kind in wanted]
        self._decoder = msgspec.json.Decoder(fields.struct())

    def read(self, data: bytes, lines: int) -> tuple[pa.Array, ...] | None:
        """The values of each line of `data`; None: they are none of this reader's.

        Each line begins with `{` and ends with `}`, so that no object can span two of them (nothing joins
        a `}` to a `{`), and as many objects as lines means one in each.
        """
        try:
            records = self._decoder.decode_lines(data)
        except (msgspec.DecodeError, RecursionError):
            return None
        if len(records) != lines:
            return None
        columns = [_column(records, fields, kind) for fields, kind in self._wanted]
        return None if any(column is None for column in columns) else tuple(columns)


@lru_cache(64)
def _reader(wanted: tuple[tuple[Way, Kind], ...]) -> _ValueReader | None:
    """A reader, which takes some 0.1 ms to make; None if there is none for such ways."""
    try:
        return _ValueReader(wanted)
    except ValueError:
        return None


class _Fields:
    """The keys of an object that are wanted, as fields of a struct."""

    def __init__(self) -> None:
        self._of: dict[str, Any] = {}  # key -> a type, or the fields of an object

    def add(self, way: Way, kind: Any) -> Way:
        """Want a value; the names of the fields that lead to it. ValueError."""
        key, *rest = way
        known = self._of.setdefault(key, _Fields() if rest else kind)
        name = f"f{list(self._of).index(key)}"
        if isinstance(known, _Fields) != bool(rest) or not (rest or known == kind):
            raise ValueError(f"{key} is wanted as two things")
        return (name, *known.add(tuple(rest), kind)) if rest else (name,)

    def struct(self) -> Any:
        """The type of records; what one of them lacks is None. ValueError."""
        types = (each.struct() | None if isinstance(each, _Fields) else each for each in self._of.values())
        fields = [(f"f{number}", kind, None) for number, kind in enumerate(types)]
        names = {f"f{number}": key for number, key in enumerate(self._of)}
        return msgspec.defstruct("Record", fields, rename=names, gc=False)


def _column(records: Sequence[Any], fields: Way, kind: Kind) -> pa.Array | None:
    """The value at the end of a way, in each record; None if some are of another kind."""
    first, *inner = fields
    values = list(map(attrgetter(first), records))
    for field in inner:
        values = [None if each is None else getattr(each, field) for each in values]
    if kind == "text":
        return pa.array(values, pa.string())
    if kind == "whole":
        try:
            return pa.array(values, pa.int64())
        except (pa.ArrowInvalid, OverflowError):
            return None
    texts = ["null" if each is None else bytes(each).decode() for each in values]
    if not _NUMBER_OR_NULL.issuperset(text[0] for text in texts):
        return None
    return pa.array([None if text == "null" else text for text in texts], pa.string())
