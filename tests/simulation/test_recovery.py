"""Recovery looks again at events that verification finds missing, and joins them (protocol E4, E7, E8)."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from photon.dispatcher.dispatcher import Mode
from photon.dispatcher.recovery.orders import FOLDER, OrderedRecord, waiting_orders, write_order
from photon.process.faults import FAULT_POINTS, ORDER_FAULT_POINTS
from photon.storage.tokens import Occurrence
from photon.upkeep.dead_letters.open_letters import plan_recovery_of_letters
from tests.simulation import failing_adapter
from tests.simulation import recovery_stories as stories
from tests.simulation.verifying import recover_all, recover_from, verify
from tests.simulation.world import World, assert_counts
from tests.support.crashes import dies_at
from tests.support.shares import a_share


@pytest.mark.parametrize("fault", stories.FAULTS)
def test_what_is_lost_is_found_and_made_again(world: World, fault: str) -> None:
    stories.what_is_lost_is_found_and_made_again(world, stories.FAULTS[fault])


@pytest.mark.parametrize("point", [*a_share(FAULT_POINTS, 0), *ORDER_FAULT_POINTS[2:]])
def test_a_dispatcher_that_dies_anywhere_makes_it_again_once(world: World, point: str) -> None:
    stories.what_is_lost_is_found_and_made_again(world, stories.a_row_is_removed, (point,))


@pytest.mark.parametrize("point", ORDER_FAULT_POINTS[:2])
def test_a_recovery_that_dies_is_run_again(world: World, point: str) -> None:
    stories.joined_world(world)
    before = world.join().counts.as_dict()
    stories.a_row_is_removed(world)
    with dies_at(point):
        recover_all(world)
    recover_all(world)
    assert world.join().counts.as_dict() == before
    assert world.joined_ids() == ["c1", "c2"]


def test_an_order_that_nobody_finished_goes_with_a_later_one(world: World) -> None:
    stories.joined_world(world)
    stories.a_row_is_removed(world)
    with dies_at("order.before_rename"):
        recover_all(world)
    (unfinished,) = (world.state() / FOLDER).iterdir()
    os.utime(unfinished, (0, 0))
    recover_all(world)
    assert list((world.state() / FOLDER).iterdir()) == waiting_orders(world.state())


@pytest.mark.parametrize("plant", stories.FAULTS.values(), ids=stories.FAULTS)
def test_two_recoveries_of_one_loss_count_once(world: World, plant: stories.Plant) -> None:
    """Two people order the same records, one of them from a report of before."""
    stories.joined_world(world)
    before = world.join().counts.as_dict()
    plant(world)
    recover_all(world)
    with stories.BOTH_LOOKED_BEFORE:
        recover_all(world)
    after = world.join().counts.as_dict()
    assert world.joined_ids() == ["c1", "c2"], "an event has two rows"
    assert after == before, f"the counts were {before} and are {after}"
    stories.assert_sound(world)


@pytest.mark.parametrize("mode", ["complete", "until_idle"])
def test_what_was_given_up_is_joined_once_its_primary_is_there(tmp_path: Path, mode: Mode) -> None:
    world = World(tmp_path, more=stories.GIVES_UP_SOON)
    stories.what_was_given_up_is_joined_once_its_primary_is_there(world, mode)


def test_the_owner_alone_makes_a_row_again(tmp_path: Path) -> None:
    """Both datacenters have the event and recover at once; the row is west's."""
    world = World(tmp_path, ["east", "west"], stories.HOME)
    world.everywhere("c1")
    world.join("west")
    world.join("east")
    before = {name: world.join(name).counts.as_dict() for name in ("east", "west")}
    stories.a_row_is_removed(world)
    found = verify(world)
    assert all(report.violations for report in found.values())
    done = recover_all(world)
    assert done["east"].ordered == 0, "another than the owner makes a row again"
    assert done["east"].left_to == {"west": 1}
    assert done["west"].ordered == 1
    for name in ("east", "west"):
        assert world.join(name).counts.as_dict() == before[name]
    assert world.joined_ids() == ["c1"], "an event has two rows, or none"
    stories.assert_sound(world)


