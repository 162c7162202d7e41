"""Files that are held open are read to their ends, wherever they are moved and whoever deletes them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from photon.logs.ranges import RangeGone, read_range
from photon.logs.tailing import open_files
from photon.logs.tailing.open_files import KEPT_US, LINGERS_US, OpenFiles, kept_bytes
from tests.unit.tailing_world import World, named

OLD = b"".join(b"old %d\n" % number for number in range(3))
UNREAD = b"unread 1\nunread 2\n"
LATE = b"late\n"
NEW = b"new 1\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = named(tmp_path, "c/*.log")
    world.hold()
    yield world
    assert world.held is not None
    world.held.close()


Move = Callable[[World], Path | None]  # returns the file's new place


def begin(world: World, is_link: bool) -> None:
    if is_link:
        world.write("../pods/x/0.log", OLD)
        (world.folder / "c").mkdir(parents=True)
        (world.folder / "c/app.log").symlink_to("../../pods/x/0.log")
    else:
        world.write("c/app.log", OLD)


def renames_the_target(world: World) -> Path:
    target = Path(os.path.realpath(world.folder / "c/app.log"))
    moved = target.with_name("0.log.20260301")
    target.rename(moved)
    target.write_bytes(NEW)
    return moved


def moves_to_another_folder(world: World) -> Path:
    log = Path(os.path.realpath(world.folder / "c/app.log"))
    moved = world.folder.parent / "elsewhere" / "x"
    moved.parent.mkdir()
    log.rename(moved)
    log.write_bytes(NEW)
    return moved


def moves_to_a_folder_beside(world: World) -> Path:
    log = Path(os.path.realpath(world.folder / "c/app.log"))
    moved = world.folder / "old" / "app.log.1"
    moved.parent.mkdir()
    log.rename(moved)
    log.write_bytes(NEW)
    return moved


def deletes(world: World) -> None:
    log = Path(os.path.realpath(world.folder / "c/app.log"))
    log.unlink()
    log.write_bytes(NEW)


MOVES: list[Move] = [renames_the_target, moves_to_another_folder, moves_to_a_folder_beside, deletes]


@pytest.mark.parametrize("is_link", [False, True], ids=["file", "link"])
@pytest.mark.parametrize("move", MOVES)
def test_what_is_appended_before_and_after_a_move_is_read(world: World, move: Move, is_link: bool) -> None:
    begin(world, is_link)
    assert world.read() == {1: OLD}
    writer = os.open(world.folder / "c/app.log", os.O_WRONLY | os.O_APPEND)
    os.write(writer, UNREAD)
    move(world)
    assert world.read() == {1: UNREAD, 2: NEW}
    os.write(writer, LATE)
    assert world.read() == {1: LATE}
    os.close(writer)
    assert all(not lost.unread_bytes for lost in world.last_seen.vanished)


@pytest.mark.parametrize("is_link", [False, True], ids=["file", "link"])
@pytest.mark.parametrize("move", MOVES)
def test_a_file_that_was_moved_is_read_on_by_a_process_that_did_not_hold_it(
    world: World, move: Move, is_link: bool
) -> None:
    begin(world, is_link)
    world.read()
    with (world.folder / "c/app.log").open("ab") as writer:
        writer.write(UNREAD)
        writer.flush()
        moved = move(world)
        world.look()  # the process ends right behind it
    if moved is not None:
        with moved.open("ab") as writer:
            writer.write(LATE)
    world.restart()
    assert world.read() == {1: UNREAD + (LATE if moved is not None else b""), 2: NEW}


def test_a_file_that_is_moved_twice_is_followed(world: World) -> None:
    begin(world, is_link=True)
    world.read()
    first = renames_the_target(world)
    assert world.read() == {2: NEW}
    second = first.rename(first.with_name("gone on"))
    with second.open("ab") as writer:
        writer.write(UNREAD)
    assert world.read() == {1: UNREAD}


def test_a_file_that_comes_back_under_a_name_of_the_pattern_is_not_read_twice(world: World) -> None:
    begin(world, is_link=False)
    world.read()
    moved = moves_to_another_folder(world)
    world.read()
    moved.rename(world.folder / "c/back.log")
    assert world.read() == {}
    assert world.paths()[1] == "c/back.log"


def test_a_file_that_is_deleted_after_it_was_read_lingers_for_its_writer(world: World) -> None:
    begin(world, is_link=False)
    writer = os.open(world.folder / "c/app.log", os.O_WRONLY | os.O_APPEND)
    world.read()
    (world.folder / "c/app.log").unlink()
    for _ in range(3):
        assert world.read() == {}
    os.write(writer, LATE)
    os.close(writer)
    assert world.read() == {1: LATE}


def test_a_deleted_file_is_let_go_when_it_grows_no_more(world: World) -> None:
    begin(world, is_link=False)
    world.read()
    log = world.folder / "c/app.log"
    descriptor = os.open(log, os.O_RDONLY)
    log.unlink()
    world.look()
    world.look()
    assert open_files_of(descriptor) == 2
    world.now_us += LINGERS_US + 1
    world.look()
    assert open_files_of(descriptor) == 1
    os.close(descriptor)


def open_files_of(descriptor: int) -> int:
    """Count how often this process has the file open."""
    wanted, found = os.fstat(descriptor), 0
    for other in map(int, os.listdir("/proc/self/fd")):
        try:
            found += os.path.samestat(os.fstat(other), wanted)
        except OSError:
            continue
    return found


def test_beyond_the_limit_the_files_that_grew_longest_ago_are_let_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "MOST_HELD", 2)
    for name in ("a", "b", "d"):
        world.write(f"c/{name}.log", name.encode() + OLD)
        world.read()
    world.append("c/a.log", UNREAD)
    world.read()
    for name in ("a", "b", "d"):
        world.append(f"c/{name}.log", LATE)
        (world.folder / f"c/{name}.log").rename(world.folder.parent / name)
    assert world.read() == {1: LATE, 3: LATE}


def test_a_copy_that_the_disk_does_not_take_is_tried_again_and_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(world, is_link=False)
    world.read()
    world.append("c/app.log", UNREAD)
    with monkeypatch.context() as full:

        def no_room(*given: object) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(OpenFiles, "_copy", no_room)
        deletes(world)
        for _ in range(4):
            assert 1 not in world.read()
            assert [each.reason for each in world.last_seen.problems] == [
                "cannot be read: No space left on device"
            ]
            assert world.last_seen.vanished == ()
    assert world.read() == {1: UNREAD}


def test_a_copy_whose_process_was_killed_before_it_was_stored_is_found(world: World) -> None:
    begin(world, is_link=False)
    world.read()
    world.append("c/app.log", UNREAD)
    stored = dict(world.tracked)
    deletes(world)
    world.look()
    world.tracked, world.next_number = stored, 2
    world.restart()
    assert world.read() == {1: UNREAD, 2: NEW}


def test_a_planned_range_of_a_file_that_lost_its_name_is_read_from_its_copy(world: World) -> None:
    begin(world, is_link=False)
    world.look()
    byte_range, _ = world.tail.cut(world.tracked[1], 1_000)  # type: ignore[misc]
    deletes(world)
    with pytest.raises(RangeGone):
        read_range(world.folder, world.tracked[1].file, byte_range)
    assert world.held is not None
    moved = world.held.moved(world.tracked[1])
    assert moved is not None
    assert read_range(world.folder, moved.file, byte_range) == OLD
    assert world.held.moved(moved) is None


def is_compressed(world: World) -> None:
    log = world.folder / "c/app.log.1"
    log.with_name("app.log.1.gz").write_bytes(gzip.compress(log.read_bytes()))


def is_moved_to_another_disk(world: World) -> None:
    (world.folder / "old").mkdir()
    (world.folder / "old/app.log.1").write_bytes((world.folder / "c/app.log.1").read_bytes())


def is_copied_beside(world: World) -> None:
    (world.folder / "c/app.log-20260301").write_bytes((world.folder / "c/app.log.1").read_bytes())


@pytest.mark.parametrize("files", ["c/*.log", "c/*"])
@pytest.mark.parametrize("looks", [0, 1, 2], ids=["at_once", "a_look_later", "two_looks_later"])
@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unread"])
@pytest.mark.parametrize("goes", [is_compressed, is_moved_to_another_disk, is_copied_beside])
def test_what_a_writer_appends_after_its_log_was_compressed_or_copied_and_deleted_is_read(
    tmp_path: Path, goes: Callable[[World], None], is_read: bool, looks: int, files: str
) -> None:
    """Logrotate compresses, and a service closes its log some seconds later."""
    world = named(tmp_path, files)
    world.hold()
    begin(world, is_link=False)
    found = [*world.read().values()] if is_read else [*world.look().vanished]
    with (world.folder / "c/app.log").open("ab") as writer:
        (world.folder / "c/app.log").rename(world.folder / "c/app.log.1")
        (world.folder / "c/app.log").write_bytes(NEW)
        goes(world)
        (world.folder / "c/app.log.1").unlink()
        for line in (LATE, b"later\n"):
            found += [data for _ in range(looks) for data in world.read().values()]
            writer.write(line)
            writer.flush()
        found += [data for _ in range(3) for data in world.read().values()]
        assert sorted(b"".join(found).splitlines()) == sorted((OLD + NEW + LATE + b"later\n").splitlines())
    world.now_us += KEPT_US + 1
    assert [world.read() for _ in range(4)] == [{}] * 4
    assert world.held is not None
    world.held.close()


def test_a_file_whose_copy_was_found_is_let_go_when_nobody_writes_it(world: World) -> None:
    begin(world, is_link=False)
    world.read()
    descriptors = len(os.listdir("/proc/self/fd"))
    (world.folder / "c/app.log").rename(world.folder / "c/app.log.1")
    is_compressed(world)
    (world.folder / "c/app.log.1").unlink()
    world.look()
    assert len(os.listdir("/proc/self/fd")) == descriptors + 1
    world.now_us += LINGERS_US + 1
    world.look()
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("read_bytes", [0, 900], ids=["unread", "half"])
def test_a_compressed_file_that_is_deleted_unread_is_read_from_its_copy(
    world: World, read_bytes: int
) -> None:
    data = OLD * 200  # compressed, it has fewer bytes than were read of it
    world.write("c/app.log.gz", gzip.compress(data))
    world.look()
    read = world.read_one(1, read_bytes) if read_bytes else b""
    (world.folder / "c/app.log.gz").unlink()
    assert read + world.read()[1] == data


def truncates_and_writes_anew(log: Path) -> None:
    log.write_bytes(NEW)


def truncates_and_writes_more(log: Path) -> None:
    log.write_bytes(NEW * 100)


def copies_and_truncates(log: Path) -> None:
    log.with_name("app.log.1").write_bytes(log.read_bytes())
    log.write_bytes(NEW)


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize(
    "rewrite", [truncates_and_writes_anew, truncates_and_writes_more, copies_and_truncates]
)
def test_two_logs_that_had_one_inode_and_lost_their_name_are_read_once(
    world: World, rewrite: Callable[[Path], None], stopped: bool
) -> None:
    begin(world, is_link=False)
    log = world.folder / "c/app.log"
    log.write_bytes(OLD * 10)
    world.look()
    rewrite(log)
    world.look()
    log.unlink()
    found = list(world.read().values())
    if stopped:
        log.write_bytes(b"the next log\n")
        world.restart()
    found += [data for _ in range(3) for data in world.read().values()]
    assert b"".join(found).count(NEW) == (100 if rewrite is truncates_and_writes_more else 1)


def test_a_copy_is_no_rotation_of_another_one(world: World) -> None:
    for name in ("app", "web"):
        world.write(f"c/{name}.log", name.encode() + b" " + OLD)
    world.look()
    for name in ("app", "web"):
        (world.folder / f"c/{name}.log").unlink()
    assert len(world.read()) == 2
    copy = world.folder / world.tracked[2].file.path
    copy.with_name(f"{copy.name[:-1]}3").write_bytes(b"a copy that no look has stored\n")
    world.write("c/app.log", NEW)
    world.restart()
    assert [data for _ in range(3) for data in world.read().values()] == [NEW]


def test_copies_are_counted_on_the_disk_and_removed_after_a_week(world: World) -> None:
    begin(world, is_link=False)
    world.look()
    deletes(world)
    world.read()
    work = world.folder.parent / "work"
    assert kept_bytes(work) == len(OLD)
    world.now_us += KEPT_US + 1
    world.look()
    assert kept_bytes(work) == 0
    world.look()
    assert not world.look().problems
    assert 1 not in world.paths()


def test_copies_of_another_epoch_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "work" / open_files.KEPT_FOLDER
    folder.mkdir(parents=True)
    for name in ("epoch-1", "older-1", "epoch-2.unfinished"):
        (folder / name).write_bytes(b"x")
    OpenFiles(tmp_path / "logs", tmp_path / "work", "epoch").close()
    assert [path.name for path in folder.iterdir()] == ["epoch-1"]
