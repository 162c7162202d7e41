"""Records over several lines: the same ones at the same offsets, however a file is divided."""

import csv
import io
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from photon.logs.columns import parse_columns
from photon.logs.cutting import cut_range
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.formats import records
from photon.logs.formats.records import EscapedRun, RecordRules, record_rules
from photon.logs.lines_at import read_records_at
from photon.logs.one_record import read_records
from photon.logs.parse import read_events, read_events_of
from photon.logs.ranges import Stretch, read_pieces
from photon.logs.record_ranges import first_record
from photon.logs.source import hash_bytes
from photon.pipeline.sections import ForeignLog, Limits
from tests.unit.test_logs_ranges import Bytes

HEADER = b"id,key,ts,note"
LIMIT = 400


def log_of(**more: object) -> ForeignLog:
    names = {"files": "*", "format": "csv", "id": "id", "key": "key", "time": "ts"}
    return ForeignLog(**{**names, **more})


def rules_of(log: ForeignLog, limit_bytes: int = LIMIT) -> RecordRules:
    rules = record_rules(log, HEADER, limit_bytes)
    assert rules is not None
    return rules


def file_of(data: bytes, path: str = "a.csv", inode: int = 1) -> TrackedFile:
    """A file of these records behind a header line, read to its end."""
    file = LogFile(1, "foreign", path, inode, False, HEADER, len(HEADER) + 1, 20, hash_bytes(data[:20]))
    end = file.header_bytes + len(data)
    return TrackedFile(file, end, b"", False, end, 0, None)


def read_all(
    data: bytes, log: ForeignLog, ranges: list[tuple[int, int]]
) -> list[tuple[int, bytes, str | None]]:
    """Offset, bytes and id, or none for a dead letter, of each record in these ranges of `data`."""
    file = file_of(data).file
    found: list[tuple[int, bytes, str | None]] = []
    for start, end in ranges:
        piece = data[start:end]
        parsed = read_events(piece, file, ByteRange(1, start, end, 0, 0), log, Limits(line_bytes=LIMIT))
        events, dead = parsed.events.to_pylist(), parsed.dead_letters.to_pylist()
        found += [(row["_offset"], row["_raw"], row["_id"]) for row in events]
        found += [(row["_offset"], row["_raw"], None) for row in dead]
    return sorted(found)


PIECES = st.sampled_from(
    [
        b"a",
        b"b,k,1,x",
        b",",
        b'"',
        b'""',
        b"\n",
        b"\r\n",
        b"\n\n",
        b'"x\ny"',
        b'a,k,1,"q\nr"\n',
        b"c,k,2,z\n",
        b'",',
        b',"',
    ]
)
FILES = st.lists(PIECES, max_size=30).map(b"".join)
ESCAPED = st.lists(st.one_of(PIECES, st.sampled_from([b"\\", b"\\\n", b'\\"'])), max_size=30).map(b"".join)


def cut_in_ranges(data: bytes, log: ForeignLog, budget: int, final: bool = True) -> list[tuple[int, int]]:
    rules, source, file = rules_of(log), Bytes(data), LogFile(1, "foreign", "a", 1, False, HEADER, 0, 0, b"")
    at, ranges = TrackedFile(file, 0, b"", False, len(data), 0, None), list[tuple[int, int]]()
    while (cut := cut_range(source, at, budget, LIMIT, final, rules=rules)) is not None:
        byte_range, at = cut
        ranges.append((byte_range.start_bytes, byte_range.end_bytes))
    return ranges


