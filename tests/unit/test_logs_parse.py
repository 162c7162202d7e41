from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import photon.logs.parse as parse_module
from photon.logs.files import ByteRange, LogFile
from photon.logs.formats.csv_lines import NOT_CLOSED
from photon.logs.parse import (
    DEAD_LETTERS,
    FOREIGN_EVENTS,
    PRIMARY_EVENTS,
    ParsedRange,
    combine,
    read_events,
    read_events_of,
)
from photon.pipeline.sections import ForeignLog, Limits, PrimaryLog

HEADER = b"event_id,key,ts,note"


def parse(
    data: bytes,
    format: str = "csv",
    header: bytes = HEADER,
    line_limit: int = 2**20,
    start: int = 0,
    starts_inside: bool = False,
    ends_inside: bool = False,
    **log: object,
) -> ParsedRange:
    settings = {"files": "*", "id": "event_id", "key": "key", "time": "ts", **log}
    foreign = ForeignLog(format=format, **settings)
    file = LogFile(
        7, "foreign", f"clicks.{format}", 1, False, header if format != "jsonl" else b"", 0, 0, b""
    )
    byte_range = ByteRange(7, start, start + len(data), 0, 0, starts_inside, ends_inside)
    return read_events(data, file, byte_range, foreign, Limits(line_bytes=line_limit))


def events(parsed: ParsedRange) -> list[tuple]:
    return [(row["_id"], row["_key"], row["_time_us"]) for row in parsed.events.to_pylist()]


def reasons(parsed: ParsedRange) -> list[str]:
    return parsed.dead_letters["reason"].to_pylist()


def test_every_line_becomes_an_event_with_its_place_and_its_bytes():
    parsed = parse(b"a,k1,1.5,x\nb,k2,2,y\n", start=100)
    assert parsed.events.schema == FOREIGN_EVENTS
    assert parsed.events.to_pylist() == [
        {"_file": 7, "_offset": 100, "_raw": b"a,k1,1.5,x", "_id": "a", "_time_us": 1_500_000, "_key": "k1"},
        {"_file": 7, "_offset": 111, "_raw": b"b,k2,2,y", "_id": "b", "_time_us": 2_000_000, "_key": "k2"},
    ]
    assert parsed.dead_letters.schema == DEAD_LETTERS
    assert parsed.dead_letters.num_rows == 0


def test_a_primary_log_has_no_keys():
    log = PrimaryLog(files="*", format="jsonl", id="id", time="t")
    file = LogFile(1, "primary", "q.jsonl", 1, False, b"", 0, 0, b"")
    data = b'{"id": "a", "t": 1}\n'
    parsed = read_events(data, file, ByteRange(1, 0, len(data), 0, 1), log, Limits())
    assert parsed.events.schema == PRIMARY_EVENTS
    assert parsed.events["_id"].to_pylist() == ["a"]


def test_an_empty_range_has_no_events():
    assert parse(b"").events.schema == FOREIGN_EVENTS
    assert parse(b"", format="jsonl").dead_letters.schema == DEAD_LETTERS


def test_a_carriage_return_before_the_newline_is_dropped_and_counts_in_offsets():
    parsed = parse(b"a,k,1,x\r\nb,k,2,y\nc,k,3,z\r\n")
    assert parsed.events["_raw"].to_pylist() == [b"a,k,1,x", b"b,k,2,y", b"c,k,3,z"]
    assert parsed.events["_offset"].to_pylist() == [0, 9, 17]


def test_blank_lines_and_repeated_headers_are_nothing():
    parsed = parse(b"\na,k,1,x\n\r\n" + HEADER + b"\r\nb,k,2,y\n\xef\xbb\xbf" + HEADER + b"\n")
    assert [row[0] for row in events(parsed)] == ["a", "b"]
    assert reasons(parsed) == []


