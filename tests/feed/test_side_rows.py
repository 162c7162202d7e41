"""Steps of the side tables' views: the view of a release and its step are the view of the next one."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from photon import read
from photon.feed.step import FedTable, FeedStopped, Step
from photon.feed.steps import snapshot, steps
from photon.process.clock import SystemClock
from photon.process.errors import WrongUsage
from photon.releases import copies
from photon.releases.finding import ReleaseUnreadable
from photon.releases.release import Release
from photon.state.unmatched import DOCUMENT
from photon.storage.delta import open_table
from tests.releases.lakes import LATER, Lakes, new_lakes
from tests.support.shares import seeds

Name = tuple[object, ...]
Rows = dict[Name, dict[str, Any]]
KEYS = {"unjoined": "event_id", "unmatched": "primary_id"}
VIEWS: dict[str, Callable[..., read.Rows]] = {"unjoined": read.unjoined, "unmatched": read.unmatched}


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


def named(row: dict[str, Any], table: FedTable) -> Name:
    return tuple(row[name] for name in (KEYS[table], "_datacenter", "_epoch", "_batch", "_occurrence"))


def view(lakes: Lakes, number: int, table: FedTable) -> Rows:
    found = VIEWS[table](lakes.pipeline, release=number).to_table().to_pylist()
    return {named(row, table): row for row in found}


def replayed(lakes: Lakes, first: Release, table: FedTable) -> dict[int, Rows]:
    """The rows that a follower has behind each step, who began with all rows of a release."""
    has, found = Rows(), dict[int, Rows]()
    following = steps(lakes.pipeline, first, SystemClock(), table=table)
    for step in (snapshot(lakes.pipeline, first, table), *following):
        apply(step, has, table)
        found[step.release.number] = dict(has)
    return found


def apply(step: Step, has: Rows, table: FedTable) -> None:
    """Do what a step says: each row is there when it goes; of an event another one is when it comes never."""
    counts = {"insert": 0, "delete": 0, "update_preimage": 0, "update_postimage": 0}
    for row in (row for page in step.pages() for row in page.to_pylist()):
        assert row.pop("_release") == step.release.number
        change = row.pop("_change_type")
        counts[change] += 1
        if change in ("delete", "update_preimage"):
            assert has.pop(named(row, table)) == row
        else:
            assert named(row, table) not in has
            has[named(row, table)] = row
    assert (counts["insert"], counts["delete"]) == (step.inserts, step.deletes)
    assert counts["update_preimage"] == counts["update_postimage"] == step.updates
    if table == "unjoined":
        assert len({event for event, *_ in has}) == len(has)


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


def test_a_primary_is_shown_when_a_run_wrote_it_and_no_more_when_a_row_names_it(here: Lakes) -> None:
    here.look_for_unmatched("east", ["q0", "q9"], timedelta(hours=1))
    here.append("east", 0)
    here.release()
    here.append("west", 1)  # joins e0 with q0
    here.release()
    here.look_for_unmatched("west", ["q8"], timedelta(hours=1))
    here.release()
    found = read.changes(here.pipeline, after=1, table="unmatched").to_table()
    names = ("_release", "_change_type", "primary_id")
    assert list(zip(*(found[name].to_pylist() for name in names), strict=True)) == [
        (2, "insert", "q0"),
        (2, "insert", "q9"),
        (3, "delete", "q0"),
        (4, "insert", "q8"),
    ]


@pytest.mark.parametrize("seed", seeds(2, 3))
def test_whatever_happens_a_view_and_its_changes_are_the_view_of_each_release(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    lakes = new_lakes(tmp_path / "lakes", tmp_path, seed)
    lakes.release()
    for hour in range(16):
        name = rng.choice(("east", "west"))
        near = {max(0, lakes.events + rng.randint(-6, 6)) for _ in range(rng.randint(0, 3))}
        events, primaries = [f"e{n}" for n in near], [f"q{n}" for n in near]
        happens: dict[str, Callable[[], object]] = {
            "batch": partial(batch, lakes, name, *events, joined=rng.randint(0, 3)),
            "run": partial(
                lakes.look_for_unmatched, name, primaries, timedelta(hours=hour), rng.random() < 0.2
            ),
            "release": partial(lakes.release, lags=rng.randint(0, 1)),
            "rebuild": partial(lakes.rebuild, name, drops=rng.random() < 0.5),
            "compaction": partial(lakes.compact, name, later=LATER),
            "epoch": partial(lakes.begin_epoch, name),
        }
        happens[rng.choices(list(happens), weights=[6, 4, 5, 1, 1, 1])[0]]()
    lakes.release()
    tables: tuple[FedTable, ...] = ("unjoined", "unmatched")
    for table in tables:
        views = {made.release.number: view(lakes, made.release.number, table) for made in lakes.made}
        assert any(views.values())
        for first in (lakes.made[0], lakes.made[len(lakes.made) // 2]):
            expected = {n: one for n, one in views.items() if n >= first.release.number}
            assert replayed(lakes, first.release, table) == expected


def test_of_a_run_with_many_rows_a_page_is_in_memory(here: Lakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("photon.feed.new_rows.PAGE_ROWS", 10)
    here.look_for_unmatched("east", [f"q{number}" for number in range(100, 145)], timedelta(hours=1))
    here.release()
    (step,) = steps(here.pipeline, here.made[0].release, SystemClock(), table="unmatched")
    assert step.inserts == 45
    assert max(page.num_rows for page in step.pages()) == 10


def test_rows_of_a_killed_run_come_with_the_epoch_that_ends_it(here: Lakes) -> None:
    here.look_for_unmatched("east", ["q8"], timedelta(hours=1))
    here.look_for_unmatched("east", ["q9"], timedelta(hours=1), is_killed=True)
    here.release()
    here.begin_epoch("east")
    here.release()
    found = read.changes(here.pipeline, after=1, table="unmatched").to_table()
    assert found["primary_id"].to_pylist() == ["q8", "q9"]
    assert found["_release"].to_pylist() == [2, 3]


def test_runs_that_were_put_back_stop_the_steps(here: Lakes) -> None:
    here.look_for_unmatched("east", ["q8"], timedelta(hours=1))
    document = Path(here.lake("east")) / DOCUMENT
    older = document.read_bytes()
    here.look_for_unmatched("east", ["q9"], timedelta(hours=1))
    here.release()
    document.write_bytes(older)
    here.release()
    with pytest.raises(FeedStopped, match=r"rows of the table unmatched of datacenter east have left"):
        read.changes(here.pipeline, after=2, table="unmatched").to_table()


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


def test_another_table_has_no_changes(here: Lakes) -> None:
    with pytest.raises(WrongUsage, match="expected one of joined, unjoined, unmatched"):
        read.changes(here.pipeline, after=1, table="dead_letters")  # type: ignore[arg-type]
