"""Files that their writers make longer than what they have written: lines appear within their sizes."""

import json
import mmap
import os
from pathlib import Path

import pytest

from tests.unit.tailing_world import World, named

KIB = 2**10


def line(number: int) -> bytes:
    return json.dumps({"id": number, "t": number}).encode() + b"\n"


LINES = [line(number) for number in range(5)]


def preallocated(folder: Path, size_bytes: int, **limits: int) -> tuple[World, int]:
    """Somebody who follows a file of zeros, and the writer's descriptor."""
    world = named(folder, "*.log", **limits)
    world.write("a.log", bytes(size_bytes))
    return world, os.open(world.folder / "a.log", os.O_RDWR)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("size_bytes", [200, 64 * KIB, 5 * KIB * KIB])
@pytest.mark.parametrize("line_bytes", [100, KIB * KIB])
def test_lines_within_the_size_of_a_file_are_read_as_they_come(
    tmp_path: Path, size_bytes: int, line_bytes: int, restarts: bool
) -> None:
    world, writer = preallocated(tmp_path, size_bytes, line_bytes=line_bytes)
    assert world.read() == {}
    at = 0
    for each in LINES:
        os.pwrite(writer, each, at)
        at += len(each)
        if restarts:
            world.restart()
        assert world.read() == {1: each}
        assert world.look().backlog_bytes == {}
    os.close(writer)


def test_a_line_that_is_written_in_two_goes_is_read_once_it_is_whole(tmp_path: Path) -> None:
    world, writer = preallocated(tmp_path, 64 * KIB)
    os.pwrite(writer, LINES[0] + LINES[1][:5], 0)
    assert world.read() == {1: LINES[0]}
    os.pwrite(writer, LINES[1][5:], len(LINES[0]) + 5)
    assert world.read() == {1: LINES[1]}
    os.close(writer)


def test_a_writer_that_maps_the_file_changes_no_time_and_is_read_all_the_same(tmp_path: Path) -> None:
    world, writer = preallocated(tmp_path, 64 * KIB)
    with mmap.mmap(writer, 64 * KIB) as mapped:
        for number, each in enumerate(LINES):
            start = sum(map(len, LINES[:number]))
            mapped[start : start + len(each)] = each
            os.utime(writer, ns=(10**18, 10**18))
            assert world.read() == {1: each}
    os.close(writer)


def test_a_file_that_is_filled_grows_on_and_is_preallocated_anew(tmp_path: Path) -> None:
    world, writer = preallocated(tmp_path, len(LINES[0]) + 3)
    os.pwrite(writer, LINES[0] + LINES[1][:3], 0)
    assert world.read() == {1: LINES[0]}
    os.pwrite(writer, LINES[1][3:] + bytes(KIB), len(LINES[0]) + 3)
    assert world.read() == {1: LINES[1]}
    os.pwrite(writer, LINES[2], len(LINES[0] + LINES[1]))
    os.ftruncate(writer, len(LINES[0] + LINES[1] + LINES[2]))
    assert world.read() == {1: LINES[2]}
    assert world.last_seen.vanished == ()
    os.close(writer)


def test_zeros_at_the_end_are_no_line_of_a_whole_log(tmp_path: Path) -> None:
    world, writer = preallocated(tmp_path, 64 * KIB)
    os.pwrite(writer, LINES[0] + LINES[1].rstrip(), 0)
    assert world.read(final=True) == {1: LINES[0] + LINES[1].rstrip()}
    assert world.look(final=True).backlog_bytes == {}
    os.close(writer)


@pytest.mark.parametrize("is_held", [False, True])
def test_a_preallocated_file_is_the_same_when_it_is_rotated_or_deleted(tmp_path: Path, is_held: bool) -> None:
    world, writer = preallocated(tmp_path, 64 * KIB)
    if is_held:
        world.hold()
    os.pwrite(writer, LINES[0], 0)
    assert world.read() == {1: LINES[0]}
    (world.folder / "a.log").rename(world.folder / "a.log.1")
    os.pwrite(writer, LINES[1], len(LINES[0]))
    assert world.read() == {1: LINES[1]}
    os.pwrite(writer, LINES[2], len(LINES[0] + LINES[1]))
    if is_held:
        (world.folder / "a.log.1").unlink()
    assert world.read() == {1: LINES[2]}
    os.close(writer)


def test_zeros_between_lines_end_no_file(tmp_path: Path) -> None:
    """A crash left them behind: the line with them is a bad one, and those behind it are read."""
    world = named(tmp_path, "*.log")
    world.write("a.log", LINES[0] + bytes(KIB) + LINES[1])
    assert world.read() == {1: LINES[0] + bytes(KIB) + LINES[1]}
