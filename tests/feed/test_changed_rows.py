"""Rebuilds, retirement and changes by others: what a step takes back, and where the feed stops."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from photon.adapters import ROW_COLUMNS
from photon.feed import comparing, new_rows, steps
from photon.feed.rebuilt_rows import changes_between
from photon.feed.step import FeedStopped
from photon.releases import copies
from photon.releases.finding import ReleaseUnreadable
from photon.releases.release import Note, Release
from photon.storage.delta import open_table
from tests.feed.replay import changes, replayed
from tests.feed.test_new_rows import shown
from tests.releases.lakes import LATER, Lakes, new_lakes
from tests.releases.test_histories import killed_rebuild


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    """Two datacenters with two rows each, in release 1."""
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    for name in ("east", "west"):
        lakes.append(name)
    lakes.release()
    return lakes


def without(lakes: Lakes, name: str, **said: object) -> Release:
    """Make a release in which a datacenter has no part, and put it into the other one's lake."""
    made = lakes.release(into=[])
    parts = {other: part for other, part in made.release.parts.items() if other != name}
    release = replace(made.release, parts=parts, **said)
    made.release = release
    made.joined = frozenset(
        (row.event, row.value) for other, rows in lakes.rows.items() for row in rows if other != name
    )
    for other in parts:
        copies.put(lakes.lake(other), [release])
    return release


# -- rebuilds


def test_a_row_that_was_made_again_is_given_as_it_was_and_as_it_is(here: Lakes) -> None:
    here.rebuild("east")
    here.append("east", 1)
    here.release()
    found = changes(here, after=1)
    assert ("update_preimage", "update_postimage") in {
        (before[1], after[1]) for before, after in pairwise(found) if before[2] == after[2]
    }
    assert found[-1] == (2, "insert", "e4")
    assert replayed(here, here.made[0].release) == shown(here)


@pytest.mark.parametrize("seed", range(2))
def test_through_rebuilds_and_compactions_a_snapshot_and_its_changes_are_each_kept_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    history(tmp_path, monkeypatch, seed, steps_of_it=14)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 60))
def test_more_histories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    history(tmp_path, monkeypatch, seed, steps_of_it=30)


