import gzip
import os

import pytest

from photon.pipeline.file import Limits
from tests.unit.tailing_world import World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "logs", "**/*.log", "jsonl", Limits())


def test_a_closed_gzip_file_is_read_by_its_decompressed_bytes(world):
    world.write("a.log.gz", gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert world.read(budget=4) == {1: b"one\ntwo\n"}
    assert (world.tracked[1].size_bytes, world.tracked[1].offset_bytes) == (8, 8)


def test_a_gzip_file_that_ends_early_waits_until_it_is_whole(world):
    whole = gzip.compress(os.urandom(1000) + b"\n")
    world.write("a.log.gz", whole[:500])
    assert (world.read(), world.look().problems) == ({}, ())
    world.append("a.log.gz", whole[500:])
    assert len(world.read()[1]) == 1001


def test_a_gzip_file_that_never_ends_is_named_after_a_while_and_when_inputs_are_complete(world):
    world.write("a.log.gz", gzip.compress(os.urandom(1000))[:500])
    assert world.look().problems == ()
    assert "ends early" in world.look(final=True).problems[0].reason
    world.now_us = (world.folder / "a.log.gz").stat().st_mtime_ns // 1000 + 6 * 60 * 10**6
    assert "ends early" in world.look().problems[0].reason


def test_a_gzip_file_with_nonsense_in_it_is_a_problem_and_the_rest_goes_on(world):
    world.write("a.log.gz", b"no gzip at all")
    world.write("b.log", b"one\n")
    seen = world.look()
    assert [problem.path for problem in seen.problems] == ["a.log.gz"]
    assert seen.backlog_bytes == {1: 4}


def test_big_gzip_files_are_checked_in_several_looks_of_a_mebibyte_together(world, monkeypatch):
    monkeypatch.setattr("photon.logs.source.GZIP_LOOK_BYTES", 2**20)
    for name in ("a.log.gz", "b.log.gz"):
        world.write(name, gzip.compress(b"x" * 999 + b"\n", 1) * 2000)
    looks = 1
    while world.look().checks_pending:
        looks += 1
    assert looks == 3
    assert world.look().backlog_bytes == {1: 2_000_000, 2: 2_000_000}


@pytest.mark.parametrize("restart", [False, True])
def test_a_file_that_was_compressed_goes_on_where_it_was(world, restart):
    world.write("a.log", b"one\ntwo\n")
    world.look()
    _, world.tracked[1] = world.tail.cut(world.tracked[1], 4)
    world.write("a.log.gz", gzip.compress(b"one\ntwo\n"))
    (world.folder / "a.log").unlink()
    if restart:
        world.restart()
    assert world.read() == {1: b"two\n"}
    assert world.tracked[1].file.compressed
    world.restart()
    assert (world.read(), world.look().vanished) == ({}, ())


def test_file_and_compressed_copy_together_are_one_file(world):
    world.write("a.log", b"one\n")
    world.read()
    world.write("a.log.gz", gzip.compress(b"one\n"))
    assert [world.read() for _ in range(3)] == [{}, {}, {}]
    (world.folder / "a.log").unlink()
    assert [world.read() for _ in range(3)] == [{}, {}, {}]
    assert world.paths() == {1: "a.log.gz"}


def test_nothing_is_lost_while_a_file_is_being_compressed(world):
    whole = gzip.compress(b"one\n")
    world.write("a.log", b"one\n")
    world.look()
    world.write("a.log.gz", whole[:10])
    (world.folder / "a.log").unlink()
    assert [world.look().vanished for _ in range(3)] == [(), (), ()]
    world.write("a.log.gz", whole)
    assert world.read() == {1: b"one\n"}
