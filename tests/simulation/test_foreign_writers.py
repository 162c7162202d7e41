"""Tables that another program has changed, by delta-rs's own delete: it writes text as string_view."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from photon import read
from photon.storage.joined_rows import CommittedRows, epochs_of_rows
from photon.storage.tables import OutputTable
from photon.storage.tokens import Occurrence
from tests.simulation.world import World


@pytest.fixture
def changed(world: World) -> World:
    """A world with clicks c0 to c8 joined in two epochs, of which c3 is deleted."""
    world.queries("q")
    for first, last in ((0, 5), (5, 9)):
        world.clicks(*((f"c{n}", "q") for n in range(first, last)))
        world.join()
        (world.state() / "dispatcher.sqlite").unlink()  # a new epoch
        world.forget()
    table = DeltaTable(str(lake_of(world) / "joined_events"))
    table.optimize.compact()
    assert table.delete("_event_id = 'c3'")["num_copied_rows"] == 8
    return world


def lake_of(world: World) -> Path:
    return world.pipeline.datacenters["east"].lake


def test_an_event_is_traced(changed: World):
    (here,) = changed.trace("c4").datacenters.values()
    assert len(here.rows) == 1


def test_rows_are_found_by_their_events_and_by_their_epochs(changed: World):
    table = OutputTable(lake_of(changed), "joined_events")
    rows = epochs_of_rows(table, ["c1", "c3", "c8"])
    assert rows.keys() == {"c1", "c8"}
    ((first,), (last,)) = rows.values()
    assert first != last
    written = table.load().to_pyarrow_dataset().to_table(columns=["_epoch", "_occurrence"]).to_pylist()
    places = [Occurrence.parse(row["_occurrence"]) for row in written]
    assert len(table.occurrences_of_epoch(first, places)) == 4
    assert table.occurrences_of_epoch(first, places[:0]) == []
    pages = CommittedRows(table).pages(last, range(10), 100)
    assert sum(page.num_rows for page in pages) == 4


def test_the_union_leaves_out_a_retired_datacenter(changed: World):
    assert read.joined(changed.pipeline, retired=()).to_table().num_rows == len(changed.rows())
    assert read.joined(changed.pipeline, retired=["east"]).to_table().num_rows == 0


def test_joining_goes_on(changed: World):
    changed.clicks(("c9", "q"), ("c3", "q"))
    changed.join()
    assert "c9" in changed.joined_ids()
