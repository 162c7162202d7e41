"""A datacenter that was retired with its lake: its rows stay, and count everywhere (E2, E8, A23, B19)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from photon.pipeline.file import load_pipeline
from photon.registry.errors import RegistryMismatch
from photon.registry.register import with_given_up
from photon.storage.tables import OutputTable
from photon.upkeep.refill import NotRefilled
from photon.upkeep.retire import plan_retire
from tests.simulation import hold_stories as stories
from tests.simulation.put_back_stories import Copied
from tests.simulation.recovery_stories import a_row_is_removed
from tests.simulation.verifying import recover_all
from tests.simulation.world import assert_counts

LINE = "  west: {logs: logs/west}\n"


@pytest.fixture
def world(tmp_path: Path) -> Copied:
    """West has joined c1 and c2, and is retired with its lake."""
    world = Copied(tmp_path, ["east", "west"], stories.HOME)
    world.everywhere("c1", "c2")
    world.join("west")
    world.join("east")
    plan_retire(world.pipeline, world.reader(), "west").apply()
    return world


def alter_file(world: Copied, before: str, after: str) -> None:
    file = world.pipeline.file
    file.write_text(file.read_text().replace(before, after))
    world.pipeline = load_pipeline(file)


def lake_of_west(world: Copied) -> Path:
    return world.folder / "lake" / "west"


def with_a_registry_that_lacks_x1(world: Copied) -> None:
    copy = world.ledgers.copy()
    world.events("x1", query="qx")
    world.join()
    world.ledgers.put_back(copy)
    world.forget()


# -- a refill


def test_a_refill_is_refused_while_the_file_lacks_a_datacenter_whose_rows_count(world: Copied) -> None:
    alter_file(world, LINE, "")
    with_a_registry_that_lacks_x1(world)
    incarnation = world.ledgers.register.incarnation
    with pytest.raises(NotRefilled, match=r"west was retired with its rows.*Put it back into the file"):
        world.refill()
    assert not world.ledgers.register.is_refilling
    assert world.ledgers.register.incarnation == incarnation
    alter_file(world, "datacenters:\n", f"datacenters:\n{LINE}")
    world.refill()
    world.clicks(("c1", "q1"), ("x1", "qx"))  # logged again
    world.join()
    assert world.joined_ids() == ["c1", "c2", "x1"]


def test_its_dry_run_is_refused_too(world: Copied) -> None:
    alter_file(world, LINE, "")
    with pytest.raises(NotRefilled, match="photon registry refill"):
        world.refill(dry_run=True)


def test_a_refill_goes_on_without_a_datacenter_whose_lake_is_lost_for_good(world: Copied) -> None:
    shutil.rmtree(lake_of_west(world))
    world.forget()
    alter_file(world, LINE, "")
    with_a_registry_that_lacks_x1(world)
    with pytest.raises(NotRefilled, match=r"photon retire .* west --lake-is-gone"):
        world.refill()
    plan_retire(world.pipeline, world.reader(), "west", True).apply()
    assert world.refill().put_back == 1
    world.clicks(("c1", "q1"), ("x1", "qx"))
    world.join()
    assert world.joined_ids() == ["c1", "c2", "x1"]


# -- the newest rows of all tables


def test_a_registry_that_lacks_the_rows_of_a_retired_datacenter_is_refused(tmp_path: Path) -> None:
    world = Copied(tmp_path, ["east", "west"], stories.HOME)
    world.everywhere("c1")
    world.join("west")
    world.join("east")
    world.copy(["registry"])
    world.clicks(("d1", "q1"), datacenter="west")
    world.join("west")
    world.put_back(["registry"])
    world.lose_views()
    # A start of west itself would be refused; nobody sees one once west is retired.
    world.ledgers.change(lambda now: with_given_up(now, "west", False))
    world.forget()
    world.clicks(("d1", "q1"))
    with pytest.raises(RegistryMismatch, match="photon registry refill"):
        world.join("east")
    assert world.joined_ids() == ["c1", "d1"]


# -- orders for what it has joined


def a_row_is_missed(world: Copied) -> Callable[[], None]:
    """Order east to look at c1 again; return the function that puts west's lake back as it was."""
    lake, kept = lake_of_west(world), world.folder / "kept"
    shutil.copytree(lake, kept)
    a_row_is_removed(world)
    assert recover_all(world)["east"].ordered == 1

    def put_back() -> None:
        shutil.rmtree(lake, ignore_errors=True)
        shutil.copytree(kept, lake)
        world.forget()

    return put_back


def test_a_row_that_is_back_before_its_order_is_taken_up_gets_no_second_one(world: Copied) -> None:
    put_back = a_row_is_missed(world)
    put_back()
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c2"]
    assert_counts(counts, joined=0, joined_elsewhere=2, pending=0)


@pytest.mark.parametrize("mode", ["until_idle", "complete"])
@pytest.mark.parametrize("is_back_with_row", [True, False])
def test_ordered_records_wait_while_the_table_cant_be_read_and_are_settled_once_it_can(
    world: Copied, mode: str, is_back_with_row: bool
) -> None:
    put_back = a_row_is_missed(world)
    aside = world.folder / "aside"
    lake_of_west(world).rename(aside)
    world.forget()
    counts = world.join(mode=mode).counts  # type: ignore[arg-type]
    assert_counts(counts, joined=0, joined_elsewhere=1, pending=1)
    assert world.is_join("c1"), "what nobody has looked at is freed"
    if is_back_with_row:
        put_back()
    else:
        aside.rename(lake_of_west(world))
        world.forget()
    world.clock.advance(60)
    counts = world.join().counts
    assert counts.of("pending") == 0
    assert counts.of("joined") == (0 if is_back_with_row else 1)
    assert world.joined_ids() == ["c1", "c2"]


def test_of_several_ordered_events_those_alone_are_freed_that_have_no_row(world: Copied) -> None:
    a_row_is_missed(world)
    table = OutputTable(lake_of_west(world), "joined_events")
    version = table.load().version()
    table.load().delete("_event_id = 'c2'")
    assert recover_all(world)["east"].ordered == 1, "c1 is ordered already, and waits"
    table.load().restore(version)
    world.forget()
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c2"]
    assert (counts.of("joined"), counts.of("joined_elsewhere"), counts.adds_up) == (1, 1, True)


def test_records_wait_while_the_file_lacks_the_datacenter_that_joined_them(world: Copied) -> None:
    a_row_is_missed(world)
    alter_file(world, LINE, "")
    assert world.join().counts.of("pending") == 1
    assert world.is_join("c1")
    alter_file(world, "datacenters:\n", f"datacenters:\n{LINE}")
    world.clock.advance(60)
    assert world.join().counts.of("pending") == 0
    assert world.joined_ids() == ["c1", "c2"]
