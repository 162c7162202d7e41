import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.logs.files import TrackedFile
from photon.logs.ranges import RangeGone, Stretch, read_pieces, stretches_of
from tests.unit.tailing_world import named

LIMIT = 20


def read_to_the_end(folder: Path, name: str, data: bytes) -> tuple[Path, TrackedFile]:
    """A file that was read as far as it went, as its dispatcher knows it."""
    world = named(folder, "*.log", line=LIMIT)
    world.write(name, data)
    world.read(final=True)
    (tracked,) = world.tracked.values()
    return world.folder, tracked


def lines_of(logs: Path, stretches: list[Stretch], piece_bytes: int) -> list[tuple[int, bytes]]:
    """Read pieces, and return where each line begins, and the line, as far as it was read."""
    found = []
    for stretch in stretches:
        for byte_range, data in read_pieces(logs, stretch, piece_bytes, LIMIT):
            assert byte_range.end_bytes - byte_range.start_bytes == len(data)
            at = byte_range.start_bytes
            for line in data.splitlines(keepends=True):
                found.append((at, line))
                at += len(line)
    return found


@given(
    lines=st.lists(
        st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")), min_size=1
    ),
    piece_bytes=st.integers(1, 50),
    ends_with_newline=st.booleans(),
    compressed=st.booleans(),
)
def test_each_line_is_read_once_whatever_the_pieces(
    tmp_path_factory, lines, piece_bytes, ends_with_newline, compressed
):
    lines = [b"first record", *lines, *([] if ends_with_newline else [b"last"])]
    data = b"\n".join(lines) + (b"\n" if ends_with_newline else b"")
    folder = tmp_path_factory.mktemp("reread")
    name, stored = ("a.log.gz", gzip.compress(data)) if compressed else ("a.log", data)
    logs, tracked = read_to_the_end(folder, name, stored)
    assert tracked.offset_bytes == len(data)
    expected = []
    at = 0
    for line in data.split(b"\n"):
        if at < len(data):
            expected.append((at, line))
        at += len(line) + 1
    found = lines_of(logs, stretches_of(tracked, piece_bytes), piece_bytes)
    assert [at for at, _ in found] == [at for at, _ in expected]
    for (_, line), (_, whole) in zip(found, expected, strict=True):
        if len(whole) <= LIMIT:
            assert line.removesuffix(b"\n") == whole
        else:  # a line that is too long is read until that is plain
            assert len(line.removesuffix(b"\n")) > LIMIT
            assert whole.startswith(line.removesuffix(b"\n"))


def test_nothing_behind_what_was_read_is_read_again(tmp_path):
    logs, tracked = read_to_the_end(tmp_path, "a.log", b"one\ntwo\n")
    with (logs / "a.log").open("ab") as file:
        file.write(b"three\n")
    assert [line for _, line in lines_of(logs, stretches_of(tracked, 4), 4)] == [b"one\n", b"two\n"]


def test_a_compressed_file_is_one_stretch(tmp_path):
    _, tracked = read_to_the_end(tmp_path, "a.log.gz", gzip.compress(b"one\n" * 100))
    assert len(stretches_of(tracked, 10)) == 1


def test_a_file_of_which_nothing_was_read_has_no_stretch(tmp_path):
    _, tracked = read_to_the_end(tmp_path, "a.log", b"one\n")
    assert stretches_of(replace(tracked, offset_bytes=0), 10) == []


def test_other_bytes_in_the_place_of_those_that_were_read_are_not_taken_for_them(tmp_path):
    data = b"one\n" * 1_000
    logs, tracked = read_to_the_end(tmp_path, "a.log", data)
    (logs / "a.log").write_bytes(data[:2_000] + b"two\n" * 500)  # the head is as before
    with pytest.raises(RangeGone, match="another file"):
        lines_of(logs, stretches_of(tracked, 10_000), 10_000)
