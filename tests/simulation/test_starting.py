"""A join that starts checks that its state, the lake and the registry belong together (protocol A13)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from photon.dispatcher.refusals import PlaceTaken
from photon.dispatcher.retrying import Callbacks, StoppedWaiting
from photon.dispatcher.shift.lease import AlreadyRunning, DatacenterLock, Lease, lease_status_of
from photon.health.status import status_of
from photon.pipeline.file import Pipeline
from photon.process.faults import START_FAULT_POINTS, disarm
from photon.registry.epochs import unfinished
from photon.registry.errors import RegistryMismatch
from photon.registry.register import encode_register
from photon.state.database import STATE_FILE, StateDamaged, StateUnavailable
from photon.storage.delta import LakeMismatch, LakeUnavailable
from photon.storage.sync import ABANDONED_SECONDS, UNFINISHED
from photon.storage.tables import OutputTable
from tests.simulation.world import World, assert_counts
from tests.support.crashes import at, failing
from tests.support.manual_clock import ManualClock
from tests.support.shifts import shift_in_turn


@pytest.mark.parametrize("lost", ["deleted", "older copy"])
def test_a_lost_or_restored_state_begins_a_new_epoch_and_joins_nothing_twice(world: World, lost: str) -> None:
    world.queries("q1", "q2", "q3")
    world.clicks(("c1", "q1"), ("c1", "q1"), ("orphan", "never"))
    world.join(mode="complete")
    put_back = world.copy_state()
    first_epoch = world.read_state().epoch
    world.clicks(("c2", "q2"))
    world.join(mode="complete")
    if lost == "deleted":
        shutil.rmtree(world.state())
    else:
        put_back()
    world.clicks(("c3", "q3"))
    counts = world.join(mode="complete").counts
    assert world.read_state().epoch != first_epoch
    assert world.joined_ids() == ["c1", "c2", "c3"]
    assert_counts(counts, foreign=5, joined=3, duplicates=1, unjoinable=1)


def test_a_state_that_could_not_be_judged_at_once_is_set_aside_all_the_same(world: World) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    world.join()
    put_back = world.copy_state()
    world.clicks(("c2", "q2"))
    world.join()
    put_back()
    with at("lake.after_load", failing(LakeUnavailable("the disk is full"))):
        world.join()
    assert world.joined_ids() == ["c1", "c2"]


def put_an_older_state_back(world: World) -> None:
    """Have the next start begin a new epoch: its state lacks the last batch, which joined c2."""
    world.events("c1")
    world.join()
    put_back = world.copy_state()
    world.clicks(("c2", "q1"))
    world.join()
    put_back()


def test_a_new_epoch_that_begins_while_somebody_reads_the_old_state_says_so(world: World) -> None:
    put_an_older_state_back(world)
    with (
        world.state_of("east"),
        pytest.raises(StateUnavailable, match="the next start tries again"),
    ):
        world.join()
    world.join()
    assert world.joined_ids() == ["c1", "c2"]


class ShortReader(ManualClock):
    """A clock whose first wait is as long as somebody reads the state."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock.now_us())
        self._reader = world.read_state("east")

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._reader.close()


def test_a_new_epoch_waits_for_whoever_reads_the_old_state_for_a_moment(world: World) -> None:
    put_an_older_state_back(world)
    world.clock = ShortReader(world)
    world.join()
    assert world.joined_ids() == ["c1", "c2"]


