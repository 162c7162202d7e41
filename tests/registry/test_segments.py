"""Runs of holds as files: they come back as they were, and damage is told."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from photon.pipeline.location import S3Folder
from photon.process.errors import FormatTooNew
from photon.registry.holds import FREED, HashRun, RunFile
from photon.registry.segments import (
    HOLD_BYTES,
    RunDamaged,
    file_name,
    open_run,
    remove_other_runs,
    remove_runs,
    size_bytes,
    write_run,
)
from tests.registry.entries import same
from tests.registry.in_memory import hashes_of

RUN = HashRun.of(hashes_of(*range(300)), 7, 2_000)


def altered(folder: Path, at: int, new: bytes) -> None:
    """Other bytes at one place of the file of run `a`."""
    path = folder / file_name("a")
    content = path.read_bytes()
    path.write_bytes(content[:at] + new + content[at + len(new) :])


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        HashRun.of(hashes_of(5), 0, FREED),
        HashRun.of(np.full((1, 2), 2**64 - 1, np.uint64), 2**16 - 1, FREED - 1),
        HashRun.of(hashes_of(*range(9_000)), 1, 0),
    ],
)
def test_a_run_comes_back_as_it_was(tmp_path: Path, run: HashRun) -> None:
    write_run(tmp_path, "a", run)
    found = open_run(RunFile(tmp_path, "a", len(run)), compares_checksums=True)
    assert same(replace(found, file=None), run)


def test_a_hold_takes_at_most_24_bytes(tmp_path: Path) -> None:
    write_run(tmp_path, "a", RUN)
    assert HOLD_BYTES <= 24
    assert (tmp_path / file_name("a")).stat().st_size == size_bytes(300) == 300 * HOLD_BYTES + 40


def test_the_columns_of_a_mapped_run_are_aligned(tmp_path: Path) -> None:
    write_run(tmp_path, "a", RUN)
    mapped = open_run(RunFile(tmp_path, "a", 300))
    columns = (mapped.upper, mapped.lower, mapped.numbers, mapped.positions)
    assert all(column.flags.aligned for column in columns)


@pytest.mark.parametrize("length", [0, 39, 6_639])
def test_a_run_that_is_cut_short_is_damaged(tmp_path: Path, length: int) -> None:
    write_run(tmp_path, "a", RUN)
    os.truncate(tmp_path / file_name("a"), length)
    with pytest.raises(RunDamaged, match=r"a\.holds "):
        open_run(RunFile(tmp_path, "a", 300))


@pytest.mark.parametrize(
    ("at", "column"),
    [(40, "upper"), (40 + 8 * 300, "lower"), (40 + 16 * 300, "positions"), (6_639, "numbers")],
)
def test_an_altered_column_is_named(tmp_path: Path, at: int, column: str) -> None:
    write_run(tmp_path, "a", RUN)
    altered(tmp_path, at, b"\x55")
    with pytest.raises(RunDamaged, match=f"the checksum of its {column} does not agree"):
        open_run(RunFile(tmp_path, "a", 300), compares_checksums=True)


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path, "a", RUN)
    altered(tmp_path, 8, b"\2")
    with pytest.raises(FormatTooNew, match="has format 2, this Photon knows up to 1"):
        open_run(RunFile(tmp_path, "a", 300))


def test_a_run_that_is_removed_can_be_read_by_who_has_it(tmp_path: Path) -> None:
    write_run(tmp_path, "a", RUN)
    mapped = open_run(RunFile(tmp_path, "a", 300))
    remove_runs(tmp_path, ["a", "not there"])
    assert same(replace(mapped, file=None), RUN)
    assert not list(tmp_path.iterdir())


def test_only_runs_that_nobody_lists_are_removed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_run(tmp_path, name, RUN)
    (tmp_path / "d.holds.unfinished").touch()
    (tmp_path / "notes.txt").touch()
    remove_other_runs(tmp_path, {"b"})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b.holds", "notes.txt"]


def test_a_run_on_s3_is_mapped_from_a_copy(on_s3: S3Folder) -> None:
    write_run(on_s3, "a", RUN)
    found = open_run(RunFile(on_s3, "a", 300), compares_checksums=True)
    assert same(replace(found, file=None), RUN)
    remove_runs(on_s3, ["a"])
    with pytest.raises(RunDamaged, match="is not there"):
        open_run(RunFile(on_s3, "a", 300))
