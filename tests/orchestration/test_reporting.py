"""A shift stores reports while it runs, on a real state; a stand-in replaces Dagster's context."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterInstance,
    FloatMetadataValue,
    IntMetadataValue,
)

from photon.assets.series import numbers_of_others
from photon.assets.shift_reports import Reporter
from photon.dispatcher.retrying import BatchReport
from photon.process.clock import SystemClock, in_utc
from photon.process.quantiles import Sample
from photon.resources.environment import ServedPipeline
from photon.state.database import STATE_FILE
from tests.simulation.world import World

MINUTE_SECONDS = 60


class Context:
    """Keeps the events that are stored, or fails like a storage that is full."""

    instance: DagsterInstance

    def __init__(self, datacenter: str = "east", full: bool = False) -> None:
        self.partition_key = datacenter
        self.full = full
        self.stored: list[Any] = []
        self.log = self

    def log_event(self, event: Any) -> None:
        if self.full:
            raise OSError("database or disk is full")
        self.stored.append(event)
        if not isinstance(event, str):
            self.instance.report_runless_asset_event(event)

    def warning(self, text: str, *values: object) -> None:
        self.log_event(text % values)

    info = warning

    @property
    def said(self) -> list[str]:
        return [event for event in self.stored if isinstance(event, str)]

    @property
    def reports(self) -> list[AssetMaterialization | AssetObservation]:
        """Return all reports on the joined events."""
        return [
            event for event in self.stored if not isinstance(event, str) and told_of(event, "joined_events")
        ]

    @property
    def materializations(self) -> list[AssetMaterialization]:
        """Return the complete ones."""
        return self.of("joined_events")

    def of(self, table: str) -> list[AssetMaterialization]:
        events = [event for event in self.stored if isinstance(event, AssetMaterialization)]
        return [event for event in events if told_of(event, table)]


def told_of(event: AssetMaterialization | AssetObservation, table: str) -> bool:
    return event.asset_key.path[-1] == table


@pytest.fixture(autouse=True)
def _storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Store the reports of shifts, so that those of other datacenters read them."""
    with DagsterInstance.ephemeral() as instance:
        monkeypatch.setattr(Context, "instance", instance, raising=False)
        yield


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"), ("c2", "q2"))
    world.join()
    return world


@pytest.fixture
def both(tmp_path: Path) -> World:
    """Two datacenters that have joined."""
    world = World(tmp_path, ("east", "west"))
    for name, number in (("east", 1), ("west", 2)):
        world.queries(f"q{number}", datacenter=name)
        world.clicks((f"c{number}", f"q{number}"), datacenter=name)
        world.join(name, "complete")
    return world


def reporter(world: World, context: Context) -> Reporter:
    served = ServedPipeline(world.pipeline, tuple(world.pipeline.datacenters))
    return Reporter(context, served, world.pipeline, world.clock)  # type: ignore[arg-type]


def batch() -> BatchReport:
    return BatchReport(1, Counter(joined=2), 0.0, Sample.of([0.5, 1.5]))


def minutes(world: World, of: Reporter, count: int) -> None:
    """Report a batch each minute, so many times."""
    of.on_batch(batch())
    for _ in range(count):
        world.clock.advance(MINUTE_SECONDS)
        of.on_batch(batch())


def test_a_shift_reports_once_a_minute_however_many_batches_it_has(world: World) -> None:
    context = Context()
    shift = reporter(world, context)
    for _ in range(2 * MINUTE_SECONDS):
        shift.on_batch(batch())
        world.clock.advance(1)
    (report,) = context.reports
    assert f"in {MINUTE_SECONDS + 1} batches" in str(report.metadata["says"].value)
    assert report.metadata["east_joined"].value == 2


def test_the_second_report_and_each_fifth_after_it_have_a_picture(world: World) -> None:
    context = Context()
    minutes(world, reporter(world, context), 12)
    pictured = [number for number, event in enumerate(context.reports, 1) if "shares" in event.metadata]
    assert pictured == [2, 7, 12]


