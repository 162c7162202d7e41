import gzip
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from photon.logs.files import TrackedFile
from photon.logs.ranges import read_range
from photon.logs.tail import LogTail, Observation
from photon.pipeline import Limits, PrimaryLog, Tailing


class World:
    """A folder of logs and somebody who follows it, as the dispatcher does."""

    def __init__(self, folder: Path, files: str, format: str, limits: Limits) -> None:
        self.folder = folder
        self.log = PrimaryLog(files=files, format=format, id="id", time="t")
        self.limits = limits
        self.tracked: dict[int, TrackedFile] = {}
        self.next_number = 1
        self.now_us = 0
        self.restart()

    def restart(self) -> None:
        """Lose all caches, keep what is stored."""
        tailing = Tailing(gzip_check="1MiB")
        self.tail = LogTail(self.folder, "primary", self.log, self.limits, tailing)

    def write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def append(self, name: str, data: bytes) -> None:
        with (self.folder / name).open("ab") as file:
            file.write(data)

    def look(self, final: bool = False) -> Observation:
        self.now_us += 1
        seen = self.tail.observe(self.tracked, self.next_number, self.now_us, final)
        self.tracked.update(seen.changed)
        self.next_number = seen.next_number
        return seen

    def read(self, final: bool = False, budget: int = 10**6) -> dict[int, bytes]:
        """Look, and read all that waits, by file number."""
        found: dict[int, bytes] = {}
        for number in self.look(final).backlog_bytes:
            while (cut := self.tail.cut(self.tracked[number], budget, final)) is not None:
                byte_range, self.tracked[number] = cut
                data = read_range(self.folder, self.tracked[number].file, byte_range)
                found[number] = found.get(number, b"") + data
        return found

    def paths(self) -> dict[int, str]:
        return {number: file.file.path for number, file in self.tracked.items() if file.state == "open"}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "logs", "**/*.log", "jsonl", Limits())


def named(tmp_path: Path, files: str, format: str = "jsonl", **limits: int) -> World:
    return World(tmp_path / "logs", files, format, Limits(**limits))


def test_lines_are_read_as_files_grow_and_half_a_line_waits(world):
    world.write("a.log", b"one\ntw")
    assert world.read() == {1: b"one\n"}
    assert world.read() == {}
    world.append("a.log", b"o\nthree")
    assert world.read() == {1: b"two\n"}


def test_half_a_line_is_no_backlog_once_it_was_tried(world):
    world.write("a.log", b"one\ntw")
    world.read()
    assert world.look().backlog_bytes == {}
    world.append("a.log", b"o")
    assert world.look().backlog_bytes == {1: 3}


def test_a_file_without_a_whole_record_has_no_number_yet(world):
    world.write("a.log", b"on")
    assert world.look().changed == {}
    world.append("a.log", b"e\n")
    assert list(world.look().changed) == [1]


def test_a_csv_file_is_known_by_its_first_record_and_not_by_its_header(tmp_path):
    world = named(tmp_path, "*.csv", "csv")
    world.write("a.csv", b"id,t\r\n")
    assert world.look().changed == {}
    world.append("a.csv", b"1,1\n")
    assert world.read() == {1: b"1,1\n"}
    file = world.tracked[1].file
    assert (file.header, file.header_bytes, file.head_bytes) == (b"id,t", 6, 4)


def test_a_byte_order_mark_belongs_to_no_record(tmp_path):
    world = named(tmp_path, "*")
    world.write("a", b"\xef\xbb\xbfone\n")
    assert world.read() == {1: b"one\n"}
    table = named(tmp_path, "*", "csv")
    table.write("a", b"\xef\xbb\xbfid,t\n1,1\n")
    assert table.read() == {1: b"1,1\n"}
    assert table.tracked[1].file.header == b"id,t"


def test_new_files_and_folders_are_found(world):
    world.write("a.log", b"one\n")
    world.read()
    world.write("deep/er/b.log", b"two\n")
    assert world.read() == {2: b"two\n"}


def test_a_renamed_file_goes_on_under_its_new_name(world):
    world.write("a.log", b"one\n")
    world.read()
    world.append("a.log", b"two\n")
    os.rename(world.folder / "a.log", world.folder / "a-1.log")
    world.write("a.log", b"three\n")
    assert world.read() == {1: b"two\n", 2: b"three\n"}
    assert world.paths() == {1: "a-1.log", 2: "a.log"}


def test_a_file_renamed_to_what_the_glob_does_not_match_is_read_to_its_end(tmp_path):
    world = named(tmp_path, "access.log")
    world.write("access.log", b"one\n")
    world.read()
    world.append("access.log", b"two\n")
    os.rename(world.folder / "access.log", world.folder / "access.log.1")
    world.write("access.log", b"three\n")
    assert world.read() == {1: b"two\n", 2: b"three\n"}
    world.append("access.log.1", b"late\n")
    assert world.read() == {1: b"late\n"}