@pytest.mark.parametrize("damage", ["no database", "a bad page", "cut short"])
def test_a_damaged_state_is_named_and_once_it_is_moved_away_nothing_is_joined_twice(
    world: World, damage: str
) -> None:
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"))
    world.join()
    path = world.state() / STATE_FILE
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files'").fetchone()
        (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
    data, at = path.read_bytes(), (page - 1) * page_bytes
    bad_page = data[:at] + b"x" * page_bytes + data[at + page_bytes :]
    path.write_bytes({"no database": b"x" * 9999, "a bad page": bad_page, "cut short": data[:at]}[damage])
    world.clicks(("c2", "q2"))
    with pytest.raises(StateDamaged, match=r"is damaged .* move it away; then"):
        world.join()
    world.state().rename(world.folder / "moved away")
    world.join()
    assert world.joined_ids() == ["c1", "c2"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("waiting_segments SET tally", "null"),
        ("waiting_segments SET tally", '{"primary": "x"}'),
        ("waiting_segments SET tally", "{"),
        ("waiting_segments SET records", "many"),
        ("segments SET events_of", "[1]"),
    ],
)
def test_a_column_that_holds_what_was_never_stored_is_a_damaged_state(
    world: World, column: str, value: str
) -> None:
    world.queries("q1")
    world.clicks(("c1", "q1"), ("waits", "no such query"))
    world.join()
    with closing(sqlite3.connect(world.state() / STATE_FILE)) as db:
        assert db.execute(f"UPDATE {column} = ?", (value,)).rowcount
        db.commit()
    if column.startswith("waiting"):
        with pytest.raises(StateDamaged, match=r"is damaged .waiting_segments, .* move it away; then"):
            status_of(world.pipeline, "east", world.clock)
    with pytest.raises(StateDamaged, match="is damaged"):
        world.join()


@pytest.mark.parametrize("own", ["", ", state: state/own", ", lake: lake/own"])
def test_a_folder_of_another_pipeline_is_refused_with_what_to_do_and_left_as_it_is(
    world: World, own: str
) -> None:
    world.events("c1")
    world.join()
    file = world.folder / "views.yaml"
    text = world.pipeline.file.read_text().replace("name: searches", "name: views")
    file.write_text(text.replace("logs/east}", f"logs/east{own}}}"))
    views = World.of(file)
    with pytest.raises(PlaceTaken, match=r"is that of the pipeline searches.* give views folders of its own"):
        views.join()
    world.clicks(("c2", "q1"))
    world.join()
    assert world.joined_ids() == ["c1", "c2"]


def test_a_state_that_is_lost_again_and_again_leaves_a_register_of_the_same_size(world: World) -> None:
    world.events("c1")
    world.join()
    put_back, bytes_before = world.copy_state(), len(encode_register(world.ledgers.register))
    for _ in range(8):
        shutil.rmtree(world.state())
        world.join()
    assert len(encode_register(world.ledgers.register)) == bytes_before
    assert world.ledgers.register.epochs == {"east": 9}
    put_back()  # a state of the first epoch
    world.join()
    assert world.read_state().epoch == "10"
    assert world.joined_ids() == ["c1"]


@pytest.mark.parametrize("point", START_FAULT_POINTS)
@pytest.mark.parametrize("has_joined", [True, False])
def test_a_start_that_dies_while_it_begins_an_epoch_is_followed_by_one_that_ends_what_it_left(
    world: World, point: str, has_joined: bool
) -> None:
    world.queries("q1")
    if has_joined:
        world.clicks(("c1", "q1"))
        assert world.join_with_a_crash("claim.after")
        shutil.rmtree(world.state())
    world.clicks(("c2", "q1"))
    for _ in range(3):
        assert world.join_with_a_crash(point)
    world.join()
    assert world.joined_ids() == (["c1", "c2"] if has_joined else ["c2"])
    assert not unfinished(world.reader())


def test_a_start_removes_what_a_killed_process_left_half_written_and_nothing_that_one_writes_now(
    world: World,
) -> None:
    world.join()
    old, new = (world.state() / f"measured.json.{n}-{n}{UNFINISHED}" for n in (1, 2))
    for file in (old, new):
        file.touch()
    os.utime(old, (0, time.time() - ABANDONED_SECONDS - 1))
    world.join()
    assert new.exists()
    assert not old.exists()


@pytest.mark.parametrize("has_rows", [True, False])
def test_a_register_that_was_put_back_hands_out_no_number_that_the_table_knows(
    world: World, has_rows: bool
) -> None:
    """Without rows and releases nobody can tell that it was put back, and nothing is joined twice."""
    world.queries("q1")
    world.join()
    older = world.ledgers.copy()
    for n in range(3):
        shutil.rmtree(world.state())
        world.clicks((f"c{n}", "q1" if has_rows else "no such query"))
        world.join()
    shutil.rmtree(world.state())
    world.ledgers.put_back(older)
    if has_rows:
        with pytest.raises(RegistryMismatch, match="photon registry refill"):
            world.join()
        return
    shutil.rmtree(world.folder / "lake" / "east" / "releases")
    world.queries("no such query")
    world.join()
    assert world.read_state().epoch == "5"
    assert world.joined_ids() == ["c0", "c1", "c2"]


