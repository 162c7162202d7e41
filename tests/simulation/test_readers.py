"""Readers get all rows that count and know up to where they are complete, or hear which table is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest

from photon import read
from photon.dispatcher.shift.people import Decisions
from photon.health.status import status_of
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS
from photon.process.faults import watched
from photon.read import joined, joined_tables, newest_watermark, watermark
from photon.registry.known_tables import known_tables
from photon.storage.delta import LakeMismatch, LakeUnavailable
from photon.storage.tables import OutputTable
from photon.upkeep.retire import plan_retire
from tests.simulation.reading import asking
from tests.simulation.world import NOON_US, World

SECOND = MICROSECONDS


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """East and west, of which each has joined some clicks."""
    made = World(tmp_path, ("east", "west"))
    for name in ("east", "west"):
        made.queries("q", datacenter=name)
    for number, name in enumerate(("east", "west", "east")):
        both_have(made, f"c{number}", NOON_US + number * SECOND)
        made.join(name)
    made.clock.sleep(10)
    made.join("east")
    made.join("west")
    assert made.joined_ids() == ["c0", "c1", "c2"]
    with asking(made):
        yield made


def both_have(world: World, click: str, at_us: int) -> None:
    for name in ("east", "west"):
        world.clicks((click, "q"), datacenter=name, at_us=at_us)


def lake(world: World, name: str = "west") -> Path:
    found = world.pipeline.datacenters[name].lake
    assert isinstance(found, Path)
    return found


def rename(world: World, new: str, same_lake: bool = False) -> None:
    """Call west by another name in the pipeline file."""
    file = world.pipeline.file
    place = f"{{logs: logs/west, lake: {lake(world)}}}" if same_lake else "{logs: logs/west}"
    text = file.read_text().replace("  west: {logs: logs/west}", f"  {new}: {place}")
    file.write_text(text)
    world.pipeline = load_pipeline(file)


def remove(world: World) -> None:
    shutil.rmtree(lake(world))


def remove_log(world: World) -> None:
    shutil.rmtree(lake(world) / "joined_events" / "_delta_log")


def make_again(world: World) -> None:
    """West's lake is gone, and somebody has made an empty table in its place."""
    remove(world)
    OutputTable(lake(world), "joined_events").create("searches", "west")


def make_empty(world: World) -> None:
    """An empty folder, as where nothing is mounted."""
    remove(world)
    lake(world).mkdir()


def swap(world: World) -> None:
    """West's lake lies in east's place too, as after a copy to the wrong place."""
    shutil.rmtree(lake(world, "east"))
    shutil.copytree(lake(world), lake(world, "east"))


# -- tables that are missing (E10)

MISSING: dict[str, tuple[Callable[[World], object], type[Exception], str]] = {
    "its folder was removed": (remove, LakeUnavailable, "datacenter west has joined"),
    "nothing is mounted": (make_empty, LakeUnavailable, "mount the lake"),
    "its log was removed": (remove_log, LakeUnavailable, "there is no table"),
    "it was made again": (make_again, LakeMismatch, "not the one that the registry knows of datacenter west"),
    "another one lies there": (swap, LakeMismatch, "not the one that the registry knows of datacenter east"),
}


@pytest.mark.parametrize("how", MISSING)
def test_a_table_that_the_registry_knows_and_that_is_missing_is_an_error_and_named_by_status(
    world: World, how: str
) -> None:
    lose, error, words = MISSING[how]
    lose(world)
    for ask in (joined, joined_tables):
        with pytest.raises(error, match=words):
            ask(world.pipeline)
    decisions = Decisions(tables=known_tables(world.reader().register))
    named, other = ("east", "west") if lose is swap else ("west", "east")
    (told,) = status_of(world.pipeline, named, world.clock, decisions).problems
    assert str(lake(world, named)) in told
    assert status_of(world.pipeline, other, world.clock, decisions).problems == []


def test_a_table_whose_datacenter_has_another_name_is_an_error(world: World) -> None:
    rename(world, "ouest")
    for ask in (joined, joined_tables):
        with pytest.raises(LakeMismatch, match="under its old name"):
            ask(world.pipeline)


def never_ran(world: World) -> None:
    file = world.pipeline.file
    file.write_text(file.read_text().replace("  west:", "  north: {logs: logs/north}\n  west:"))
    world.pipeline = load_pipeline(file)


def retire_with_rows(world: World) -> None:
    plan_retire(world.pipeline, world.reader(), "west").apply()


def retire_and_take_out(world: World) -> None:
    retire_with_rows(world)
    file = world.pipeline.file
    file.write_text(file.read_text().replace("  west: {logs: logs/west}\n", ""))
    world.pipeline = load_pipeline(file)


def retire_without_lake(world: World) -> None:
    kept = lake(world).with_name("aside")
    lake(world).rename(kept)
    plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).apply()


def retire_and_bring_back(world: World) -> None:
    retire_without_lake(world)
    lake(world).with_name("aside").rename(lake(world))


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (never_ran, 3),
        (retire_with_rows, 3),
        (retire_and_take_out, 2),
        (retire_without_lake, 2),
        (retire_and_bring_back, 2),
        (lambda world: rename(world, "ouest", same_lake=True), 3),
    ],
    ids=[
        "never ran",
        "retired with its rows",
        "retired and taken out of the file",
        "retired without its lake",
        "retired, and its lake is back",
        "renamed, with the lake that it had",
    ],
)
def test_no_table_is_missed_that_nobody_expects(
    world: World, change: Callable[[World], None], rows: int
) -> None:
    change(world)
    found = joined(world.pipeline)
    assert (found.count_rows(), found.unchecked) == (rows, "")
    assert sum(ds_of(path).count_rows() for path in joined_tables(world.pipeline).values()) == rows


