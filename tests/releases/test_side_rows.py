"""A release counts the rows of side tables too: nobody takes one away unnoticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from photon import read
from photon.feed.comparing import why_stopped
from photon.releases import copies
from photon.releases.finding import ReleaseUnreadable
from photon.releases.parts import LakeCounter
from photon.releases.release import Part, Release
from photon.storage.delta import open_table
from tests.releases.lakes import Lakes, new_lakes


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    """Two lakes; the one of east has three events that were given up."""
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    lakes.give_up("east", ["e7", "e8", "e9"])
    lakes.append("east")
    lakes.append("west")
    return lakes


def counted(lakes: Lakes, before: Part | None = None) -> tuple[Part, list[str]]:
    found = LakeCounter("east", lakes.lake("east")).count(before, lakes.last["east"])
    return found.part, [str(note) for note in found.notes]


def released(lakes: Lakes) -> Release:
    """Make a release that says of east what its counter says."""
    made = lakes.release().release
    release = replace(made, number=made.number + 1, parts={**made.parts, "east": counted(lakes)[0]})
    for name in ("east", "west"):
        copies.put(lakes.lake(name), [release])
    return release


def delete(lakes: Lakes, event: str) -> None:
    open_table(lakes.lake("east") / "unjoined").delete(f"event_id = '{event}'")


def test_a_part_says_how_many_side_rows_it_has(here: Lakes) -> None:
    assert counted(here)[0].side_rows["unjoined"] == 3


def test_rows_of_a_batch_that_is_not_closed_do_not_count(here: Lakes) -> None:
    here.give_up("east", ["e10"])
    assert counted(here)[0].side_rows["unjoined"] == 3


def test_side_rows_that_somebody_deleted_are_named_by_the_next_release(here: Lakes) -> None:
    before, _ = counted(here)
    delete(here, "e8")
    part, (note,) = counted(here, before)
    assert part.side_rows["unjoined"] == 2
    assert note.startswith("side rows changed by others (east): 3 rows of ")
    assert "are 2 now (others made DELETE" in note


def test_a_counter_that_has_counted_before_sees_them_too(here: Lakes) -> None:
    counter = LakeCounter("east", here.lake("east"))
    before = counter.count(None, here.last["east"]).part
    assert counter.count(before, here.last["east"]).notes == ()
    delete(here, "e8")
    assert len(counter.count(before, here.last["east"]).notes) == 1


def test_a_release_whose_side_rows_were_deleted_can_not_be_read(here: Lakes) -> None:
    release = released(here)
    assert read.unjoined(here.pipeline, release=release.number).count_rows() == 3
    delete(here, "e8")
    with pytest.raises(ReleaseUnreadable, match=r"has 2 rows up to .*, and must have 3 .*others made DELETE"):
        read.unjoined(here.pipeline, release=release.number)
    assert read.joined(here.pipeline, release=release.number).count_rows() == 4


def test_a_release_of_an_earlier_version_says_nothing_of_side_rows(here: Lakes) -> None:
    number = here.release().release.number
    delete(here, "e8")
    assert read.unjoined(here.pipeline, release=number).count_rows() == 2


def test_only_the_feed_of_a_side_table_stops_there(here: Lakes) -> None:
    before = released(here)
    delete(here, "e8")
    part = LakeCounter("east", here.lake("east")).count(before.parts["east"], here.last["east"])
    after = replace(
        before, number=before.number + 1, parts={**before.parts, "east": part.part}, notes=part.notes
    )
    assert why_stopped(before, after) == ""
    assert why_stopped(before, after, "unjoined").startswith("side rows changed by others (east)")
