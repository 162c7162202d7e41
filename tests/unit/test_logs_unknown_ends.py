"""A log that was truncated, or went while in use, may have lost its last lines: it is told."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.tailing_world import Player, World, named

IDLE_US = 300 * 10**6  # tailing.idle_after
OLD = b"old 1\nold 2\n"


def followed(tmp_path: Path, holds: bool = False, files: str = "app.log") -> tuple[World, Player]:
    world = named(tmp_path, files)
    if holds:
        world.hold()
    world.write("app.log", OLD)
    world.read()
    return world, Player(world, restarts=False)


def unknown(world: World) -> list[int]:
    """Look twice, and return the files that may have had lines at their ends which nobody saw."""
    world.read()
    world.read()
    return [number for number, file in world.tracked.items() if file.end_unknown]


def copy_truncate(player: Player) -> None:
    player.copy("app.log", "app.log.1")
    player.append("app.log", b"between the copy and the truncation\n")
    player.overwrite("app.log", b"new\n")


def truncate(player: Player) -> None:
    player.overwrite("app.log", b"")


def delete(player: Player) -> None:
    player.append("app.log", b"late\n")
    player.remove("app.log")


def replace_out_of_sight(player: Player) -> None:
    player.append("app.log", b"late\n")
    player.rename("app.log", "../away")
    player.write("app.log", b"new\n")


Way = Callable[[Player], None]


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("way", [copy_truncate, truncate])
def test_a_log_that_is_truncated_may_have_lost_its_end(tmp_path: Path, way: Way, holds: bool) -> None:
    world, player = followed(tmp_path, holds)
    way(player)
    assert unknown(world) == [1]


@pytest.mark.parametrize("way", [delete, replace_out_of_sight])
def test_a_log_that_went_while_nothing_ran_may_have_lost_its_end(tmp_path: Path, way: Way) -> None:
    world, player = followed(tmp_path)
    way(player)
    world.restart()
    assert unknown(world) == [1]


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("looks", [2, 4])
def test_a_log_that_went_is_told_though_each_process_that_misses_it_is_killed_at_once(
    tmp_path: Path, looks: int, holds: bool
) -> None:
    world, player = followed(tmp_path, files="*.log", holds=holds)
    player.append("app.log", b"late\n")
    player.rename("app.log", "../away")
    world.write("other.log", b"other\n")
    for _ in range(looks):
        world.restart()
        world.look()
        world.now_us += 10 * IDLE_US
        world.append("other.log", b"other\n")
    world.restart()
    assert unknown(world) == [1]


@pytest.mark.parametrize("way", [delete, replace_out_of_sight])
def test_a_log_that_is_held_open_loses_nothing(tmp_path: Path, way: Way) -> None:
    world, player = followed(tmp_path, holds=True)
    way(player)
    assert unknown(world) == []


@pytest.mark.parametrize("folder", ["", "old/"], ids=["beside", "elsewhere"])
def test_a_log_of_which_a_copy_is_left_may_lack_its_end_though_it_is_there_compressed_too(
    tmp_path: Path, folder: str
) -> None:
    world, player = followed(tmp_path)
    (world.folder / "old").mkdir()
    player.copy("app.log", f"{folder}app.log.3")
    player.write(f"{folder}app.log.2.gz", gzip.compress(OLD))
    player.remove("app.log")
    world.restart()
    assert unknown(world) == [1]
    assert world.tracked[1].file.path == f"{folder}app.log.3"


def test_a_log_that_is_renamed_within_its_folder_loses_nothing(tmp_path: Path) -> None:
    world, player = followed(tmp_path)
    player.rename("app.log", "app.log.1")
    player.write("app.log", b"new\n")
    world.restart()
    assert unknown(world) == []


def test_a_file_at_rest_that_is_deleted_loses_nothing(tmp_path: Path) -> None:
    world, player = followed(tmp_path, files="*.log")
    world.now_us += IDLE_US + 10
    world.write("later.log", b"later\n")
    world.read()
    player.remove("app.log")
    world.restart()
    assert unknown(world) == []


def test_a_rotated_file_that_is_deleted_loses_nothing(tmp_path: Path) -> None:
    world, player = followed(tmp_path)
    player.rename("app.log", "app.log.1")
    player.write("app.log", b"new\n")
    world.read()
    player.remove("app.log.1")
    world.restart()
    assert unknown(world) == []


def test_a_file_that_comes_back_is_known_again(tmp_path: Path) -> None:
    world, player = followed(tmp_path)
    player.rename("app.log", "../away")
    assert unknown(world) == [1]
    player.rename("../away", "app.log")
    assert unknown(world) == []


def test_a_copy_in_the_place_of_a_log_that_was_truncated_may_lack_its_end(tmp_path: Path) -> None:
    world, player = followed(tmp_path, holds=True)
    player.copy("app.log", "copy")
    player.append("app.log", b"between the copy and the truncation\n")
    player.overwrite("app.log", b"")
    player.rename("copy", "app.log")
    assert unknown(world) == [1]


def test_a_copy_in_the_place_of_a_log_that_is_whole_lacks_nothing(tmp_path: Path) -> None:
    world, player = followed(tmp_path, holds=True)
    player.copy("app.log", "copy")
    player.rename("copy", "app.log")
    assert unknown(world) == []


# -- logs that have the bytes again that they had


def rewrite_alike(player: Player) -> None:
    player.append("app.log", b"between the copy and the truncation\n")
    player.overwrite("app.log", OLD)


def copy_and_rewrite_alike(player: Player) -> None:
    player.copy("app.log", "app.log.1")
    rewrite_alike(player)


def cut_to_its_size(player: Player) -> None:
    player.append("app.log", b"a line that was cut off again\n")
    os.truncate(player.place("app.log"), len(OLD))


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("way", [rewrite_alike, copy_and_rewrite_alike, cut_to_its_size])
def test_a_short_log_that_was_written_and_is_as_it_was_may_have_lost_its_end(
    tmp_path: Path, way: Way, holds: bool
) -> None:
    world, player = followed(tmp_path, holds)
    way(player)
    if not holds:
        world.restart()
    assert unknown(world) == [1]


def test_a_log_that_was_only_copied_may_have_lost_nothing(tmp_path: Path) -> None:
    world, player = followed(tmp_path)
    player.copy("app.log", "app.log.1")
    assert unknown(world) == []
    player.append("app.log", b"more\n")
    assert unknown(world) == []


def test_a_long_log_that_is_as_it_was_has_lost_nothing(tmp_path: Path) -> None:
    world = named(tmp_path, "app.log")
    world.write("app.log", LONG)
    world.read()
    os.utime(world.folder / "app.log")
    assert unknown(world) == []


# -- bytes that are changed in place

LONG = b"".join(b"line %d of a log\n" % number for number in range(300))


def damage(player: Player, line: int) -> None:
    """Other bytes of the same number, at the time of the file's last line."""
    lines = LONG.splitlines(keepends=True)
    lines[line] = b"#" * (len(lines[line]) - 1) + b"\n"
    with player.place("app.log").open("r+b") as log:
        log.write(b"".join(lines))


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("line", [0, 150], ids=["first", "middle"])
def test_a_log_with_a_damaged_line_is_the_same_log_and_known_to_be_altered(
    tmp_path: Path, stopped: bool, line: int
) -> None:
    world = named(tmp_path, "app.log")
    world.write("app.log", LONG)
    assert world.read() == {1: LONG}
    damage(Player(world, restarts=False), line)
    if stopped:
        world.restart()
    assert world.read() == {}
    assert world.tracked[1].altered_us == world.now_us
    world.append("app.log", b"more\n")
    assert world.read() == {1: b"more\n"}


def test_a_log_whose_last_line_was_damaged_is_read_again_and_told(tmp_path: Path) -> None:
    world = named(tmp_path, "app.log")
    world.write("app.log", LONG)
    world.read()
    damage(Player(world, restarts=False), 299)
    assert list(world.read()) == [2]
    assert unknown(world) == [1]


def test_a_change_that_sets_the_time_back_is_seen(tmp_path: Path) -> None:
    world = named(tmp_path, "app.log")
    world.write("app.log", LONG)
    world.read()
    status = (world.folder / "app.log").stat()
    damage(Player(world, restarts=False), 299)
    os.utime((world.folder / "app.log"), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert list(world.read()) == [2]
