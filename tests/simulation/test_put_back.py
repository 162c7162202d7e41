"""Stores that are put back from copies: the join goes on exactly once, or is refused (protocol A23, B19)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

from photon.dispatcher.refusals import PlaceTaken
from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.shift.lease import DatacenterLock, Lease
from photon.dispatcher.shift.people import Decisions
from photon.health.headline import sentences
from photon.health.lakes import second_rows
from photon.health.status import status_of
from photon.process.faults import REFILL_FAULT_POINTS
from photon.registry.entry import Claimant, Epoch, LedgerId
from photon.registry.errors import RegistryMismatch
from photon.registry.form import decode
from photon.registry.generations import drop, raise_boundary, roll
from photon.upkeep.refill import NotRefilled, plan_refill
from tests.simulation.put_back_stories import (
    PARTS,
    Copied,
    Part,
    a_process_works_while_the_registry_is_filled,
)
from tests.simulation.world import NOON_US
from tests.support.crashes import at, dies_at
from tests.support.shares import a_share

SETS: list[tuple[Part, ...]] = [each for size in (1, 2, 3) for each in combinations(PARTS, size)]


@pytest.fixture
def world(tmp_path: Path) -> Copied:
    """A datacenter with c0 to c4 joined, of whose stores there are copies; then d0 to d4 joined too."""
    world = Copied(tmp_path)
    world.events(*(f"c{n}" for n in range(5)))
    world.join()
    world.copy()
    world.clicks(*((f"d{n}", "q1") for n in range(5)))
    world.join()
    return world


ALL = [f"{letter}{n}" for letter in "cd" for n in range(5)]


@pytest.mark.parametrize("parts", SETS, ids=" and ".join)
@pytest.mark.parametrize("datacenters", a_share([1, 2], 1, of=2))
def test_whatever_is_put_back_each_event_has_one_row_in_the_end(
    tmp_path: Path, parts: tuple[Part, ...], datacenters: int
) -> None:
    names = ("east", "west")[:datacenters]
    world = Copied(tmp_path, names)
    for name in names:
        world.queries("q1", "q2", datacenter=name)
        world.clicks(*((f"c{n}", "q1") for n in range(7)), ("waits", "q3"), datacenter=name)
    world.join_all()
    world.copy()
    for name in names:
        world.clicks(*((f"d{n}", "q2") for n in range(5)), datacenter=name)
    world.join_all()
    world.put_back(parts)
    for name in names:  # some are logged again
        world.clicks(("d1", "q1"), ("c1", "q1"), ("e1", "q1"), datacenter=name)
        world.queries("q3", datacenter=name)
    was_refused = world.join_all()
    # A state has a view of the registry, which is ahead of it as rows in a lake may be.
    assert was_refused == ("registry" in parts and set(parts) != set(PARTS))
    world.must_be_sound([*(f"c{n}" for n in range(7)), *(f"d{n}" for n in range(5)), "e1", "waits"])


@pytest.mark.parametrize("batches", [1, 10])
def test_batches_without_rows_after_the_newest_ones_neither_hide_it_nor_alarm(
    world: Copied, batches: int
) -> None:
    for n in range(batches):
        world.clicks((f"never{n}", "no such query"))
        assert world.refused() is None
    world.put_back(["registry"])
    assert world.refused() is not None
    world.refill()
    world.join()
    world.must_be_sound(ALL)


def test_a_registry_that_lacks_an_empty_batch_alone_lacks_nothing(world: Copied) -> None:
    world.copy(["registry"])
    world.clicks(("early", "q9"))
    world.join()
    world.put_back(["registry"])
    world.lose_views()
    assert world.refused() is None
    world.queries("q9")
    world.join()
    world.must_be_sound((*ALL, "early"))


def test_a_registry_that_was_copied_in_the_middle_of_a_batch_is_noticed(tmp_path: Path) -> None:
    """One ledger of the copy has the batch, and the other one lacks its part."""
    world = Copied(tmp_path, ("east", "west"))
    clicks = [f"c{n}" for n in range(20)]
    for name in ("east", "west"):
        world.queries("q1", datacenter=name)
    world.join("west")
    world.clicks(*((click, "q1") for click in clicks))
    world.join()  # takes over the events of the other home
    world.join("west")
    decided = world.ledgers.copy()
    east_s = [LedgerId(0, 0), LedgerId(0, 1)]
    newest = {ledger: claims_in(decided.values[ledger])[-1] for ledger in east_s}
    assert all(newest.values()), "the batch met both ledgers"
    decided.values[east_s[1]] = decided.values[east_s[1]][: newest[east_s[1]]]
    world.ledgers.put_back(decided)
    world.lose_views()
    assert world.refused() is not None


def claims_in(values: Sequence[bytes]) -> list[int]:
    """The positions at which something is claimed."""
    return [position for position, value in enumerate(values) if decode(value, "test").claims is not None]


def test_rows_below_the_boundary_prove_nothing_and_are_no_alarm(world: Copied) -> None:
    raise_boundary(world.reader().view, world.ledgers, NOON_US + 1)
    roll(world.reader().view, world.ledgers, 1)
    assert drop(world.reader().view, world.ledgers) == [0]
    shutil.rmtree(world.state())
    assert world.holder("d1") is None
    assert world.refused() is None


def both_with_c1(folder: Path) -> Copied:
    """Two datacenters that have c1, and one of them its row."""
    world = Copied(folder, ("east", "west"))
    world.everywhere("c1")
    world.join_all()
    return world


def behind_a_row_of_east(tmp_path: Path) -> Copied:
    """Two datacenters; the registry was put back to before east joined d1, which west has yet to read."""
    world = both_with_c1(tmp_path)
    world.copy()
    world.clicks(("d1", "q1"))
    world.join()
    world.put_back(["registry"])
    world.clicks(("d1", "q1"), datacenter="west")
    return world


def test_another_datacenter_refuses_a_registry_that_lacks_rows_of_this_one(tmp_path: Path) -> None:
    world = behind_a_row_of_east(tmp_path)
    said = world.refused("west")
    assert said is not None
    assert str(world.pipeline.datacenters["east"].lake) in said
    world.refill()
    world.join_all()
    world.must_be_sound(["c1", "d1"])


def ahead_by_rows_of_no_release(tmp_path: Path) -> Copied:
    """East died before a release had its newest row; the registry and both states are older copies.

    A release that a lake has and the registry lacks is refused by itself (R5).
    """
    world = both_with_c1(tmp_path)
    world.copy()
    world.clicks(("d1", "q1"))
    with dies_at("close.after"):
        world.join()
    world.put_back(["state", "registry"])
    return world


@pytest.mark.parametrize("again", ["east", "west"])
def test_rows_of_which_no_release_has_been_made_are_looked_at(tmp_path: Path, again: str) -> None:
    world = ahead_by_rows_of_no_release(tmp_path)
    world.clicks(("d1", "q1"), datacenter=again)
    said = world.refused(again)
    assert said is not None
    assert "nobody has the id 'd1'" in said
    world.refill()
    world.join_all()
    world.must_be_sound(["c1", "d1"])


def test_rows_of_a_lake_that_was_away_at_the_start_are_compared_as_soon_as_it_is_back(tmp_path: Path) -> None:
    world, rounds, said = behind_a_row_of_east(tmp_path), list[int](), list[str]()
    lake = Path(str(world.pipeline.datacenters["east"].lake))
    (tmp_path / "logs" / "west" / "clicks" / "a.jsonl").unlink()  # else it joins d1 a second time
    lake.rename(tmp_path / "away")

    def should_stop() -> bool:
        rounds.append(1)
        if len(rounds) == 20:
            said.extend(status_of(world.pipeline, "west", world.clock).problems)
            (tmp_path / "away").rename(lake)
        world.clock.sleep(1)
        return len(rounds) > 100

    with pytest.raises(RegistryMismatch, match="nobody has the id 'd1'"):
        world.join("west", "stop", Callbacks(should_stop=should_stop))
    (alarm,) = [one for one in said if "newest rows" in one]
    assert "whether the registry has the newest rows of datacenter east is not known here" in alarm
    assert f"there is no table {lake / 'joined_events'}" in alarm


def test_an_alarm_about_a_lake_that_was_away_ends_when_its_rows_are_there(tmp_path: Path) -> None:
    world, rounds = both_with_c1(tmp_path), list[int]()
    lake = Path(str(world.pipeline.datacenters["east"].lake))
    lake.rename(tmp_path / "away")
    told: list[dict[str, str]] = []

    def should_stop() -> bool:
        rounds.append(1)
        if len(rounds) % 20 == 0:
            with world.state_of("west") as state:
                told.append(state.out_of_reach)
        if len(rounds) == 20:
            (tmp_path / "away").rename(lake)
        world.clock.sleep(1)
        return len(rounds) > 50

    world.join("west", "stop", Callbacks(should_stop=should_stop))
    assert [list(one) for one in told] == [["east"], []]


def test_an_older_lake_under_a_datacenter_at_rest_is_told_until_its_events_are_joined_again(
    tmp_path: Path,
) -> None:
    world = Copied(tmp_path, ("east",))
    world.events("c1")
    world.join_all()
    world.copy(["lake"])
    world.clicks(("d1", "q1"))
    world.join_all()
    told = "batch 2 was committed: an older copy was put back, and rows are missing"
    assert told not in said_by_status(world)
    world.put_back(["lake"])
    assert (
        f"{told} until they are joined again: photon join {world.pipeline.typed} -d east"
        in said_by_status(world)
    )
    world.join_all()
    assert told not in said_by_status(world)
    world.must_be_sound(["c1", "d1"])


def said_by_status(world: Copied) -> str:
    return "\n".join(sentences(status_of(world.pipeline, "east", world.clock, Decisions())))


def said_of_second_rows(world: Copied) -> str:
    return "\n".join(second_rows(world.pipeline, name) for name in ("east", "west"))


@pytest.mark.parametrize("found_by", ["join", "other_join", "refill"])
def test_second_rows_that_were_joined_while_a_lake_was_away_are_told_until_they_are_gone(
    tmp_path: Path, found_by: str
) -> None:
    world = behind_a_row_of_east(tmp_path)
    lake = Path(str(world.pipeline.datacenters["east"].lake))
    lake.rename(tmp_path / "away")
    world.join("west")
    (tmp_path / "away").rename(lake)
    world.lose_views()
    world.lose_releases()
    assert "two rows" not in said_of_second_rows(world)
    if found_by == "refill":
        assert len(world.refill().doubles) == 1
    else:
        world.join("east" if found_by == "join" else "west")
    world.join_all()
    assert "at least 1 event has two rows, such as d1: photon verify" in said_of_second_rows(world)
    world.put_back(["lake"], ["east"])
    assert "two rows" not in said_of_second_rows(world)


def test_an_id_that_another_plan_holds_without_a_row_is_noticed_and_given_to_its_row(world: Copied) -> None:
    """A copy may be made while a plan has claimed ids that its successor joins."""
    world.put_back(["registry"])
    other = Claimant(Epoch("east", 1), 3, "p")
    world.claim(other, "d4")
    world.lose_views()
    said = world.refused()
    assert said is not None
    assert "nobody has the id" in said or f"{other} has the id 'd4'" in said
    world.refill()
    world.join()
    world.must_be_sound(ALL)


def test_a_copy_of_a_datacenter_that_has_joined_with_its_registry_is_told_as_that(
    world: Copied, tmp_path: Path
) -> None:
    """The whole of a datacenter was copied, its lake too, and both go on: the registry is not older."""
    place = world.pipeline.datacenters["east"]
    for part, folder in (("state", place.state), ("lake", place.lake)):
        shutil.copytree(str(folder), tmp_path / "originals" / part)
    world.put_back(["state", "lake"])
    world.join()  # the copy, which makes d0 to d4 again
    for part, folder in (("state", place.state), ("lake", place.lake)):
        shutil.rmtree(str(folder))
        shutil.copytree(tmp_path / "originals" / part, str(folder))
    said = world.refused()
    assert said is not None
    assert "a copy of datacenter east" in said
    assert "older" not in said
    assert "photon registry refill" in said
    world.refill()
    world.join()
    world.must_be_sound(ALL)


def test_an_event_that_has_two_rows_is_told_and_neither_is_touched(world: Copied) -> None:
    world.put_back(["registry", "state"])
    world.lose_releases()
    with pytest.MonkeyPatch.context() as blind:
        blind.setattr("photon.dispatcher.recovery.registry_watch.RegistryWatch.check", lambda self: None)
        world.join()
    twice = [event for event in world.joined_ids() if event[0] == "d"]
    assert len(twice) == 10
    found = world.refill(dry_run=True)
    assert (len(found.doubles), found.put_back) == (5, 0)
    assert len(world.refill().doubles) == 5
    assert world.refused() is None  # no third one comes


@pytest.mark.parametrize("has_state", [True, False])
def test_a_new_and_empty_registry_is_refused_until_it_is_filled(world: Copied, has_state: bool) -> None:
    world.new_registry()
    if not has_state:
        shutil.rmtree(world.state())
    world.clicks(("d1", "q1"), ("e1", "q1"))
    assert world.refused() is not None
    assert world.refill().put_back == 10
    world.join()
    world.must_be_sound([*ALL, "e1"])


def test_a_dry_run_changes_nothing(world: Copied) -> None:
    world.put_back(["registry"])
    before = world.ledgers.copy()
    found = world.refill(dry_run=True)
    assert (found.rows, found.put_back, found.began) == (10, 5, True)
    assert world.ledgers.copy() == before
    assert world.refused() is not None


def test_a_registry_that_lacks_nothing_is_left_alone(world: Copied) -> None:
    epoch = world.read_state().epoch
    assert not world.refill().began
    world.join()
    assert world.read_state().epoch == epoch


@pytest.mark.parametrize("point", [*REFILL_FAULT_POINTS, "refill.after_page:2"])
@pytest.mark.parametrize("parts", a_share([["registry"], ["registry", "state"]], 0, of=2), ids=" and ".join)
def test_a_refill_that_is_killed_is_run_again_and_nobody_joins_before(
    world: Copied, point: str, parts: list[Part]
) -> None:
    world.put_back(parts)
    with dies_at(point):
        world.refill()
    if point != "refill.after_switch":
        said = world.refused()
        assert said is not None
        assert f"photon registry refill {world.pipeline.file}" in said
        world.refill()
    world.clicks(("d2", "q1"), ("e1", "q1"))
    world.join()
    world.must_be_sound([*ALL, "e1"])


def test_a_process_that_works_while_the_registry_is_filled_commits_nothing_any_more(tmp_path: Path) -> None:
    a_process_works_while_the_registry_is_filled(tmp_path)


def test_a_datacenter_that_runs_is_named_and_nothing_is_changed(world: Copied) -> None:
    world.put_back(["registry"])
    lock = DatacenterLock(world.state(), "east", Lease.of_this_process("", 0, None))
    try:
        with pytest.raises(NotRefilled, match=r"datacenter east is run by process \d+ .* stop it first"):
            world.refill()
    finally:
        lock.release(0)
    assert not world.ledgers.register.is_refilling


def test_a_datacenter_whose_table_is_not_there_is_named_and_nothing_is_changed(world: Copied) -> None:
    world.put_back(["registry"])
    shutil.rmtree(str(world.pipeline.datacenters["east"].lake))
    with pytest.raises(NotRefilled, match=r"datacenter east has joined, and its table .* is not there"):
        world.refill()
    assert not world.ledgers.register.is_refilling


def test_a_lake_that_cannot_be_read_is_named_and_nothing_is_changed(world: Copied) -> None:
    world.put_back(["registry"])
    for entry in (Path(str(world.pipeline.datacenters["east"].lake)) / "joined_events/_delta_log").glob("*"):
        entry.write_text("{")
    with pytest.raises(NotRefilled, match="the lake of datacenter east can't be read"):
        world.refill()
    assert not world.ledgers.register.is_refilling


@pytest.mark.parametrize("seconds", [0, 0.3, 5, 30])
def test_an_older_copy_that_was_put_back_while_nothing_was_logged_is_noticed_too(
    world: Copied, seconds: float
) -> None:
    """Nobody asked the registry while it was away."""
    rounds: list[int] = []

    def on_batch(report: BatchReport) -> None:
        rounds.append(report.batch)
        if len(rounds) == 1:
            world.put_back(["registry"])
            world.clock.sleep(seconds)
            world.clicks(("d1", "q1"), ("f1", "q1"))

    world.clicks(("e1", "q1"))
    with pytest.raises(RegistryMismatch):
        world.join(callbacks=Callbacks(on_batch=on_batch))
    assert world.joined_ids() == [*ALL, "e1"]
    world.refill()
    world.join()
    world.must_be_sound([*ALL, "e1", "f1"])


def test_an_idle_process_notices_that_entries_of_another_one_are_gone(tmp_path: Path) -> None:
    """East's own rows are in the copy, and it asked nobody while the registry was away."""
    world, rounds = both_with_c1(tmp_path), list[int]()
    world.copy()

    def should_stop() -> bool:
        rounds.append(1)
        if len(rounds) == 5:
            world.clicks(("d1", "q1"), datacenter="west")
            world.join("west")
            world.clock.sleep(6)
        if len(rounds) == 10:
            world.put_back(["registry"])
            world.clock.sleep(6)
        if len(rounds) == 15:
            world.clicks(("d1", "q1"))
        return len(rounds) > 1_000

    with pytest.raises(RegistryMismatch, match="photon registry refill"):
        world.join(mode="stop", callbacks=Callbacks(should_stop=should_stop))
    assert world.joined_ids() == ["c1", "d1"]


