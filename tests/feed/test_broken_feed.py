"""A rule of the feed that is left out is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from photon import read
from photon.feed import comparing, kept, new_rows, steps
from photon.feed.rebuilt_rows import LakeGone
from photon.feed.step import FEED_COLUMNS, FeedStopped
from photon.releases import copies
from photon.releases.files import condition_between
from photon.releases.finding import ReleaseUnreadable
from photon.releases.reading import OpenRelease
from photon.releases.release import Note, Place, Release
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.delta import open_table
from tests.feed.replay import changes, replayed
from tests.releases.lakes import Lakes, new_lakes


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    """Releases 1 to 4, of which the last three have a batch of east each."""
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    lakes.release()
    for _ in range(3):
        lakes.append("east")
        lakes.release()
    return lakes


def test_without_the_rule_a_step_lacks_rows_and_nobody_says_so(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps._Changed, "_check", lambda *_: None)
    open_table(here.table("east").folder).delete("_event_id = 'e5'")
    assert changes(here, after=3) == [(4, "insert", "e4")]


def test_a_range_that_begins_with_the_last_batch_before_is_noticed(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_rows, "shares_between", lambda files, *_: ((), tuple(files)))
    monkeypatch.setattr(
        new_rows,
        "condition_between",
        lambda after, up_to: condition_between(Place(after.epoch, after.batch - 1), up_to),
    )
    with pytest.raises(FeedStopped, match="says 2 new rows, and 4 are there"):
        changes(here, after=3)


def test_without_the_rule_a_release_is_passed_over(here: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("east", "west"):
        (Path(str(here.lake(name))) / copies.FOLDER / f"{2:012d}.json").unlink()
    with pytest.raises(ReleaseUnreadable, match="no lake has it, and there is 3"):
        changes(here, after=1)
    monkeypatch.setattr(kept, "is_next", lambda *_: True)
    assert {number for number, _, _ in changes(here, after=1)} == {3, 4}


def test_without_the_rule_a_change_of_others_is_passed_over(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody deletes a row that was delivered: the next release counts from there."""
    open_table(here.table("east").folder).delete("_event_id = 'e0'")
    here.append("east")
    made = here.release(into=[])
    release = replace(made.release, notes=(Note("changed by others", "east", "6 rows are 5 now"),))
    for name in ("east", "west"):
        copies.put(here.lake(name), [release])
    with pytest.raises(FeedStopped, match="changed by others"):
        changes(here, after=4)
    for module in (comparing, steps):
        monkeypatch.setattr(module, "why_stopped", lambda *_: "")
    monkeypatch.setattr(steps._Changed, "_check", lambda *_: None)
    assert changes(here, after=4) == [(5, "insert", "e6"), (5, "insert", "e7")]


def test_a_retirement_that_changes_nothing_is_noticed(here: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    made = here.release(into=[])
    west = {"west": made.release.parts["west"]}
    release = replace(made.release, parts=west, lakes_gone=("east",))
    copies.put(here.lake("west"), [release])
    monkeypatch.setattr(LakeGone, "changes", lambda _, columns, release: _no_change(columns))
    with pytest.raises(AssertionError):
        replayed(here, here.made[3].release)


def test_a_rebuild_that_is_not_undone_for_an_older_release_is_noticed(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.rebuild("east", drops=True)
    here.release()
    assert replayed(here, here.made[0].release)[4] == here.made[3].joined

    def of_today(self: OpenRelease, *asked: object) -> dict[str, DataFile]:
        return {file.path: file for file in DataFiles(here.table("east").load()).all()}

    monkeypatch.setattr(OpenRelease, "_before_rebuilds", of_today)
    with pytest.raises((FeedStopped, ReleaseUnreadable, AssertionError)):
        assert replayed(here, here.made[0].release)[4] == here.made[3].joined


def test_steps_by_versions_of_a_table_are_noticed(here: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction writes the rows of older batches into files of a later version."""
    here.compact("east")
    here.append("east")
    here.release()
    monkeypatch.setattr(new_rows, "shares_between", lambda files, *_: (tuple(files), ()))
    with pytest.raises(FeedStopped, match="says 2 new rows, and 8 are there"):
        changes(here, after=4)


def test_a_cursor_that_is_not_compared_goes_on_beside_another_pipeline_s_rows(
    here: Lakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    east = here.made[3].release.parts["east"]
    other = replace(here.made[3].release, parts={"east": replace(east, rows=east.rows + 7)})
    here.append("east")
    here.release()
    with pytest.raises(FeedStopped, match="the cursor is of another release 4"):
        read.changes(here.pipeline, after=other).to_table()
    monkeypatch.setattr(Release, "__eq__", lambda *_: True)
    monkeypatch.setattr(steps._Changed, "_check", lambda *_: None)
    assert read.changes(here.pipeline, after=other).to_table().num_rows == 2


def _no_change(columns: pa.Schema) -> pa.Table:
    return pa.schema([*FEED_COLUMNS, *columns]).empty_table()
