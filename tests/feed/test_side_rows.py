"""Steps of given-up events: the view of a release and its step are the view of the next one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from photon import read
from photon.errors import WrongUsage
from photon.feed.step import FeedStopped, Step
from photon.feed.steps import snapshot, steps
from photon.process.clock import SystemClock
from photon.releases import copies
from photon.releases.finding import ReleaseUnreadable
from photon.releases.release import Release
from photon.storage.delta import open_table
from tests.releases.lakes import LATER, Lakes, new_lakes

Rows = dict[str, dict[str, Any]]  # by event


@pytest.fixture
def here(tmp_path: Path) -> Lakes:
    """Two datacenters, and a release without rows."""
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    lakes.release()
    return lakes


def batch(lakes: Lakes, name: str, *given_up: str, joined: int = 0) -> None:
    """A batch that gives up these events and joins so many others."""
    lakes.give_up(name, given_up)
    lakes.append(name, joined)


def view(lakes: Lakes, number: int) -> Rows:
    return {
        row["event_id"]: row for row in read.unjoined(lakes.pipeline, release=number).to_table().to_pylist()
    }


def replayed(lakes: Lakes, first: Release) -> dict[int, Rows]:
    """The rows that a follower has behind each step, who began with all rows of a release."""
    has, found = Rows(), dict[int, Rows]()
    following = steps(lakes.pipeline, first, SystemClock(), table="unjoined")
    for step in (snapshot(lakes.pipeline, first, "unjoined"), *following):
        apply(step, has)
        found[step.release.number] = dict(has)
    return found


def apply(step: Step, has: Rows) -> None:
    """Do what a step says: each row is there when it goes, and no row of its event when it comes."""
    counts = {"insert": 0, "delete": 0, "update_preimage": 0, "update_postimage": 0}
    for row in (row for page in step.pages() for row in page.to_pylist()):
        assert row.pop("_release") == step.release.number
        change, event = row.pop("_change_type"), row["event_id"]
        counts[change] += 1
        if change in ("delete", "update_preimage"):
            assert has.pop(event) == row
        else:
            assert event not in has
            has[event] = row
    assert (counts["insert"], counts["delete"]) == (step.inserts, step.deletes)
    assert counts["update_preimage"] == counts["update_postimage"] == step.updates


def changes(lakes: Lakes, after: int) -> list[tuple[int, str, str, str]]:
    found = read.changes(lakes.pipeline, after=after, table="unjoined").to_table()
    names = ("_release", "_change_type", "event_id", "_datacenter")
    return list(zip(*(found[name].to_pylist() for name in names), strict=True))


def test_an_event_is_shown_when_it_is_given_up_and_no_more_when_it_is_joined(here: Lakes) -> None:
    batch(here, "east", "e0", "lone")
    here.release()
    here.append("west", 1)  # joins e0
    here.release()
    assert changes(here, after=1) == [
        (2, "insert", "e0", "east"),
        (2, "insert", "lone", "east"),
        (3, "delete", "e0", "east"),
    ]


def test_a_second_datacenter_that_gives_up_an_event_changes_nothing_unless_its_row_comes_first(
    here: Lakes,
) -> None:
    batch(here, "west", "lone")
    here.release()
    batch(here, "east", "lone")  # the same time: datacenters go by name
    here.release()
    batch(here, "west", "lone")
    here.release()
    assert changes(here, after=1) == [
        (2, "insert", "lone", "west"),
        (3, "update_preimage", "lone", "west"),
        (3, "update_postimage", "lone", "east"),
    ]


def test_an_event_that_is_given_up_though_it_is_joined_is_never_shown(here: Lakes) -> None:
    here.append("east", 1)
    batch(here, "west", "e0")
    here.release()
    assert changes(here, after=1) == []


def test_an_event_whose_row_a_rebuild_takes_out_is_shown_again(here: Lakes) -> None:
    batch(here, "east", "e0")
    here.append("west", 1)
    here.release()
    here.rebuild("west", drops=True)
    here.release()
    assert changes(here, after=2) == [(3, "insert", "e0", "east")]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_a_view_and_its_changes_are_the_view_of_each_release(
    tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    lakes = new_lakes(tmp_path / "lakes", tmp_path, seed)
    lakes.release()
    for _ in range(16):
        name = rng.choice(("east", "west"))
        near = [f"e{max(0, lakes.events + rng.randint(-6, 6))}" for _ in range(rng.randint(0, 3))]
        happens = {
            "batch": lambda name=name, near=near: batch(lakes, name, *set(near), joined=rng.randint(0, 3)),
            "release": lambda: lakes.release(lags=rng.randint(0, 1)),
            "rebuild": lambda name=name: lakes.rebuild(name, drops=rng.random() < 0.5),
            "compaction": lambda name=name: lakes.compact(name, later=LATER),
            "epoch": lambda name=name: lakes.begin_epoch(name),
        }
        happens[rng.choices(list(happens), weights=[6, 5, 1, 1, 1])[0]]()
    lakes.release()
    views = {made.release.number: view(lakes, made.release.number) for made in lakes.made}
    assert any(len(one) for one in views.values())
    for first in (lakes.made[0], lakes.made[len(lakes.made) // 2]):
        number = first.release.number
        assert replayed(lakes, first.release) == {n: one for n, one in views.items() if n >= number}


def test_rows_that_somebody_deleted_make_their_release_unreadable(here: Lakes) -> None:
    batch(here, "east", "e0", joined=1)
    here.append("east", 1)
    here.release()
    open_table(here.table("east").folder).delete("_event_id = 'e0'")
    with pytest.raises(ReleaseUnreadable, match="must have 2"):
        changes(here, after=1)


def test_a_lake_that_is_gone_stops_the_steps(here: Lakes) -> None:
    before = here.made[0].release
    parts = {"east": before.parts["east"]}
    gone = Release(2, before.made_us, "east", parts, lakes_gone=("west",), elapsed_us=before.elapsed_us)
    copies.put(here.lake("east"), [gone])
    with pytest.raises(FeedStopped, match=r"the lake of datacenter west is gone.*--resync"):
        changes(here, after=1)


def test_another_table_than_these_two_has_no_changes(here: Lakes) -> None:
    with pytest.raises(WrongUsage, match="expected 'joined' or 'unjoined'"):
        read.changes(here.pipeline, after=1, table="dead_letters")  # type: ignore[arg-type]