def ds_of(table: str) -> ds.Dataset:
    from deltalake import DeltaTable

    return DeltaTable(table).to_pyarrow_dataset()


@pytest.fixture
def registry_is_away(world: World) -> World:
    world.ledgers.is_away = True
    return world


def test_without_the_registry_all_tables_are_read_and_what_is_not_known_is_said(
    registry_is_away: World,
) -> None:
    found = joined(registry_is_away.pipeline)
    assert found.count_rows() == 3
    assert "the registry does not answer" in found.unchecked
    assert found.filter(ds.field("_event_id") == "c1").unchecked == found.unchecked


@pytest.mark.parametrize(
    "lose", [lambda world: shutil.rmtree(lake(world)), never_ran], ids=["gone", "never ran"]
)
def test_without_the_registry_a_table_that_is_not_there_is_an_error(
    registry_is_away: World, lose: Callable[[World], None]
) -> None:
    lose(registry_is_away)
    with pytest.raises(LakeUnavailable, match="the registry does not answer"):
        joined(registry_is_away.pipeline)


# -- how complete these rows are


def at(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / MICROSECONDS, UTC)


def late_rows(world: World) -> None:
    """Another click comes, and is joined."""
    both_have(world, "later", NOON_US + 60 * SECOND)
    for name in ("east", "west"):
        world.join(name)


@pytest.fixture
def joined_between(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """While a reader goes from one thing to the next, another click is joined: once, between any two."""
    came: list[str] = []

    def come(point: str, path: Path | None) -> None:
        if point == "lake.after_load" and not came:
            came.append("after a table was opened")
            late_rows(world)

    with watched(come):
        yield came


def holds(world: World, rows: read.Rows, promised: datetime | None) -> bool:
    """Say whether each click of the logs up to a time has its row."""
    assert promised is not None
    wanted = {r["click"] for r in world.records("east", "clicks") if at(r["at"]) <= promised}
    return wanted <= set(rows.to_table(columns=["_event_id"])["_event_id"].to_pylist())


def test_what_comes_while_tables_are_opened_is_not_promised_of_these_rows(
    world: World, joined_between: list[str]
) -> None:
    rows = joined(world.pipeline)
    assert joined_between
    assert newest_watermark(world.pipeline).complete_up_to == at(NOON_US + 60 * SECOND)
    assert rows.complete_up_to == rows.watermark.complete_up_to == at(NOON_US + 2 * SECOND)
    assert holds(world, rows, rows.complete_up_to)
    assert not holds(world, rows, newest_watermark(world.pipeline).complete_up_to)


def test_what_is_said_after_tables_were_opened_is_not_in_their_rows(world: World) -> None:
    """The order of the two matters: a time read after the rows promises rows that they lack."""
    rows = joined(world.pipeline)
    late_rows(world)
    assert not holds(world, rows, newest_watermark(world.pipeline).complete_up_to)


def test_what_comes_after_it_was_said_how_complete_rows_are_is_in_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, came = read.published, list[str]()

    def then_comes(place: object) -> object:
        found = said(place)  # type: ignore[arg-type]
        if not came:
            came.append("between")
            late_rows(world)
        return found

    monkeypatch.setattr(read, "published", then_comes)
    rows = joined(world.pipeline)
    assert rows.count_rows() == 4
    assert holds(world, rows, rows.complete_up_to)


@pytest.mark.parametrize("order", ["rows first", "watermark first"])
def test_rows_and_watermark_of_one_process_agree_in_either_order(world: World, order: str) -> None:
    if order == "rows first":
        rows = joined(world.pipeline)
        late_rows(world)
        promised = watermark(world.pipeline).complete_up_to
    else:
        promised = watermark(world.pipeline).complete_up_to
        late_rows(world)
        rows = joined(world.pipeline)
    assert holds(world, rows, promised)


def test_rows_that_are_read_anew_have_a_newer_watermark(world: World) -> None:
    joined(world.pipeline)
    late_rows(world)
    rows = joined(world.pipeline)
    assert watermark(world.pipeline) == rows.watermark
    assert rows.complete_up_to == at(NOON_US + 60 * SECOND)


def test_a_document_that_cant_be_read_promises_nothing_and_hides_no_row(world: World) -> None:
    for name in ("east", "west"):
        (lake(world, name) / read.DOCUMENT).write_text("{")
    rows = joined(world.pipeline)
    assert (rows.count_rows(), rows.complete_up_to) == (3, None)
    with pytest.raises(LakeUnavailable):
        newest_watermark(world.pipeline)


def test_sql_reads_the_rows_as_they_are(world: World) -> None:
    rows = joined(world.pipeline)
    assert duckdb.sql("SELECT count(*), max(_event_id) FROM rows").fetchall() == [(3, "c2")]
    fewer = rows.filter(ds.field("_event_id") != "c2")
    assert duckdb.sql("SELECT count(*), max(_event_id) FROM fewer").fetchall() == [(2, "c1")]
    assert fewer.watermark == rows.watermark
