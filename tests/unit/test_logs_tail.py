"""Log files change between two looks: a table of stories, and tests that need more than a story."""

import os
import shutil
from pathlib import Path

import pytest

from photon.logs.tailing.retry_times import FIRST_PAUSE_US, MOST_PAUSE_US
from photon.pipeline.sections import Limits, Tailing
from tests.unit.tailing_world import Story, World, cases, named, play, refuse_to_open

LONG_START = b"x" * 2000 + b"\n"

STORIES = {
    # -- what is a record, and what is a file
    "half_a_line_is_no_backlog_once_it_was_tried": Story(
        [
            ("write", "a.log", b"one\ntw"),
            ("reads", {1: b"one\n"}),
            ("sees_waiting", {}),
            ("append", "a.log", b"o"),
            ("sees_waiting", {1: 3}),
        ],
        in_one_run=True,
    ),
    "a_file_without_a_whole_record_has_no_number_yet": Story(
        [
            ("write", "a.log", b"on"),
            ("sees_changes_of",),
            ("append", "a.log", b"e\n"),
            ("sees_changes_of", 1),
        ]
    ),
    "a_csv_file_is_known_by_its_first_record_and_not_by_its_header": Story(
        [
            ("write", "a.csv", b"id,t\r\n"),
            ("sees_changes_of",),
            ("append", "a.csv", b"1,1\n"),
            ("reads", {1: b"1,1\n"}),
            ("knows", 1, {"header": b"id,t", "header_bytes": 6, "head_bytes": 4}),
        ],
        files="*.csv",
        format="csv",
    ),
    "a_byte_order_mark_belongs_to_no_record": Story(
        [("write", "a", b"\xef\xbb\xbfone\n"), ("reads", {1: b"one\n"})], files="*"
    ),
    "a_byte_order_mark_belongs_to_no_header": Story(
        [
            ("write", "a", b"\xef\xbb\xbfid,t\n1,1\n"),
            ("reads", {1: b"1,1\n"}),
            ("knows", 1, {"header": b"id,t"}),
        ],
        files="*",
        format="csv",
    ),
    "an_unterminated_last_line_is_consumed_when_the_inputs_are_complete": Story(
        [
            ("write", "a.log", b"one\ntwo"),
            ("write", "b.log", b"three"),
            ("reads", {1: b"one\n"}),
            ("reads", {1: b"two", 2: b"three"}, True),
            ("reads", {}, True),
        ]
    ),
    "a_long_line_is_consumed_in_pieces_and_the_next_line_is_read": Story(
        [
            ("write", "a.log", b"x" * 1000 + b"\nnext\n"),
            ("reads", {1: b"x" * 1000 + b"\nnext\n"}, False, 150),
            ("append", "a.log", b"y" * 300),
            ("reads", {1: b"y" * 300}, False, 150),
            ("knows", 1, {"inside_oversized": True}),
            ("append", "a.log", b"y\nz\n"),
            ("reads", {1: b"y\nz\n"}),
        ],
        limits={"line": 100},
    ),
    "a_file_that_begins_with_a_long_line_has_a_number_before_the_line_ends": Story(
        [("write", "a.log", b"x" * 101), ("reads", {1: b"x" * 101})], limits={"line": 100}
    ),
    "a_look_at_unchanged_files_changes_nothing": Story(
        [("write", "a.log", b"one\n"), ("reads", {1: b"one\n"}), ("sees_changes_of",), ("sees_changes_of",)]
    ),
    # -- renamed
    "a_file_renamed_to_what_the_glob_does_not_match_is_read_to_its_end": Story(
        [
            ("write", "access.log", b"one\n"),
            ("reads", {1: b"one\n"}),
            ("append", "access.log", b"two\n"),
            ("rename", "access.log", "access.log.1"),
            ("write", "access.log", b"three\n"),
            ("reads", {1: b"two\n", 2: b"three\n"}),
            ("append", "access.log.1", b"late\n"),
            ("reads", {1: b"late\n"}),
        ],
        files="access.log",
    ),
    "a_file_that_was_renamed_and_back_is_read_under_its_name": Story(
        [
            ("write", "a.log", b"one\n"),
            ("look",),
            ("rename", "a.log", "b.log"),
            ("look",),
            ("rename", "b.log", "a.log"),
            ("reads", {1: b"one\n"}),
            ("knows", 1, {"path": "a.log", "state": "open"}),
        ]
    ),
    "other_bytes_under_the_name_of_a_rotation_may_be_a_log_that_nobody_saw": Story(
        [
            ("write", "access.log", b"one\n"),
            ("reads", {1: b"one\n"}),
            ("rename", "access.log", "access.log.1"),
            ("overwrite", "access.log.1", b"rewritten\n"),
            ("reads", {}),
            ("reads", {2: b"rewritten\n"}),
            ("reads", {}),
        ],
        in_one_run=True,
        files="access.log",
    ),
    "a_stranger_with_a_name_the_glob_does_not_match_is_not_read": Story(
        [
            ("write", "access.log", b"one\n"),
            ("write", "access.log.1", b"old\n"),
            ("reads", {1: b"one\n"}),
        ],
        files="access.log",
    ),
    "equal_first_records_do_not_confuse_a_rotation": Story(
        [
            ("write", "a.log", b"start\n"),
            ("reads", {1: b"start\n"}),
            ("rename", "a.log", "a-1.log"),
            ("write", "a.log", b"start\n"),
            ("reads", {2: b"start\n"}),
        ]
    ),
    # -- other bytes in its place
    "a_truncated_file_is_a_new_one_and_its_unread_bytes_are_counted": Story(
        [
            ("write", "a.log", b"one\ntwo\n"),
            ("read_so_far", 1, 4),
            ("overwrite", "a.log", b"neu\n"),
            ("reads", {2: b"neu\n"}),
            ("sees_vanish", (1, "replaced", 4)),
            ("sees_vanish",),
        ],
        in_one_run=True,
    ),
    "an_overwritten_file_that_was_not_read_yet_is_counted_though_its_first_record_came_again": Story(
        [
            ("write", "a.log", b"start\none\n"),
            ("look",),
            ("overwrite", "a.log", b"start\ntwo\nthree\n"),
            ("reads", {2: b"start\ntwo\nthree\n"}),
            ("sees_vanish", (1, "replaced", 10)),
        ],
        in_one_run=True,
    ),
    "copy_truncate_that_grew_past_the_offset_is_noticed": Story(
        [
            ("write", "a.log", b"start\none\n"),
            ("reads", {1: b"start\none\n"}),
            ("copy", "a.log", "copy"),
            ("overwrite", "a.log", b"start\ntwo\nthree\nfour\n"),
            ("reads", {2: b"start\ntwo\nthree\nfour\n"}),
        ]
    ),
    "a_long_common_beginning_does_not_hide_a_truncation": Story(
        [
            ("write", "a.log", LONG_START + b"one\n"),
            ("reads", {1: LONG_START + b"one\n"}),
            ("overwrite", "a.log", LONG_START + b"two\nthree\n"),
            ("reads", {2: LONG_START + b"two\nthree\n"}),
        ]
    ),
    "a_file_replaced_between_look_and_cut_is_not_cut": Story(
        [
            ("write", "a.log", b"start\none\n"),
            ("look",),
            ("overwrite", "a.log", b"other\ntwo\n"),
            ("cuts_nothing", 1),
            ("reads", {2: b"other\ntwo\n"}),
        ]
    ),
    "a_reused_inode_is_not_the_old_file": Story(
        [
            ("write", "a.log", b"one\n"),
            ("reads", {1: b"one\n"}),
            ("remove", "a.log"),
            ("write", "b.log", b"two\nthree\n"),
            ("give_inode_to", 1, "b.log"),
            ("reads", {2: b"two\nthree\n"}),
            ("look",),
            ("knows", 1, {"state": "replaced"}),
        ],
        in_one_run=True,
    ),
    # -- gone, and back
    "a_file_that_went_with_unread_bytes_is_counted_at_the_second_look": Story(
        [
            ("write", "a.log", b"one\ntwo\n"),
            ("look",),
            ("remove", "a.log"),
            ("sees_vanish",),
            ("sees_vanish", (1, "gone", 8)),
            ("sees_vanish",),
        ],
        in_one_run=True,
    ),
    "with_complete_inputs_one_look_is_enough_to_call_a_file_gone": Story(
        [
            ("write", "a.log", b"one\n"),
            ("look",),
            ("remove", "a.log"),
            ("sees_vanish_when_complete", (1, "gone", 4)),
        ]
    ),
    "a_file_that_comes_back_goes_on_where_it_was": Story(
        [
            ("write", "a.log", b"one\n"),
            ("reads", {1: b"one\n"}),
            ("rename", "a.log", "../away"),
            ("look",),
            ("look",),
            ("knows", 1, {"state": "gone"}),
            ("rename", "../away", "a.log"),
            ("append", "a.log", b"two\n"),
            ("reads", {1: b"two\n"}),
            ("knows", 1, {"state": "open"}),
        ],
        in_one_run=True,
    ),
    "a_vanished_logs_folder_is_a_problem_and_no_file_is_lost": Story(
        [
            ("write", "a.log", b"one\n"),
            ("reads", {1: b"one\n"}),
            ("rename", ".", "../away"),
            *[("sees_problems", "."), ("sees_vanish",)] * 3,
            ("rename", "../away", "."),
            ("append", "a.log", b"two\n"),
            ("reads", {1: b"two\n"}),
        ]
    ),
}


