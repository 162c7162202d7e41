"""The quick and the exact parser agree: a line means the same alone, among others, and at every batch size.

Each token is one that parsers are known to see differently. It is a value, a key, or beside the record.
"""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from photon.logs.columns import parse_columns
from photon.logs.formats.csv_lines import read_csv_lines
from photon.logs.formats.dialect import BYTE_ORDER_MARK, dialect_of, utf8
from photon.logs.formats.json_lines import decode_record
from photon.pipeline.sections import ForeignLog
from tests.support.shares import a_share
from tests.unit.test_logs_parse import parse

VALUES = [
    "NaN", "Infinity", "-Infinity", "Inf", "-Inf", "nan", "-0", "-0.0", "0", "1e400", "-1e400", "1e-400",
    "1E5", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" * 400,
    "1." + "0" * 30, "0.1e1", "01", "-01", "+1", ".5", "5.", "1_000", "0x1F", "0b1", "1e", "1e+", "--1",
    "true", "True", "TRUE", "null", "None", "undefined", "'single'", '"\\u0000"', '"a\\u0000b"',
    '"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"', '"\\x41"', '"\\u12"', '"\\/"', '"\\a"', '"\\',
    '"', '"\t"', '"\x01"', '"\x7f"', '"\u2028"', '"\u2029"', '"\ufeff"', '"\u00e9"', '"e\u0301"',
    '"2026-03-01"', '"2026-03-01T12:00:00Z"', '"12:00"', '""', '" "', "[]", "{}", "[1,]", "[,1]",
    '{"a":1,}', '{"a":1,"a":2}', "[1,2.0,-0,1e2]", '{"b":{"c":-0}}', "/*c*/1", "1/*c*/", "1 //c", "#1",
    "[" * 50 + "]" * 50, "[" * 199 + "]" * 199, "[" * 250 + "]" * 250, "\u00a01", "\x0b1", "", " ", "1 2",
    '1,"x":2',
]  # fmt: skip
KEYS = [
    '"x"', '"X"', '""', '"a.b"', '"a"', '"x\\u0000y"', '"x\\u0000z"', '"\\u0000"', '"ts"', '"\\u0074s"',
    '"note"', "x", "'x'", '"\ud7ff"', '"\u2028"', '"event_id"', '"\\ud800"', '"x y"', '"_event_id"',
    '"TS"',
]  # fmt: skip
AROUND = [
    "{}",
    " {}",
    "{} ",
    "\t{}",
    "\ufeff{}",
    "{},",
    "{};",
    "[{}]",
    "{}{}",
    "{}}}",
    "{{{}",
    "{}#c",
    "\x00{}",
    "{}\x00",
]
PLAIN = [
    '{"event_id": "f", "key": "k", "ts": 1.5, "note": "n"}',
    '{"event_id": 5, "key": "k", "ts": 1, "note": 7}',
    '{"event_id": "f", "key": "k", "ts": "1", "note": true}',
    '{"event_id": "f", "key": "k", "ts": 1}',
]


def record(value: str, key: str) -> str:
    return f'{{"event_id": "a", "key": "k", "ts": 1, {key}: {value}}}'


def around(way: str, text: str) -> str:
    return (
        way.replace("{{", "\1").replace("}}", "\2").replace("{}", text).replace("\1", "{").replace("\2", "}")
    )


LINES = st.one_of(
    st.builds(record, st.sampled_from(VALUES), st.sampled_from(KEYS)),
    st.builds(
        lambda way, value: around(way, record(value, '"x"')), st.sampled_from(AROUND), st.sampled_from(VALUES)
    ),
    st.builds(
        lambda names, values: "{" + ", ".join(f"{n}: {v}" for n, v in zip(names, values, strict=False)) + "}",
        st.lists(st.sampled_from(['"event_id"', '"key"', '"ts"', '"note"']), min_size=3, max_size=4),
        st.lists(st.sampled_from(VALUES), min_size=4, max_size=4),
    ),
    st.sampled_from(PLAIN),
)
RAWS = st.one_of(
    LINES.map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [b'{"event_id": "\xff", "ts": 1}', b"\xff", b'{"event_id": "a\xc3", "key": "k", "ts": 1}']
    ),
)
COUNTS = st.sampled_from([0, 1, 15, 17, 40, 63, 64, 65, 130])