@pytest.mark.parametrize("escape", [None, "\\"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_records_are_the_same_whatever_the_size_of_the_ranges(escape, data):
    text = data.draw(FILES if escape is None else ESCAPED)
    log = log_of(escape=escape)
    whole = read_all(text, log, [(0, len(text))])
    for budget in range(1, len(text) + 2, 1 + len(text) // 12):
        ranges = cut_in_ranges(text, log, budget)
        assert [start for start, _ in ranges] == [0, *(end for _, end in ranges)][: len(ranges)]
        assert ranges[-1:] == ([(ranges[-1][0], len(text))] if text else [])
        assert read_all(text, log, ranges) == whole


def test_ranges_that_are_cut_at_any_line_end_have_other_records():
    """Leave out rule D10: a range then ends within a record, whose halves are no records."""
    data, _ = comments(40, 1)
    log, at = log_of(), TrackedFile(file_of(data).file, 0, b"", False, len(data), 0, None)
    ranges: list[tuple[int, int]] = []
    while (cut := cut_range(Bytes(data), at, 50, LIMIT, final=True)) is not None:
        byte_range, at = cut
        ranges.append((byte_range.start_bytes, byte_range.end_bytes))
    assert read_all(data, log, ranges) != read_all(data, log, [(0, len(data))])


@settings(max_examples=100, deadline=None)
@given(FILES, st.integers(1, 40))
def test_a_growing_file_has_the_same_records_as_the_whole_one(text, step):
    """Cuts of a growing file end where records of the whole file end; its last record may wait."""
    log = log_of()
    rules, at = rules_of(log), 0
    ends: list[int] = []
    for size in range(0, len(text), step):
        file = LogFile(1, "foreign", "a", 1, False, HEADER, 0, 0, b"")
        tracked = TrackedFile(file, at, b"", False, size, 0, None)
        while (cut := cut_range(Bytes(text[:size]), tracked, 10**6, LIMIT, rules=rules)) is not None:
            _, tracked = cut
        at = tracked.offset_bytes
        ends.append(at)
    known = {0, *rules.cut(text, at_end=True).ends.tolist()}
    assert set(ends) <= known


@settings(max_examples=100, deadline=None)
@example(b'aab,k,1,x\n\n\n\n,"x\ny","",', 12)  # the last record has no line end
@given(FILES, st.integers(1, 60))
def test_a_record_is_found_from_any_place_without_the_beginning_of_the_file(text, limit_bytes):
    rules = rules_of(log_of(), limit_bytes)
    starts = [0, *rules.cut(text, at_end=True).ends.tolist()]
    source = Bytes(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("photon.logs.record_ranges.LOOKED_AROUND_BYTES", 16)
        for place in range(len(text) + 1):
            expected = next(start for start in starts if start >= place)
            assert first_record(source.read, rules, 0, place, len(text)) == expected


def written(folder: Path, data: bytes) -> TrackedFile:
    path = folder / "a.csv"
    path.write_bytes(HEADER + b"\n" + data)
    return file_of(data, path.name, path.stat().st_ino)


COMMENTS = [
    "one line",
    "two\nlines",
    'with "quotes"\nand, a comma',
    "",
    "a\n\n\nb",
    "x" * 50 + "\n" + "y" * 50,
    "c\r\nd",
]


def comments(count: int, seed: int) -> tuple[bytes, list[tuple[str, str]]]:
    """Records as Python's csv module writes them, with their ids and notes."""
    chance = random.Random(seed)
    notes = [(f"c{n}", chance.choice(COMMENTS)) for n in range(count)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([event_id, f"k{event_id}", n, note] for n, (event_id, note) in enumerate(notes))
    return out.getvalue().encode(), notes


def test_every_stretch_of_a_file_has_the_records_that_begin_in_it(tmp_path):
    print("seed 7")
    data, notes = comments(100, 7)
    tracked, log = written(tmp_path, data), log_of()
    begins, end = tracked.file.header_bytes, tracked.offset_bytes
    for length in (97, 1000, 10**6):
        found: list[str] = []
        for start in range(begins, end, length):
            stretch = Stretch(tracked, start, min(start + length, end))
            for byte_range, piece in read_pieces(tmp_path, stretch, 50, LIMIT, log):
                events = read_events(piece, tracked.file, byte_range, log, Limits(line_bytes=LIMIT)).events
                assert all(start <= offset < start + length for offset in events["_offset"].to_pylist())
                found += events["_id"].to_pylist()
        assert found == [event_id for event_id, _ in notes]


def test_records_as_spreadsheets_and_databases_write_them_lose_nothing():
    """A real file had 3,413 comments, 78 of them with line ends; this one is like it."""
    data, notes = comments(3_413, 5)
    log, file = log_of(), file_of(data).file
    parsed = read_events(data, file, ByteRange(1, 0, len(data), 0, 0), log, Limits())
    assert parsed.dead_letters.num_rows == 0
    table = parse_columns(parsed.events["_raw"].combine_chunks(), HEADER, log).table
    assert list(zip(table["id"].to_pylist(), table["note"].to_pylist(), strict=True)) == notes


def test_records_are_read_again_at_their_offsets(tmp_path):
    data, notes = comments(200, 3)
    tracked, log, limits = written(tmp_path, data), log_of(), Limits(line_bytes=LIMIT)
    begins = tracked.file.header_bytes
    events = read_events(data, tracked.file, ByteRange(1, begins, 0, 0, 0), log, limits).events
    offsets, raws = events["_offset"].to_numpy(), events["_raw"].to_pylist()
    found = read_records_at(
        tmp_path, {1: tracked}, np.ones(len(offsets), np.int64), offsets[::-1].copy(), LIMIT, log
    )
    assert found.to_pylist() == raws[::-1]
    ids = dict(zip(offsets.tolist(), (event_id for event_id, _ in notes), strict=True))
    assert read_records(tmp_path, tracked.file, ids, log, limits)["_raw"].to_pylist() == raws


UNCLOSED = b'a,k,1,"never closed\n'


@pytest.mark.parametrize("rest", [b"b%d,k,2,plain\n", b'b%d,k,2,"quoted"\n', b'b%d,k,"2","a\nb"\n'])
def test_a_quote_that_is_not_closed_costs_one_line(rest):
    data = UNCLOSED + b"".join(rest % n for n in range(20))
    found = read_all(data, log_of(), [(0, len(data))])
    assert [event_id for _, _, event_id in found] == [None, *(f"b{n}" for n in range(20))]


def test_a_quote_that_is_not_closed_holds_a_growing_log_up_for_the_bytes_of_one_record_alone():
    line = b"b,k,2,x\n"
    waiting = UNCLOSED + line * ((LIMIT - len(UNCLOSED)) // len(line))
    assert cut_in_ranges(waiting, log_of(), 10**6, final=False) == []
    more = waiting + line
    assert cut_in_ranges(more, log_of(), 10**6, final=False) == [(0, len(more))]


def test_a_quote_that_is_not_closed_holds_a_growing_log_up_no_longer_than_to_the_next_quote():
    more = UNCLOSED + b'b,k,2,"x"\n'
    assert cut_in_ranges(more, log_of(), 10**6, final=False) == [(0, len(more))]


@pytest.mark.parametrize(("line", "line_count"), [(b"x\n", 101), (b"\n", 1_015), (b"a, b\r\n", 20_000)])
def test_a_record_may_have_any_number_of_lines(tmp_path, line, line_count):
    data = b'a,k,1,"' + line * line_count + b'"\nb,k,2,z\n'
    log, limits, tracked = log_of(), Limits(), written(tmp_path, data)
    events = read_events(data, tracked.file, ByteRange(1, 15, 0, 0, 0), log, limits).events
    assert events["_id"].to_pylist() == ["a", "b"]
    note = parse_columns(events["_raw"].combine_chunks(), HEADER, log).table["note"]
    assert note[0].as_py() == (line * line_count).decode()
    second = len(HEADER) + 1 + len(data) - len(b"b,k,2,z\n")
    stretch = Stretch(tracked, second - 3, tracked.offset_bytes)  # begins within the first record
    ((where, piece),) = read_pieces(tmp_path, stretch, 10**6, limits.line_bytes, log)
    assert (where.start_bytes, piece) == (second, b"b,k,2,z\n")


def test_a_record_that_is_too_long_names_the_key_that_bounds_it():
    data = b'a,k,1,"' + b"x\n" * LIMIT + b'"\nb,k,2,z\n'
    parsed = read_events(
        data, file_of(data).file, ByteRange(1, 0, 0, 0, 0), log_of(), Limits(line_bytes=LIMIT)
    )
    assert parsed.events["_id"].to_pylist() == ["b"]
    assert "limits.line" in parsed.dead_letters["reason"][0].as_py()


def test_a_record_beyond_the_limit_of_a_line_is_none():
    data = b'a,k,1,"' + b"x" * 390 + b"\n" + b"y" * 100 + b'"\nb,k,2,z\n'
    assert [event_id for _, _, event_id in read_all(data, log_of(), [(0, len(data))])] == [None, None, "b"]
    assert cut_in_ranges(data[:405], log_of(), 10**6, final=False) == [(0, 398)]


def test_half_a_record_waits_for_its_end():
    assert cut_in_ranges(b'a,k,1,x\nb,k,2,"half\n', log_of(), 10**6, final=False) == [(0, 8)]
    assert cut_in_ranges(b'b,k,2,"half\n', log_of(), 10**6, final=False) == []
    assert cut_in_ranges(b'b,k,2,"half\nof it"\n', log_of(), 10**6, final=False) == [(0, 19)]


def test_without_quotes_no_value_holds_a_line_end():
    assert not rules_of(log_of(quote="")).spans_lines


@pytest.mark.parametrize("others", [0, 1, 100])
def test_what_a_record_is_does_not_depend_on_the_ranges_that_are_parsed_with_it(others):
    whole = b'a,k,1,"two\nlines"\n'
    file, log = file_of(b"").file, log_of()
    pieces = [
        (file, ByteRange(1, 1000 * n, 0, 0, 0), data)
        for n, data in enumerate([UNCLOSED] * others + [whole] + [UNCLOSED] * others)
    ]
    (parsed,) = read_events_of(pieces, log, Limits())
    assert parsed.events["_raw"].to_pylist() == [whole[:-1]]
    assert parsed.dead_letters.num_rows == 2 * others


OTHER = b'ts,"note",key,id\n'
TWO_ORDERS = b'a,k1,1,"x\ny"\n' + OTHER + b'2,"z\n, z",k2,b\n3,5" disk,k3,c\n' + HEADER + b"\nd,k4,4,w\n"
EVENTS = [("a", "k1", 1), ("b", "k2", 2), ("c", "k3", 3), ("d", "k4", 4)]


def cut_file(
    data: bytes, log: ForeignLog, budget: int, header: bytes = HEADER
) -> tuple[LogFile, list[tuple[int, int]]]:
    """A file as it is known once it was cut into ranges, and the ranges."""
    file, rules = LogFile(1, "foreign", "a", 1, False, header, 0, 0, b""), record_rules(log, header, LIMIT)
    at, ranges = TrackedFile(file, 0, b"", False, len(data), 0, None), list[tuple[int, int]]()
    while (cut := cut_range(Bytes(data), at, budget, LIMIT, final=True, rules=rules)) is not None:
        byte_range, at = cut
        ranges.append((byte_range.start_bytes, byte_range.end_bytes))
    return at.file, ranges


def values_of(file: LogFile, data: bytes, ranges: list[tuple[int, int]], log: ForeignLog) -> list[tuple]:
    found: list[tuple] = []
    for start, end in ranges:
        parsed = read_events(data[start:end], file, ByteRange(1, start, end, 0, 0), log, Limits())
        assert parsed.dead_letters.num_rows == 0, parsed.dead_letters.to_pylist()
        rows = parsed.events.to_pylist()
        found += [(row["_id"], row["_key"], row["_time_us"] // 10**6) for row in rows]
        notes = parse_columns(parsed.events["_raw"].combine_chunks(), file.header, log).table
        assert notes["id"].to_pylist() == [row["_id"] for row in rows]
    return found


@pytest.mark.parametrize("budget", [1, 5, 20, 40, 1000])
def test_a_header_in_another_order_holds_from_there_on_whatever_the_size_of_the_ranges(budget):
    file, ranges = cut_file(TWO_ORDERS, log_of(), budget)
    assert values_of(file, TWO_ORDERS, ranges, log_of()) == EVENTS


@pytest.mark.parametrize("budget", [1, 20, 1000])
def test_a_header_in_another_order_that_comes_again_goes_on_to_hold(budget):
    data = b"a,k1,1\nts,id,key\n2,b,k2\nts,id,key\n3,c,k3\nid,key,ts\nd,k4,4\nid,key,ts\ne,k5,5\n"
    file, ranges = cut_file(data, log_of(), budget, b"id,key,ts")
    events = [(name, f"k{at}", at) for at, name in enumerate("abcde", 1)]
    assert values_of(file, data, ranges, log_of()) == events


@pytest.mark.parametrize("budget", [1, 20, 1000])
def test_a_header_of_tsv_in_another_order_holds_from_there_on(budget):
    log = log_of(format="tsv")
    header, data = b"id\tkey\tts", b"a\tk1\t1\nkey\tts\tid\nk2\t2\tb\nts\tid\tkey\n3\tc\tk3\n"
    file, ranges = cut_file(data, log, budget, header)
    assert values_of(file, data, ranges, log) == EVENTS[:3]


def test_a_header_of_zeek_in_another_order_holds_from_there_on():
    log = log_of(format="tsv", comment="#")
    header, data = (
        b"#fields\tid\tkey\tts",
        b"#types\ta\na\tk1\t1\n#close\n#fields\tts\tid\tkey\n#types\tb\n2\tb\tk2\n",
    )
    file, ranges = cut_file(data, log, 10, header)
    assert values_of(file, data, ranges, log) == EVENTS[:2]


def test_records_behind_a_header_in_another_order_are_read_again_in_the_first_order(tmp_path):
    log, limits = log_of(), Limits(line_bytes=LIMIT)
    tracked = written(tmp_path, TWO_ORDERS)
    begins = tracked.file.header_bytes
    whole = HEADER + b"\n" + TWO_ORDERS
    at = TrackedFile(tracked.file, begins, b"", False, len(whole), 0, None)
    rules = record_rules(log, HEADER, LIMIT)
    _, read = cut_range(Bytes(whole), at, 10**6, LIMIT, final=True, rules=rules)
    events = read_events(TWO_ORDERS, read.file, ByteRange(1, begins, 0, 0, 0), log, limits).events
    offsets, ids = events["_offset"].to_numpy(), events["_id"].to_pylist()
    found = read_records_at(tmp_path, {1: read}, np.ones(len(offsets), np.int64), offsets, LIMIT, log)
    assert found.to_pylist() == events["_raw"].to_pylist()
    wanted = dict(zip(offsets.tolist(), ids, strict=True))
    assert read_records(tmp_path, read.file, wanted, log, limits)["_id"].to_pylist() == ["a", "b", "c", "d"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"x\\\n", b"\\,", b",", b"y\n", b'"', b"z"]), max_size=40).map(b"".join),
    st.integers(5, 60),
)
def test_lines_of_one_run_are_told_as_each_by_itself(text, limit_bytes):
    rules = rules_of(log_of(escape="\\"), limit_bytes)
    for at_end in (False, True):
        together = rules.cut(text, at_end)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RecordRules, "_run_at", lambda *_: EscapedRun())
            alone = rules.cut(text, at_end)
        assert together.ends.tolist() == alone.ends.tolist()
        assert together.open_bytes == alone.open_bytes


def test_a_long_run_of_escaped_line_ends_is_looked_through_once(monkeypatch):
    looks: list[int] = []
    really = records._end_of
    monkeypatch.setattr(records, "_end_of", lambda found: looks.append(1) or really(found))
    rules = record_rules(log_of(escape="\\"), HEADER, 2**20)
    assert len(rules.cut(b"x\\\n" * 50_000, at_end=True).ends) == 50_000
    assert len(looks) < 10