def test_a_stranger_with_a_name_the_glob_does_not_match_is_not_read(tmp_path):
    world = named(tmp_path, "access.log")
    world.write("access.log", b"one\n")
    world.write("access.log.1", b"old\n")
    assert world.read() == {1: b"one\n"}


def test_a_renamed_file_is_known_after_a_restart(world):
    world.write("a.log", b"one\ntwo\n")
    world.read()
    world.restart()
    os.rename(world.folder / "a.log", world.folder / "b.log")
    world.append("b.log", b"three\n")
    assert world.read() == {1: b"three\n"}


def test_equal_first_records_do_not_confuse_a_rotation(world):
    world.write("a.log", b"start\n")
    world.read()
    os.rename(world.folder / "a.log", world.folder / "a-1.log")
    world.write("a.log", b"start\n")
    assert world.read() == {2: b"start\n"}


def test_a_truncated_file_is_a_new_one_and_its_unread_bytes_are_counted(world):
    world.write("a.log", b"one\ntwo\n")
    world.look()
    _, world.tracked[1] = world.tail.cut(world.tracked[1], 4)
    (world.folder / "a.log").write_bytes(b"neu\n")
    assert world.read() == {2: b"neu\n"}
    lost = world.look().lost
    assert [(each.file.file.number, each.file.state, each.unread_bytes) for each in lost] == [
        (1, "replaced", 4)
    ]
    assert world.look().lost == ()


@pytest.mark.parametrize("restart", [False, True])
def test_copy_truncate_that_grew_past_the_offset_is_noticed(world, restart):
    world.write("a.log", b"start\none\n")
    world.read()
    shutil.copy(world.folder / "a.log", world.folder / "copy")
    (world.folder / "a.log").write_bytes(b"start\ntwo\nthree\nfour\n")
    if restart:
        world.restart()
    assert world.read() == {2: b"start\ntwo\nthree\nfour\n"}


def test_a_file_replaced_between_look_and_cut_is_not_cut(world):
    world.write("a.log", b"start\none\n")
    world.look()
    (world.folder / "a.log").write_bytes(b"other\ntwo\n")
    assert world.tail.cut(world.tracked[1], 100) is None
    assert world.read() == {2: b"other\ntwo\n"}


def test_a_reused_inode_is_not_the_old_file(world):
    world.write("a.log", b"one\n")
    world.read()
    (world.folder / "a.log").unlink()
    world.write("b.log", b"two\nthree\n")
    reused = replace(world.tracked[1].file, inode=(world.folder / "b.log").stat().st_ino)
    world.tracked[1] = replace(world.tracked[1], file=reused)
    assert world.read() == {2: b"two\nthree\n"}
    world.look()
    assert world.tracked[1].state == "replaced"


def test_a_file_that_went_with_unread_bytes_is_counted_at_the_second_look(world):
    world.write("a.log", b"one\ntwo\n")
    world.look()
    (world.folder / "a.log").unlink()
    assert world.look().lost == ()
    lost = world.look().lost
    assert [(each.file.state, each.unread_bytes) for each in lost] == [("gone", 8)]
    assert world.look().lost == ()


def test_with_complete_inputs_one_look_is_enough_to_call_a_file_gone(world):
    world.write("a.log", b"one\n")
    world.look()
    (world.folder / "a.log").unlink()
    assert [each.file.state for each in world.look(final=True).lost] == ["gone"]


def test_a_file_that_comes_back_goes_on_where_it_was(world):
    world.write("a.log", b"one\n")
    world.read()
    os.rename(world.folder / "a.log", world.folder.parent / "away")
    world.look()
    world.look()
    assert world.tracked[1].state == "gone"
    os.rename(world.folder.parent / "away", world.folder / "a.log")
    world.append("a.log", b"two\n")
    assert world.read() == {1: b"two\n"}
    assert world.tracked[1].state == "open"


def test_a_vanished_logs_folder_is_a_problem_and_no_file_is_lost(world):
    world.write("a.log", b"one\n")
    world.read()
    os.rename(world.folder, world.folder.with_name("away"))
    for _ in range(3):
        seen = world.look()
        assert seen.lost == ()
        assert [problem.path for problem in seen.problems] == ["."]
    os.rename(world.folder.with_name("away"), world.folder)
    world.append("a.log", b"two\n")
    assert world.read() == {1: b"two\n"}


def test_a_folder_that_vanished_with_unread_bytes_is_named_and_the_rest_goes_on(world):
    world.write("a.log", b"one\n")
    world.write("sub/b.log", b"two\n")
    world.look()
    shutil.rmtree(world.folder / "sub")
    world.look()
    problems = [problem for _ in range(2) for problem in world.look().problems]
    assert {problem.path for problem in problems} == {"sub"}
    assert "4 bytes in it were not read" in problems[0].reason
    assert world.read() == {1: b"one\n"}


