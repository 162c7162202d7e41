from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import blake2b

import pyarrow as pa
import pytest

from photon.logs.columns import ParsedColumns, parse_columns
from photon.logs.formats import json_blocks
from photon.logs.formats.json_blocks import read_all_values
from photon.pipeline.sections import ForeignLog


def parse(raws: list[bytes], header: bytes = b"", most_columns: int = 1000, **log: object) -> ParsedColumns:
    settings = {
        "files": "*",
        "format": "csv" if header else "jsonl",
        "id": "id",
        "key": "key",
        "time": "ts",
        **log,
    }
    return parse_columns(pa.array(raws, pa.binary()), header, ForeignLog(**settings), most_columns)


SUFFIXES = {name: blake2b(name.encode(), digest_size=4).hexdigest() for name in ("a b", "ID", "Amount")}

TYPES = {
    "i": "int64",
    "f": "float64",
    "b": "bool",
    "t": "timestamp_us",
    "d": "date",
    "x": "binary",
    "s": "string",
}


def test_undeclared_columns_are_text_as_it_stands():
    parsed = parse([b"1,NA,,007", b'"a,b",null, ,1e3'], b"id,a,b,c")
    assert parsed.table.to_pylist() == [
        {"id": "1", "a": "NA", "b": "", "c": "007"},
        {"id": "a,b", "a": "null", "b": " ", "c": "1e3"},
    ]
    assert parsed.failures == {}


def test_declared_columns_have_their_type():
    row = b"-5,1.5,true,2024-02-29T12:00:00.5Z,2024-02-29,abc,text"
    parsed = parse([row], b"i,f,b,t,d,x,s", columns=TYPES)
    assert parsed.table.to_pylist() == [
        {
            "i": -5,
            "f": 1.5,
            "b": True,
            "t": datetime(2024, 2, 29, 12, 0, 0, 500_000, UTC),
            "d": date(2024, 2, 29),
            "x": b"abc",
            "s": "text",
        }
    ]


def test_decimals_are_as_exact_as_the_text_and_have_the_digits_of_a_table():
    parsed = parse([b"0.10", b"-1e2", b"12345678.90", b""], b"m", columns={"m": "decimal(10, 2)"})
    assert parsed.table["m"].to_pylist() == [Decimal("0.10"), Decimal("-100"), Decimal("12345678.90"), None]
    assert parsed.table["m"].type == pa.decimal128(38, 2)
    assert parsed.failures == {}


def test_a_timestamp_may_be_a_number_of_the_logs_unit():
    parsed = parse([b"1500", b"1970-01-01T00:00:01"], b"t", columns={"t": "timestamp_us"}, time_unit="ms")
    assert [time.timestamp() for time in parsed.table["t"].to_pylist()] == [1.5, 1.0]


def test_an_empty_text_of_a_declared_type_is_null_but_stays_text_and_binary():
    parsed = parse([b",,,,,,"], b"i,f,b,t,d,x,s", columns=TYPES)
    assert parsed.table.to_pylist() == [
        {"i": None, "f": None, "b": None, "t": None, "d": None, "x": b"", "s": ""}
    ]
    assert parsed.failures == {}


@pytest.mark.parametrize(
    ("column", "text", "type"),
    [
        ("i", "abc", "int64"),
        ("i", "1.5", "int64"),
        ("i", "9223372036854775808", "int64"),
        ("i", "0x1F", "int64"),
        ("i", "0xFFFFFFFFFFFFFFFF", "int64"),
        ("f", "1e400", "float64"),
        ("f", "-1e400", "float64"),
        ("f", "-1e-400", "float64"),
        ("f", "1,5", "float64"),
        ("b", "maybe", "bool"),
        ("t", "yesterday", "timestamp_us"),
        ("d", "2023-02-29", "date"),
        ("m", "0.105", "decimal(10, 2)"),
        ("m", "123456789.00", "decimal(10, 2)"),
        ("m", "NaN", "decimal(10, 2)"),
        ("m", "1_0", "decimal(10, 2)"),
        ("m", "178.0300000000100001220000330100191093090199", "decimal(20, 1)"),
        ("m", "1873634", "decimal(38, 36)"),
        ("m", "1e-400", "decimal(38, 2)"),
        ("m", "1e99999999999999999999", "decimal(38, 2)"),
    ],
)
def test_a_value_that_does_not_fit_fails_its_row_alone(column, text, type):
    parsed = parse([b"", f'"{text}"'.encode(), b""], column.encode(), columns={column: type})
    assert parsed.failures == {1: f"column {column!r}: {text!r} is not a value of type {type}"}
    assert parsed.table.num_rows == 3


