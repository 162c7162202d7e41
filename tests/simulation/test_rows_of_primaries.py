"""A row names its primary event, by id and time; tables that are older than these columns get them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from photon.read import joined
from photon.storage.output_files import write_rows
from photon.storage.tables import OutputTable, app_id
from tests.simulation.reading import asking
from tests.simulation.rebuilding import rebuild
from tests.simulation.test_rebuild import CLICKS, by_id, joined_world
from tests.simulation.world import NOON_US, World
from tests.support.crashes import crash_at
from tests.support.earlier_rows import EARLIER_COLUMNS, NEW, earlier_rows

EARLIER = ("c0", "c1")  # joined before there were the columns
NOON = datetime.fromtimestamp(NOON_US / 1e6, UTC)
MINUTE_US = 60_000_000
IS_FIRST = ds.field("_primary_time") < NOON + timedelta(minutes=1)


@pytest.fixture
def earlier(tmp_path: Path) -> World:
    """A table of an earlier version, with two rows."""
    world = World(tmp_path)
    world.queries("q0", "q1", "q2")
    with earlier_rows():
        world.clicks(*CLICKS[:2])
        world.join()
    assert not set(NEW) & set(world.table().schema().names)
    return world


def read(world: World, wanted: ds.Expression | None = None) -> dict[str, Any]:
    """The primary of each row, as readers get it."""
    with asking(world):
        rows = joined(world.pipeline).to_table(columns=["_event_id", *NEW], filter=wanted).to_pylist()
    return {row["_event_id"]: (row["_primary_id"], row["_primary_time"]) for row in rows}


def of(
    rows: dict[str, dict[str, Any]], columns: set[str], ids: Collection[str] = EARLIER
) -> list[dict[str, Any]]:
    """Some columns of some rows."""
    return [{name: rows[each][name] for name in columns} for each in sorted(ids)]


def test_each_row_has_the_id_and_the_time_of_its_primary(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.queries("q0", at_us=NOON_US - 7)
    world.queries("q1", at_us=NOON_US - 123_456_789)
    world.queries("q1", at_us=NOON_US)  # of two with one id the nearest counts
    world.clicks(("a", "q0"), ("b", "q1"), ("c", "q0"))
    world.join()
    of_q0 = ("q0", NOON - timedelta(microseconds=7))
    assert read(world) == {"a": of_q0, "b": ("q1", NOON), "c": of_q0}


def test_who_asks_for_a_primary_s_time_opens_the_files_that_may_have_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(3):
        world.queries(f"q{number}", at_us=NOON_US + number * MINUTE_US)
        world.clicks((f"c{number}", f"q{number}"))
        world.join()
    dataset = world.table().load().to_pyarrow_dataset()
    assert len(list(dataset.get_fragments())) == 3
    assert len(list(dataset.get_fragments(IS_FIRST))) == 1
    assert read(world, IS_FIRST).keys() == {"c0"}


# -- tables of an earlier version


def test_an_older_table_gets_the_columns_with_its_next_row_and_rows_that_were_there_read_null(
    earlier: World,
) -> None:
    earlier.clicks(*CLICKS[2:4])
    earlier.join()
    of_earlier = dict.fromkeys(EARLIER, (None, None))
    assert read(earlier) == {**of_earlier, "c2": ("q2", NOON), "c3": ("q0", NOON)}
    is_null = ds.field("_primary_time").is_null()
    assert read(earlier, is_null).keys() == set(EARLIER)
    assert read(earlier, ~is_null).keys() == {"c2", "c3"}
    assert read(earlier, IS_FIRST).keys() == {"c2", "c3"}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_rebuild_fills_them_in_rows_that_were_there(earlier: World, tmp_path: Path, is_first: bool) -> None:
    """`is_first`: the rebuild comes before the first row that has them."""
    if not is_first:
        earlier.clicks(*CLICKS[2:4])
        earlier.join()
    before = by_id(earlier)
    assert rebuild(earlier).tally.replaced == 2
    after = by_id(earlier)
    assert of(after, set(NEW), after) == of(by_id(joined_world(tmp_path / "new")), set(NEW), after)
    others = set(after["c0"]) - set(NEW)
    assert of(after, others) == of(before, others)
    again = rebuild(earlier)
    assert (again.tally.replaced, again.commits) == (0, 0)


def test_rows_that_a_run_of_an_earlier_version_stored_are_joined_without_them(earlier: World) -> None:
    earlier.clicks(*CLICKS[2:4])
    with earlier_rows(), crash_at("task.after_candidates") as crash:
        earlier.join()
    assert crash.has_happened
    earlier.forget()
    earlier.clicks(*CLICKS[4:5])
    earlier.join()
    assert read(earlier) == {**dict.fromkeys((*EARLIER, "c2", "c3"), (None, None)), "c4": ("q1", NOON)}


def test_stored_rows_without_the_columns_are_nulls_in_a_table_that_has_bounds(
    tmp_path: Path,
) -> None:
    table = OutputTable(tmp_path, "joined_events")
    table.create("clicks", "east")
    rows = pa.Table.from_pylist([{"_epoch": "1", "_batch": 1}], EARLIER_COLUMNS)
    table.commit([write_rows(tmp_path, "joined_events", 1, rows)], app_id("east", "1"), 1, 0)
    dataset = table.load().to_pyarrow_dataset()
    assert dataset.count_rows(filter=ds.field("_primary_time").is_null()) == 1
    assert not list(dataset.get_fragments(IS_FIRST))
