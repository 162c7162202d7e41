"""UTF-16: the same records and values as the same text in UTF-8, however a file is divided and grows."""

import gzip
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from photon.logs.columns import parse_columns
from photon.logs.cutting import cut_range
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.formats.dialect import dialect_of
from photon.logs.formats.records import record_rules
from photon.logs.formats.utf16 import MARKS, narrow, widen
from photon.logs.lines_at import read_records_at
from photon.logs.one_record import read_records
from photon.logs.parse import read_events
from photon.logs.ranges import read_pieces, stretches_of
from photon.logs.scattered import Lines, read_lines
from photon.logs.source import Head, Utf16Text, head_of, read_head
from photon.logs.tailing.tail import LogTail
from photon.pipeline.sections import ForeignLog, Limits, PrimaryLog, Tailing
from tests.unit.tailing_world import World
from tests.unit.test_logs_ranges import Bytes

ORDERS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
HEADER = "id,ਊ key,ts,note"  # U+0A0A begins the second name: both bytes are newlines
LIMIT = 10_000
# Letters that have bytes of line ends, quotes and delimiters in UTF-16; and some beyond 16 bits.
ODD = [
    "\u0a0a",
    "\u0a0d",
    "\u0aa8",
    "\u0d0a",
    "\u010a",
    "\u220a",
    "\u2222",
    "\u2c2c",
    "\u0a22",
    "😀",
    "𐨊",
    "é",
    "\ufeff",
]
PIECES = st.sampled_from(
    [*ODD, "a", "b,k,1,x", ",", '"', '""', "\n", "\r\n", "\n\n", '"x\ny"', 'a,k,1,"ਊ\nr"\n', "c,ઊ,2,😀\n",
     '",', ',"',
     "\n" + HEADER + "\n"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=30).map("".join)


def log_of(encoding: str, **more: object) -> ForeignLog:
    names = {"files": "*", "format": "csv", "id": "id", "key": "ਊ key", "time": "ts"}
    return ForeignLog(**{**names, "encoding": encoding, **more})


class Certain(Bytes):
    is_certain = True


def source_of(text: str, mark: bytes) -> Bytes | Utf16Text:
    """A file of this text; `mark`: of its byte order, empty for UTF-8."""
    return Utf16Text(Certain(mark + text.encode(ORDERS[mark])), mark) if mark else Certain(text.encode())


def values_of(text: str, mark: bytes, budget: int, **more: object) -> list[tuple[object, ...]]:
    """Cut a file in ranges of so many bytes, and return the values of each record."""
    log = log_of("utf-16" if mark else "utf-8", **more)
    source = source_of(HEADER + "\n" + text, mark)
    head = read_head(source, dialect_of(log), LIMIT, final=True)
    if not isinstance(head, Head):
        return [(head,)]
    file = LogFile(1, "foreign", "a", 1, False, head.header, head.header_bytes, head.head_bytes, b"")
    rules = record_rules(log, head.header, LIMIT)
    at = TrackedFile(file, head.header_bytes, b"", False, 10**9, 0, None)
    ranges, found = list[ByteRange](), list[tuple[int, tuple[object, ...]]]()
    while (cut := cut_range(source, at, budget, LIMIT, final=True, rules=rules)) is not None:
        byte_range, at = cut
        ranges.append(byte_range)
    for each in ranges:
        data = source.read(each.start_bytes, each.end_bytes - each.start_bytes)
        parsed = read_events(data, at.file, each, log, Limits(line_bytes=LIMIT))
        columns = parse_columns(parsed.events["_raw"].combine_chunks(), at.file.header, log).table
        events = zip(parsed.events.to_pylist(), columns.to_pylist(), strict=True)
        found += [
            (row["_offset"], (row["_id"], row["_key"], row["_time_us"], values)) for row, values in events
        ]
        dead = parsed.dead_letters.to_pylist()
        found += [(row["_offset"], (row["_raw"], row["reason"])) for row in dead]
    return [value for _, value in sorted(found, key=lambda each: each[0])]


@pytest.mark.parametrize("mark", MARKS)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS, budget=st.integers(1, 300))
@example(text='a,k,1,"ਊ\nr"\nb,ઊ,2,😀\n\n\r\nc,k,3,"x""\n', budget=1)
def test_utf_16_has_the_records_and_values_of_the_same_text_in_utf_8_at_every_size_of_ranges(
    mark, text, budget
):
    assert values_of(text, mark, budget) == values_of(text, b"", 10**6)


