"""Compressed log files: read by their decompressed bytes, and the same log as before they were compressed."""

import gzip
import os
import random
from pathlib import Path

import pytest

from photon.logs.gzips import CompressedBytes, GzipStream, NotClosedYet
from photon.pipeline.sections import Limits
from tests.unit.tailing_world import Story, World, cases, named, play

ONE_TWO = gzip.compress(b"one\ntwo\n")
LONG = os.urandom(1000).replace(b"\n", b" ") + b"\n"
LONG_GZIP = gzip.compress(LONG)

STORIES = {
    "a_closed_gzip_file_is_read_by_its_decompressed_bytes": Story(
        [
            ("write", "a.log.gz", gzip.compress(b"one\n") + gzip.compress(b"two\n")),
            ("reads", {1: b"one\ntwo\n"}, False, 4),
            ("knows", 1, {"size_bytes": 8, "offset_bytes": 8}),
        ]
    ),
    "a_gzip_file_that_ends_early_waits_until_it_is_whole": Story(
        [
            ("write", "a.log.gz", LONG_GZIP[:500]),
            ("reads", {}),
            ("sees_problems", "a.log.gz"),
            ("append", "a.log.gz", LONG_GZIP[500:]),
            ("reads", {1: LONG}),
            ("sees_problems",),
        ]
    ),
    "a_gzip_file_with_nonsense_in_it_is_a_problem_and_the_rest_goes_on": Story(
        [
            ("write", "a.log.gz", b"no gzip at all"),
            ("write", "b.log", b"one\n"),
            ("sees_problems", "a.log.gz"),
            ("sees_waiting", {1: 4}),
        ]
    ),
    "a_file_that_was_compressed_goes_on_where_it_was": Story(
        [
            ("write", "a.log", b"one\ntwo\n"),
            ("read_so_far", 1, 4),
            ("write", "a.log.gz", ONE_TWO),
            ("remove", "a.log"),
            ("reads", {1: b"two\n"}),
            ("knows", 1, {"compressed": True}),
            ("reads", {}),
            ("sees_vanish",),
        ]
    ),
    "file_and_compressed_copy_together_are_one_file": Story(
        [
            ("write", "a.log", b"one\n"),
            ("reads", {1: b"one\n"}),
            ("write", "a.log.gz", gzip.compress(b"one\n")),
            *[("reads", {})] * 3,
            ("remove", "a.log"),
            *[("reads", {})] * 3,
            ("knows", 1, {"path": "a.log.gz", "state": "open"}),
        ]
    ),
    "file_and_compressed_copy_that_are_new_together_are_one_file": Story(
        [
            ("write", "a.log", b"one\n"),
            ("write", "a.log.gz", gzip.compress(b"one\n")),
            ("reads", {1: b"one\n"}),
            ("remove", "a.log"),
            *[("reads", {})] * 3,
            ("knows", 1, {"path": "a.log.gz", "state": "open"}),
        ]
    ),
    "nothing_is_lost_while_a_file_is_being_compressed": Story(
        [
            ("write", "a.log", b"one\ntwo\n"),
            ("look",),
            ("write", "a.log.gz", ONE_TWO[:12]),
            ("remove", "a.log"),
            *[("sees_vanish",)] * 3,
            ("write", "a.log.gz", ONE_TWO),
            ("reads", {1: b"one\ntwo\n"}),
        ]
    ),
    "a_gzip_file_that_grew_after_it_was_read_is_read_on": Story(
        [
            ("write", "a.log.gz", gzip.compress(b"one\n")),
            ("reads", {1: b"one\n"}),
            ("append", "a.log.gz", gzip.compress(b"two\n")),
            ("reads", {1: b"two\n"}),
            ("append", "a.log.gz", gzip.compress(b"three\n") + gzip.compress(b"four\n")),
            ("reads", {1: b"three\nfour\n"}),
        ]
    ),
    "a_member_that_is_being_appended_waits_until_it_is_whole": Story(
        [
            ("write", "a.log.gz", ONE_TWO),
            ("reads", {1: b"one\ntwo\n"}),
            ("append", "a.log.gz", LONG_GZIP[:500]),
            *[("reads", {})] * 3,
            ("append", "a.log.gz", LONG_GZIP[500:]),
            ("reads", {1: LONG}),
        ]
    ),
    "a_gzip_file_that_was_overwritten_is_another_one": Story(
        [
            ("write", "a.log.gz", ONE_TWO),
            ("reads", {1: b"one\ntwo\n"}),
            ("overwrite", "a.log.gz", gzip.compress(b"three\nfour\nfive\n")),
            ("reads", {2: b"three\nfour\nfive\n"}),
        ]
    ),
}


