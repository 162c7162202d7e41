"""Verification finds the records that lack a row in the side table of their class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from photon.storage.columns import TableName
from photon.storage.tables import OutputTable
from photon.verification.report import Finding
from tests.simulation import picky_adapter
from tests.simulation.reading import asking
from tests.simulation.test_too_old import DAY_US, run_gc
from tests.simulation.world import NOON_US, World
from tests.spark.both_engines import verify_alone

KIND = "side_row_missing"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Records of each class that has a side table, and one that is joined."""
    made = World(tmp_path)
    made.queries("q0", at_us=NOON_US - 2 * DAY_US)
    made.clicks(("joined", "q0"), at_us=NOON_US - 2 * DAY_US)
    made.log("east", "clicks", "no record at all\n")
    made.log("east", "queries", "no record either\n")
    made.join()
    run_gc(made)
    made.clicks(("late", "q0"), at_us=NOON_US - 2 * DAY_US)
    made.clicks(("unjoined", "nobody"))
    made.join()
    made.clock.advance(2 * DAY_US / 1e6)
    made.queries("q2", at_us=NOON_US + 2 * DAY_US)
    made.join()
    made.clock.advance(DAY_US / 1e6)
    made.join()
    return made


def lacking(world: World, **options: Any) -> list[tuple[str, str]]:
    """The records without a row, and what lacks it."""
    with asking(world):
        report = verify_alone(world.pipeline, ["east"], **options).datacenters["east"]
    found: list[Finding] = [one for one in report.violations if one.kind == KIND]
    return [(each.event_id, each.detail) for one in found for each in one.examples]


def table(world: World, name: TableName) -> OutputTable:
    return OutputTable(world.pipeline.datacenters["east"].lake, name)


def test_where_each_record_has_its_row_nothing_is_found(world: World) -> None:
    assert [len(world.rows(name)) for name in ("unjoined", "dead_letters", "too_old")] == [1, 2, 1]
    assert lacking(world, keep=True) == lacking(world) == []


def test_a_duplicate_of_an_event_whose_row_went_lacks_none(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events("twice")
    world.clicks(("twice", "nobody"))
    world.join()
    table(world, "joined_events").load().delete("_event_id = 'twice'")
    world.free("twice")
    with asking(world):
        report = verify_alone(world.pipeline, ["east"]).datacenters["east"]
    assert [(one.kind, one.count) for one in report.violations] == [("missing", 1)]


def test_a_record_whose_primary_log_is_gone_may_have_been_filtered(tmp_path: Path) -> None:
    world = World(tmp_path, more=f"adapter: {picky_adapter.NAME}:join")
    world.queries("q1")
    world.log("east", "clicks", {"click": "c1", "query": "q1", "at": NOON_US, "asks": "drop"})
    world.join()
    assert not world.rows("unjoined")
    logs = world.pipeline.datacenters["east"].logs
    assert isinstance(logs, Path)
    (logs / "queries" / "a.jsonl").unlink()
    assert lacking(world) == []


@pytest.mark.parametrize(
    ("name", "which", "event"),
    [
        ("unjoined", "event_id = 'unjoined'", "unjoined"),
        ("too_old", "event_id = 'late'", "late"),
        ("dead_letters", "side = 'foreign'", "a dead letter"),
        ("dead_letters", "side = 'primary'", "a line of the primary log"),
    ],
)
def test_a_row_that_somebody_deleted_is_told_until_it_is_back(
    world: World, name: TableName, which: str, event: str
) -> None:
    lacking(world, keep=True)
    before = table(world, name).load().to_pyarrow_table()
    table(world, name).load().delete(which)
    told = [(event, f"no row of {name} is of it")]
    assert lacking(world, keep=True) == told
    assert lacking(world) == told  # it is not settled by that
    left = set(table(world, name).load().to_pyarrow_table()["_occurrence"].to_pylist())
    deleted = before.filter([place not in left for place in before["_occurrence"].to_pylist()])
    write_deltalake(table(world, name).load(), deleted, mode="append")
    assert lacking(world) == []