def unreadable(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Refuse to open a file, as its permissions would (tests may run as root, who may read all)."""
    real = os.open

    def refuse(path, *arguments, **more):
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)


def test_an_unreadable_file_is_named_and_the_rest_goes_on(world, monkeypatch):
    world.write("a.log", b"one\n")
    world.write("b.log", b"two\n")
    with monkeypatch.context() as patch:
        unreadable(world, patch, "a.log")
        assert [problem.path for problem in world.look().problems] == ["a.log"]
        assert "Permission denied" in world.look().problems[0].reason
        assert world.read() == {1: b"two\n"}
    assert world.read() == {2: b"one\n"}


@pytest.mark.parametrize("restart", [False, True])
def test_a_known_file_that_became_unreadable_is_not_lost(world, monkeypatch, restart):
    world.write("a.log", b"one\n")
    world.read()
    world.append("a.log", b"two\n")
    if restart:
        world.restart()
    with monkeypatch.context() as patch:
        unreadable(world, patch, "a.log")
        for _ in range(3):
            assert world.read() == {}
            seen = world.look()
            assert ([problem.path for problem in seen.problems], seen.lost) == (["a.log"], ())
    assert world.read() == {1: b"two\n"}


def test_a_cut_that_can_not_read_is_reported_by_the_next_look(world, monkeypatch):
    world.write("a.log", b"one\n")
    world.look()
    with monkeypatch.context() as patch:
        unreadable(world, patch, "a.log")
        assert world.tail.cut(world.tracked[1], 100) is None
        assert [problem.path for problem in world.look().problems] == ["a.log"]
    assert world.read() == {1: b"one\n"}
    assert world.look().problems == ()


def test_an_unterminated_last_line_is_consumed_when_the_inputs_are_complete(world):
    world.write("a.log", b"one\ntwo")
    world.write("b.log", b"three")
    assert world.read() == {1: b"one\n"}
    assert world.read(final=True) == {1: b"two", 2: b"three"}
    assert world.read(final=True) == {}


def test_a_long_line_is_consumed_in_pieces_and_the_next_line_is_read(tmp_path):
    world = named(tmp_path, "*.log", line=100)
    world.write("a.log", b"x" * 1000 + b"\nnext\n")
    assert world.read(budget=150) == {1: b"x" * 1000 + b"\nnext\n"}
    world.append("a.log", b"y" * 300)
    assert world.read(budget=150) == {1: b"y" * 300}
    assert world.tracked[1].inside_oversized
    world.append("a.log", b"y\nz\n")
    assert world.read() == {1: b"y\nz\n"}


def test_a_file_that_begins_with_a_long_line_has_a_number_before_the_line_ends(tmp_path):
    world = named(tmp_path, "*.log", line=100)
    world.write("a.log", b"x" * 101)
    assert world.read() == {1: b"x" * 101}


def test_a_header_longer_than_the_limit_is_a_problem(tmp_path):
    world = named(tmp_path, "*.csv", "csv", line=100)
    world.write("a.csv", b"x" * 101 + b"\n1\n")
    assert "limits.line" in world.look().problems[0].reason


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


def test_a_big_gzip_file_is_checked_in_several_looks(world):
    world.write("a.log.gz", gzip.compress(b"x" * 999 + b"\n", 1) * 4000)
    assert world.look().unsettled
    looks = 1
    while world.look().unsettled:
        looks += 1
    assert 3 <= looks <= 5
    assert world.look().backlog_bytes == {1: 4_000_000}


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
    assert (world.read(), world.look().lost) == ({}, ())


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
    assert [world.look().lost for _ in range(3)] == [(), (), ()]
    world.write("a.log.gz", whole)
    assert world.read() == {1: b"one\n"}


def test_one_file_under_two_names_is_read_once(world):
    world.write("a.log", b"one\n")
    os.symlink(world.folder / "a.log", world.folder / "Current.log")
    os.link(world.folder / "a.log", world.folder / "b.log")
    assert world.read() == {1: b"one\n"}
    assert world.paths() == {1: "a.log"}


def test_growth_is_dated_and_silence_is_not(world):
    world.write("a.log", b"one\n")
    world.look()
    first = world.tracked[1].grown_us
    world.look()
    assert world.tracked[1].grown_us == first
    world.append("a.log", b"two\n")
    world.look()
    assert world.tracked[1].grown_us == world.now_us > first


def test_a_look_at_unchanged_files_changes_nothing(world):
    world.write("a.log", b"one\n")
    world.read()
    assert world.look().changed == {}
    world.restart()
    assert world.look().changed == {}