def test_a_row_that_failed_is_null_in_every_column():
    parsed = parse([b"a,1", b"b,x", b"c"], b"id,i", columns={"i": "int64"})
    assert parsed.table.to_pylist() == [{"id": "a", "i": 1}, {"id": None, "i": None}, {"id": None, "i": None}]
    assert parsed.failures[2] == "expected 2 columns, got 1"


def test_a_header_name_that_comes_again_gets_a_number() -> None:
    assert parse([b"1,2,3"], b"a,a,a_2").table.column_names == ["a", "a_2", "a_2_2"]


def test_header_names_that_are_one_for_a_table_get_a_hash_of_themselves_but_for_one() -> None:
    names = parse([b"1,2,3,4,5"], b"id,a b,ID,a_b,c d").table.column_names
    assert names == ["id", f"a b_{SUFFIXES['a b']}", f"ID_{SUFFIXES['ID']}", "a_b", "c d"]


def test_columns_of_json_are_all_keys_and_missing_ones_are_null():
    parsed = parse([b'{"a": "x", "b": 1.50}', b'{"c": true, "a": null}'], columns={"d": "int64"})
    assert parsed.table.to_pylist() == [
        {"a": "x", "b": "1.50", "c": None, "d": None},
        {"a": None, "b": None, "c": "true", "d": None},
    ]


def test_nested_json_is_compact_text_with_its_numbers_as_they_were():
    parsed = parse(['{"a": {"x": [1.0, -0, "ü\\n", null, true], "y": {}}, "b": "[1]"}'.encode()])
    assert parsed.table.to_pylist() == [{"a": '{"x":[1.0,-0,"ü\\n",null,true],"y":{}}', "b": "[1]"}]


def test_keys_of_json_that_differ_in_case_alone_are_one_column():
    parsed = parse([b'{"Amount": "1"}', b'{"amount": "2"}'], columns={"amount": "int64"})
    assert parsed.table.to_pylist() == [{"amount": 1}, {"amount": 2}]


def test_of_keys_that_are_one_for_a_table_none_is_lost_and_their_order_does_not_matter() -> None:
    raws = [b'{"a b": 1, "a_b": 2}', b'{"a_b": 2, "a b": 1}', b'{"a b": 3}', b'{"A_B": 4}']
    spaced = f"a b_{SUFFIXES['a b']}"
    for parsed in (parse(raws).table.to_pylist(), [parse([raw]).table.to_pylist()[0] for raw in raws]):
        rows = [{name: text for name, text in row.items() if text is not None} for row in parsed]
        both = {spaced: "1", "a_b": "2"}
        assert rows == [both, both, {"a b": "3"}, {"A_B": "4"}]


def test_of_two_keys_the_declared_one_keeps_its_name() -> None:
    parsed = parse([b'{"Amount": "1", "amount": "2"}', b'{"AMOUNT": "3"}'], columns={"amount": "int64"})
    odd = f"Amount_{SUFFIXES['Amount']}"
    assert parsed.table.to_pylist() == [{odd: "1", "amount": 2}, {odd: None, "amount": 3}]


def test_more_columns_than_the_limit_fail():
    parsed = parse([b'{"a": 1, "b": 2, "c": 3}', b'{"a": 1}'], most_columns=2)
    assert parsed.failures == {0: "3 columns, more than 2"}
    assert parsed.table.to_pylist() == [{"a": None}, {"a": "1"}]
    parsed = parse([b"1,2,3"], b"a,b,c", most_columns=2)
    assert parsed.failures == {0: "3 columns, more than 2"}
    assert parsed.table.num_rows == 1


def test_there_is_a_row_for_each_line_even_without_any_column():
    parsed = parse([b"oops", b"oops"])
    assert parsed.table.num_rows == 2
    assert sorted(parsed.failures) == [0, 1]
    assert parse([]).table.num_rows == 0


def test_values_keep_their_own_text_where_lines_are_read_at_once():
    lines = [b'{"id": "%d", "n": -0, "share": 1.50, "big": 1e400, "text": "1,0"}' % n for n in range(64)]
    values = read_all_values(pa.array(lines))
    assert values is not None
    assert {key: column[9].as_py() for key, column in values.items()} == {
        "id": "9", "n": "-0", "share": "1.50", "big": "1e400", "text": "1,0",
    }  # fmt: skip


@pytest.mark.parametrize("lines_at_once", [1, 7, 64])
def test_lines_have_the_same_values_in_however_many_blocks_they_are_read(
    monkeypatch: pytest.MonkeyPatch, lines_at_once: int
):
    lines = pa.array([b'{"id": "%d", "key%d": %d}' % (n, n % 5, n) for n in range(64)])
    values = read_all_values(lines)
    monkeypatch.setattr(json_blocks, "AT_ONCE_LINES", lines_at_once)
    assert read_all_values(lines) == values
