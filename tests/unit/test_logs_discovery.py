import os

import pytest

from photon.logs.discovery import LEADS_OUT, scan


def make(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def found(folder, pattern):
    return [file.path for file in scan(folder, pattern).files]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.csv", ["a.csv"]),
        ("**/*.csv", ["a.csv", "one/b.csv", "one/two/c.csv"]),
        ("one/*.csv", ["one/b.csv"]),
        ("one/**/*.csv", ["one/b.csv", "one/two/c.csv"]),
        ("**/two/*.csv", ["one/two/c.csv"]),
        ("*/**/*.csv", ["one/b.csv", "one/two/c.csv"]),
        ("**/**/c.csv", ["one/two/c.csv"]),
        ("o?e/[ab].csv", ["one/b.csv"]),
        ("one/**", ["one/b.csv", "one/two/c.csv", "one/two/d.log"]),
        ("./a.csv", ["a.csv"]),
        ("nothing/*.csv", []),
        ("*.CSV", []),
    ],
)
def test_a_pattern_finds_what_a_glob_finds(tmp_path, pattern, expected):
    make(tmp_path, "a.csv", "one/b.csv", "one/two/c.csv", "one/two/d.log")
    assert found(tmp_path, pattern) == expected


def test_compressed_files_belong_to_the_pattern_of_their_names(tmp_path):
    make(tmp_path, "a.csv.gz", "b.csv", "c.gz")
    assert found(tmp_path, "*.csv") == ["a.csv.gz", "b.csv"]
    assert found(tmp_path, "*.csv.gz") == ["a.csv.gz"]
    assert [file.compressed for file in scan(tmp_path, "*.csv").files] == [True, False]


def test_names_that_begin_with_a_dot_are_left_alone_unless_the_pattern_asks_for_them(tmp_path):
    make(tmp_path, ".a.csv.swp", ".b.csv", ".git/c.csv")
    assert found(tmp_path, "**/*.csv") == []
    assert found(tmp_path, ".*.csv") == [".b.csv"]


def test_what_the_pattern_does_not_match_is_known_by_its_inode(tmp_path):
    make(tmp_path, "a.log", "a.log.1", "sub/b.log.1")
    others = scan(tmp_path, "a.log").others
    assert others == {"a.log.1": (tmp_path / "a.log.1").stat().st_ino}


def test_a_folder_that_is_not_there_is_a_problem_and_no_exception(tmp_path):
    seen = scan(tmp_path / "none", "*.csv")
    assert seen.files == ()
    assert [(problem.path, problem.reason) for problem in seen.problems] == [
        (".", "the logs folder cannot be read: No such file or directory")
    ]


def test_a_folder_that_can_not_be_listed_is_named_and_the_rest_goes_on(tmp_path, monkeypatch):
    make(tmp_path, "one/a.csv", "two/b.csv")
    real = os.scandir

    def refuse(path):
        if str(path).endswith("one"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    seen = scan(tmp_path, "**/*.csv")
    assert [file.path for file in seen.files] == ["two/b.csv"]
    assert [(problem.path, problem.reason) for problem in seen.problems] == [
        ("one", "cannot be read: Permission denied")
    ]


def test_what_is_no_file_is_left_alone(tmp_path):
    make(tmp_path, "a.csv/b.txt")
    os.mkfifo(tmp_path / "b.csv")
    os.symlink(tmp_path / "nowhere", tmp_path / "c.csv")
    assert found(tmp_path, "*.csv") == []


def test_a_loop_of_symbolic_links_ends(tmp_path):
    make(tmp_path, "one/a.csv")
    os.symlink(tmp_path / "one", tmp_path / "one" / "loop")
    assert found(tmp_path, "**/*.csv") == ["one/a.csv"]


@pytest.mark.parametrize("pattern", ["*.csv", "*/a.csv", "**/*.csv"])
def test_a_link_that_leads_out_of_the_logs_folder_is_refused_unless_a_key_allows_it(tmp_path, pattern):
    """Broken variant: whoever may write a link has any file of the join's user read."""
    make(tmp_path, "secrets/a.csv", "logs/own/b.csv")
    logs = tmp_path / "logs"
    link = logs / ("folder" if pattern == "*/a.csv" else "a.csv")
    os.symlink(tmp_path / "secrets" / ("" if pattern == "*/a.csv" else "a.csv"), link)
    seen = scan(logs, pattern)
    assert [(one.kind, one.path, one.reason) for one in seen.unseen] == [("link", link.name, LEADS_OUT)]
    assert not [file for file in seen.files if file.path != "own/b.csv"]
    followed = scan(logs, pattern, links_lead_out=True)
    assert not followed.unseen
    assert [file.path for file in followed.files if file.path.endswith("a.csv")]


def test_a_link_that_stays_in_the_logs_folder_is_followed_where_that_is_reached_by_a_link_itself(tmp_path):
    make(tmp_path, "real/old/a.csv")
    os.symlink("real", tmp_path / "logs")
    os.symlink("old/a.csv", tmp_path / "real" / "b.csv")
    seen = scan(tmp_path / "logs", "*.csv")
    assert ([file.path for file in seen.files], seen.unseen) == (["b.csv"], ())


def test_a_scan_lists_each_folder_once_however_many_files_are_in_it(tmp_path, monkeypatch):
    make(tmp_path, *(f"{i % 20}/{i}.csv" for i in range(2_000)))
    listed, list_folder = [], os.scandir

    def counted(folder):
        listed.append(folder)
        return list_folder(folder)

    monkeypatch.setattr(os, "scandir", counted)
    assert len(scan(tmp_path, "**/*.csv").files) == 2_000
    assert len(listed) == 1 + 20
