"""Plain releases: each step has the rows that its release shows first, in order, and adds up."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from photon import read
from photon.feed import comparing, new_rows, steps
from photon.feed.kept import following, is_next
from photon.feed.step import CursorTooOld, FeedStopped
from photon.process.errors import WrongUsage
from photon.releases import copies
from photon.releases.finding import NoRelease, ReleaseUnreadable
from photon.releases.release import Note, Release
from photon.storage.delta import open_table
from tests.feed.replay import changes, replayed
from tests.releases.lakes import LATER, Lakes, new_lakes
from tests.support.shares import seeds


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    """Two datacenters with a release after each batch; the first one has no row."""
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    lakes.release()
    return lakes.go_on("east", "west", "east")


def shown(lakes: Lakes) -> dict[int, Any]:
    return {made.release.number: made.joined for made in lakes.made}


# -- rows


def test_each_release_has_its_new_rows(here: Lakes) -> None:
    events = [(2, "e0"), (2, "e1"), (3, "e2"), (3, "e3"), (4, "e4"), (4, "e5")]
    assert changes(here, after=1) == [(number, "insert", event) for number, event in events]
    assert changes(here, after=2, up_to=3) == [(3, "insert", "e2"), (3, "insert", "e3")]
    assert changes(here, after=4) == []


def test_columns_are_the_feed_s_then_photon_s_then_the_others(here: Lakes) -> None:
    found = read.changes(here.pipeline, after=1).to_table().column_names
    assert found[:3] == ["_release", "_change_type", "_datacenter"]
    assert found[-1] == "value"
    assert "_event_date" not in found


def test_the_tenth_epoch_comes_behind_the_ninth_and_its_rows_are_in_order(here: Lakes) -> None:
    for _ in range(9):
        here.begin_epoch("east")
        here.append("east")
    here.release()
    assert replayed(here, here.made[0].release) == shown(here)


def test_offsets_are_numbers_in_the_order_of_rows(here: Lakes) -> None:
    here.append("west", 12)
    here.release()
    assert [event for _, _, event in changes(here, after=4)] == [f"e{number}" for number in range(6, 18)]


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_whatever_becomes_of_files_a_snapshot_and_its_changes_are_the_rows_of_each_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    page_rows = rng.choice((1, 5, 100_000))
    for module in (new_rows, comparing, steps):
        monkeypatch.setattr(module, "PAGE_ROWS", page_rows)
    lakes = new_lakes(tmp_path / "lakes", tmp_path, seed)
    lakes.release()
    for _ in range(16):
        name = rng.choice(("east", "west"))
        happens = {
            "batch": lambda name=name: lakes.append(name, rng.randint(0, 4)),
            "release": lambda: lakes.release(lags=rng.randint(0, 1)),
            "compaction": lambda name=name: lakes.compact(name, later=LATER),
            "epoch": lambda name=name: lakes.begin_epoch(name),
            "others": lambda name=name: open_table(lakes.table(name).folder).optimize.compact(),
        }
        happens[rng.choices(list(happens), weights=[6, 5, 2, 1, 1])[0]]()
    lakes.release()
    for made in (lakes.made[0], lakes.made[len(lakes.made) // 2]):
        expected = {number: rows for number, rows in shown(lakes).items() if number >= made.release.number}
        assert replayed(lakes, made.release) == expected


def test_a_lake_that_is_away_and_has_nothing_new_stops_nobody(here: Lakes) -> None:
    (Path(here.lake("west")) / "joined_events").rename(Path(here.lake("west")) / "away")
    assert changes(here, after=3) == [(4, "insert", "e4"), (4, "insert", "e5")]
    with pytest.raises(ReleaseUnreadable, match="datacenter west"):
        changes(here, after=2)


# -- counts (G1)


def test_rows_that_somebody_deleted_make_their_release_unreadable_and_not_those_before(here: Lakes) -> None:
    open_table(here.table("east").folder).delete("_event_id = 'e5'")
    pages = read.changes(here.pipeline, after=1).pages()
    assert [page["_event_id"].to_pylist() for page in (next(pages), next(pages))] == [
        ["e0", "e1"],
        ["e2", "e3"],
    ]
    with pytest.raises(
        ReleaseUnreadable, match=r"release 4 can't be read, .*must have 4 .others made DELETE"
    ):
        next(pages)


def test_rows_that_come_and_go_in_equal_number_are_no_step(here: Lakes) -> None:
    """Readers of the release see nothing, and the rows behind the last one are too few."""
    table = open_table(here.table("east").folder)
    rows = table.to_pyarrow_table(filters=[("_event_id", "=", "e0")])
    table.delete("_event_id = 'e5'")
    write_deltalake(table, rows, mode="append")
    with pytest.raises(
        FeedStopped, match=r"release 4 .* up to 3: of datacenter east it says 2 new rows, and 1"
    ):
        changes(here, after=3)


# -- which release comes next (G2)


def test_a_release_that_is_not_kept_any_more_is_told_with_the_remedy(here: Lakes) -> None:
    here.forget_before(3)
    with pytest.raises(CursorTooOld, match=r"release 1 is not kept .* is 3 .*photon follow .*--resync"):
        changes(here, after=1)
    with pytest.raises(NoRelease, match="no release number 9"):
        changes(here, after=9)


def test_only_the_next_release_has_to_be_kept(here: Lakes) -> None:
    second = here.made[1].release
    here.forget_before(3)
    found = read.changes(here.pipeline, after=second).to_table()
    assert found["_event_id"].to_pylist() == ["e2", "e3", "e4", "e5"]


def test_behind_one_that_was_removed_before_the_next_the_feed_does_not_go_on(here: Lakes) -> None:
    first = here.made[0].release
    here.forget_before(3)
    with pytest.raises(CursorTooOld, match="release 2 is not kept any more, the oldest behind it is 3"):
        following(here.pipeline, first, now_us=first.made_us + 10**12)


def test_a_copy_that_may_still_come_is_waited_for(here: Lakes) -> None:
    first = here.made[0].release
    here.forget_before(3)
    with pytest.raises(ReleaseUnreadable, match=r"release 2 can't be read, .*may be about to copy it: wait"):
        following(here.pipeline, first, now_us=first.made_us)


def test_a_release_that_only_one_lake_has_is_not_passed_over(here: Lakes) -> None:
    here.append("west")
    here.release(into=["west"])
    here.append("east")
    here.release(into=["east"])
    assert replayed(here, here.made[0].release) == shown(here)
    (Path(here.lake("west")) / copies.FOLDER / f"{5:012d}.json").write_text("{}")
    with pytest.raises(ReleaseUnreadable, match="release 5 can't be read, for the lake of datacenter west"):
        following(here.pipeline, here.made[3].release, now_us=0)


def test_a_release_of_another_pipeline_is_no_cursor(here: Lakes) -> None:
    release = here.made[0].release
    other = Release(release.number, release.made_us + 1, release.by, release.parts)
    with pytest.raises(FeedStopped, match="the cursor is of another release 1 than clicks has"):
        read.changes(here.pipeline, after=other).to_table()


@pytest.mark.parametrize(("number", "follows"), [(813, True), (814, False), (1812, False), (1911, False)])
def test_a_plain_release_follows_on_the_number_before_it(number: int, follows: bool) -> None:
    assert is_next(812, Release(number, 0, "east", {})) == follows


@pytest.mark.parametrize(("number", "follows"), [(1812, True), (1809, True), (1813, False)])
def test_a_refill_goes_on_a_thousand_above_what_it_knew(number: int, follows: bool) -> None:
    refilled = Release(number, 0, "east", {}, (Note("refilled", "east", "again"),))
    assert is_next(812, refilled) == follows


def test_a_refill_is_no_step_and_nothing_is_missed_behind_it(here: Lakes) -> None:
    lost = here.made[-1].release
    again = Release(
        1003, lost.made_us + 1, "east", here.made[2].release.parts, (Note("refilled", "east", "again"),)
    )
    copies.put(here.lake("east"), [again])
    here.made[-1].release = lost
    here.append("west")
    made = here.release(lags=0)
    number = again.number + 1
    behind = Release(number, again.made_us + 1, "east", made.release.parts)
    for name in ("east", "west"):
        shutil.rmtree(Path(here.lake(name)) / copies.FOLDER)
        copies.put(here.lake(name), [again])
        copies.put(here.lake(name), [behind])
    found = read.changes(here.pipeline, after=lost)
    assert [(row["_release"], row["_event_id"]) for row in found.to_table().to_pylist()] == [
        (number, "e6"),
        (number, "e7"),
    ]


def test_an_older_release_up_to_a_newer_one_is_wrong_usage(here: Lakes) -> None:
    with pytest.raises(WrongUsage, match="expected an older release before"):
        read.changes(here.pipeline, after=3, up_to=2)


@pytest.mark.parametrize(("after", "up_to"), [("1", "latest"), (True, "latest"), (1, "newest"), (1, "2")])
def test_a_text_is_no_number_of_a_release(here: Lakes, after: Any, up_to: Any) -> None:
    with pytest.raises(WrongUsage, match=r"expected (the|a) number"):
        read.changes(here.pipeline, after=after, up_to=up_to)
