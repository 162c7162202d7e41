"""A look at many files costs little for each that has not changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from photon.logs import source
from photon.logs.discovery import scan
from tests.unit.tailing_world import named

FILES = 300


def test_a_look_at_files_that_did_not_change_opens_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = named(tmp_path, "**/*.log")
    for number in range(FILES):
        world.write(f"{number % 7}/{number}.log", b"line %d\n" % number)
    assert len(world.read()) == FILES
    world.look()
    opened: list[str] = []
    real = os.open

    def counted(path: Any, *arguments: Any, **more: Any) -> int:
        opened.append(str(path))
        return real(path, *arguments, **more)

    monkeypatch.setattr(source.os, "open", counted)
    assert world.look().changed == {}
    world.append("3/3.log", b"more\n")
    world.look()
    assert [Path(path).name for path in opened] == ["3.log"]


def test_a_scan_keeps_what_an_earlier_one_made_of_files_that_did_not_change(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.log").write_bytes(b"line\n")
    first = scan(tmp_path, "*.log")
    (tmp_path / "1.log").write_bytes(b"line\nmore\n")
    (tmp_path / "2.log").rename(tmp_path / "old")
    (tmp_path / "2.log").write_bytes(b"line\n")
    os.utime(tmp_path / "2.log", ns=(first.files[2].modified_ns, first.files[2].modified_ns))
    second = scan(tmp_path, "*.log", first)
    assert second.files == scan(tmp_path, "*.log").files
    assert [after is before for after, before in zip(second.files, first.files, strict=True)] == [
        True,
        False,
        False,
    ]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts listings of folders into its last number."""
    counts: list[int] = []
    real = os.scandir

    def counted(*arguments: Any) -> Any:
        counts[-1:] = [count + 1 for count in counts[-1:]]
        return real(*arguments)

    monkeypatch.setattr(os, "scandir", counted)
    return counts


def test_the_first_sight_of_many_files_lists_their_folder_as_often_as_that_of_few(
    tmp_path: Path, listed: list[int]
) -> None:
    """Broken variant: each file lists its whole folder, for files that may be its rotations."""
    for count in (3, FILES):
        (tmp_path / str(count)).mkdir()
        world = named(tmp_path / str(count), "*.log")
        for number in range(count):
            world.write(f"{number}.log", b"line %d\n" % number)
        listed.append(0)
        assert len(world.look().changed) == count
    assert listed[0] == listed[1]


def test_a_look_that_misses_many_files_lists_folders_no_more_often_than_one_that_misses_few(
    tmp_path: Path, listed: list[int]
) -> None:
    """Broken variant: each file that is gone lists all folders, for names that it may have by now."""
    for count in (3, FILES):
        (tmp_path / str(count)).mkdir()
        world = named(tmp_path / str(count), "*.log")
        for number in range(count + 1):
            world.write(f"{number}.log", b"line %d\n" % number)
        assert len(world.read()) == count + 1
        for number in range(count):
            (world.folder / f"{number}.log").unlink()
        listed.append(0)
        world.look()
    assert listed[1] <= listed[0]