def test_a_json_line_of_white_space_is_nothing():
    parsed = parse(b'  \n{"event_id": "a", "key": "k", "ts": 1}\n\t\n', format="jsonl")
    assert events(parsed) == [("a", "k", 1_000_000)]
    assert reasons(parsed) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"a,k,1", "expected 4 columns, got 3"),
        (b"a,k,1,x,y", "expected 4 columns, got 5"),
        (b",k,1,x", "no value for id column 'event_id'"),
        (b"a,k,,x", "no value for time column 'ts'"),
        (b"a,k,soon,x", "time 'soon' is not a number of s"),
        (b"a,k,1e20,x", "time '1e20' is not between the years 1 and 9999"),
        (b'a,k,1,"x', NOT_CLOSED),
        (b"a,k,1,x\ry", "a carriage return within the line"),
        (b"a,k,1,\xff", "not UTF-8"),
        (b"a,k,1," + b"x" * 100, "line longer than 100 bytes (limits.line)"),
    ],
)
def test_a_bad_line_of_csv_is_a_dead_letter_and_the_rest_goes_on(line, reason):
    parsed = parse(b"p,k,1,x\n" + line + b"\nq,k,2,y\n", line_limit=100)
    assert [row[0] for row in events(parsed)] == ["p", "q"]
    assert parsed.dead_letters.to_pylist() == [
        {"_file": 7, "_offset": 8, "_length": len(line), "_raw": line, "reason": reason}
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{ ", "not valid JSON: a value over several lines; write each object on a line"),
        (b"[", "not valid JSON: a value over several lines; write each object on a line"),
        (b"{]", "not valid JSON: Expecting property name enclosed in double quotes at character 1"),
        (b'{"event_id": "a"} {}', "not valid JSON: Extra data at character 18"),
        (b'{"event_id": "a', "not valid JSON: Unterminated string starting at character 13"),
        (b"[1]", "not a JSON object but an array"),
        (b"null", "not a JSON object but null"),
        (b'{"key": "k", "ts": 1}', "no value for id column 'event_id'"),
        (b'{"event_id": null, "ts": 1}', "no value for id column 'event_id'"),
        (b'{"event_id": "", "ts": 1}', "no value for id column 'event_id'"),
        (b'{"event_id": "a"}', "no value for time column 'ts'"),
        (b'{"event_id": "a", "ts": "soon"}', "time 'soon' is not a number of s"),
        (b'{"event_id": "a", "ts": 1e400}', "time '1e400' is not between the years 1 and 9999"),
        (b'{"event_id": "a", "ts": 1, "x": "\\ud800"}', "not valid JSON: half a surrogate pair"),
        (b'{"event_id": "a", "ts": 1, "x": "\xff"}', "not UTF-8"),
        (b'{"x": ' + b"[" * 300 + b"]" * 300 + b"}", "not valid JSON: nested more than 200 levels deep"),
        (b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not valid JSON: nested more than 200 levels deep"),
    ],
)
@pytest.mark.parametrize("good_lines", [1, 100], ids=["few lines", "many lines"])
def test_a_bad_line_of_json_is_a_dead_letter_and_the_rest_goes_on(line, reason, good_lines):
    good = b'{"event_id": "p", "key": "k", "ts": 1.5}\n' * good_lines
    parsed = parse(good + line + b"\n" + good, format="jsonl")
    assert events(parsed) == [("p", "k", 1_500_000)] * 2 * good_lines
    assert reasons(parsed) == [reason]
    assert parsed.dead_letters["_offset"].to_pylist() == [len(good)]


def test_only_the_first_4_kib_of_a_dead_letter_are_kept():
    line = b"a,k,1," + b"x" * 10_000
    letter = parse(line + b"\n", line_limit=100).dead_letters.to_pylist()[0]
    assert letter["_raw"] == line[:4096]
    assert letter["_length"] == len(line)


def test_a_line_cut_into_ranges_is_one_dead_letter_and_what_follows_it_is_read():
    pieces = [
        parse(b"x" * 101, line_limit=100, ends_inside=True),
        parse(b"y" * 500, line_limit=100, start=101, starts_inside=True, ends_inside=True),
        parse(b"end\na,k,1,x\n", line_limit=100, start=601, starts_inside=True),
    ]
    assert [reasons(piece) for piece in pieces] == [["line longer than 100 bytes (limits.line)"], [], []]
    assert [events(piece) for piece in pieces] == [[], [], [("a", "k", 1_000_000)]]


def test_a_missing_or_empty_key_is_null_and_no_dead_letter():
    assert events(parse(b"a,,1,x\n")) == [("a", None, 1_000_000)]
    lines = b'{"event_id": "a", "ts": 1}\n{"event_id": "b", "key": null, "ts": 1}\n'
    assert events(parse(lines, format="jsonl")) == [("a", None, 1_000_000), ("b", None, 1_000_000)]


def test_a_file_without_the_column_makes_dead_letters_that_name_column_and_file():
    parsed = parse(b"a,1\n\nb,2\n", header=b"event_id,ts")
    assert events(parsed) == []
    assert reasons(parsed) == ["no column 'key' in the header of its file"] * 2


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_a_file_with_two_columns_of_a_needed_name_makes_dead_letters_that_name_it(format):
    between = b"," if format == "csv" else b"\t"
    header, line = (
        between.join(parts) for parts in ([b"event_id", b"key", b"ts", b"key"], [b"a", b"k", b"1", b"l"])
    )
    parsed = parse(line + b"\n", header=header, format=format)
    assert events(parsed) == []
    assert reasons(parsed) == ["several columns 'key' in the header of its file"]


def test_numbers_in_json_are_ids_and_keys_by_their_own_text():
    line = b'{"event_id": 1.50, "key": -0, "ts": 1}\n'
    assert events(parse(line, format="jsonl")) == [("1.50", "-0", 1_000_000)]
    assert events(parse(line * 100, format="jsonl")) == [("1.50", "-0", 1_000_000)] * 100


def test_the_last_of_equal_keys_in_json_counts():
    line = b'{"event_id": "a", "event_id": "b", "key": "k", "ts": 1}\n'
    assert events(parse(line * 100, format="jsonl")) == [("b", "k", 1_000_000)] * 100


def test_quotes_mean_nothing_in_tsv():
    parsed = parse(b'"a\tk"k\t1\t"\n', format="tsv", header=b"event_id\tkey\tts\tnote")
    assert events(parsed) == [('"a', 'k"k', 1_000_000)]


def test_quotes_hold_commas_and_quotes_in_csv():
    assert events(parse(b'"a,""b""",k,1,x\n')) == [('a,"b"', "k", 1_000_000)]


def test_several_id_columns_are_joined_so_that_they_can_not_be_confused():
    columns = ["id", "id2"]
    one = parse(b"1,k,1,12\n", header=b"id,key,ts,id2", id=columns)
    other = parse(b"11,k,1,2\n", header=b"id,key,ts,id2", id=columns)
    assert events(one)[0][0] == "1:12:12"
    assert events(other)[0][0] == "2:111:2"
    assert reasons(parse(b"1,k,1,\n", header=b"id,key,ts,id2", id=columns)) == [
        "no value for id column 'id2'"
    ]


@given(st.lists(st.tuples(st.text(), st.text()).filter(all), min_size=2, max_size=2, unique=True))
def test_different_lists_of_id_columns_never_make_one_id(pairs):
    columns = [pa.array(column, pa.string()) for column in zip(*pairs, strict=True)]
    first, second = combine(columns).to_pylist()
    assert first != second


TRICKY_JSON = [
    '{"event_id": "a"',
    "}",
    '{"event_id": "a"}}',
    '{"event_id": "a", "ts": 1\n}\n{"event_id": "b", "ts": 2}{"event_id": "c", "ts": 3}',
    '{"event_id": "a", "ts": 1, "x":\n{"y": 1}}\n{"event_id": "b", "ts": 2}{"event_id": "c", "ts": 3}',
    '{"event_id": "a", "ts": 1, "x": {"y": 1}\n}\n{"event_id": "b", "ts": 2}{"event_id": "c", "ts": 3}',
    '{"event_id": "a", "ts": 1}{"event_id": "b", "ts": 2}',
    '{"event_id": "a", "ts": 1, "x": NaN}',
    '{"event_id": "a", "ts": 1, "x": Inf}',
    '{"event_id": "a", "ts": 1, "x": -Infinity}',
    '{"event_id": "a", "ts": 1, "x": 01}',
    '{"event_id": "a", "ts": 1, "x": ' + "[" * 250 + "]" * 250 + "}",
    '{"event_id": "a", "ts": -12e-10}',
    '{"event_id": "a", "ts": -10000000011e-10}',
    '{"event_id": "a", "ts": 1e-40}',
    '{"event_id": "a", "ts": 7.' + "0" * 40 + "}",
    '{"event_id": "a", "ts": 7.' + "0" * 1000 + "}",
    '{"event_id": "a", "ts": 340282366920938463463374607433468211456}',
    '{"event_id": "a", "ts": NaN}',
    '{"event_id": "a", "ts": "2"}',
    '{"event_id": "a", "ts": " 2"}',
    '{"event_id": -0, "ts": 1}',
    '{"event_id": 1.0, "ts": 1}',
    '{"event_id": 99999999999999999999, "ts": 1}',
    '{"event_id": true, "ts": 1}',
    '{"event_id": [1, "\\u00fc"], "ts": 1}',
    '{"event_id": "a", "event_id": 2, "ts": 1}',
    '{"event_id": "\\ud83d\\ude00\\u0000", "ts": 1}',
    '{"event_id": "a", "ts": 1, "x": "\t"}',
    ' {"event_id": "a", "ts": 1} ',
    "",
    "5",
]
PLAIN_JSON = [
    '{"event_id": "f", "key": "k", "ts": 1.5}',
    '{"event_id": "f", "key": "k", "ts": 1}',
    '{"event_id": 5, "key": "k", "ts": 1}',
    '{"event_id": "f", "key": "k", "ts": "1"}',
]


def one_by_one(lines: Sequence[bytes], format: str) -> tuple[list, list]:
    found: tuple[list, list] = ([], [])
    offset = 0
    for line in lines:
        parsed = parse(line + b"\n", format=format, start=offset)
        found[0].extend(parsed.events.to_pylist())
        found[1].extend(parsed.dead_letters.to_pylist())
        offset += len(line) + 1
    return found


@pytest.mark.parametrize("plain", PLAIN_JSON)
@pytest.mark.parametrize("tricky", TRICKY_JSON)
def test_a_tricky_line_of_json_means_the_same_alone_and_among_plain_ones(tricky, plain):
    lines = [text.encode() for text in [plain] * 20 + tricky.split("\n")]
    together = parse(b"".join(line + b"\n" for line in lines), format="jsonl")
    assert (together.events.to_pylist(), together.dead_letters.to_pylist()) == one_by_one(lines, "jsonl")


PART = st.sampled_from(
    [b'{"event_id": "a", "key": "k", "ts": 1}', b"{", b"", b" ", b"\xff", b"x" * 50, b"h,k,t,n\r"]
)
RANGES = st.lists(
    st.tuples(st.integers(1, 3), st.lists(PART, max_size=5), st.booleans(), st.booleans()), max_size=8
)


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@settings(max_examples=40)
@given(ranges=RANGES, together_bytes=st.sampled_from([1, 60, 10_000]))
def test_ranges_that_are_read_together_are_as_if_read_each(format, ranges, together_bytes):
    log = ForeignLog(format=format, files="*", id="event_id", key="key", time="ts")
    limits, pieces = Limits(line_bytes=40), []
    for number, (file_number, lines, is_ended, starts_inside) in enumerate(ranges):
        header = (
            b"" if format == "jsonl" else (HEADER, b"event_id,key,ts", b"no,such,columns")[file_number - 1]
        )
        file = LogFile(file_number, "foreign", f"{file_number}", 1, False, header, 0, 0, b"")
        data = b"\n".join(lines) + b"\n" * is_ended
        start = number * 1000
        pieces.append(
            (file, ByteRange(file_number, start, start + len(data), 0, 0, starts_inside, False), data)
        )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parse_module, "BLOCK_BYTES", together_bytes)
        together = list(read_events_of(pieces, log, limits))
    each = [read_events(data, file, where, log, limits) for file, where, data in pieces]
    for name in ("events", "dead_letters"):
        rows = [row for parsed in together for row in getattr(parsed, name).to_pylist()]
        expected = [row for parsed in each for row in getattr(parsed, name).to_pylist()]
        assert sorted(rows, key=lambda row: row["_offset"]) == sorted(
            expected, key=lambda row: row["_offset"]
        )
