import gzip
import os
import pickle
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.logs import cutting, ranges
from photon.logs.cutting import LinesCut, cut_lines, cut_range
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.ranges import Checked, RangeGone, read_at, read_range, read_ranges
from photon.logs.shares import fair_shares, next_to_serve
from photon.logs.source import hash_bytes


def test_a_range_ends_behind_the_last_newline():
    assert cut_lines(b"a\nb\nc", False, False, 100) == LinesCut(4, 2, False)


def test_half_a_line_waits():
    assert cut_lines(b"abc", False, False, 100) is None
    assert cut_lines(b"", False, True, 100) is None


def test_an_unterminated_last_line_counts_at_the_end():
    assert cut_lines(b"a\nbc", False, True, 100) == LinesCut(4, 2, False)


def test_a_line_longer_than_the_limit_is_passed_over_in_pieces():
    assert cut_lines(b"x" * 101, False, False, 100) == LinesCut(101, 0, True)
    assert cut_lines(b"x" * 5, True, False, 100) == LinesCut(5, 0, True)
    assert cut_lines(b"xx\nab\ncd", True, False, 100) == LinesCut(6, 2, False)


def test_a_line_of_just_the_limit_waits_for_its_newline():
    assert cut_lines(b"x" * 100, False, False, 100) is None


def test_small_files_are_served_beside_a_big_one():
    shares = fair_shares({1: 10**9, 2: 5, 3: 7}, total_bytes=100, quantum_bytes=10)
    assert shares == {1: 88, 2: 5, 3: 7}


def test_a_small_batch_serves_sixteen_files_and_a_big_one_each_file_by_the_mebibyte():
    assert fair_shares(dict.fromkeys(range(20), 100), total_bytes=160) == dict.fromkeys(range(16), 10)
    assert fair_shares({1: 2**30, 2: 2**30}, total_bytes=64 * 2**20 + 1)[1] == 32 * 2**20 + 1


def test_what_is_left_goes_round_by_round():
    assert fair_shares({1: 100, 2: 100, 3: 3}, total_bytes=33, quantum_bytes=10) == {1: 20, 2: 10, 3: 3}


@given(
    st.dictionaries(st.integers(0, 50), st.integers(0, 1000)),
    st.integers(0, 5000),
    st.integers(1, 300),
    st.integers(0, 60),
)
def test_shares_never_exceed_backlog_or_total_and_leave_nothing_over_while_somebody_waits(
    backlog, total, quantum, first
):
    shares = fair_shares(backlog, total, first, quantum)
    assert all(0 < share <= backlog[number] for number, share in shares.items())
    assert sum(shares.values()) == min(total, sum(backlog.values()))


