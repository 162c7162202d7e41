"""Logs that are rotated while nothing runs: what nobody has read is found by its content, and read once."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.tailing_world import Player, World, named
from tests.unit.test_logs_rotation import compress, read_until_nothing_comes

FIRST = b"".join(b"c%d\n" % number for number in range(3))
ALIKE = b"start of a log whose first line is always the same\n"
Rewrite = Callable[[Player], None]


def with_files(tmp_path: Path) -> tuple[World, Player]:
    world = named(tmp_path, "c/app.log")
    world.write("c/app.log", FIRST)
    return world, Player(world, restarts=False)


def lines(*numbers: int) -> bytes:
    return b"".join(b"c%d\n" % number for number in numbers)


def rotate(player: Player, way: str = "rename") -> None:
    """Rotate once, by a way of its own; the log that follows is empty."""
    for number in range(5, 0, -1):
        for end in ("", ".gz"):
            if player.place(f"c/app.log.{number}{end}").exists():
                player.rename(f"c/app.log.{number}{end}", f"c/app.log.{number + 1}{end}")
    if way == "copytruncate":
        player.copy("c/app.log", "c/app.log.1")
        player.overwrite("c/app.log", b"")
    else:
        player.rename("c/app.log", "c/app.log.1")
        player.write("c/app.log", b"")
    if way == "compress":
        compress(player, "c/app.log.1")


@pytest.mark.parametrize("way", ["rename", "compress", "copytruncate"])
@pytest.mark.parametrize("late", [True, False], ids=["late_line", "no_late_line"])
@pytest.mark.parametrize("read_bytes", [0, 3, len(FIRST)], ids=["unread", "half", "whole"])
def test_two_rotations_and_a_late_line_lose_nothing(
    tmp_path: Path, way: str, late: bool, read_bytes: int
) -> None:
    world, player = with_files(tmp_path)
    world.look()
    if read_bytes:
        _, world.tracked[1] = world.tail.cut(world.tracked[1], read_bytes)  # type: ignore[misc]
    rotate(player, way)
    player.append("c/app.log", lines(3, 4))
    rotate(player, way)
    player.append("c/app.log", lines(5, 6))
    expected = lines(*range(7))[read_bytes:]
    if late and way != "compress":
        player.append("c/app.log.2", lines(7))
        expected += lines(7)
    world.restart()
    assert Counter(read_until_nothing_comes(world)) == Counter(expected.splitlines())


def test_rotations_are_read_though_the_log_that_was_followed_is_deleted_by_them(tmp_path: Path) -> None:
    world, player = with_files(tmp_path)
    world.read()
    for first in (3, 5, 7):
        rotate(player)
        player.append("c/app.log", lines(first, first + 1))
    player.remove("c/app.log.3")
    world.restart()
    assert sorted(read_until_nothing_comes(world)) == lines(*range(3, 9)).splitlines()


def test_rotations_of_the_target_of_a_link_are_read(tmp_path: Path) -> None:
    world = named(tmp_path, "c/*.log")
    player = Player(world, restarts=False)
    world.write("../pods/x/0.log", FIRST)
    (world.folder / "c").mkdir(parents=True)
    (world.folder / "c/app.log").symlink_to("../../pods/x/0.log")
    world.read()
    player.append("../pods/x/0.log", lines(3))
    player.rename("../pods/x/0.log", "../pods/x/0.log.20260301-100000")
    world.write("../pods/x/0.log", lines(4, 5))
    player.rename("../pods/x/0.log", "../pods/x/0.log.20260301-110000")
    world.write("../pods/x/0.log", lines(6))
    world.restart()
    assert sorted(read_until_nothing_comes(world)) == lines(3, 4, 5, 6).splitlines()


def test_a_link_that_leads_elsewhere_leaves_its_old_target_to_be_read(tmp_path: Path) -> None:
    world = named(tmp_path, "c/*.log")
    world.write("../pods/x/0.log", FIRST)
    (world.folder / "c").mkdir(parents=True)
    (world.folder / "c/app.log").symlink_to("../../pods/x/0.log")
    world.read()
    world.append("../pods/x/0.log", lines(3))
    world.write("../pods/y/1.log", lines(4))
    (world.folder / "c/app.log").unlink()
    (world.folder / "c/app.log").symlink_to("../../pods/y/1.log")
    world.restart()
    assert sorted(read_until_nothing_comes(world)) == lines(3, 4).splitlines()


@pytest.mark.parametrize("compressed", [False, True])
def test_a_log_that_was_rotated_into_another_folder_is_read_on(tmp_path: Path, compressed: bool) -> None:
    world, player = with_files(tmp_path)
    world.read()
    player.append("c/app.log", lines(3))
    (world.folder / "old").mkdir()
    player.rename("c/app.log", "old/app.log.1")
    world.write("c/app.log", lines(4, 5))
    player.rename("old/app.log.1", "old/app.log.2")
    player.rename("c/app.log", "old/app.log.1")
    world.write("c/app.log", lines(6))
    if compressed:
        compress(player, "old/app.log.2")
    world.restart()
    assert sorted(read_until_nothing_comes(world)) == lines(3, 4, 5, 6).splitlines()


# -- copies that come back


def put_back(player: Player) -> None:
    player.copy("c/app.log.1", "c/app.log.2")


def put_back_half_of_it(player: Player) -> None:
    player.write("c/app.log.2", ALIKE + lines(3))


def put_back_compressed(player: Player) -> None:
    player.write("c/app.log.2.gz", gzip.compress(player.place("c/app.log.1").read_bytes()))


@pytest.mark.parametrize("copy", [put_back, put_back_half_of_it, put_back_compressed])
@pytest.mark.parametrize("files", ["c/app.log", "c/*"])
@pytest.mark.parametrize("more", [b"", lines(*range(100, 600))], ids=["short", "long"])
def test_a_copy_beside_a_rotation_that_nobody_saw_is_not_read_too(
    tmp_path: Path, files: str, copy: Rewrite, more: bytes
) -> None:
    world = named(tmp_path, files)
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE + FIRST)
    world.read()
    player.remove("c/app.log")
    player.write("c/app.log.1", ALIKE + lines(3, 4) + more)
    copy(player)
    player.write("c/app.log", ALIKE + lines(5))
    world.restart()
    found = read_until_nothing_comes(world)
    assert sorted(found) == sorted((ALIKE + lines(3, 4) + more + ALIKE + lines(5)).splitlines())


def decompressed(player: Player) -> None:
    player.write("c/app.log.7", gzip.decompress(player.place("c/app.log.1.gz").read_bytes()))


def copied_compressed(player: Player) -> None:
    player.copy("c/app.log.1.gz", "c/app.log.7.gz")


def half_decompressed(player: Player) -> None:
    whole = gzip.decompress(player.place("c/app.log.1.gz").read_bytes())
    player.write("c/app.log.7", whole[: whole.rfind(b"\n", 0, 1_500) + 1])


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("copy", [decompressed, copied_compressed, half_decompressed])
@pytest.mark.parametrize("more", [b"", lines(*range(100, 600))], ids=["short", "long"])
def test_what_somebody_decompresses_to_look_at_it_is_not_read_again(
    tmp_path: Path, copy: Rewrite, more: bytes, stopped: bool
) -> None:
    world = named(tmp_path, "c/*")
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE + FIRST + more)
    world.read()
    player.rename("c/app.log", "c/app.log.1")
    compress(player, "c/app.log.1")
    assert read_until_nothing_comes(world) == []
    copy(player)
    if stopped:
        world.restart()
    assert read_until_nothing_comes(world) == []


def test_a_copy_of_a_log_that_was_moved_away_is_not_read_behind_a_link(tmp_path: Path) -> None:
    world = named(tmp_path, "c/*.log")
    player = Player(world, restarts=False)
    world.write("../pods/x/0.log", ALIKE * 50)
    (world.folder / "c").mkdir(parents=True)
    (world.folder / "old").mkdir()
    (world.folder / "c/app.log").symlink_to("../../pods/x/0.log")
    world.read()
    player.rename("../pods/x/0.log", "old/app.log.1")
    assert read_until_nothing_comes(world) == []
    player.copy("old/app.log.1", "../pods/x/0.log")
    assert read_until_nothing_comes(world) == []
    player.append("../pods/x/0.log", lines(3))
    assert read_until_nothing_comes(world) == [b"c3"]


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("files", ["c/app.log", "c/*"])
@pytest.mark.parametrize("rotation", ["c/app.log.1", "c/app.log.1.gz", "c/app.log.gz"])
@pytest.mark.parametrize("seen", [False, True], ids=["with more at once", "first as it was"])
def test_a_rotation_that_was_copied_back_goes_on_in_its_copy(
    tmp_path: Path, seen: bool, rotation: str, files: str, stopped: bool
) -> None:
    world = named(tmp_path, files)
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE * 50 + lines(1))
    world.read()
    player.rename("c/app.log", "c/app.log.1")
    if rotation.endswith(".gz"):
        compress(player, "c/app.log.1")
        player.rename("c/app.log.1.gz", rotation)
    assert read_until_nothing_comes(world) == []
    player.write("c/app.log", ALIKE * 50 + lines(1))
    if seen:
        assert read_until_nothing_comes(world) == []
    player.append("c/app.log", lines(2))
    if stopped:
        world.restart()
    assert read_until_nothing_comes(world) == [b"c2"]
    player.remove(rotation)
    player.append("c/app.log", lines(3))
    assert read_until_nothing_comes(world) == [b"c3"]
    assert world.paths() == {1: "c/app.log"}
    assert not any(file.end_unknown for file in world.tracked.values())


def test_a_short_rotation_is_read_on_though_the_new_log_begins_with_all_of_it(tmp_path: Path) -> None:
    world = named(tmp_path, "c/app.log")
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE)
    world.read()
    player.rename("c/app.log", "c/app.log.1")
    player.write("c/app.log", ALIKE + lines(2))
    assert read_until_nothing_comes(world) == (ALIKE + lines(2)).splitlines()
    player.append("c/app.log.1", lines(1))
    assert read_until_nothing_comes(world) == [b"c1"]


def test_the_other_form_of_a_log_is_read_where_it_holds_more(tmp_path: Path) -> None:
    world = named(tmp_path, "c/app.log")
    player = Player(world, restarts=False)
    world.write("c/app.log", FIRST)
    world.read()
    compress(player, "c/app.log")
    assert read_until_nothing_comes(world) == []
    player.write("c/app.log", FIRST + lines(3))
    assert set(read_until_nothing_comes(world)) >= {b"c3"}


def test_a_copy_of_an_older_target_of_a_link_beside_its_new_target_is_not_read(tmp_path: Path) -> None:
    world = named(tmp_path, "c/*.log")
    player = Player(world, restarts=False)
    world.write("../pods/x/0.log", FIRST)
    world.write("../pods/y/0.log", lines(4))
    (world.folder / "c").mkdir(parents=True)
    (world.folder / "c/app.log").symlink_to("../../pods/x/0.log")
    world.read()
    player.remove("c/app.log")
    (world.folder / "c/app.log").symlink_to("../../pods/y/0.log")
    assert read_until_nothing_comes(world) == lines(4).splitlines()
    player.rename("../pods/y/0.log", "../pods/y/0.log.1")
    player.write("../pods/y/0.log", lines(5))
    player.copy("../pods/x/0.log", "../pods/y/0.log.2")
    world.restart()
    assert read_until_nothing_comes(world) == lines(5).splitlines()


def test_a_copy_of_a_rotation_is_not_read_where_the_link_of_its_log_leads_now(tmp_path: Path) -> None:
    world = named(tmp_path, "c/*.log")
    player = Player(world, restarts=False)
    world.write("../pods/x/0.log", FIRST)
    (world.folder / "c").mkdir(parents=True)
    (world.folder / "c/app.log").symlink_to("../../pods/x/0.log")
    world.read()
    player.rename("../pods/x/0.log", "../pods/x/app.log.1")
    assert read_until_nothing_comes(world) == []
    world.write("../pods/y/0.log", FIRST)
    player.remove("c/app.log")
    (world.folder / "c/app.log").symlink_to("../../pods/y/0.log")
    assert read_until_nothing_comes(world) == []


@pytest.mark.parametrize("copied_bytes", [3, len(FIRST)], ids=["half", "whole"])
def test_a_rotation_that_nobody_saw_and_its_copy_in_another_folder_are_read_once(
    tmp_path: Path, copied_bytes: int
) -> None:
    world, player = with_files(tmp_path)
    (world.folder / "old").mkdir()
    world.read()
    player.rename("c/app.log", "old/app.log.2")
    world.write("old/app.log.1", lines(3, 4, 5))
    world.write("c/app.log.1", lines(3, 4, 5)[:copied_bytes])
    world.restart()
    assert read_until_nothing_comes(world) == lines(3, 4, 5).splitlines()


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_log_that_was_there_between_two_stays_of_another_one_is_read(tmp_path: Path, stopped: bool) -> None:
    world, player = with_files(tmp_path)
    world.read()
    player.rename("c/app.log", "../away")
    read_until_nothing_comes(world)
    world.restart()
    player.write("c/app.log", lines(3, 4))
    player.rename("c/app.log", "c/app.log.1")
    player.rename("../away", "c/app.log")
    player.append("c/app.log", lines(5))
    if stopped:
        world.restart()
    assert sorted(read_until_nothing_comes(world)) == lines(3, 4, 5).splitlines()