def test_an_order_of_an_old_report_does_nothing(world: World) -> None:
    stories.joined_world(world)
    stories.a_row_is_removed(world)
    reports = {name: report.as_dict() for name, report in verify(world).items()}
    recover_from(world, reports)
    counts = world.join().counts.as_dict()
    recover_from(world, reports)
    assert world.join().counts.as_dict() == counts
    with closing(world.read_state()) as state:
        assert state.count_requeued() == 0
    assert world.joined_ids() == ["c1", "c2"]


def test_a_dry_run_orders_nothing(world: World) -> None:
    stories.joined_world(world)
    stories.a_row_is_removed(world)
    done = recover_all(world, dry_run=True)["east"]
    assert (done.ordered, done.orders) == (1, [])
    assert done.kinds == {"missing": 1}
    assert waiting_orders(world.state()) == []


def test_an_order_of_another_epoch_is_dropped(world: World) -> None:
    stories.joined_world(world)
    before = world.join().counts.as_dict()
    record = OrderedRecord(Occurrence(2, 0), "c1", "joined")
    write_order(world.state(), "another", 99, "test", [record])
    assert world.join().counts.as_dict() == before
    assert waiting_orders(world.state()) == []


def test_a_file_that_is_no_order_is_set_aside(world: World) -> None:
    stories.joined_world(world)
    folder = world.state() / "orders"
    folder.mkdir(exist_ok=True)
    (folder / "0000000009-x.json").write_text("{")
    world.join()
    assert [path.name for path in folder.iterdir()] == ["0000000009-x.json.refused"]


def test_a_record_whose_log_is_gone_stays_as_it_is(world: World) -> None:
    stories.joined_world(world)
    before = world.join().counts.as_dict()
    stories.a_row_is_removed(world)
    recover_all(world)
    (world.folder / "logs" / "east" / "clicks" / "a.jsonl").unlink()
    assert world.join().counts.as_dict() == before
    assert world.joined_ids() == ["c2"]


def test_an_event_without_its_row_and_its_primary_waits(world: World) -> None:
    stories.joined_world(world)
    stories.a_row_is_removed(world)
    recover_all(world)
    (world.folder / "logs" / "east" / "queries" / "a.jsonl").unlink()
    counts = world.join().counts
    assert_counts(counts, foreign=3, joined=1, duplicates=1, pending=1)


def test_a_row_that_is_there_is_not_made_again(world: World) -> None:
    stories.a_row_that_is_there_is_not_made_again(world)


def test_many_records_of_lost_events_get_one_row_each(world: World) -> None:
    """E8: all rows go. Records of an event are far from each other in the order."""
    ids = [f"c{number}" for number in range(1_300)]
    world.queries("q1")
    for _ in range(2):
        world.clicks(*((each, "q1") for each in ids))
    before = world.join().counts.as_dict()
    table = world.table()
    table.load().delete()
    recover_all(world)
    with mock.patch("photon.dispatcher.task_splitter.TASK_BYTES", 2**10):
        after = world.join(runner=stories.of_four_workers(world)).counts.as_dict()
    assert world.joined_ids() == sorted(ids), "an event has two rows"
    assert after == before, f"the counts were {before} and are {after}"


def test_dead_letters_are_joined_once_the_adapter_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, more=f"adapter: {failing_adapter.NAME}:join")
    world.events("c1", "c2", "c3")
    world.log("east", "clicks", "no record\n")
    monkeypatch.setattr(failing_adapter, "fails_on", ["c1", "c2"])
    assert_counts(world.join().counts, joined=1, dead_letters=3)
    monkeypatch.setattr(failing_adapter, "fails_on", ["c2"])
    assert plan_recovery_of_letters(world.pipeline, "east").expected.ordered == 2
    plans = [plan_recovery_of_letters(world.pipeline, "east") for _ in range(2)]
    for plan in plans:  # the second is of the same batch, and finds them taken up
        plan.apply()
    assert plan_recovery_of_letters(world.pipeline, "east").expected.waiting.total() == 2
    counts = world.join().counts
    assert world.joined_ids() == ["c1", "c3"]
    assert_counts(counts, foreign=4, joined=2, dead_letters=2)
    assert plan_recovery_of_letters(world.pipeline, "east", reason="KeyError").expected.ordered == 1
    assert plan_recovery_of_letters(world.pipeline, "east", reason="clock").apply().ordered == 0


def test_what_is_not_read_yet_is_not_missing(world: World) -> None:  # E5
    stories.what_is_not_read_yet_is_not_missing(world)
