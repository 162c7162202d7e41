"""Rotation in all its ways, between two looks or while nobody looks: nothing is lost or read twice."""

import gzip
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from photon.logs import folders
from photon.logs.discovery import Scan
from photon.logs.ranges import read_range
from photon.logs.tailing.rotation import Rotations, rotated_from
from tests.unit.tailing_world import Player, World, named

GLOBS = ["access.log", "access.log*", "access*"]
Way = Callable[[Player], None]


def compress(player: Player, name: str, to: str | None = None) -> None:
    """Compress as logrotate does: the compressed file is whole before the other one goes."""
    plain = player.place(name)
    written_ns = plain.stat().st_mtime_ns
    player.write(to or f"{name}.gz", gzip.compress(plain.read_bytes()))
    os.utime(player.place(to or f"{name}.gz"), ns=(written_ns, written_ns))
    plain.unlink()


def rename_and_create(player: Player) -> None:
    player.rename("access.log", "access.log.1")
    player.write("access.log", b"new 1\n")


def compress_at_once(player: Player) -> None:
    rename_and_create(player)
    compress(player, "access.log.1")


def with_a_date(player: Player) -> None:
    rename_and_create(player)
    compress(player, "access.log.1", "access.log-20261122.gz")


def two_rotations(player: Player) -> None:
    rename_and_create(player)
    player.rename("access.log.1", "access.log.2")
    player.rename("access.log", "access.log.1")
    player.write("access.log", b"newer 1\n")


def delayed_compression(player: Player) -> None:
    two_rotations(player)
    compress(player, "access.log.2")


def copy_truncate(player: Player) -> None:
    player.copy("access.log", "access.log.1")
    player.overwrite("access.log", b"")
    player.append("access.log", b"new 1\n")


def copy_truncate_and_compress(player: Player) -> None:
    copy_truncate(player)
    compress(player, "access.log.1")


def copy_truncate_twice(player: Player) -> None:
    copy_truncate(player)
    player.rename("access.log.1", "access.log.2")
    player.copy("access.log", "access.log.1")
    player.overwrite("access.log", b"newer 1\n")
    compress(player, "access.log.2")


WAYS = [
    rename_and_create,
    compress_at_once,
    with_a_date,
    two_rotations,
    delayed_compression,
    copy_truncate,
    copy_truncate_and_compress,
    copy_truncate_twice,
]
OLD = b"".join(b"old %d\n" % number for number in range(1, 200))


def read_until_nothing_comes(world: World) -> list[bytes]:
    """The lines of several looks; what vanished with unread bytes fails the test."""
    lines: list[bytes] = []
    for _ in range(4):
        found = world.read()
        assert all(not lost.unread_bytes for lost in world.last_seen.vanished)
        lines += [line for data in found.values() for line in data.splitlines()]
    return lines


@pytest.mark.parametrize("files", GLOBS)
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("read_bytes", [0, 700, len(OLD)], ids=["unread", "half", "whole"])
def test_a_rotated_log_is_read_on_and_nothing_twice(
    tmp_path: Path, files: str, stopped: bool, way: Way, read_bytes: int
) -> None:
    world = named(tmp_path, files)
    player = Player(world, restarts=False)
    world.write("access.log", OLD)
    world.look()
    before = b""
    if read_bytes:
        byte_range, world.tracked[1] = world.tail.cut(world.tracked[1], read_bytes)
        before = read_range(world.folder, world.tracked[1].file, byte_range)
    way(player)
    if stopped:
        world.restart()
    lines = before.splitlines() + read_until_nothing_comes(world)
    assert {*OLD.splitlines(), b"new 1"} <= set(lines)
    assert [line for line, count in Counter(lines).items() if count > 1] == []


@pytest.mark.parametrize("files", GLOBS)
def test_a_copy_in_the_making_is_not_read_as_a_file_of_its_own(tmp_path: Path, files: str) -> None:
    world = named(tmp_path, files)
    player = Player(world, restarts=False)
    world.write("access.log", OLD)
    lines = read_until_nothing_comes(world)
    world.append("access.log", b"last\n")
    whole = OLD + b"last\n"
    for size in (100, 1_000, len(whole)):
        world.write("access.log.1", whole[:size])
        lines += read_until_nothing_comes(world)
    player.overwrite("access.log", b"new\n")
    lines += read_until_nothing_comes(world)
    assert Counter(lines) == Counter([*whole.splitlines(), b"new"])


def test_a_file_that_begins_like_another_is_read_from_its_first_line_of_its_own(tmp_path: Path) -> None:
    world = named(tmp_path, "access*")
    world.write("access.log", b"start\none\n")
    assert world.read() == {1: b"start\none\n"}
    world.write("access.log.b", b"start\n")
    assert world.read() == {}
    world.append("access.log.b", b"two\n")
    assert world.read() == {2: b"start\ntwo\n"}


def test_a_rotated_log_whose_copy_is_gone_too_is_counted_as_it_was_last_seen(tmp_path: Path) -> None:
    world = named(tmp_path, "access.log")
    world.write("access.log", OLD)
    world.look()
    world.append("access.log", b"more\n")
    world.look()
    (world.folder / "access.log").unlink()
    world.restart()
    world.look()
    (lost,) = world.look().vanished
    assert lost.unread_bytes == len(OLD) + len(b"more\n")


