"""Reading gzip files at any offset: what is read, and how much is decompressed for it."""

import gzip
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from photon.logs import gzips
from photon.logs.gzips import CompressedBytes, GzipStream, NotClosedYet, index_of
from photon.logs.source import FileBytes, open_source

MIB = 2**20


def noise(size_bytes: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.gz"


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzips, "FIRST_SPACING_BYTES", 2**16)
    monkeypatch.setattr(gzips, "RECENT_BYTES", 2**14)
    monkeypatch.setattr(gzips, "HEAD_READ_BYTES", 2**10)
    gzips._indexes.clear()


def read(path: Path, start_bytes: int, length_bytes: int) -> bytes:
    with open_source(path, compressed=True) as source:
        return source.read(start_bytes, length_bytes)


@given(
    members=st.lists(st.integers(0, 200_000), min_size=1, max_size=5),
    reads=st.lists(st.tuples(st.integers(0, 600_000), st.integers(0, 300_000)), min_size=1, max_size=12),
    padding=st.integers(0, 3),
)
def test_a_read_at_any_offset_is_what_is_there(
    tmp_path_factory: pytest.TempPathFactory,
    members: list[int],
    reads: list[tuple[int, int]],
    padding: int,
) -> None:
    parts = [noise(size, seed) for seed, size in enumerate(members)]
    path = tmp_path_factory.mktemp("gzips") / "a.gz"
    path.write_bytes(b"".join(gzip.compress(part, 1) + b"\0" * padding for part in parts))
    whole = b"".join(parts)
    for start, length in reads:
        assert read(path, start, length) == whole[start : start + length]


@pytest.fixture
def decompressed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many bytes each step decompresses."""
    steps: list[int] = []
    real = GzipStream.read

    def counted(self: GzipStream, stored: CompressedBytes, most_bytes: int) -> bytes:
        data = real(self, stored, most_bytes)
        steps.append(len(data))
        return data

    monkeypatch.setattr(GzipStream, "read", counted)
    return steps


def test_a_file_that_is_read_range_by_range_is_decompressed_once(path: Path, decompressed: list[int]) -> None:
    whole = noise(4 * MIB)
    path.write_bytes(gzip.compress(whole, 1))
    found = [read(path, start, 50_000) for start in range(0, len(whole), 50_000)]
    assert b"".join(found) == whole
    assert sum(decompressed) == len(whole)


def test_a_range_that_begins_a_little_before_the_last_one_ended_costs_nothing_twice(
    path: Path, decompressed: list[int]
) -> None:
    path.write_bytes(gzip.compress(noise(MIB), 1))
    for start in range(0, MIB - 60_000, 50_000):
        read(path, max(0, start - 256), 60_000)
    assert sum(decompressed) <= MIB


def test_reads_here_and_there_decompress_a_bounded_part(path: Path, decompressed: list[int]) -> None:
    whole = noise(8 * MIB)
    path.write_bytes(gzip.compress(whole, 1))
    read(path, 0, len(whole))
    del decompressed[:]
    chance = random.Random(2)
    for _ in range(20):
        start = chance.randrange(len(whole) - 100)
        assert read(path, start, 100) == whole[start : start + 100]
    spacing_bytes = 2 * len(whole) / gzips.MOST_POINTS
    assert sum(decompressed) <= 20 * (spacing_bytes + 100)


def test_an_appended_member_is_read_without_beginning_anew(path: Path, decompressed: list[int]) -> None:
    whole = noise(2 * MIB)
    path.write_bytes(gzip.compress(whole, 1))
    assert read(path, 0, 3 * MIB) == whole
    del decompressed[:]
    with path.open("ab") as file:
        file.write(gzip.compress(b"more", 1))
    assert read(path, len(whole) - 2, 100) == whole[-2:] + b"more"
    assert sum(decompressed) == 4


def test_another_file_in_the_same_inode_is_not_taken_for_the_old_one(path: Path) -> None:
    path.write_bytes(gzip.compress(noise(MIB, 1), 1))
    read(path, 0, MIB)
    other = noise(2 * MIB, 2)
    path.write_bytes(gzip.compress(other, 1))
    assert read(path, MIB - 10, 100) == other[MIB - 10 : MIB + 90]


def test_a_file_that_ends_early_gives_what_it_has_and_says_so_at_its_end(path: Path) -> None:
    whole = noise(MIB)
    path.write_bytes(gzip.compress(whole, 1)[: MIB // 2])
    assert read(path, 0, 1000) == whole[:1000]
    with pytest.raises(NotClosedYet):
        read(path, 0, MIB)
    assert read(path, 1000, 1000) == whole[1000:2000]
    path.write_bytes(gzip.compress(whole, 1))
    assert read(path, 0, MIB) == whole


def test_a_process_remembers_only_the_files_it_read_last(tmp_path: Path) -> None:
    for number in range(gzips.MOST_FILES + 5):
        path = tmp_path / f"{number}.gz"
        path.write_bytes(gzip.compress(b"x"))
        assert read(path, 0, 1) == b"x"
    assert len(gzips._indexes) == gzips.MOST_FILES
    descriptor = os.open(path, os.O_RDONLY)
    stored = FileBytes(descriptor)
    assert index_of(stored).read(stored, 0, 5) == b"x"
    os.close(descriptor)


def test_much_from_little_is_read_in_bounded_steps(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(64 * MIB), 9))
    descriptor = os.open(path, os.O_RDONLY)
    stream, steps = GzipStream(), []
    while data := stream.read(FileBytes(descriptor), MIB):
        steps.append(len(data))
    os.close(descriptor)
    assert (max(steps), sum(steps)) == (MIB, 64 * MIB)
