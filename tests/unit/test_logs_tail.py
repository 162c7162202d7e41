import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from photon.pipeline.file import Limits
from tests.unit.tailing_world import World, named


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "logs", "**/*.log", "jsonl", Limits())


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


def test_a_file_that_was_renamed_and_back_is_read_under_its_name(world):
    world.write("a.log", b"one\n")
    world.look()
    os.rename(world.folder / "a.log", world.folder / "b.log")
    world.look()
    os.rename(world.folder / "b.log", world.folder / "a.log")
    assert world.read() == {1: b"one\n"}
    assert world.paths() == {1: "a.log"}


def test_other_bytes_under_a_name_the_glob_does_not_match_are_not_read(tmp_path):
    world = named(tmp_path, "access.log")
    world.write("access.log", b"one\n")
    world.read()
    os.rename(world.folder / "access.log", world.folder / "access.log.1")
    (world.folder / "access.log.1").write_bytes(b"rewritten\n")
    assert [world.read() for _ in range(3)] == [{}, {}, {}]


def test_a_stranger_with_a_name_the_glob_does_not_match_is_not_read(tmp_path):
    world = named(tmp_path, "access.log")
    world.write("access.log", b"one\n")
    world.write("access.log.1", b"old\n")
    assert world.read() == {1: b"one\n"}


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
    vanished = world.look().vanished
    assert [(each.file.number, each.state, each.unread_bytes) for each in vanished] == [(1, "replaced", 4)]
    assert world.look().vanished == ()


def test_an_overwritten_file_of_which_nothing_was_read_yet_is_counted_though_its_first_record_came_again(
    world,
):
    world.write("a.log", b"start\none\n")
    world.look()
    (world.folder / "a.log").write_bytes(b"start\ntwo\nthree\n")
    assert world.read() == {2: b"start\ntwo\nthree\n"}
    assert [each.unread_bytes for each in world.look().vanished] == [10]


@pytest.mark.parametrize("restart", [False, True])
def test_copy_truncate_that_grew_past_the_offset_is_noticed(world, restart):
    world.write("a.log", b"start\none\n")
    world.read()
    shutil.copy(world.folder / "a.log", world.folder / "copy")
    (world.folder / "a.log").write_bytes(b"start\ntwo\nthree\nfour\n")
    if restart:
        world.restart()
    assert world.read() == {2: b"start\ntwo\nthree\nfour\n"}


@pytest.mark.parametrize("restart", [False, True])
def test_a_long_common_beginning_does_not_hide_a_truncation(world, restart):
    start = b"x" * 2000 + b"\n"
    world.write("a.log", start + b"one\n")
    world.read()
    (world.folder / "a.log").write_bytes(start + b"two\nthree\n")
    if restart:
        world.restart()
    assert world.read() == {2: start + b"two\nthree\n"}


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
    assert world.look().vanished == ()
    vanished = world.look().vanished
    assert [(each.state, each.unread_bytes) for each in vanished] == [("gone", 8)]
    assert world.look().vanished == ()


def test_with_complete_inputs_one_look_is_enough_to_call_a_file_gone(world):
    world.write("a.log", b"one\n")
    world.look()
    (world.folder / "a.log").unlink()
    assert [each.state for each in world.look(final=True).vanished] == ["gone"]


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
        assert seen.vanished == ()
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
            assert ([problem.path for problem in seen.problems], seen.vanished) == (["a.log"], ())
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


def test_one_file_under_several_names_is_read_once_under_its_real_name(world):
    for i in range(10):  # folders are listed in no order
        world.write(f"m{i}.log", f"{i}\n".encode())
        os.symlink(world.folder / f"m{i}.log", world.folder / f"a{i}.log")
        os.symlink(world.folder / f"m{i}.log", world.folder / f"z{i}.log")
        os.link(world.folder / f"m{i}.log", world.folder / f"n{i}.log")
    assert len(world.read()) == 10
    assert sorted(world.paths().values()) == [f"m{i}.log" for i in range(10)]


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