@pytest.mark.parametrize("way", WAYS)
def test_a_range_that_was_planned_before_a_rotation_is_read_afterwards(tmp_path: Path, way: Way) -> None:
    world = named(tmp_path, "access.log")
    world.write("access.log", OLD)
    world.look()
    byte_range, tracked = world.tail.cut(world.tracked[1], len(OLD))
    way(Player(world, restarts=False))
    assert read_range(world.folder, tracked.file, byte_range) == OLD


@pytest.mark.parametrize("files", GLOBS)
@pytest.mark.parametrize("read_bytes", [0, 700])
def test_a_log_that_was_hidden_from_two_looks_is_the_same_when_it_is_back(
    tmp_path: Path, files: str, read_bytes: int
) -> None:
    world = named(tmp_path, files)
    player = Player(world, restarts=False)
    world.write("access.log", OLD)
    world.look()
    before = b""
    if read_bytes:
        byte_range, world.tracked[1] = world.tail.cut(world.tracked[1], read_bytes)
        before = read_range(world.folder, world.tracked[1].file, byte_range)
    rename_and_create(player)
    os.rename(world.folder / "access.log.1", tmp_path / "hidden")
    world.look()
    assert [lost.file.number for lost in world.look().vanished] == [1]
    player.rename("access.log", "access.log.1")
    world.write("access.log", b"newer 1\n")
    world.look()
    (world.folder / "access.log.2.gz").write_bytes(gzip.compress((tmp_path / "hidden").read_bytes()))
    lines = before.splitlines() + read_until_nothing_comes(world)
    assert Counter(lines) == Counter([*OLD.splitlines(), b"new 1", b"newer 1"])
    assert world.tracked[1].state == "open"


def test_a_file_whose_name_another_one_took_since_the_scan_is_left_for_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = named(tmp_path, "access*")
    player = Player(world, restarts=False)
    world.write("access.log", OLD)
    real = folders.scan

    def rotated_meanwhile(*arguments: object) -> Scan:
        found = real(*arguments)  # type: ignore[arg-type]
        rename_and_create(player)
        return found

    monkeypatch.setattr(folders, "scan", rotated_meanwhile)
    assert world.look().changed == {}
    monkeypatch.setattr(folders, "scan", real)
    assert Counter(read_until_nothing_comes(world)) == Counter([*OLD.splitlines(), b"new 1"])
    assert {file.file.path: file.file.inode for file in world.tracked.values()} == {
        name: (world.folder / name).stat().st_ino for name in ("access.log", "access.log.1")
    }


@pytest.mark.parametrize("way", [rename_and_create, compress_at_once, copy_truncate])
@pytest.mark.parametrize("files", GLOBS)
def test_a_rotation_between_two_files_of_one_scan_reads_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str, way: Way
) -> None:
    world = named(tmp_path, files)
    player = Player(world, restarts=False)
    world.write("access.log", OLD)
    byte_range, world.tracked[1] = (world.look(), world.tail.cut(world.tracked[1], 700))[1]
    lines = read_range(world.folder, world.tracked[1].file, byte_range).splitlines()
    world.look()
    real = folders.scan

    def torn(*arguments: object) -> Scan:
        """Find the log as it was before the rotation, and all others as they were afterwards."""
        before = real(*arguments)  # type: ignore[arg-type]
        way(player)
        after = real(*arguments)  # type: ignore[arg-type]
        others = tuple(file for file in after.files if file.path != "access.log")
        return replace(after, files=before.files + others)

    monkeypatch.setattr(folders, "scan", torn)
    world.look()
    monkeypatch.setattr(folders, "scan", real)
    lines += read_until_nothing_comes(world)
    assert Counter(lines) == Counter([*OLD.splitlines(), b"new 1"])


def test_rotations_that_were_there_before_a_log_was_followed_are_not_read(tmp_path: Path) -> None:
    world = named(tmp_path, "access.log")
    player = Player(world, restarts=False)
    for number in (1, 2):
        world.write(f"access.log.{number}", b"before %d\n" % number)
        os.utime(player.place(f"access.log.{number}"), (number, number))
    world.write("access.log", b"old 1\n")
    lines = read_until_nothing_comes(world)
    world.write("access.log.bak", b"a copy of somebody's\n")
    for number in (2, 1):
        player.rename(f"access.log.{number}", f"access.log.{number + 1}")
    rename_and_create(player)
    assert lines + read_until_nothing_comes(world) == [b"old 1", b"new 1"]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("access.log.1", True),
        ("access.log-20261122.gz", True),
        ("access-20261122.log", True),
        ("access.log.2026-11-22", True),
        ("access.log.bak", False),
        ("access.log.1.swp", False),
        ("access.log", False),
        ("access.log.gz", False),
        ("error.log.1", False),
    ],
)
def test_a_rotation_is_named_by_a_number_or_a_date(name: str, is_one: bool) -> None:
    assert ("logs/access.log" in rotated_from(f"logs/{name}")) is is_one


def test_a_name_with_numbers_of_its_own_may_be_a_rotation_of_several_logs() -> None:
    assert rotated_from("app-01-20261122.log.gz") == ["app.log", "app-01.log"]
    assert rotated_from("of-2026/app2.1") == ["of-2026/app2"]


def test_names_of_rotations_begin_as_the_name_of_the_log_in_its_folder() -> None:
    rotations = Rotations(["logs/access.log", "other.log.1"])
    found = ["logs/access.log.1.gz", "logs/access-20261122.log.gz", "logs/error.log", "access.log", "other"]
    assert list(rotations.among(found)) == [*found[:2], "other"]