def outcomes(raws: list[bytes]) -> list[object]:
    """Parse each line: it is an event, a dead letter with its reason, or nothing."""
    parsed = parse(b"".join(raw + b"\n" for raw in raws), format="jsonl")
    by_offset: dict[int, object] = {}
    for row in [*parsed.events.to_pylist(), *parsed.dead_letters.to_pylist()]:
        by_offset[row.pop("_offset")] = row
    starts, at = [], 0
    for raw in raws:
        starts.append(at)
        at += len(raw) + 1
    assert by_offset.keys() <= set(starts)
    return [by_offset.get(start) for start in starts]


@settings(max_examples=50, deadline=None)
@given(st.lists(RAWS, min_size=1, max_size=4), COUNTS, st.sampled_from(PLAIN))
def test_a_line_of_json_becomes_the_same_whatever_lines_are_beside_it(raws, count, plain):
    lines = [plain.encode()] * count + raws + [plain.encode()] * count + raws
    together = outcomes(lines)
    alone = {raw: outcomes([raw])[0] for raw in set(lines)}
    assert together == [alone[raw] for raw in lines]


def columns(raws: list[bytes], **types: str) -> list[tuple[dict[str, object], str | None]]:
    """All values of each line by column, without nulls, and why it fails."""
    log = ForeignLog(files="*", format="jsonl", id="event_id", key="key", time="ts", columns=types)
    parsed = parse_columns(pa.array(raws, pa.binary()), b"", log)
    rows = parsed.table.to_pylist() if parsed.table.num_columns else [{} for _ in raws]
    found = [{name: repr(value) for name, value in row.items() if value is not None} for row in rows]
    return [(row, parsed.failures.get(n)) for n, row in enumerate(found)]


TYPES = st.sampled_from(
    [
        {},
        {"x": "int64"},
        {"x": "float64"},
        {"x": "bool"},
        {"x": "timestamp_us"},
        {"x": "date"},
        {"x": "decimal(9, 2)"},
    ]
)


@settings(max_examples=50, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=4), COUNTS, st.sampled_from(PLAIN), TYPES)
def test_the_values_of_a_line_of_json_are_the_same_whatever_lines_are_beside_it(texts, count, plain, types):
    raws = []
    for text in texts:
        try:
            decode_record(text.encode())
        except (ValueError, UnicodeEncodeError):
            continue
        raws.append(text.encode())
    lines = [plain.encode()] * count + raws + [plain.encode()] * count + raws
    alone = {raw: columns([raw], **types)[0] for raw in set(lines)}
    assert columns(lines, **types) == [alone[raw] for raw in lines]


CELLS = st.sampled_from(
    [
    "a", "", '"', '""', '"""', '"x"', '"x,y"', '"x', 'y"', 'a"b', " ", "1", "1e400", "NaN", "null", "NULL",
    "NA", "-0", "\r", "\\", "\\N", '\\"', "\u2028", "\x00", "\x0b", "\x0c", "\x85", "\ufeff", "#", ";",
    "\t", "'", "\u00e9",
]
)  # fmt: skip
ROWS = st.lists(CELLS, min_size=1, max_size=6).map(",".join)
DIALECTS = st.sampled_from(
    [{}, {"escape": "\\"}, {"quote": "'"}, {"quote": ""}, {"comment": "#"}, {"delimiter": ";"}]
)


@settings(max_examples=50, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), COUNTS, DIALECTS)
def test_a_line_of_csv_becomes_the_same_whatever_lines_are_beside_it(texts, count, dialect):
    plain = b"f,k,1,x".replace(b",", str(dialect.get("delimiter", ",")).encode())
    lines = [plain] * count + [text.encode() for text in texts] + [plain] * count

    form = dialect_of(ForeignLog(files="*", format="csv", id="event_id", key="key", time="ts", **dialect))
    assert form is not None

    def of(raws: list[bytes]) -> list[object]:
        read = read_csv_lines(utf8(pa.array(raws, pa.binary()), form), 4, range(3), form)
        values = zip(*(column.to_pylist() for column in read.columns), strict=True)
        return [read.failures.get(row, value) for row, value in enumerate(values)]

    lines = [line for line in lines if line.removeprefix(BYTE_ORDER_MARK)]
    assert of(lines) == [of([line])[0] for line in lines]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("plain", a_share(PLAIN, 0))
def test_each_token_among_plain_lines_is_what_it_is_alone(value, plain):
    raw = record(value, '"note"').encode("utf-8", "surrogatepass")
    assert outcomes([plain.encode()] * 70 + [raw])[-1] == outcomes([raw])[0]


def test_the_tokens_are_of_both_kinds():
    valid = sum(_is_json(value) for value in VALUES)
    assert 30 < valid < len(VALUES) - 20


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