def two_that_read_the_same(folder: Path) -> Copied:
    """c1 is joined, and the registry copied; both datacenters have d1 to d3 to join."""
    world = both_with_c1(folder)
    world.copy(["registry"])
    for name in ("east", "west"):
        world.clicks(("d1", "q1"), ("d2", "q1"), ("d3", "q1"), datacenter=name)
    return world


def put_back_and_join(world: Copied) -> None:
    world.put_back(["registry"])
    world.join("west")


def test_what_won_before_a_copy_was_put_back_is_not_committed_beside_who_wins_it_then(tmp_path: Path) -> None:
    world = two_that_read_the_same(tmp_path)
    with at("claim.before", partial(put_back_and_join, world)):
        world.join()
    world.join_all()
    world.must_be_sound(["c1", "d1", "d2", "d3"])


@pytest.mark.parametrize("looks", ["east", "west"])
def test_a_copy_that_comes_back_between_the_check_and_the_commit_is_told_at_the_next_look(
    tmp_path: Path, looks: str
) -> None:
    """Nobody prevents that (L10): a commit to a table does not ask the registry."""
    world = two_that_read_the_same(tmp_path)
    with at("commit.before_main", partial(put_back_and_join, world)):
        assert world.refused() is not None
    assert world.joined_ids().count("d1") == 2
    world.lose_views()
    world.join(looks)
    assert "events have two rows" in said_of_second_rows(world)
    world.clicks(("d1", "q1"), datacenter=looks)
    world.join(looks)
    assert world.joined_ids().count("d1") == 2


def test_an_id_of_a_row_is_back_for_the_rows_own_plan(world: Copied) -> None:
    (row,) = [row for row in world.rows() if row["_event_id"] == "d3"]
    world.put_back(["registry"])
    world.refill()
    plan = Claimant(Epoch("east", int(row["_epoch"])), row["_batch"], row["_plan"])
    assert world.holder("d3") == plan
    assert world.is_join("d3")


def test_a_refill_leaves_a_table_alone_that_is_another_pipeline_s(world: Copied) -> None:
    """The join tells a person who names another pipeline's lake; a refill must not end its epoch."""
    world.put_back(["registry"])
    other = world.pipeline.model_copy(update={"name": "views"})
    version = world.table().load().version()
    with pytest.raises(PlaceTaken, match="is that of the pipeline searches"):
        plan_refill(other, world.unread())
    assert world.table().load().version() == version