@given(st.integers(1, 40), st.integers(1, 5), st.integers(0, 50))
def test_with_more_files_than_quanta_every_file_is_served_in_turn(files, quanta, first):
    backlog = dict.fromkeys(range(files), 10**6)
    served: set[int] = set()
    for _ in range(-(-files // quanta)):
        shares = fair_shares(backlog, quanta * 10, first, 10)
        first = next_to_serve(backlog, shares, first)
        served |= set(shares)
    assert served == set(backlog)


def test_nobody_waits_where_there_are_no_files():
    assert fair_shares({}, 100) == {}
    assert next_to_serve({}, {}) == 0


class Bytes:
    """A source in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.most_bytes = 0

    def read(self, start_bytes: int, length_bytes: int) -> bytes:
        self.most_bytes = max(self.most_bytes, length_bytes)
        return self.data[start_bytes : start_bytes + length_bytes]


def tracked(data: bytes, path: str = "a.log", inode: int = 1) -> TrackedFile:
    head = data[:19]
    file = LogFile(1, "primary", path, inode, path.endswith(".gz"), b"", 0, len(head), hash_bytes(head))
    return TrackedFile(file, 0, b"", False, len(data), 0, None)


LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=20)


@given(LINES, st.binary(max_size=30), st.integers(1, 50), st.integers(1, 25), st.booleans())
def test_ranges_follow_each_other_without_a_gap_and_end_at_line_ends(lines, rest, budget, limit, final):
    data = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    source, at = Bytes(data), tracked(data)
    cuts: list[ByteRange] = []
    while (cut := cut_range(source, at, budget, limit, final)) is not None:
        byte_range, at = cut
        cuts.append(byte_range)
        assert byte_range.start_bytes == (cuts[-2].end_bytes if len(cuts) > 1 else 0)
        piece = data[byte_range.start_bytes : byte_range.end_bytes]
        assert byte_range.checksum == zlib.crc32(piece)
        assert len(piece) <= max(budget, budget + limit + 1)
        ends_line = piece.endswith(b"\n") or (final and byte_range.end_bytes == len(data))
        assert ends_line or byte_range.ends_inside_oversized
        assert at.tail_hash == hash_bytes(data[: at.offset_bytes][-256:])
    whole = len(data) if final else data.rfind(b"\n") + 1
    assert at.offset_bytes == whole or (at.inside_oversized and at.offset_bytes > whole)
    if final and not at.inside_oversized:
        assert sum(each.lines for each in cuts) == data.count(b"\n") + (
            not data.endswith(b"\n") and data != b""
        )


@given(
    LINES, st.binary(max_size=30), st.integers(2, 50), st.integers(1, 25), st.booleans(), st.integers(1, 40)
)
def test_a_long_range_is_cut_by_its_end_where_it_would_be_if_all_of_it_were_read(
    lines, rest, budget, limit, final, checked
):
    data = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    source, at = Bytes(data), tracked(data)
    while (cut := cut_range(source, at, budget, limit, final)) is not None:
        with mock.patch.object(cutting, "CHECKED_BYTES", checked):
            by_its_end = cut_range(source, at, budget, limit, final)
        assert by_its_end is not None
        known = by_its_end[0]
        assert (replace(known, checksum=0, lines=0, unchecked_bytes=0), by_its_end[1]) == (
            replace(cut[0], checksum=0, lines=0),
            cut[1],
        )
        piece = data[known.start_bytes : known.end_bytes]
        assert Checked(known.checksum, known.unchecked_bytes).holds(piece)
        at = cut[1]


def test_of_a_long_range_only_the_beginning_and_the_end_are_read():
    data = b"x" * 99 + b"\n"
    source = Bytes(data * 10_000)
    cut = cut_range(source, tracked(source.data), 900_050, 10_000)
    assert cut is not None
    assert cut[0].end_bytes == 900_000
    assert cut[0].lines == pytest.approx(9_000, rel=0.01)
    assert source.most_bytes == cutting.CHECKED_BYTES


def test_a_long_range_with_another_end_is_gone(tmp_path):
    data = b"x" * 99 + b"\n"
    file = make(tmp_path, "a.log", data * 10_000)
    byte_range, _ = cut_range(Bytes(data * 10_000), file, 900_000, 10_000)
    assert read_range(tmp_path, file.file, byte_range) == data * 9_000
    (tmp_path / "a.log").write_bytes(data * 8_999 + b"y" * 99 + b"\n" + data * 1_000)
    with pytest.raises(RangeGone, match="other bytes"):
        read_range(tmp_path, file.file, byte_range)


def in_blocks(folder: Path, file: LogFile, planned: ByteRange) -> Iterator[tuple[ByteRange, bytes | None]]:
    """A range in blocks of 1,000 bytes, each with its place."""
    with mock.patch.object(ranges, "BLOCK_BYTES", 1_000):
        for _, where, data in read_ranges(folder, [(file, planned)], lambda _: True):
            yield where, data


LINE = b"x" * 299 + b"\n"


def long_range(folder: Path, data: bytes) -> tuple[LogFile, ByteRange]:
    """A file, and a range of all of it. The last 700 bytes are checked."""
    file = make(folder, "a.log", data)
    with mock.patch.object(cutting, "CHECKED_BYTES", 700):
        planned, _ = cut_range(Bytes(data), file, len(data), 10_000)
    return file.file, planned


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (LINE * 20, 7),
        (b"\n" * 6_000, 6),
        (LINE * 3 + b"y" * 1_499 + b"\n" + LINE * 20, 2),  # all behind a line that fills a block
    ],
)
def test_a_long_range_comes_in_blocks_of_whole_lines(tmp_path, data, count):
    blocks = list(in_blocks(tmp_path, *long_range(tmp_path, data)))
    assert len(blocks) == count
    assert all(block == data[where.start_bytes : where.end_bytes] for where, block in blocks)
    assert b"".join(block or b"" for _, block in blocks) == data
    assert all(block is not None and block.endswith(b"\n") for _, block in blocks)


def test_a_range_that_is_cut_off_while_it_is_read_is_gone_from_there_on(tmp_path):
    file, planned = long_range(tmp_path, LINE * 20)
    blocks = in_blocks(tmp_path, file, planned)
    first, data = next(blocks)
    assert (first.start_bytes, data) == (0, LINE * 3)
    with (tmp_path / "a.log").open("r+b") as log:
        log.truncate(1_500)
    assert [(where.start_bytes, where.end_bytes, data) for where, data in blocks] == [(900, 6_000, None)]


def test_a_file_that_is_removed_while_it_is_read_is_read_to_its_end(tmp_path):
    file, planned = long_range(tmp_path, LINE * 20)
    blocks = in_blocks(tmp_path, file, planned)
    _, first = next(blocks)
    (tmp_path / "a.log").unlink()
    assert first + b"".join(data for _, data in blocks) == LINE * 20


def test_nothing_is_taken_of_a_long_range_with_another_end(tmp_path):
    file, planned = long_range(tmp_path, LINE * 20)
    (tmp_path / "a.log").write_bytes(LINE * 19 + LINE.upper())
    ((where, data),) = in_blocks(tmp_path, file, planned)
    assert (where.start_bytes, where.end_bytes, data) == (0, 6_000, None)


def test_a_long_line_needs_no_more_memory_than_budget_and_limit():
    data = b"x" * 100_000 + b"\nnext\n"
    source, at = Bytes(data), tracked(data)
    while (cut := cut_range(source, at, 1000, 500)) is not None:
        at = cut[1]
    assert at.offset_bytes == len(data)
    assert source.most_bytes <= 1000


def test_lines_that_begin_behind_the_size_of_the_first_look_are_left_alone():
    data = b"one\ntwo\nthree\n"
    byte_range, at = cut_range(Bytes(data), tracked(data), 100, 100, final=True, size_bytes=6)
    assert byte_range.end_bytes == 8  # the size was taken inside a line, which is read to its end
    assert cut_range(Bytes(data), at, 100, 100, final=True, size_bytes=6) is None


def make(folder: Path, name: str, data: bytes) -> TrackedFile:
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return tracked(data, name, path.stat().st_ino)


@pytest.mark.parametrize("name", ["a.log", "a.log.gz"])
def test_a_range_is_read_again_as_it_was_planned(tmp_path, name):
    data = b"first line of many\nb\nc\n"
    file = make(tmp_path, name, data)
    byte_range = ByteRange(1, 19, 21, zlib.crc32(b"b\n"), 1)
    assert read_range(tmp_path, file.file, byte_range) == b"b\n"
    assert read_at(tmp_path, file.file, 21, 23) == b"c\n"


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (None, "the file is not there"),
        (b"first line of many\n", "the file was truncated to less than 21 bytes"),
        (b"first line of manx\nb\nc\n", "another file is in its place"),
        (b"first line of many\nx\nc\n", "other bytes are in their place"),
    ],
)
def test_bytes_that_are_gone_are_named_with_file_and_reason(tmp_path, now, reason):
    file = make(tmp_path, "a.log", b"first line of many\nb\nc\n").file
    (tmp_path / "a.log").unlink()
    if now is not None:
        (tmp_path / "a.log").write_bytes(now)
    with pytest.raises(RangeGone) as error:
        read_range(tmp_path, file, ByteRange(1, 19, 21, zlib.crc32(b"b\n"), 1))
    assert error.value.reason == reason
    assert "bytes 19 to 21 of primary log file a.log (number 1)" in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_a_gzip_file_that_lost_its_end_is_named(tmp_path):
    data = os.urandom(100_000)
    file = make(tmp_path, "a.log.gz", data).file
    whole = (tmp_path / "a.log.gz").read_bytes()
    (tmp_path / "a.log.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RangeGone, match=r"a\.log\.gz can't be read"):
        read_at(tmp_path, file, 90_000, 90_010)
