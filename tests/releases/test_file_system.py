"""The data files of a release, as DuckDB asks for them."""

from __future__ import annotations

import threading
from datetime import date
from pathlib import Path

import pytest

from photon.releases.file_system import Reads, ReleaseFileSystem
from photon.storage.data_files import DataFile

CONTENT = bytes(range(100))


def a_file(folder: Path, path: str, day: date | None = None) -> tuple[Path, DataFile]:
    (folder / path).write_bytes(CONTENT)
    return folder, DataFile(path, len(CONTENT), None, None, None, None, None, day)


def test_a_pattern_finds_its_files_alone_and_each_name_ends_with_its_day(tmp_path: Path) -> None:
    files = ReleaseFileSystem()
    pattern = files.add([a_file(tmp_path, "a", date(2026, 1, 31))])
    other = files.add([a_file(tmp_path, "b")])
    [name] = files.glob(pattern)
    assert name.endswith("/2026-01-31")
    assert files.info(name)["size"] == len(CONTENT)
    assert files.glob(other) != [name]
    assert files.glob(f"{files.root}*") == []


def test_threads_that_read_one_open_file_are_each_at_a_place_of_their_own(tmp_path: Path) -> None:
    files = ReleaseFileSystem()
    [name] = files.glob(files.add([a_file(tmp_path, "a")]))
    opened, are_placed = files.open(name), threading.Barrier(2)
    found: dict[int, bytes] = {}

    def read(at_bytes: int) -> None:
        opened.seek(at_bytes)
        are_placed.wait(60)
        found[at_bytes] = opened.read(2) + opened.read(2)

    threads = [threading.Thread(target=read, args=(at_bytes,)) for at_bytes in (10, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {10: CONTENT[10:14], 50: CONTENT[50:54]}


def test_a_file_is_read_to_its_end_and_no_further(tmp_path: Path) -> None:
    files = ReleaseFileSystem()
    [name] = files.glob(files.add([a_file(tmp_path, "a")]))
    opened = files.open(name)
    opened.seek(90)
    assert opened.read(20) == CONTENT[90:]
    assert opened.read(20) == b""
    (tmp_path / "a").write_bytes(CONTENT[:50])
    opened.seek(40)
    with pytest.raises(OSError, match="/a is cut short"):
        opened.read(20)


def test_no_file_is_written_and_no_other_one_read(tmp_path: Path) -> None:
    files = ReleaseFileSystem()
    [name] = files.glob(files.add([a_file(tmp_path, "a")]))
    for mode in ("wb", "r+b", "ab"):
        with pytest.raises(PermissionError, match="only read"):
            files.open(name, mode)
    with pytest.raises(FileNotFoundError):
        files.open(f"{files.root}0/{tmp_path}/b/None")
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_the_end_of_a_process_waits_for_a_read_that_is_under_way_and_lets_none_begin() -> None:
    reads, begun, may_end, ended = Reads(), threading.Event(), threading.Event(), list[str]()

    def read() -> None:
        with reads:
            begun.set()
            may_end.wait(60)
            ended.append("read")

    def end() -> None:
        reads.end()
        ended.append("process")

    threads = [threading.Thread(target=each) for each in (read, end)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join()
    assert ended == ["read", "process"]
    with pytest.raises(OSError, match="the process ends"), reads:
        pass
