"""A shift stores reports while it runs, on a real state; a stand-in replaces Dagster's context."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetMaterialization

from assets.shift_reports import Reporter
from photon.dispatcher.retrying import BatchReport
from photon.process.clock import in_utc
from photon.process.quantiles import Sample
from photon.state.database import STATE_FILE
from resources.environment import ServedPipeline
from tests.simulation.world import World

MINUTE_SECONDS = 60


class Context:
    """Keeps the events that are stored, or fails like a storage that is full."""

    partition_key = "east"

    def __init__(self, full: bool = False) -> None:
        self.full = full
        self.stored: list[Any] = []
        self.log = self

    def log_event(self, event: Any) -> None:
        if self.full:
            raise OSError("database or disk is full")
        self.stored.append(event)

    def warning(self, text: str, *values: object) -> None:
        self.log_event(text % values)

    info = warning

    @property
    def said(self) -> list[str]:
        return [event for event in self.stored if isinstance(event, str)]

    @property
    def materializations(self) -> list[AssetMaterialization]:
        """Return the materializations of the joined events."""
        return self.of("joined_events")

    def of(self, table: str) -> list[AssetMaterialization]:
        events = [event for event in self.stored if isinstance(event, AssetMaterialization)]
        return [event for event in events if event.asset_key.path[-1] == table]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"), ("c2", "q2"))
    world.join()
    return world


def reporter(world: World, context: Context) -> Reporter:
    served = ServedPipeline(world.pipeline, ("east",))
    return Reporter(context, served, world.pipeline, world.clock)  # type: ignore[arg-type]


def batch() -> BatchReport:
    return BatchReport(1, Counter(joined=2), 0.0, Sample.of([0.5, 1.5]))


def minutes(world: World, of: Reporter, count: int) -> None:
    """Report a batch each minute, so many times."""
    of.on_batch(batch())
    for _ in range(count):
        world.clock.advance(MINUTE_SECONDS)
        of.on_batch(batch())


def test_a_shift_is_materialized_once_a_minute_however_many_batches_it_has(world: World) -> None:
    context = Context()
    shift = reporter(world, context)
    for _ in range(2 * MINUTE_SECONDS):
        shift.on_batch(batch())
        world.clock.advance(1)
    (materialization,) = context.materializations
    assert f"in {MINUTE_SECONDS + 1} batches" in str(materialization.metadata["says"].value)
    assert materialization.metadata["east_joined"].value == 2


def test_the_second_report_and_each_fifth_after_it_have_a_picture(world: World) -> None:
    context = Context()
    minutes(world, reporter(world, context), 12)
    pictured = [
        number for number, event in enumerate(context.materializations, 1) if "latency" in event.metadata
    ]
    assert pictured == [2, 7, 12]


def test_logs_are_observed_with_the_first_report_and_then_only_where_they_change(world: World) -> None:
    context = Context()
    minutes(world, reporter(world, context), 12)
    assert len(context.stored) - len(context.materializations) == 2


def test_a_report_with_a_picture_says_what_the_table_has(world: World) -> None:
    context = Context()
    minutes(world, reporter(world, context), 2)
    metadata = context.materializations[1].metadata
    assert metadata["dagster/partition_row_count"].value == 2
    columns = {c.name: c.description for c in metadata["dagster/column_schema"].value.columns}  # type: ignore[union-attr]
    assert {"_event_id", "primary_text"} <= columns.keys(), "Photon's columns and those of the logs"
    assert columns["primary_text"] == "text of the primary event."
    assert all(columns.values())
    assert str(metadata["dagster/uri"].value).endswith("/joined_events")


def test_a_side_table_is_told_when_it_has_more(world: World) -> None:
    world.log("east", "clicks", "no event\n")
    world.join()
    context = Context()
    minutes(world, reporter(world, context), 12)
    (told,) = context.of("dead_letters")
    assert told.metadata["east_records"].value == 1
    assert told.metadata["dagster/row_count"].value == 1
    assert context.of("unjoined") == []


def test_a_registry_that_stands_still_is_told_when_it_begins_and_when_it_ends(world: World) -> None:
    context = Context()
    shift = reporter(world, context)
    shift.on_wait("registry: no endpoint answers")
    began = in_utc(world.clock.now_us(), "seconds")
    world.clock.advance(34)
    shift.on_resume("registry: no endpoint answers", 34.0)
    assert context.said == [
        "waits: registry: no endpoint answers",
        f"goes on: since {began}, for 34 s, it has waited: registry: no endpoint answers",
    ]


def test_a_storage_that_is_full_ends_no_shift(world: World, caplog: pytest.LogCaptureFixture) -> None:
    shift = reporter(world, Context(full=True))
    with caplog.at_level(logging.ERROR):
        minutes(world, shift, 2)
        shift.on_wait("the registry")
    assert caplog.text.count("a report of its shift could not be stored") == 3


def test_a_state_that_cannot_be_read_is_not_reported_as_empty(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    context = Context()
    (world.pipeline.datacenters["east"].state / STATE_FILE).write_bytes(b"no database" * 1_000)
    with caplog.at_level(logging.ERROR):
        minutes(world, reporter(world, context), 1)
    assert context.materializations == []
    assert "could not be stored" in caplog.text