@pytest.mark.parametrize("budget", [1, 30, 90, 10**6])
@pytest.mark.parametrize("mark", MARKS)
def test_a_header_in_another_order_holds_in_utf_16_too(mark, budget):
    text = 'a,k1,1,"x\ny"\nts,"note","ਊ key",id\n2,"z\n, z",k2,b\n' + HEADER + "\nd,k4,4,w\n"
    found = values_of(text, mark, budget)
    assert [each[:3] for each in found] == [
        ("a", "k1", 10**6),
        ("b", "k2", 2 * 10**6),
        ("d", "k4", 4 * 10**6),
    ]
    assert found == values_of(text, b"", 10**6)


@pytest.mark.parametrize(
    "more",
    [
        {"quote": ""},
        {"escape": "\\"},
        {"comment": "#"},
        {"format": "tsv", "delimiter": ","},
        {"header": ("id", "ਊ key", "ts", "note")},
    ],
)
def test_the_other_settings_mean_the_same_in_utf_16(more):
    text = '#ਊ\na,k,1,"x\ny"\n# c,k,1,2\nb,k\\,ਊ,2,"\\"😀"\nc,k,3,5" disk\nd,k,4\n\ne,k,5,"a""b"\r\n#end'
    for mark in MARKS:
        for budget in (1, 50, 10**6):
            assert values_of(text, mark, budget, **more) == values_of(text, b"", 10**6, **more)


@settings(max_examples=200, deadline=None)
@given(st.text(), st.integers(0, 40), st.integers(0, 40))
def test_a_text_is_the_same_from_whatever_place_it_is_read(text, start, length):
    whole = widen(text)
    assert narrow(whole.removesuffix(b"\r\xff\xff")) in (text.encode(), text.removesuffix("\r").encode())
    assert whole.count(b"\n") == text.count("\n")
    for mark in MARKS:
        read = source_of(text, mark).read(start + 3, length)
        assert read == whole[start : start + length]


def tail_of(world: World, encoding: str = "utf-16") -> None:
    world.log = PrimaryLog(files="**/*.csv", format="csv", id="id", time="t", encoding=encoding)
    world.restart()


def records_read(world: World, read: dict[int, bytes]) -> list[bytes]:
    """The records in bytes that were read, in UTF-8."""
    return [narrow(line) for data in read.values() for line in data.splitlines()]


TEXT = "id,t,note\n" + "".join(f'{i},{i},"ਊ{chr(0x0A00 + i)}😀, {i}"\n' for i in range(1, 60))


@pytest.mark.parametrize("step", [1, 3, 7, 1001])
@pytest.mark.parametrize("mark", MARKS)
def test_a_file_that_grows_in_odd_steps_is_read_as_the_whole_one(tmp_path, mark, step):
    world = World(tmp_path / "logs", "**/*.csv", "csv", Limits())
    tail_of(world)
    stored, found, chance = mark + TEXT.encode(ORDERS[mark]), list[bytes](), random.Random(step)
    print("seed", step)
    world.write("a.csv", b"")
    at = 0
    while at < len(stored):
        length = step if step > 1 else chance.choice([1, 3, 250, 999])
        world.append("a.csv", stored[at : at + length])
        at += length
        if step > 3 or chance.random() < 0.1:
            found += records_read(world, world.read(budget=chance.choice([1, 200, 10**6])))
            if chance.random() < 0.2:
                world.restart()
    found += records_read(world, world.read(final=True))
    assert found == TEXT.encode().splitlines()[1:]
    assert len(world.tracked) == 1
    assert not world.tracked[1].altered_us