@pytest.mark.parametrize(("story", "restarts"), cases(STORIES))
def test_a_story_of_log_files(story: Story, restarts: bool, tmp_path: Path) -> None:
    play(story, restarts, tmp_path)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "logs", "**/*.log", "jsonl", Limits())


def test_a_file_behind_a_link_that_is_refused_has_not_vanished_and_goes_on_once_it_may(tmp_path):
    """Broken variant: its unread bytes count as lost."""
    world = World(tmp_path / "logs", "*.log", "jsonl", Limits())
    world.folder.mkdir()
    world.write("../elsewhere.log", b'{"id": "a", "t": 1}\n')
    os.symlink("../elsewhere.log", world.folder / "a.log")
    assert world.read()[1]
    world.append("a.log", b'{"id": "b", "t": 2}\n')
    world.look()
    world.tailing = Tailing()
    world.restart()
    assert [world.look().vanished for _ in range(3)] == [()] * 3
    world.tailing = Tailing(links_lead_out=True)
    world.restart()
    assert world.read() == {1: b'{"id": "b", "t": 2}\n'}


def test_a_folder_that_vanished_with_unread_bytes_is_named_and_the_rest_goes_on(world):
    world.write("a.log", b"one\n")
    world.write("sub/b.log", b"two\n")
    world.look()
    shutil.rmtree(world.folder / "sub")
    world.look()
    problems = [problem for _ in range(2) for problem in world.look().problems]
    assert {problem.path for problem in problems} == {"sub"}
    assert "in it 4 bytes were not read" in problems[0].reason
    assert world.read() == {1: b"one\n"}


