"""Which log files may be forgotten, and what the others take over of them (protocol D13)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from photon.logs.files import LogFile, TrackedFile
from photon.logs.forgotten_files import SeenFolders, are_forgotten, with_strangers_of
from photon.logs.source import HASH_BYTES

MARK, OTHER = b"m" * HASH_BYTES, b"o" * HASH_BYTES


def tracked(number: int, path: str, strangers: bytes = b"") -> TrackedFile:
    file = LogFile(number, "foreign", path, number, False, b"", 0, 20, b"hash")
    return TrackedFile(file, 100, b"t", False, 100, 5, None, strangers=strangers)


@pytest.mark.parametrize(
    ("path", "is_shown"),
    [
        ("host/a.log", True),
        ("host/gone/deeper/a.log", True),
        ("mount/a.log", False),
        ("mount/day/a.log", False),
        ("gone/a.log", True),
        ("a.log", True),
    ],
)
def test_a_file_would_have_been_found_below_a_folder_that_has_others(path: str, is_shown: bool) -> None:
    """`mount` is there and empty. Broken variants: any folder of the log counts; its own one alone does."""
    folders = SeenFolders.of({"", "host", "host/day", "mount"}, [tracked(1, "host/day/b.log")])
    assert folders.show(path) is is_shown


def test_a_log_without_any_file_shows_none() -> None:
    assert not SeenFolders.of({""}, []).show("a.log")


def test_strangers_to_a_log_stay_strangers_as_long_as_it_has_a_file() -> None:
    gone = [tracked(1, "app.log.3", MARK), tracked(2, "other.log", MARK)]
    left = {3: tracked(3, "app.log.1"), 4: tracked(4, "app.log", OTHER), 5: tracked(5, "b.log")}
    assert with_strangers_of(gone, left) == {4: replace(left[4], strangers=MARK + OTHER)}


def test_numbers_below_the_last_that_nobody_knows_were_forgotten() -> None:
    found = are_forgotten(np.array([-1, 0, 1, 2, 3, 4, 5]), {2: "", 4: ""}.keys())
    assert found.tolist() == [False, False, True, False, True, False, False]
