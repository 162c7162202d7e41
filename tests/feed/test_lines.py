"""JSON lines of a step: each value has one text, whatever lies beside it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.storage.json_lines import json_texts, lines

MOMENT = datetime(2026, 1, 5, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")


def read_back(page: pa.Table) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(page).splitlines()]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (TIME, MOMENT, '"2026-01-05T12:00:00.000000Z"'),
        (TIME, MOMENT.replace(microsecond=7), '"2026-01-05T12:00:00.000007Z"'),
        (pa.date32(), date(2026, 1, 5), '"2026-01-05"'),
        (pa.decimal128(38, 2), Decimal("1.50"), '"1.50"'),
        (pa.float64(), 1.5, "1.5"),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float32(), float("-inf"), '"-Infinity"'),
        (pa.int64(), 2**63 - 1, "9223372036854775807"),
        (pa.bool_(), False, "false"),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.string(), 'a "b"\n\0', r'"a \"b\"\n\u0000"'),
        (pa.string_view(), "", '""'),
        (pa.list_(TIME), [MOMENT, None], '["2026-01-05T12:00:00.000000Z",null]'),
        (pa.list_(pa.float64()), [float("inf")], '["Infinity"]'),
        (
            pa.struct([("at", pa.date32()), ("n", pa.int64())]),
            {"at": date(2026, 1, 5), "n": None},
            '{"at":"2026-01-05","n":null}',
        ),
        (pa.map_(pa.string(), pa.binary()), [("a", b"x"), ("b", None)], '[["a","eA=="],["b",null]]'),
        (
            pa.list_(pa.struct([("n", pa.list_(pa.int64()))])),
            [{"n": [1]}, None, {"n": None}],
            '[{"n":[1]},null,{"n":null}]',
        ),
    ],
)
def test_a_value_has_its_text_alone_and_among_others(kind: pa.DataType, value: Any, text: str) -> None:
    among = pa.chunked_array([pa.array([None, value, None, value], kind)[1:], pa.array([value, None], kind)])
    assert lines(pa.table({"it": among})).decode().splitlines() == [
        "{}" if missing else f'{{"it":{text}}}' for missing in (False, True, False, False, True)
    ]
    assert json_texts(among).to_pylist() == [text, None, text, text, None]


def test_a_null_column_is_left_out_so_one_that_comes_later_changes_no_older_line() -> None:
    before = pa.table({"a": [1, 2], "b": ["x", None]})
    assert lines(before) == b'{"a":1,"b":"x"}\n{"a":2}\n'
    assert lines(before.append_column("c", pa.nulls(2, pa.int64()))) == lines(before)


def test_a_page_without_rows_has_no_line() -> None:
    assert lines(pa.table({"a": pa.array([], pa.int64())})) == b""


SHAPES = st.sampled_from(
    [
        pa.float64(),
        pa.list_(pa.float64()),
        pa.struct([("x", pa.list_(pa.string()))]),
        pa.string(),
        pa.binary(),
    ]
)


@given(st.data(), SHAPES, st.integers(0, 5))
def test_the_lines_of_two_pages_are_those_of_one(data: st.DataObject, kind: pa.DataType, cut: int) -> None:
    values = data.draw(st.lists(_values_of(kind), max_size=8))
    page = pa.table({"it": pa.array(values, kind)})
    assert lines(page[:cut]) + lines(page[cut:]) == lines(page)
    assert len(read_back(page)) == len(values)


def _values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_list(kind):
        return st.none() | st.lists(_values_of(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({part.name: _values_of(part.type) for part in kind})
    if pa.types.is_floating(kind):
        return st.none() | st.floats()
    return st.none() | (st.text(max_size=3) if pa.types.is_string(kind) else st.binary(max_size=3))