def test_an_unreadable_file_is_named_and_the_rest_goes_on(world, monkeypatch):
    world.write("a.log", b"one\n")
    world.write("b.log", b"two\n")
    with monkeypatch.context() as patch:
        refuse_to_open(patch, "a.log")
        assert [problem.path for problem in world.look().problems] == ["a.log"]
        assert "Permission denied" in world.look().problems[0].reason
        assert world.read() == {1: b"two\n"}
    world.now_us += MOST_PAUSE_US
    assert world.read() == {2: b"one\n"}


@pytest.mark.parametrize("restart", [False, True])
def test_a_known_file_that_became_unreadable_is_not_lost(world, monkeypatch, restart):
    world.write("a.log", b"one\n")
    world.read()
    world.append("a.log", b"two\n")
    if restart:
        world.restart()
    with monkeypatch.context() as patch:
        refuse_to_open(patch, "a.log")
        for _ in range(3):
            assert world.read() == {}
            seen = world.look()
            assert ([problem.path for problem in seen.problems], seen.vanished) == (["a.log"], ())
    assert world.read() == {1: b"two\n"}


def test_a_cut_that_can_not_read_is_reported_by_the_next_look(world, monkeypatch):
    world.write("a.log", b"one\n")
    world.look()
    with monkeypatch.context() as patch:
        refuse_to_open(patch, "a.log")
        assert world.tail.cut(world.tracked[1], 100) is None
        assert [problem.path for problem in world.look().problems] == ["a.log"]
    world.now_us += FIRST_PAUSE_US
    assert world.read() == {1: b"one\n"}
    assert world.look().problems == ()


