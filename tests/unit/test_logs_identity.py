import pytest

from photon.logs.discovery import FoundFile, match
from photon.logs.files import LogFile, TrackedFile


def known(number: int, path: str, inode: int, content: str) -> TrackedFile:
    file = LogFile(number, "primary", path, inode, path.endswith(".gz"), b"", 0, 1, content.encode())
    return TrackedFile(file, 0, b"", False, 10, 0, None)


def seen(path: str, inode: int) -> FoundFile:
    return FoundFile(path, inode, 10, 0, path.endswith(".gz"))


def matched(tracked: list[TrackedFile], contents: dict[FoundFile, str], taken: frozenset[int] = frozenset()):
    by_number = {file.file.number: file for file in tracked}
    return match(by_number, contents, lambda now, file: contents[now].encode() == file.file.head_hash, taken)


@pytest.mark.parametrize(
    ("tracked", "found", "same", "fresh"),
    [
        pytest.param([("a", 1, "x")], [("b", 1, "x")], {1: "b"}, [], id="its inode, wherever it is"),
        pytest.param([("a", 1, "x")], [("a", 2, "x")], {1: "a"}, [], id="its path, with another inode"),
        pytest.param([("a", 1, "x")], [("a.gz", 2, "x")], {1: "a.gz"}, [], id="its path, compressed"),
        pytest.param(
            [("a", 1, "x")],
            [("a", 2, "x"), ("a.1", 1, "x")],
            {1: "a.1"},
            ["a"],
            id="its inode before its path",
        ),
        pytest.param(
            [("a", 1, "x"), ("a", 2, "x")],
            [("a", 9, "x")],
            {2: "a"},
            [],
            id="its path, the latest file first",
        ),
        pytest.param(
            [("a.1", 1, "x"), ("a", 2, "y")],
            [("a.2", 1, "x"), ("a.1", 2, "y"), ("a", 3, "z")],
            {1: "a.2", 2: "a.1"},
            ["a"],
            id="its inode in a chain of rotations",
        ),
    ],
)
def test_a_file_is_known_by_its_content_and(tracked, found, same, fresh):
    files = [known(number, *file) for number, file in enumerate(tracked, 1)]
    matches = matched(files, {seen(path, inode): content for path, inode, content in found})
    assert {number: file.path for number, file in matches.same.items()} == same
    assert [file.path for file in matches.fresh] == fresh


def test_neither_path_nor_inode_is_enough_without_the_content():
    other = seen("a", 1)
    found = matched([known(1, "a", 1, "x")], {other: "y"})
    assert (found.same, found.fresh, found.missing) == ({}, (other,), (1,))


def test_the_content_is_not_enough_without_path_or_inode():
    copy = seen("b", 2)
    found = matched([known(1, "a", 1, "x")], {copy: "x"})
    assert (found.fresh, found.missing) == ((copy,), (1,))


def test_the_other_form_of_a_file_that_is_there_is_a_copy():
    plain, compressed = seen("a", 1), seen("a.gz", 2)
    found = matched([known(1, "a", 1, "x")], {plain: "x", compressed: "x"})
    assert (found.same, found.fresh, found.copies) == ({1: plain}, (), {compressed: 1})
    found = matched([known(1, "a", 1, "x")], {compressed: "x"}, taken=frozenset({1}))
    assert (found.same, found.fresh, found.copies) == ({}, (), {compressed: 1})


def test_a_number_is_given_to_one_sighting_alone():
    one, two = seen("a", 1), seen("b", 1)
    found = matched([known(1, "a", 1, "x")], {one: "x", two: "x"})
    assert (len(found.same), len(found.fresh)) == (1, 1)
