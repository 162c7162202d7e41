"""Rotations that are hard to tell: they begin alike, can't be opened, or have a wrong time."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.tailing_world import Player, World, named, refuse_to_open
from tests.unit.test_logs_rotated_while_stopped import ALIKE, FIRST, Rewrite, lines, rotate, with_files
from tests.unit.test_logs_rotation import read_until_nothing_comes

# -- logs that begin alike


def copied(player: Player) -> None:
    player.copy("c/app.log", "c/app.log.1")


def copied_and_compressed(player: Player) -> None:
    player.write("c/app.log.1.gz", gzip.compress(player.place("c/app.log").read_bytes()))


def copied_elsewhere(player: Player) -> None:
    (player.world.folder / "old").mkdir()
    player.copy("c/app.log", "old/app.log-20260301")


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("copy", [copied, copied_and_compressed, copied_elsewhere])
@pytest.mark.parametrize("new", [lines(7), lines(*range(100, 300)), lines(5, 6, 7)], ids=len)
@pytest.mark.parametrize("read_bytes", [0, len(ALIKE), len(ALIKE + FIRST)], ids=["unread", "first", "whole"])
def test_a_log_that_was_copied_and_rewritten_with_the_same_first_line_is_another_one(
    tmp_path: Path, stopped: bool, copy: Rewrite, new: bytes, read_bytes: int
) -> None:
    world = named(tmp_path, "c/app.log")
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE)
    world.look()  # sees the first line only
    world.append("c/app.log", FIRST)
    world.look()
    read = b""
    if read_bytes:
        _, world.tracked[1] = world.tail.cut(world.tracked[1], read_bytes)  # type: ignore[misc]
        read = (ALIKE + FIRST)[:read_bytes]
    copy(player)
    player.overwrite("c/app.log", ALIKE + new)
    if stopped:
        world.restart()
    found = read.splitlines() + read_until_nothing_comes(world)
    assert Counter(found) == Counter((ALIKE + FIRST + ALIKE + new).splitlines())


def copied_twice(player: Player) -> None:
    copied(player)
    player.overwrite("c/app.log", ALIKE + lines(3, 4))
    player.rename("c/app.log.1", "c/app.log.2")
    copied(player)


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize("copy", [copied, copied_and_compressed, copied_twice])
@pytest.mark.parametrize("new", [b"", lines(7), lines(*range(100, 300)), lines(5, 6, 7)], ids=len)
@pytest.mark.parametrize("read_bytes", [0, len(ALIKE)], ids=["unread", "first"])
def test_what_nobody_saw_of_a_log_is_read_from_the_copy_made_before_it_was_rewritten(
    tmp_path: Path, stopped: bool, copy: Rewrite, new: bytes, read_bytes: int
) -> None:
    world = named(tmp_path, "c/app.log")
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE)
    world.look()
    if read_bytes:
        _, world.tracked[1] = world.tail.cut(world.tracked[1], read_bytes)  # type: ignore[misc]
    world.append("c/app.log", FIRST)
    copy(player)
    player.overwrite("c/app.log", ALIKE + new)
    if stopped:
        world.restart()
    found = ALIKE.splitlines() * bool(read_bytes) + read_until_nothing_comes(world)
    between = lines(3, 4) if copy is copied_twice else b""
    assert set(found) == set((ALIKE + FIRST + between + new).splitlines())
    assert max(Counter(line for line in found if line not in ALIKE).values()) == 1
    assert read_until_nothing_comes(world) == []
    copies = [file for file in world.tracked.values() if file.file.path != "c/app.log"]
    assert copies
    assert all(file.end_unknown for file in copies)


def test_a_copy_of_a_log_that_goes_on_is_not_read(tmp_path: Path) -> None:
    world = named(tmp_path, "c/app.log")
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE)
    world.look()
    world.append("c/app.log", FIRST)
    copied(player)
    world.append("c/app.log", lines(3))
    assert read_until_nothing_comes(world) == (ALIKE + FIRST + lines(3)).splitlines()


def test_a_rotation_from_before_a_log_was_followed_is_not_read_though_it_begins_alike(tmp_path: Path) -> None:
    world = named(tmp_path, "c/app.log")
    world.write("c/app.log.1", ALIKE + lines(9))
    os.utime(world.folder / "c/app.log.1", (1, 1))
    world.write("c/app.log", ALIKE)
    world.look()
    world.append("c/app.log", FIRST)
    world.restart()
    assert read_until_nothing_comes(world) == (ALIKE + FIRST).splitlines()


def beside(world: World, name: str, seconds_before: float) -> None:
    """A file that begins as the log does, and was written so long before it."""
    data = ALIKE + lines(9)
    world.write(f"c/{name}", gzip.compress(data) if name.endswith(".gz") else data)
    log_ns = (world.folder / "c/app.log").stat().st_mtime_ns
    time_ns = log_ns - int(seconds_before * 10**9)
    os.utime(world.folder / f"c/{name}", ns=(time_ns, time_ns))


def moved_below(player: Player) -> None:
    (player.world.folder / "old").mkdir()
    player.rename("c/app.log", "old/app.log.7")


def moved_below_under_another_name(player: Player) -> None:
    (player.world.folder / "old").mkdir()
    player.rename("c/app.log", "old/of yesterday")


@pytest.mark.parametrize("name", ["app.log.1", "app.log.1.gz", "app.log-20260301"])
@pytest.mark.parametrize("seconds_before", [5, 0.001, -5])
@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("move", [moved_below, moved_below_under_another_name])
def test_a_short_log_that_was_moved_is_not_taken_for_what_begins_alike_beside_it(
    tmp_path: Path, move: Rewrite, name: str, seconds_before: float, was_there: bool
) -> None:
    world = named(tmp_path, "c/app.log")
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE)
    if was_there:
        beside(world, name, seconds_before)
    world.look()
    if not was_there:
        beside(world, name, seconds_before)
    player.append("c/app.log", FIRST)
    move(player)
    world.restart()
    found = read_until_nothing_comes(world)
    assert set((ALIKE + FIRST).splitlines()) <= set(found)
    assert (b"c9" in found) != was_there  # one that came later may be a log that came and went unseen


@pytest.mark.parametrize("name", ["app.log.1", "app.log.1.gz"])
def test_a_short_log_that_went_is_told_though_an_older_file_begins_alike(tmp_path: Path, name: str) -> None:
    world = named(tmp_path, "c/app.log")
    world.write("c/app.log", ALIKE)
    beside(world, name, seconds_before=-5)
    world.read()
    (world.folder / "c/app.log").unlink()
    world.restart()
    assert read_until_nothing_comes(world) == []
    assert [file.state for file in world.tracked.values()] == ["gone"]
    assert world.tracked[1].end_unknown


def test_a_copy_whose_time_was_cut_to_seconds_is_the_log(tmp_path: Path) -> None:
    world = named(tmp_path, "c/app.log")
    player = Player(world, restarts=False)
    world.write("c/app.log", ALIKE)
    world.look()
    player.copy("c/app.log", "c/app.log.1")
    seen_ns = world.tracked[1].modified_ns
    os.utime(player.place("c/app.log.1"), ns=(seen_ns // 10**9 * 10**9,) * 2)
    player.remove("c/app.log")
    world.restart()
    assert read_until_nothing_comes(world) == ALIKE.splitlines()


@pytest.mark.parametrize("alike", [ALIKE, ALIKE * 12, ALIKE * 38], ids=len)
@pytest.mark.parametrize("new", [lines(7), lines(*range(100, 300))], ids=len)
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_what_nobody_saw_of_the_target_of_a_link_is_read_from_the_copy_beside_it(
    tmp_path: Path, stopped: bool, new: bytes, alike: bytes
) -> None:
    world = named(tmp_path, "c/*.log")
    player = Player(world, restarts=False)
    world.write("../pods/x/0.log", alike)
    (world.folder / "c").mkdir(parents=True)
    (world.folder / "c/app.log").symlink_to("../../pods/x/0.log")
    world.look()
    player.append("../pods/x/0.log", FIRST)
    player.copy("../pods/x/0.log", "../pods/x/0.log.1")
    player.overwrite("../pods/x/0.log", alike + new)
    if stopped:
        world.restart()
    assert set(read_until_nothing_comes(world)) == {
        *alike.splitlines(),
        *FIRST.splitlines(),
        *new.splitlines(),
    }


@pytest.mark.parametrize("is_first", [True, False], ids=["given_up_first", "found_at_once"])
def test_logs_that_were_moved_to_one_folder_outside_are_read_once(tmp_path: Path, is_first: bool) -> None:
    """One log was held open when it moved, so its new folder is known; the other log was not."""
    world, player = with_files(tmp_path)
    world.hold()
    world.read()
    (tmp_path / "away").mkdir()
    player.rename("c/app.log", "../away/app.log.1")
    world.look()
    player.write("c/app.log", lines(3, 4))
    assert read_until_nothing_comes(world) == lines(3, 4).splitlines()
    assert world.held is not None
    world.held.close()
    if is_first:
        player.rename("c/app.log", "../app.log.2")
        world.restart()
        world.read()
        world.read()
        player.rename("../app.log.2", "../away/app.log.2")
    else:
        player.rename("c/app.log", "../away/app.log.2")
        world.restart()
    player.append("../away/app.log.2", lines(5))
    assert read_until_nothing_comes(world) == lines(5).splitlines()
    assert world.paths() == {1: "../away/app.log.1", 2: "../away/app.log.2"}
    world.held.close()


# -- what can't be opened


@pytest.mark.parametrize("rewritten", [True, False], ids=["copied", "renamed"])
def test_a_rotation_that_may_not_be_opened_is_told_and_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewritten: bool
) -> None:
    world, player = with_files(tmp_path)
    world.look()
    if rewritten:
        player.copy("c/app.log", "c/app.log.1")
        player.overwrite("c/app.log", lines(3))
    else:
        player.copy("c/app.log", "c/app.log.1")  # another inode, as after a copy between disks
        player.remove("c/app.log")
        player.write("c/app.log", lines(3))
    world.restart()
    with monkeypatch.context() as closed:
        refuse_to_open(closed, "app.log.1")
        found = []
        for _ in range(3):
            found += [line for data in world.read().values() for line in data.splitlines()]
            assert [p.path for p in world.last_seen.problems] == ["c/app.log.1"]
            assert "Permission denied" in world.last_seen.problems[0].reason
            assert world.last_seen.vanished == ()
    found += read_until_nothing_comes(world)
    assert Counter(found) == Counter(lines(0, 1, 2, 3).splitlines())


def test_a_rotation_that_nobody_saw_and_nobody_may_open_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, player = with_files(tmp_path)
    world.read()
    rotate(player)
    player.append("c/app.log", lines(3))
    rotate(player)
    player.append("c/app.log", lines(4))
    world.restart()
    with monkeypatch.context() as closed:
        refuse_to_open(closed, "app.log.1")
        assert world.read() == {2: lines(4)}
        assert [p.path for p in world.last_seen.problems] == ["c/app.log.1"]
    assert read_until_nothing_comes(world) == [b"c3"]


WRONG_TIMES = {"an hour back": -3_600, "a minute back": -60, "of 1970": None, "of tomorrow": 86_400}


def set_time(path: Path, seconds: int | None) -> None:
    time_ns = 1 if seconds is None else path.stat().st_mtime_ns + seconds * 10**9
    os.utime(path, ns=(time_ns, time_ns))


def rotated_twice(world: World, is_compressed: bool, is_late: bool) -> list[bytes]:
    """Rotate a log while nobody looks, after c1 and c2 were read twice; return what is to be read."""
    folder = world.folder / "c"
    (folder / "app.log").rename(folder / "app.log.2")
    if is_late:
        world.append("c/app.log.2", lines(9))
    first = lines(3, 4)
    if is_compressed:
        world.write("c/app.log.1.gz", gzip.compress(first))
    else:
        world.write("c/app.log.1", first)
    world.write("c/app.log", lines(5, 6))
    return sorted((lines(3, 4, 5, 6) + (lines(9) if is_late else b"")).splitlines())


@pytest.mark.parametrize("when", WRONG_TIMES)
@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "gzipped"])
@pytest.mark.parametrize("is_late", [False, True], ids=["", "with a late line"])
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_rotation_is_read_whatever_its_time_says(
    tmp_path: Path, when: str, is_compressed: bool, is_late: bool, stopped: bool
) -> None:
    world = named(tmp_path, "c/app.log")
    world.write("c/app.log", lines(1, 2))
    world.write("c/app.log.7", lines(0))  # it was there before
    assert world.read() == {1: lines(1, 2)}
    expected = rotated_twice(world, is_compressed, is_late)
    for path in (world.folder / "c").glob("app.log.1*"):
        set_time(path, WRONG_TIMES[when])
    if stopped:
        world.restart()
    assert sorted(read_until_nothing_comes(world)) == expected


@pytest.mark.parametrize("change", ["touch", "rename", "gzip", "touch and gzip"])
@pytest.mark.parametrize("first", [lines(0), ALIKE], ids=["other", "alike"])
def test_what_lay_beside_a_log_before_stays_a_stranger(tmp_path: Path, change: str, first: bytes) -> None:
    world = named(tmp_path, "c/app.log")
    world.write("c/app.log.1", first + lines(7))
    world.write("c/app.log", ALIKE + lines(1))
    assert world.read() == {1: ALIKE + lines(1)}
    stranger = world.folder / "c/app.log.1"
    if "touch" in change:
        set_time(stranger, 86_400)
    (world.folder / "c/app.log").rename(world.folder / "c/app.log.2")
    world.write("c/app.log", ALIKE + lines(2))
    if "gzip" in change:
        (world.folder / "c/app.log.1.gz").write_bytes(gzip.compress(stranger.read_bytes()))
        stranger.unlink()
    elif change == "rename":
        stranger.rename(world.folder / "c/app.log.3")
    world.restart()
    assert read_until_nothing_comes(world) == (ALIKE + lines(2)).splitlines()


@pytest.mark.parametrize("final", [True, False], ids=["complete", "until idle"])
@pytest.mark.parametrize("is_compressed", [False, True], ids=["plain", "gzipped"])
@pytest.mark.parametrize("is_late", [False, True], ids=["", "with a late line"])
def test_a_one_shot_join_knows_of_rotations_behind_a_deleted_one_before_it_ends(
    tmp_path: Path, final: bool, is_compressed: bool, is_late: bool
) -> None:
    world = named(tmp_path, "c/app.log")
    world.write("c/app.log", lines(1, 2))
    assert world.read() == {1: lines(1, 2)}
    rotated_twice(world, is_compressed, is_late)
    (world.folder / "c/app.log.2").unlink()
    world.restart()
    found = world.read(final)
    while not final and (world.last_seen.checks_pending or world.last_seen.backlog_bytes):
        found |= world.read()
    assert sorted(b"".join(found.values()).splitlines()) == lines(3, 4, 5, 6).splitlines()
    assert [file.file.number for file in world.tracked.values() if file.end_unknown] == [1]
    assert not world.look(final).backlog_bytes