def test_a_lake_that_is_not_the_registrys_is_refused(world: World) -> None:
    world.events("c1")
    world.join()
    shutil.rmtree(world.pipeline.datacenters["east"].lake)
    with pytest.raises(LakeMismatch, match="was replaced, put it back"):
        world.join()


def place_of_its_own(world: World) -> Pipeline:
    """The same pipeline, whose file on another machine names another lake, and another state."""
    place = world.pipeline.datacenters["east"]
    own = place.model_copy(update={"state": world.folder / "state 2", "lake": world.folder / "lake 2"})
    return world.pipeline.model_copy(update={"datacenters": {"east": own}})


def begins(world: World, pipeline: Pipeline) -> None:
    """A first start, of this pipeline file."""
    shift_in_turn(pipeline, "east", world.clock, world.ledgers).run("until_idle")


@pytest.mark.parametrize("point", ["lake.after_load:1", "lake.after_load:2"])
@pytest.mark.parametrize("first", ["joins", "dies in its first batch", "dies in its start"])
def test_of_two_first_starts_that_name_different_lakes_one_is_refused(
    world: World, point: str, first: str
) -> None:
    """Broken variant: the register takes the later one's table, and an event is joined in both lakes."""
    world.events("c1")
    came = list[str]()

    def other_is_first() -> None:
        disarm()
        came.append(point)
        dies_at = {
            "dies in its first batch": "complete.after_transaction",
            "dies in its start": "start.after_number",
        }
        if first == "joins":
            world.join()
        else:
            assert world.join_with_a_crash(dies_at[first])

    with (
        at(point, other_is_first),
        pytest.raises(LakeMismatch, match=r"lake 2/joined_events .* is not the one that the registry knows"),
    ):
        begins(world, place_of_its_own(world))
    assert came
    world.join()
    assert world.joined_ids() == ["c1"]
    assert not OutputTable(world.folder / "lake 2", "joined_events").load().version()


def test_a_lake_that_is_replaced_while_an_epoch_begins_is_refused(world: World) -> None:
    """Another disk may be mounted there between the look at the table and the new epoch's number."""
    world.events("c1")
    world.join()
    epochs = dict(world.ledgers.register.epochs)
    shutil.rmtree(world.state())
    lake = world.pipeline.datacenters["east"].lake

    def replace() -> None:
        shutil.move(str(lake), world.folder / "kept")
        world.table().create(world.pipeline.name, "east")

    with (
        at("lake.after_load", replace),
        pytest.raises(LakeMismatch, match="was replaced, put it back"),
    ):
        world.join()
    assert world.ledgers.register.epochs == epochs
    shutil.rmtree(str(lake))
    shutil.move(world.folder / "kept", str(lake))
    world.join()
    assert world.joined_ids() == ["c1"]


def test_a_second_process_of_a_datacenter_is_refused(world: World) -> None:
    lock = DatacenterLock(world.state(), "east", Lease.of_this_process("", 0, None))
    try:
        with pytest.raises(AlreadyRunning, match="stop that one first"):
            world.join()
    finally:
        lock.release(0)
    world.join()


def test_a_stop_while_a_start_waits_for_the_registry_ends_in_order_and_leaves_all_to_the_next(
    world: World,
) -> None:
    world.events("c1")
    world.ledgers.is_away = True
    said: list[str] = []
    with pytest.raises(StoppedWaiting, match=r"stop was requested .* the registry does not answer"):
        world.join(callbacks=Callbacks(should_stop=lambda: bool(said), on_wait=said.append))
    assert not lease_status_of(world.state()).is_locked
    world.ledgers.is_away = False
    assert_counts(world.join().counts, joined=1)
