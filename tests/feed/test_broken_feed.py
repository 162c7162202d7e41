"""A rule of the feed that is left out is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.feed import kept, new_rows, steps
from photon.feed.step import FeedStopped
from photon.releases import copies
from photon.releases.files import condition_between
from photon.releases.reading import ReleaseUnreadable
from photon.releases.release import Place
from photon.storage.delta import open_table
from tests.feed.replay import changes
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
    monkeypatch.setattr(steps._NewRows, "_count", lambda *_: None)
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
