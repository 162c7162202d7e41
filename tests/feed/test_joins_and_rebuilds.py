"""The feed of a pipeline that joins: real batches, real rebuilds, and the releases that joins make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from photon import read
from photon.feed.step import FeedStopped
from photon.upkeep.compact import plan_compaction
from tests.releases.test_rebuilt import LOUD, joined_world, texts
from tests.simulation.rebuilding import rebuild, set_adapter
from tests.simulation.world import World


def changed(world: World, after: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read.changes(world.pipeline, after=after).to_table().to_pylist()
    return rows


def test_a_snapshot_and_its_changes_are_the_newest_release_through_a_rebuild_and_compactions(
    tmp_path: Path,
) -> None:
    world = joined_world(tmp_path)
    first = read.releases(world.pipeline)[0].number
    has = texts(world, first)
    plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply()
    set_adapter(world, "loud_for_the_feed", LOUD)
    rebuild(world)
    world.clicks(("late", "q0"))
    world.join()
    plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply()
    found = changed(world, first)
    for row in sorted(found, key=lambda row: row["_change_type"] in ("insert", "update_postimage")):
        if row["_change_type"] in ("delete", "update_preimage"):
            continue
        has[row["_event_id"]] = row["primary_text"]
    gone = {row["_event_id"] for row in found if row["_change_type"] == "delete"}
    assert gone == {"c3"}
    newest = read.releases(world.pipeline)[-1]
    assert {event: text for event, text in has.items() if event not in gone} == texts(world, newest.number)
    before = {
        row["_event_id"]: row["primary_text"] for row in found if row["_change_type"] == "update_preimage"
    }
    assert before["c4"] == "text of q1"


def test_a_row_that_somebody_deletes_stops_the_feed_at_the_release_that_says_so(tmp_path: Path) -> None:
    world = joined_world(tmp_path)
    last = read.releases(world.pipeline)[-1].number
    DeltaTable(str(world.table().folder)).delete("_event_id = 'c0'")
    world.clicks(("late", "q0"))
    world.join()
    with pytest.raises(FeedStopped, match=r"changed by others \(east\): .*DELETE"):
        changed(world, last)
