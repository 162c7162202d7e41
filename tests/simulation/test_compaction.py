"""Joins, crashes, rebuilds, clearing and compaction take turns; no row is lost or doubled."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from photon.health import lakes
from photon.health.status import status_of
from photon.process.faults import COMPACTION_FAULT_POINTS, FAULT_POINTS
from photon.upkeep.compact import plan_compaction
from tests.simulation.world import World, assert_counts
from tests.support.crashes import at, dies_at
from tests.support.shares import a_share

Patch = pytest.MonkeyPatch
BATCHES = 4


def fit(world: World) -> int:
    """Compact all tables, and return how many commits that took."""
    done = plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply()
    return sum(each.commits for each in done.values())


def join_batches(world: World, first: int = 0, count: int = BATCHES) -> None:
    for number in range(first, first + count):
        world.queries(f"q{number}")
        world.clicks((f"c{number}", f"q{number}"), (f"twice{number}", f"q{number}"))
        world.clicks((f"twice{number}", f"q{number}"))
        world.join()


def expected(count: int) -> list[str]:
    return sorted(f"{name}{number}" for number in range(count) for name in ("c", "twice"))


# -- crashes


@pytest.mark.parametrize("point", a_share(FAULT_POINTS, 5, of=6))
def test_a_start_after_a_crash_reads_back_what_was_compacted_in_between(world: World, point: str) -> None:
    join_batches(world)
    world.events("c4", "twice4", "twice4", query="q4")
    world.join_with_a_crash(point)
    assert fit(world) > 0
    counts = world.join().counts
    assert world.joined_ids() == expected(BATCHES + 1)
    assert_counts(counts, joined=2 * BATCHES + 2, duplicates=BATCHES + 1)


@pytest.mark.parametrize("point", COMPACTION_FAULT_POINTS[:3])
def test_a_compaction_that_is_killed_is_run_again_and_joins_go_on(world: World, point: str) -> None:
    join_batches(world)
    with dies_at(point):
        fit(world)
    join_batches(world, BATCHES)
    fit(world)
    join_batches(world, 2 * BATCHES)
    assert world.joined_ids() == expected(3 * BATCHES)


# -- beside others


def test_a_batch_that_commits_while_files_are_rewritten_and_replaced_is_in_the_table(world: World) -> None:
    join_batches(world)
    world.events("c4", "twice4", query="q4")

    with at("compact.after_write", world.join):
        assert fit(world) > 0
    assert world.joined_ids() == expected(BATCHES + 1)


@pytest.mark.parametrize(
    "point", ["batch.after_run", "commit.before_main", "commit.after_main", "close.before"]
)
def test_a_compaction_in_the_middle_of_a_batch_changes_nothing(world: World, point: str) -> None:
    join_batches(world)
    world.events("c4", "twice4", query="q4")
    commits = list[int]()
    with at(point, lambda: commits.append(fit(world))):
        world.join()
    assert commits[0] > 0
    assert world.joined_ids() == expected(BATCHES + 1)


def test_an_epoch_that_others_fenced_is_compacted_to_its_end(world: World) -> None:
    join_batches(world)
    put_back = world.copy_state()
    join_batches(world, BATCHES, 1)
    put_back()
    join_batches(world, BATCHES + 1, 2)
    fit(world)
    assert world.joined_ids() == expected(BATCHES + 3)
    world.join(mode="complete")


# -- candidates of an open plan


def test_stored_rows_of_an_open_plan_outlast_a_vacuum(world: World) -> None:
    """A plan was left open right after it registered, and its log is gone: vacuum comes before the start."""
    join_batches(world)
    world.queries("q4")
    world.clicks(("c4", "q4"), ("twice4", "q4"), file="late.jsonl")
    assert world.join_with_a_crash("claim.after")
    (late,) = world.pipeline.datacenters["east"].logs.glob("clicks/late.*")
    late.unlink()
    then = time.time() - 8 * 86_400
    lake = world.pipeline.datacenters["east"].lake
    assert isinstance(lake, Path)
    for path in lake.glob("*/_event_date=*/*.parquet"):
        os.utime(path, (then, then))
    fit(world)
    world.join()
    assert world.joined_ids() == expected(BATCHES + 1)


# -- nobody compacts


def test_the_status_names_a_table_that_nobody_compacts(world: World, monkeypatch: Patch) -> None:
    join_batches(world)
    assert status_of(world.pipeline, "east", world.clock).problems == []
    monkeypatch.setattr(lakes, "MOST_COMMITS", BATCHES)
    (problem,) = status_of(world.pipeline, "east", world.clock).problems
    assert f"run photon compact {world.pipeline.file} -d east" in problem


def test_a_dry_run_says_what_would_be_rewritten_and_changes_nothing(world: World) -> None:
    join_batches(world)
    lake = world.table().folder.parent
    before = set(lake.rglob("*"))
    plan = plan_compaction(world.pipeline, "east", world.clock, least_files=2)
    would = plan.expected
    assert set(lake.rglob("*")) == before
    assert plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply() == would
    assert would["joined_events"].rows == 2 * (BATCHES - 1), "the last batch stays, its plan may be open"