def test_the_page_of_joined_events_has_their_columns_after_each_report(world: World) -> None:
    context = Context()
    minutes(world, reporter(world, context), 12)
    complete = [
        number for number, event in enumerate(context.reports, 1) if isinstance(event, AssetMaterialization)
    ]
    assert complete == [1, 2, 7, 12], "the page shows the latest materialization"
    assert all("dagster/column_schema" in event.metadata for event in context.materializations)


def numbers(event: AssetMaterialization | AssetObservation) -> dict[str, float]:
    """The numbers that Dagster plots."""
    plotted = (IntMetadataValue, FloatMetadataValue)
    found = {name: value.value for name, value in event.metadata.items() if isinstance(value, plotted)}
    return {name: value for name, value in found.items() if value is not None}


def test_every_report_has_the_numbers_of_both_datacenters_so_that_their_points_are_connected(
    both: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [Context("east"), Context("west")]
    shifts = [reporter(both, context) for context in contexts]
    # The storage has the time of the machine.
    monkeypatch.setattr("photon.assets.series.FRESH_SECONDS", float("inf"))
    for shift in shifts:
        shift.on_batch(batch())
    for _ in range(7):
        both.clock.advance(MINUTE_SECONDS)
        for shift in shifts:
            shift.on_batch(batch())
    first, *later = [event for pair in zip(*(one.reports for one in contexts), strict=True) for event in pair]
    (labels,) = {tuple(sorted(numbers(event))) for event in later[2:]}
    assert {"east_joined_per_second", "west_joined_per_second", "east_rows", "west_rows"} <= set(labels)
    assert {label for label in labels if label.startswith("west_")}.isdisjoint(numbers(first))
    counts = [event.metadata["dagster/row_count"].value for event in later]
    assert counts == [sum(numbers(event)[f"{name}_rows"] for name in ("east", "west")) for event in later]


def test_the_curves_of_a_datacenter_that_reports_nothing_end_and_its_rows_count_on(
    both: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes(both, reporter(both, Context("west")), 1)
    monkeypatch.setattr("photon.assets.series.FRESH_SECONDS", float("-inf"))
    context = Context("east")
    minutes(both, reporter(both, context), 1)
    (report,) = context.reports
    assert [label for label in numbers(report) if label.startswith("west_")] == ["west_rows"]


def test_a_number_belongs_to_the_datacenter_with_the_longest_name_that_it_begins_with() -> None:
    with DagsterInstance.ephemeral() as instance:
        key = AssetKey("logs")
        said = {"east_files": 1, "east_2_files": 2, "east_2_lag_seconds": 3.0}
        instance.report_runless_asset_event(AssetObservation(key, metadata=said))
        found = numbers_of_others(instance, key, ["east", "east_2"], "east_2", SystemClock().now_us())
    assert found == {"east_files": 1}


def test_a_complete_report_says_what_the_table_has(world: World) -> None:
    context = Context()
    minutes(world, reporter(world, context), 2)
    metadata = context.materializations[1].metadata
    assert metadata["east_rows"].value == 2
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


def test_each_report_of_a_side_table_says_how_many_records_all_datacenters_have(both: World) -> None:
    contexts = [Context("east"), Context("west")]
    for context in contexts:
        name = context.partition_key
        both.log(name, "clicks", "no event\n")
        both.join(name, "complete")
        minutes(both, reporter(both, context), 1)
    (told,) = contexts[1].of("dead_letters")
    assert {label: told.metadata[label].value for label in ("east_records", "west_records")} == {
        "east_records": 1,
        "west_records": 1,
    }


def test_a_lake_that_cannot_be_read_keeps_no_report_from_being_stored(world: World) -> None:
    context = Context()
    shift = reporter(world, context)
    minutes(world, shift, 1)
    for entry in (
        Path(str(world.pipeline.datacenters["east"].lake)) / "joined_events" / "_delta_log"
    ).iterdir():
        entry.write_text("no entry of a log")
    minutes(world, shift, 1)
    assert [report.metadata["east_rows"].value for report in context.reports] == [2, 2]


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
    assert context.reports == []
    assert "could not be stored" in caplog.text
