"""`photon trace` of an event whose rows break a promise: it says so, and what it advises helps."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import write_deltalake

from photon.cli.trace import trace_text
from photon.process.readable import typed
from photon.storage.tables import OutputTable
from photon.verification.report import Example, Finding
from tests.simulation.rebuilding import rebuild
from tests.simulation.recovery_stories import a_row_is_removed
from tests.simulation.verifying import recover_all
from tests.simulation.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Both datacenters have the record of c1; west has joined it."""
    made = World(tmp_path, ("east", "west"))
    made.everywhere("c1")
    made.join("west")
    return made


def table(world: World, datacenter: str) -> OutputTable:
    return world.table(datacenter)


def id_is_free(world: World) -> None:
    world.free("c1")


def plan_is_altered(world: World) -> None:
    table(world, "west").load().update({"_plan": "'forged'"})


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (id_is_free, "nobody has registered the id of its row"),
        (plan_is_altered, "#forged, and"),
    ],
)
def test_a_row_that_the_registry_does_not_know_is_a_violation_until_it_is_joined_again(
    world: World, plant, said: str
) -> None:
    assert world.trace("c1").what_to_do == ""
    plant(world)
    found = world.trace("c1")
    assert found.verdict.startswith("A violation: ")
    assert said in found.verdict
    (row,) = found.datacenters["west"].rows
    assert found.what_to_do.startswith(f"Keep a copy of {row['file']} for analysis.")
    assert f"photon recover {world.pipeline.file}" in found.what_to_do
    a_row_is_removed(world)
    recover_all(world)
    world.join("west")
    world.join("east")
    mended = world.trace("c1")
    assert mended.verdict.startswith("Joined by datacenter ")
    assert mended.what_to_do == ""


def test_doubled_rows_are_shown_with_their_files_and_go_by_the_command_that_verification_names(
    world: World,
) -> None:
    world.clicks(("c2", "q1"), datacenter="east")
    world.join("east")
    write_deltalake(
        table(world, "east").load(), table(world, "west").load().to_pyarrow_table(), mode="append"
    )
    found = world.trace("c1")
    assert found.verdict.startswith("A violation: joined 2 times, by datacenter east")
    shown = trace_text(found)
    for name in ("east", "west"):
        (row,) = found.datacenters[name].rows
        assert str(table(world, name).folder) in row["file"]
        assert f"file {row['file']}" in shown
        assert f"plan {row['_plan']}" in shown
    day = f"{row['_event_time']:%Y-%m-%d}"
    doubled = Finding("duplicate_rows", 1, (Example("c1", f"row of {day}, batch 1"),))
    for name in ("east", "west"):
        command = f"photon backfill {world.pipeline.file} -d {name} --day {day} --rebuild"
        assert command in typed(doubled.remedy, world.pipeline.file, name)
        assert command in found.what_to_do
        rebuild(world, name)
    mended = world.trace("c1")
    assert mended.verdict.startswith("Joined by datacenter west")
    assert mended.what_to_do == ""
