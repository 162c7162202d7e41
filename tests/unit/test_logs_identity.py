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


def test_a_file_is_known_by_inode_and_content_wherever_it_is():
    moved = seen("b", 1)
    assert matched([known(1, "a", 1, "x")], {moved: "x"}).same == {1: moved}


def test_a_file_is_known_by_path_and_content_with_another_inode():
    restored = seen("a", 2)
    assert matched([known(1, "a", 1, "x")], {restored: "x"}).same == {1: restored}


def test_neither_path_nor_inode_is_enough_without_the_content():
    other = seen("a", 1)
    found = matched([known(1, "a", 1, "x")], {other: "y"})
    assert (found.same, found.fresh, found.missing) == ({}, (other,), (1,))


def test_the_content_is_not_enough_without_path_or_inode():
    copy = seen("b", 2)
    found = matched([known(1, "a", 1, "x")], {copy: "x"})
    assert (found.fresh, found.missing) == ((copy,), (1,))


def test_the_inode_decides_before_the_path():
    rotated, new = seen("a.1", 1), seen("a", 2)
    found = matched([known(1, "a", 1, "x")], {new: "x", rotated: "x"})
    assert (found.same, found.fresh) == ({1: rotated}, (new,))


def test_of_several_files_that_had_a_path_the_latest_is_asked_first():
    now = seen("a", 9)
    assert matched([known(1, "a", 1, "x"), known(2, "a", 2, "x")], {now: "x"}).same == {2: now}


def test_a_chain_of_rotations_is_followed():
    tracked = [known(1, "a.1", 1, "x"), known(2, "a", 2, "y")]
    found = {seen("a.2", 1): "x", seen("a.1", 2): "y", seen("a", 3): "z"}
    found = matched(tracked, found)
    assert {number: file.path for number, file in found.same.items()} == {1: "a.2", 2: "a.1"}
    assert [file.path for file in found.fresh] == ["a"]


def test_a_compressed_file_has_the_path_it_had():
    compressed = seen("a.gz", 2)
    assert matched([known(1, "a", 1, "x")], {compressed: "x"}).same == {1: compressed}


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