def test_a_file_in_which_a_lookup_failed_is_tried_in_its_turn_until_it_can_be_read(world, monkeypatch):
    world.write("a.log", b"one\n")
    world.read()
    for _ in range(2):  # the second time as the first: what was read has no pause to go on with
        world.tail.doubt([world.tracked[1].file])
        with monkeypatch.context() as patch:
            refuse_to_open(patch, "a.log")
            unread = world.look().seen_files.unread
            assert [(one.path, one.may_pass) for one in unread] == [("a.log", False)]
        assert [problem.path for problem in world.look().problems] == ["a.log"], "its turn has not come"
        world.now_us += FIRST_PAUSE_US
        assert world.look().problems == ()
    refuse_to_open(monkeypatch, "a.log")
    assert world.look().problems == (), "nobody doubts it any more"


def test_a_folder_that_shows_none_of_its_files_may_be_a_disk_that_is_not_mounted(world):
    world.write("one/a.log", b"one\n")
    world.write("two/b.log", b"two\n")
    world.look()
    (world.folder / "two/b.log").unlink()
    is_shown = world.look().seen_files.is_shown
    assert [is_shown(f"{folder}/c.log") for folder in ("one", "two", "three")] == [True, False, False]


def test_when_a_file_was_written_is_known_by_its_own_name_alone(world):
    world.write("a.log", b"one\n")
    world.look()
    world.append("a.log", b"two\n")
    os.utime(world.folder / "a.log", ns=(5, 5))
    world.look()
    assert world.tracked[1].modified_ns == 5
    (world.folder / "a.log").rename(world.folder / "a.log.1")
    os.utime(world.folder / "a.log.1", ns=(7, 7))
    world.look()
    assert (world.paths(), world.tracked[1].modified_ns) == ({1: "a.log.1"}, 5)


def test_a_header_longer_than_the_limit_is_a_problem(tmp_path):
    world = named(tmp_path, "*.csv", "csv", line=100)
    world.write("a.csv", b"x" * 101 + b"\n1\n")
    assert "limits.line" in world.look().problems[0].reason


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
@pytest.mark.parametrize("final", [False, True])
def test_lines_that_end_with_cr_alone_are_a_problem(tmp_path, format, final):
    world = named(tmp_path, "*.log", format)
    world.write("a.log", b"id,t\r1,1\r")
    world.write("b.log", b"id,t\r\n1,1\r\n")
    seen = world.look(final)
    assert [(problem.path, "CR alone" in problem.reason) for problem in seen.problems] == [("a.log", True)]
    assert [file.file.path for file in seen.changed.values()] == ["b.log"]


def test_a_first_half_of_cr_lf_is_no_problem(tmp_path):
    world = named(tmp_path, "*.log", "csv")
    world.write("a.log", b"id,t\r")
    assert world.look().problems == ()
    world.append("a.log", b"\n1,1\r\n")
    assert world.read() == {1: b"1,1\r\n"}


def test_names_that_are_not_utf_8_are_named_and_the_rest_is_read(world):
    world.write("b.log", b"two\n")
    for name in (b"caf\xe9.log", b"caf\xe9.txt", b"caf\xe9.log.gz"):
        Path(os.fsdecode(os.fsencode(world.folder) + b"/" + name)).write_bytes(b"one\n")
    folder = Path(os.fsdecode(os.fsencode(world.folder) + b"/\xff"))
    folder.mkdir()
    (folder / "a.log").write_bytes(b"three\n")
    for _ in range(2):
        problems = {problem.path: problem.reason for problem in world.look().problems}
        assert problems.keys() == {"caf\\xe9.log", "caf\\xe9.log.gz", "\\xff"}
        assert all("not UTF-8" in reason for reason in problems.values())
        world.restart()
    assert world.read() == {1: b"two\n"}


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
