"""When primaries are due, which of them a run looks at, and what it leaves to the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from photon.event_store.segments import Places
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.releases.release import Part, Place, Release, SetBack, Statement
from photon.state.completeness.estimate import Completeness
from photon.state.unmatched import UnmatchedProgress
from photon.unmatched.deciding import (
    FULL_PASS_EVERY_US,
    HOUR_US,
    Selection,
    UnmatchedSight,
    capped,
    due,
    next_run,
    positions_of,
    read_as_of,
    up_to,
    why_all,
)

NOW = 1_000 * HOUR_US
SAID = Completeness("3", 7, NOW, NOW, NOW, NOW, 0.999, 0, 0, 0)
PART = Part(Place(3, 7), "table", 10, 1, statement=Statement(NOW, NOW))
RELEASE = Release(12, NOW, "east", {"east": PART})
SIGHT = UnmatchedSight("east", 3, NOW, 24 * HOUR_US, RELEASE, SAID, NOW, has_all_rows=True)
BEFORE = UnmatchedProgress("east", 3, 5, "p", 900 * HOUR_US, None, 11, NOW - HOUR_US, {1: 100})
EARLIER = NOW - 10 * HOUR_US


def released(**more: Any) -> Release:
    return replace(RELEASE, **more)


@pytest.mark.parametrize(
    ("sight", "because"),
    [
        (replace(SIGHT, now_us=EARLIER), "clock"),
        (replace(SIGHT, release=released(made_us=EARLIER)), "release 12 was made at"),
        (replace(SIGHT, said=replace(SAID, complete_up_to_us=EARLIER)), "foreign logs are complete"),
        (replace(SIGHT, watermark_us=EARLIER), "primary logs are read"),
        (
            replace(
                SIGHT, release=released(parts={"east": replace(PART, statement=Statement(EARLIER, EARLIER))})
            ),
            "release 12 is complete",
        ),
        (
            replace(SIGHT, release=released(set_back=SetBack(EARLIER, 9, ("east",), "west burnt"))),
            "rows have left (west burnt)",
        ),
    ],
)
def test_a_primary_is_due_once_all_that_may_name_it_was_read(sight: UnmatchedSight, because: str) -> None:
    assert due(SIGHT).up_to_us == NOW - 24 * HOUR_US
    assert due(sight).up_to_us == EARLIER - 24 * HOUR_US
    assert because in due(sight).because


@pytest.mark.parametrize(
    "sight",
    [
        replace(SIGHT, said=None),
        replace(SIGHT, said=replace(SAID, epoch="2")),
        replace(SIGHT, release=released(parts={})),
        replace(SIGHT, release=released(parts={"east": replace(PART, place=Place(2, 90))})),
        replace(SIGHT, said=replace(SAID, complete_up_to_us=None)),
        replace(SIGHT, watermark_us=None),
    ],
)
def test_none_is_due_before_the_owner_has_said_something_in_its_newest_epoch(sight: UnmatchedSight) -> None:
    assert due(sight).up_to_us is None
    assert due(sight).because


def test_a_log_that_has_not_grown_is_told_with_what_to_do() -> None:
    assert "has grown since it began to join" in due(replace(SIGHT, watermark_us=None)).because
    said = replace(SAID, complete_up_to_us=None)
    assert due(replace(SIGHT, said=said)).because == "its foreign logs are complete up to no event time yet"


def test_where_logs_were_called_complete_the_clock_alone_counts() -> None:
    old = replace(SAID, complete_up_to_us=EARLIER, is_final=True)
    sight = replace(SIGHT, said=old, watermark_us=EARLIER)
    assert due(sight).up_to_us == NOW - 24 * HOUR_US
    # A release without what was joined last says nothing of it.
    assert due(replace(sight, has_all_rows=False)).up_to_us == EARLIER - 24 * HOUR_US


def test_a_run_looks_at_all_where_what_was_left_does_not_fit() -> None:
    def why(before: UnmatchedProgress | None = BEFORE, **known: Any) -> str:
        found = {"epoch": 3, "version": 5, "now_us": NOW, "rows_left_with": 11, "anew": False, **known}
        return why_all(before, **found)

    assert why() == ""
    assert why(None)
    assert why(epoch=4)
    assert why(version=6)
    assert why(anew=True)
    assert why(now_us=BEFORE.full_pass_us + FULL_PASS_EVERY_US)
    assert why(now_us=BEFORE.full_pass_us - 1)  # the clock was set back
    assert why(rows_left_with=12)


def places(*events: tuple[int, int, int]) -> Places:
    """Events as (time in hours, file, offset)."""
    hours, files, offsets = (np.array(values) for values in zip(*events, strict=True))
    return Places(
        np.arange(len(events), dtype=np.uint64),
        hours.astype(np.int64) * HOUR_US,
        np.arange(len(events), dtype=np.uint64),
        offsets.astype(np.int64),
        files.astype(np.uint32),
        np.ones(len(events), np.uint32),
    )


WINDOW = Selection(950 * HOUR_US, 900 * HOUR_US, None, {1: 100}, frozenset({1, 2}), frozenset({2}), NOW)


def test_candidates_are_later_than_the_last_run_or_lie_behind_its_positions() -> None:
    events = places(
        (899, 1, 99), (899, 1, 100), (899, 2, 0), (900, 1, 0), (949, 1, 0), (950, 1, 0), (910, 3, 0)
    )
    assert WINDOW.among(events).tolist() == [False, True, True, True, True, False, False]
    assert replace(WINDOW, from_us=None).among(events).tolist() == [*[True] * 5, False, False]
    assert replace(WINDOW, since_us=900 * HOUR_US).among(events)[:4].tolist() == [False, False, False, True]


def test_a_time_far_ahead_is_due_once_its_file_has_been_quiet() -> None:
    assert WINDOW.among(places((2_000, 1, 0), (2_000, 2, 0), (960, 2, 0))).tolist() == [False, True, False]


def test_a_run_comes_no_further_than_it_can_look_at_and_at_least_one_hour() -> None:
    hours = {5: 10, 7: 10, 8: 10, 30: 1}
    assert capped(hours, None, 9 * HOUR_US, 100) == 9 * HOUR_US
    assert capped(hours, None, 9 * HOUR_US, 20) == 8 * HOUR_US
    assert capped(hours, None, 9 * HOUR_US, 1) == 7 * HOUR_US
    assert capped(hours, 8 * HOUR_US, 9 * HOUR_US, 10) == 9 * HOUR_US  # what is before is looked at anyway


def test_the_time_that_is_decided_goes_back_only_with_the_epoch_or_the_rows_that_matched() -> None:
    assert up_to(1, BEFORE, 3, have_left=False) == BEFORE.up_to_us
    assert up_to(1, BEFORE, 4, have_left=False) == up_to(1, BEFORE, 3, have_left=True) == 1
    assert up_to(NOW, BEFORE, 3, have_left=False) == up_to(NOW, None, 3, have_left=False) == NOW


def tracked(number: int, offset: int, state: Any = "open") -> TrackedFile:
    file = LogFile(number, "primary", f"{number}.csv", number, False, b"", 0, 1, b"h")
    return TrackedFile(file, offset, b"", False, offset, 0, None, state)


def test_positions_are_not_beyond_what_is_indexed_and_readable() -> None:
    files = {1: tracked(1, 100), 2: tracked(2, 50), 3: tracked(3, 70, "gone"), 4: tracked(4, 9)}
    under_way = [ByteRange(1, 40, 60, 0, 1), ByteRange(1, 60, 100, 0, 1), ByteRange(9, 0, 1, 0, 1)]
    assert positions_of(files, under_way, {4}) == {1: 40, 2: 50}


def test_what_had_come_was_looked_at_as_of_the_owner_s_last_word_but_for_files_that_are_behind() -> None:
    sight = replace(SIGHT, said=replace(SAID, said_us=EARLIER))
    files = {1: replace(tracked(1, 100), grown_us=5), 2: replace(tracked(2, 50), grown_us=9)}
    assert read_as_of(sight, files, {1: 100, 2: 50}) == EARLIER
    assert read_as_of(sight, files, {1: 100, 2: 40}) == 9
    assert read_as_of(sight, files, {}) == 5
    assert read_as_of(sight, {1: replace(files[1], state="gone")}, {}) == EARLIER
    final = replace(sight, said=replace(SAID, said_us=EARLIER, is_final=True))
    assert read_as_of(final, files, {1: 100, 2: 50}) == NOW  # no more comes


def test_a_run_has_a_number_that_no_release_has_of_its_epoch() -> None:
    said = released(parts={"east": replace(PART, side_batches={"unmatched": 8})})
    assert next_run(5, 3, said, "east") == 9  # the lake was put back
    assert next_run(8, 3, said, "east") == 9
    assert next_run(0, 4, said, "east") == 1
    assert next_run(2, 3, RELEASE, "west") == 3
