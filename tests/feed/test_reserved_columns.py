"""A log whose columns have Photon's own names: each reader has Photon's value and the log's, side by side."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from photon import read
from photon.adapters import RESERVED_COLUMNS, foreign_name
from photon.feed.folder import FedFolder
from photon.feed.sink import Fed
from photon.feed.steps import snapshot
from photon.join.adapting import AdapterMisbehaved, check_names
from photon.releases.finding import find_release
from tests.feed.test_folder import files
from tests.simulation.rebuilding import rebuild, set_adapter
from tests.simulation.world import NOON_US, World

# Beside the reserved ones: those of the internals of before, and of a change feed that is exported.
NAMES = (*RESERVED_COLUMNS, "_photon_anything", "_event_date_file", "file", "row", "_mended", "_file", "_id")
LOUD = """
from photon.adapters import Adapter, merge
import pyarrow.compute as pc

class Loud(Adapter):
    def combine(self, foreign, primary):
        return merge(foreign, primary.set_column(
            primary.column_names.index("text"), "text", pc.utf8_upper(primary["text"])))

adapter = Loud()
"""


@pytest.fixture(params=[str, str.upper])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Two clicks; each column of theirs has its own name as its value."""
    world = World(tmp_path, ("east",))
    world.queries("q0", "q1")
    more = {request.param(name): f"of the log: {name}" for name in NAMES}
    for number in range(2):
        click = {"click": f"c{number}", "query": f"q{number}", "at": NOON_US}
        world.log("east", "clicks", click | more)
        world.join()
    return world


def expect_all_values(row: dict[str, Any]) -> None:
    there = {name.lower(): value for name, value in row.items()}
    for name in NAMES:
        assert there[foreign_name(name)] == f"of the log: {name}"
    assert row["_event_id"] in ("c0", "c1")


def test_the_feed_tells_its_own_change_and_release_beside_the_logs(world: World) -> None:
    before, last = (release.number for release in read.releases(world.pipeline)[-2:])
    steps = read.changes(world.pipeline, after=before).to_table().to_pylist()
    assert [(row["_release"], row["_change_type"], row["_event_id"]) for row in steps] == [
        (last, "insert", "c1")
    ]
    expect_all_values(steps[0])


def test_a_fed_folder_has_both_in_its_lines(world: World, tmp_path: Path) -> None:
    release = find_release(world.pipeline)
    with closing(FedFolder(tmp_path / "fed", Fed(world.pipeline.file, world.pipeline.name))) as sink:
        sink.deliver([snapshot(world.pipeline, release)])
    rows = [json.loads(line) for name in files(tmp_path / "fed").values() for line in name.splitlines()]
    assert [(row["_release"], row["_change_type"]) for row in rows] == [(release.number, "insert")] * 2
    for row in rows:
        expect_all_values(row)


def test_sql_has_both_and_the_day_of_the_event(world: World) -> None:
    found = read.duckdb(world.pipeline).sql("FROM joined ORDER BY _event_id").to_arrow_table().to_pylist()
    assert [row["_event_id"] for row in found] == ["c0", "c1"]
    for row in found:
        expect_all_values(row)
        assert row["_event_date"] == row["_event_time"].date()


def test_a_rebuild_makes_such_rows_again(world: World) -> None:
    assert rebuild(world).tally.same == 2
    set_adapter(world, "loud_for_reserved_names", LOUD)
    assert rebuild(world).tally.replaced == 2
    for row in world.rows():
        expect_all_values(row)
        assert row["primary_text"].isupper()


@pytest.mark.parametrize("name", [*RESERVED_COLUMNS, "_Change_Type", "_photon_x"])
def test_an_adapter_that_returns_such_a_column_is_told(name: str) -> None:
    with pytest.raises(AdapterMisbehaved, match="is Photon's own; rename it"):
        check_names([name])