def test_a_file_is_known_again_when_it_is_rotated_or_compressed(tmp_path):
    world = World(tmp_path / "logs", "**/*.csv", "csv", Limits())
    tail_of(world)
    stored = TEXT.encode("utf-16")
    world.write("a.csv", stored[:901])
    found = records_read(world, world.read())
    (world.folder / "a.csv").rename(world.folder / "a.csv.1")
    world.append("a.csv.1", stored[901:])
    world.write("a.csv", "id,t,note\n999,1,x\n".encode("utf-16-be"))  # no mark: not read, and told
    found += records_read(world, world.read())
    assert "byte order mark" in world.last_seen.problems[0].reason
    (world.folder / "a.csv").unlink()
    (world.folder / "a.csv.1.gz").write_bytes(gzip.compress(stored + "99,1,last\n".encode("utf-16-le")))
    (world.folder / "a.csv.1").unlink()
    for _ in range(3):
        found += records_read(world, world.read(final=True))
    assert found == [*TEXT.encode().splitlines()[1:], b"99,1,last"]
    assert world.paths() == {1: "a.csv.1.gz"}


def test_a_file_that_lost_its_name_is_read_from_its_copy(tmp_path):
    world = World(tmp_path / "logs", "**/*.csv", "csv", Limits())
    tail_of(world)
    stored = TEXT.encode("utf-16")
    world.write("a.csv", stored[: len(stored) * 2 // 3])
    world.hold()
    found = records_read(world, world.read())
    world.append("a.csv", stored[len(stored) * 2 // 3 :])
    (world.folder / "a.csv").unlink()
    for _ in range(3):
        found += records_read(world, world.read())
    assert found == TEXT.encode().splitlines()[1:]
    assert not world.tracked[1].end_unknown


def test_what_a_file_got_before_it_lost_its_name_tells_it_from_one_that_begins_alike(tmp_path):
    world = World(tmp_path / "logs", "**/*.csv", "csv", Limits())
    tail_of(world)
    stored = TEXT.encode("utf-16")
    world.write("a.csv", stored[: len(stored) // 3])
    world.hold()
    found = records_read(world, world.read())
    world.write("a.csv.1", stored[: len(stored) // 3])
    world.append("a.csv", stored[len(stored) // 3 :])
    (world.folder / "a.csv").unlink()
    for _ in range(3):
        found += records_read(world, world.read())
    assert found == TEXT.encode().splitlines()[1:]


def followed(folder: Path, stored: bytes, name: str = "a.csv") -> tuple[TrackedFile, ForeignLog]:
    """A file that was read to its end."""
    (folder / name).write_bytes(stored)
    log = ForeignLog(files="*", format="csv", id="id", key="id", time="t", encoding="utf-16")
    tail = LogTail(folder, "foreign", log, Limits(), Tailing())
    tracked = tail.observe({}, 1, 1, final=True).changed[1]
    cut = tail.cut(tracked, 10**9, final=True)
    assert cut is not None
    return cut[1], log


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_records_are_read_again_from_any_stretch_and_at_their_offsets(tmp_path, name):
    stored = TEXT.replace(", 7", ",\n7").encode("utf-16")
    tracked, log = followed(tmp_path, gzip.compress(stored) if name.endswith(".gz") else stored, name)
    ids, offsets, raws = list[str](), list[int](), list[bytes]()
    for stretch in stretches_of(tracked, 100):
        for byte_range, data in read_pieces(tmp_path, stretch, 77, 2**20, log):
            events = read_events(data, tracked.file, byte_range, log, Limits()).events
            ids += events["_id"].to_pylist()
            offsets += events["_offset"].to_pylist()
            raws += events["_raw"].to_pylist()
    assert ids == [str(i) for i in range(1, 60)]
    wanted = dict(zip(offsets, ids, strict=True))
    assert read_records(tmp_path, tracked.file, wanted, log, Limits())["_id"].to_pylist() == ids
    files, numbers, places = {1: tracked}, np.ones(len(ids), np.int64), np.array(offsets)
    found = read_records_at(tmp_path, files, numbers, places, 2**20, log)
    columns = [parse_columns(each, tracked.file.header, log).table for each in (found, pa.array(raws))]
    assert columns[0] == columns[1]
    lines = Lines(numbers[:2], places[:2], np.diff(places)[:2] - 1)
    (parsed,) = read_lines(tmp_path, {1: tracked.file}, lines).chunks
    assert parse_columns(parsed, tracked.file.header, log).table == columns[0].slice(0, 2)


def test_marks_within_files_that_were_put_together_do_not_count(tmp_path):
    tracked, log = followed(tmp_path, "id,t\na,1\n".encode("utf-16") + "id,t\nb,2\n".encode("utf-16"))
    ((byte_range, data),) = read_pieces(tmp_path, stretches_of(tracked, 10**6)[0], 10**6, 2**20, log)
    parsed = read_events(data, tracked.file, byte_range, log, Limits())
    assert parsed.events["_id"].to_pylist() == ["a", "b"]
    assert parsed.dead_letters.num_rows == 0


def test_half_a_surrogate_pair_is_a_dead_letter_and_so_is_what_follows_another_byte_order(tmp_path):
    half = "id,t,note\na,1,x\nb,2,".encode("utf-16") + b"\x3d\xd8" + "\nc,3,z\n".encode("utf-16-le")
    stored = half + "id,t,note\nd,4,w\n".encode("utf-16-be")
    tracked, log = followed(tmp_path, stored)
    ((byte_range, data),) = read_pieces(tmp_path, stretches_of(tracked, 10**6)[0], 10**6, 2**20, log)
    parsed = read_events(data, tracked.file, byte_range, log, Limits())
    assert parsed.events["_id"].to_pylist() == ["a", "c"]
    reasons = parsed.dead_letters["reason"].to_pylist()
    assert reasons == ["not UTF-16", "expected 3 columns, got 1"]
    assert parsed.dead_letters["_raw"][0].as_py().startswith(b"b,2,")


@pytest.mark.parametrize(
    ("stored", "encoding", "told"),
    [
        (b"id,t\na,1\n", "utf-16", "it does not begin with UTF-16's byte order mark"),
        (b"\xef\xbb\xbfid,t\na,1\n", "utf-16", "leave `encoding` out if it is UTF-8"),
        ("id,t\na,1\n".encode("utf-16-le"), "utf-16", "convert it by `iconv -t UTF-16`"),
        ("id,t\na,1\n".encode("utf-16"), "utf-8", "set `encoding: utf-16` of its log, or convert it"),
        ("id,t\na,1\n".encode("utf-16"), "latin-1", "it is UTF-16; set `encoding: utf-16`"),
    ],
)
def test_a_file_in_another_encoding_than_the_settings_say_is_told_and_not_read(
    tmp_path, stored, encoding, told
):
    world = World(tmp_path / "logs", "**/*.csv", "csv", Limits())
    tail_of(world, encoding)
    world.write("a.csv", stored)
    assert world.read(final=True) == {}
    (problem,) = world.last_seen.problems
    assert told in problem.reason


def test_the_text_of_utf_16_is_not_taken_for_utf_16_once_more():
    data = source_of("id,t\na,1\n", b"\xff\xfe").read(0, 100)
    head = head_of(data, dialect_of(log_of("utf-16")), LIMIT, final=True)
    assert isinstance(head, Head)
    assert narrow(head.header) == b"id,t"


def test_a_record_in_another_order_is_as_long_as_in_its_file(tmp_path):
    """A join reads a record again by its offset and its length."""
    text = 'id,t,note\na,1,"ਊ"\r\nnote,t,id\n"😀, so",2,b\r\nx,3,c\n'
    tracked, log = followed(tmp_path, text.encode("utf-16"))
    ((byte_range, data),) = read_pieces(tmp_path, stretches_of(tracked, 10**6)[0], 10**6, 2**20, log)
    events = read_events(data, tracked.file, byte_range, log, Limits()).events.to_pylist()
    assert [event["_id"] for event in events] == ["a", "b", "c"]
    at = [event["_offset"] - byte_range.start_bytes for event in events]
    lengths = [data.index(b"\n", start) - start for start in at]
    assert [len(event["_raw"]) for event in events] == lengths