@pytest.mark.parametrize(("story", "restarts"), cases(STORIES))
def test_a_story_of_gzip_files(story: Story, restarts: bool, tmp_path: Path) -> None:
    play(story, restarts, tmp_path)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "logs", "**/*.log", "jsonl", Limits())


NOW_US = 1_772_366_400_000_000
DAY_US = 86_400 * 10**6


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("written_us", [NOW_US - DAY_US, NOW_US, NOW_US + DAY_US, 0], ids=str)
def test_a_gzip_file_that_ends_early_is_named_at_once_whenever_it_was_written(world, written_us, final):
    world.write("a.log.gz", LONG_GZIP[:500])
    os.utime(world.folder / "a.log.gz", ns=(written_us * 1000, written_us * 1000))
    world.now_us = NOW_US
    (problem,) = world.look(final).problems
    assert problem.path == "a.log.gz"
    assert "ends early" in problem.reason


@pytest.mark.parametrize("written_us", [NOW_US, NOW_US + DAY_US], ids=str)
def test_half_a_copy_is_waited_for_as_long_as_it_may_be_written(world, written_us):
    world.now_us = NOW_US
    world.write("a.log", LONG)
    world.look()
    world.write("a.log.gz", LONG_GZIP[:500])
    os.utime(world.folder / "a.log.gz", ns=(written_us * 1000, written_us * 1000))
    assert world.look().problems == ()  # the log itself is there as well
    (world.folder / "a.log").unlink()
    for _ in range(3):
        assert world.look().vanished == ()
        assert [problem.path for problem in world.last_seen.problems] == ["a.log.gz"]


def test_big_gzip_files_are_checked_in_several_looks_of_a_mebibyte_together(world, monkeypatch):
    monkeypatch.setattr("photon.logs.tailing.whole_gzips.GZIP_LOOK_BYTES", 2**20)
    for name in ("a.log.gz", "b.log.gz"):
        world.write(name, gzip.compress(b"x" * 999 + b"\n", 1) * 2000)
    looks = 1
    while world.look().checks_pending:
        looks += 1
    assert looks == 4
    assert world.look().backlog_bytes == {1: 2_000_000, 2: 2_000_000}


def test_a_gzip_file_that_counts_as_whole_where_it_ends_early_is_read_too_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # D3
    read = GzipStream.read

    def as_far_as_it_goes(self: GzipStream, stored: CompressedBytes, most_bytes: int) -> bytes:
        try:
            return read(self, stored, most_bytes)
        except NotClosedYet:
            return b""

    monkeypatch.setattr(GzipStream, "read", as_far_as_it_goes)
    lines = b"".join(b"%s\n" % random.Random(number).randbytes(40).hex().encode() for number in range(20_000))
    whole = gzip.compress(lines, mtime=0)
    half = Story([("write", "a.log.gz", whole[: len(whole) // 2]), ("reads", {})])
    with pytest.raises(AssertionError):
        play(half, False, tmp_path)


@pytest.mark.parametrize("data", [b'{"id": 1, "t": 1}\n', b"\x1e\x8b\x08", b"i"])
def test_a_plain_file_whose_name_says_that_it_is_compressed_is_told_as_one(
    tmp_path: Path, data: bytes
) -> None:
    world = named(tmp_path, "*.jsonl")
    world.write("a.jsonl.gz", data)
    (problem,) = world.look().problems
    assert problem.path == "a.jsonl.gz"
    assert "it is not compressed; rename it" in problem.reason