def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, steps_of_it: int) -> None:
    rng = random.Random(seed)
    page_rows = rng.choice((1, 4, 100_000))
    for module in (new_rows, comparing, steps):
        monkeypatch.setattr(module, "PAGE_ROWS", page_rows)
    lakes = new_lakes(tmp_path / "lakes", tmp_path, seed)
    lakes.append("east")
    lakes.release()
    for _ in range(steps_of_it):
        name = rng.choice(("east", "west"))
        happens = {
            "batch": lambda name=name: lakes.append(name, rng.randint(0, 4)),
            "release": lambda: lakes.release(lags=rng.randint(0, 1)),
            "rebuild": lambda name=name: lakes.rebuild(name, drops=rng.random() < 0.4),
            "killed rebuild": lambda name=name: killed_rebuild(lakes, name),
            "compaction": lambda name=name: lakes.compact(name, later=rng.choice((LATER * 0, LATER))),
            "epoch": lambda name=name: lakes.begin_epoch(name),
        }
        happens[rng.choices(list(happens), weights=[6, 5, 3, 1, 3, 1])[0]]()
        if len(lakes.made) > 6:
            lakes.forget_before(lakes.made[-5].release.number)
    lakes.release()
    for made in (lakes.made[0], lakes.made[len(lakes.made) // 2]):
        expected = {number: rows for number, rows in shown(lakes).items() if number >= made.release.number}
        assert replayed(lakes, made.release) == expected


def rows_of(*values: float | None, first: int = 0) -> pa.Table:
    rows = [
        {"_epoch": "1", "_batch": 1, "_plan": "p", "_occurrence": f"1:{number}", "_event_id": f"e{number}"}
        | {"value": value}
        for number, value in enumerate(values, start=first)
    ]
    return pa.Table.from_pylist(rows, pa.schema([*ROW_COLUMNS, ("value", pa.float64())]))


def test_null_is_null_and_nan_is_nan(here: Lakes) -> None:
    nan = float("nan")
    found = changes_between(rows_of(None, nan, 1.0, None), rows_of(None, nan, 2.0, 3.0), 7)
    assert found["_event_id"].to_pylist() == ["e2", "e2", "e3", "e3"]
    assert found["_change_type"].to_pylist() == ["update_preimage", "update_postimage"] * 2


def test_a_row_that_took_another_occurrence_goes_and_comes(here: Lakes) -> None:
    found = changes_between(rows_of(1.0), rows_of(1.0, first=1), 7)
    assert found["_change_type"].to_pylist() == ["delete", "insert"]


# -- lakes that are gone


def test_a_datacenter_that_was_retired_without_its_lake_is_one_change(here: Lakes) -> None:
    here.append("west", 1)
    without(here, "east", lakes_gone=("east",), notes=(Note("retired", "east", "it was retired"),))
    shutil.rmtree(str(here.lake("east")))
    assert changes(here, after=1) == [(2, "delete", None), (2, "insert", "e4")]


def test_behind_a_lake_that_burnt_the_next_step_is_to_the_release_that_calls_it_gone(here: Lakes) -> None:
    here.append("east")
    here.append("west")
    here.release()
    without(here, "east", lakes_gone=("east",))
    shutil.rmtree(str(here.lake("east")))
    assert changes(here, after=1, up_to=3) == [(3, "delete", None), (3, "insert", "e6"), (3, "insert", "e7")]
    with pytest.raises(ReleaseUnreadable, match="release 2 can't be read, for the lake of datacenter east"):
        changes(here, after=1, up_to=2)


# -- what nobody can tell (G5)


@pytest.mark.parametrize("change", ["changed by others", "lake put back"])
def test_a_change_of_others_stops_the_feed_behind_what_can_be_given(here: Lakes, change: str) -> None:
    here.append("east", 1)
    here.release()
    here.append("west", 1)
    noted(here, Note(change, "east", "3 rows are 2 now"))  # type: ignore[arg-type]
    pages = steps.steps(here.pipeline, here.made[0].release, ForTests())
    assert next(pages).release.number == 2
    with pytest.raises(
        FeedStopped,
        match=rf"release 3 shows other rows than were delivered up to 2: {change} \(east\): 3 rows are 2 "
        r"now; which ones nobody can tell; photon follow .*pipeline.yaml --resync",
    ):
        next(pages)


def noted(lakes: Lakes, note: Note) -> None:
    made = lakes.release(into=[])
    made.release = replace(made.release, notes=(note,))
    for name in ("east", "west"):
        copies.put(lakes.lake(name), [made.release])


def test_rows_that_somebody_deleted_stop_the_feed_once_a_release_says_so(here: Lakes) -> None:
    here.append("east")
    here.release()
    open_table(here.table("east").folder).delete("_event_id = 'e5'")
    with pytest.raises(ReleaseUnreadable, match="release 2"):
        changes(here, after=1)
    noted(here, Note("changed by others", "east", "4 rows are 3 now"))
    with pytest.raises(FeedStopped, match=r"release 3 shows other rows .* up to 1: changed by others"):
        changes(here, after=1)


def test_a_datacenter_that_has_gone_without_a_word_stops_the_feed(here: Lakes) -> None:
    without(here, "east")
    with pytest.raises(FeedStopped, match="datacenter east has no rows in it"):
        changes(here, after=1)


@pytest.mark.parametrize("change", ["changed by others", "lake put back"])
def test_a_log_of_inserts_goes_on_behind_what_nobody_can_tell(here: Lakes, change: str) -> None:
    first = here.made[0].release
    open_table(here.table("east").folder).delete("_event_id = 'e0'")
    here.append("east", 1)
    noted(here, Note(change, "east", "2 rows are 1 now"))  # type: ignore[arg-type]
    here.append("west", 1)
    here.release()
    found = list(steps.steps(here.pipeline, first, ForTests(), inserts_only=True))
    assert [(one.release.number, one.inserts, one.is_insert_only) for one in found] == [
        (2, 1, True),
        (3, 1, True),
    ]
    assert [row["_event_id"] for one in found for page in one.pages() for row in page.to_pylist()] == [
        "e4",
        "e5",
    ]


def test_a_log_waits_until_a_lake_that_was_put_back_has_more_than_it_had(here: Lakes) -> None:
    here.append("east", 1)
    here.append("west", 1)
    last = here.release().release
    here.append("east", 1)
    made = here.release(into=[])
    parts = made.release.parts
    older = replace(parts["east"], place=here.made[0].release.parts["east"].place)
    behind = replace(
        made.release,
        parts={**parts, "east": older},
        notes=(Note("lake put back", "east", "it was put back"),),
    )
    again = replace(made.release, number=4, made_us=behind.made_us + 1)
    for name in ("east", "west"):
        copies.put(here.lake(name), [behind, again])
    found = list(steps.steps(here.pipeline, last, ForTests(), inserts_only=True))
    assert [(one.release.number, one.inserts) for one in found] == [(4, 1)]


def test_a_log_goes_on_behind_a_release_that_an_older_lake_has_lost(here: Lakes, tmp_path: Path) -> None:
    first, lake = here.made[0].release, Path(str(here.lake("east")))
    shutil.copytree(lake, tmp_path / "older")
    here.append("east", 1)
    last = here.release().release
    here.append("east", 1)
    here.release()
    shutil.rmtree(lake)
    shutil.copytree(tmp_path / "older", lake)
    made = here.release(into=[]).release
    older = replace(first.parts["east"], version=here.table("east").load().version())
    fewer = replace(
        made, parts={**made.parts, "east": older}, notes=(Note("lake put back", "east", "older"),)
    )
    copies.put(here.lake("west"), [fewer])
    with pytest.raises(ReleaseUnreadable, match="release 3"):
        next(steps.steps(here.pipeline, last, ForTests(), inserts_only=True))
    here.begin_epoch("east")
    here.append("east", 1)
    here.release()
    found = list(steps.steps(here.pipeline, last, ForTests(), inserts_only=True))
    assert [(one.release.number, one.inserts) for one in found] == [(5, 1)]


def test_a_log_of_inserts_goes_on_behind_releases_that_nobody_keeps_any_more(here: Lakes) -> None:
    first = here.made[0].release
    for _ in range(3):
        here.append("east", 1)
        here.release()
    here.forget_before(3)
    found = list(steps.steps(here.pipeline, first, ForTests(later_us=10**16), inserts_only=True))
    assert [(one.release.number, one.inserts) for one in found] == [(3, 2), (4, 1)]


@dataclass
class ForTests:
    """A clock that stands."""

    later_us: int = 0

    def now_us(self) -> int:
        return self.later_us
