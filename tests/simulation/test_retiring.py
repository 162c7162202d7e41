"""Datacenters that people stop: on hold for a while, or retired for good (protocol E2, E6, L3)."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from photon.dispatcher.completion import Superseded
from photon.dispatcher.recovery.orders import waiting_orders
from photon.dispatcher.refusals import OnHold
from photon.dispatcher.retrying import Callbacks
from photon.pipeline.file import load_pipeline
from photon.process.clock import MICROSECONDS
from photon.process.faults import RETIRE_FAULT_POINTS
from photon.read import joined
from photon.registry.entry import Claimant, Epoch
from photon.registry.errors import RegistryMismatch, RetiredDatacenter
from photon.registry.id_registry import EpochOver
from photon.registry.register import with_hold
from photon.releases import copies
from photon.releases.finding import ReleaseUnreadable, find_release
from photon.upkeep.retirable import NotRetired
from photon.upkeep.retire import Retired, plan_retire
from tests.simulation import hold_stories as stories
from tests.simulation.recovery_stories import a_row_is_removed
from tests.simulation.verifying import recover_all, recover_from, verify
from tests.simulation.world import World, assert_counts
from tests.support.crashes import at, dies_at


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ["east", "west"], stories.HOME)


def hold(world: World, datacenter: str, is_held: bool = True) -> None:
    world.ledgers.change(lambda register: with_hold(register, datacenter, is_held))


def retired(world: World, datacenter: str, lake_is_gone: bool = False) -> Retired:
    return plan_retire(world.pipeline, world.reader(), datacenter, lake_is_gone).apply()


def lose_lake(world: World, datacenter: str) -> None:
    shutil.rmtree(world.pipeline.datacenters[datacenter].lake)
    shutil.rmtree(world.state(datacenter))
    world.forget()


# -- retired


def test_what_a_retired_datacenter_registered_without_a_row_is_free_and_its_rows_stay(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    world.everywhere("c2")
    assert world.join_with_a_crash("claim.after", "west")
    assert retired(world, "west") == Retired(released=1, kept=1, rows=1)
    assert world.holder("c2") is None
    world.join("east")
    assert world.joined_ids() == ["c1", "c2"]
    assert joined(world.pipeline, retired=[]).count_rows() == 2


def test_of_a_retired_datacenter_without_its_lake_all_ids_are_free(world: World) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    lose_lake(world, "west")
    assert retired(world, "west", lake_is_gone=True) == Retired(released=2, kept=0, rows=None)
    assert world.join("east").counts.of("joined") == 2
    assert world.joined_ids() == ["c1", "c2"]


def test_a_row_that_goes_after_its_datacenter_was_retired_is_made_again_by_another(world: World) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    world.join("east")
    assert retired(world, "west") == Retired(released=0, kept=2, rows=2)
    a_row_is_removed(world)
    done = recover_all(world)
    assert (done["east"].ordered, done["east"].left_to) == (1, {})
    counts = world.join("east").counts
    assert world.joined_ids() == ["c1", "c2"]
    assert (counts.of("joined"), counts.of("joined_elsewhere"), counts.adds_up) == (1, 1, True)
    assert recover_all(world)["east"].ordered == 0


def test_what_was_joined_by_a_datacenter_that_is_retired_without_its_lake_is_joined_again_by_recovery(
    world: World,
) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    assert world.join("east").counts.of("joined_elsewhere") == 2
    lose_lake(world, "west")
    retired(world, "west", lake_is_gone=True)
    assert recover_all(world, only="east")["east"].ordered == 2
    assert world.join("east").counts.of("joined") == 2
    assert world.joined_ids() == ["c1", "c2"]


def test_what_recovery_joins_after_a_retirement_is_counted_as_a_verification_counts_it(world: World) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    world.events("c3")
    assert_counts(world.join("east").counts, joined=1, joined_elsewhere=2)
    lose_lake(world, "west")
    retired(world, "west", lake_is_gone=True)
    recover_all(world, only="east")
    assert_counts(world.join("east").counts, joined=3, joined_elsewhere=0)
    assert verify(world)["east"].classes == {"joined": 3}


@pytest.mark.parametrize("lake_is_gone", [False, True])
def test_a_retired_datacenter_does_not_start_and_none_of_its_claims_counts(
    world: World, lake_is_gone: bool
) -> None:
    world.everywhere("c1")
    world.join("west")
    if lake_is_gone:
        lose_lake(world, "west")
    retired(world, "west", lake_is_gone)
    with pytest.raises(RetiredDatacenter, match="given up as lost"):
        world.join("west")
    with pytest.raises(EpochOver):
        world.claim(Claimant(Epoch("west", 1), 9, "p"), "c9")


def test_held_records_of_a_retired_datacenter_are_joined_in_the_run_that_waits_for_it(world: World) -> None:
    world.everywhere("c1")
    assert world.join_with_a_crash("claim.after", "west")
    lose_lake(world, "west")
    assert world.join("east").counts.of("pending") == 1
    retired(world, "west", lake_is_gone=True)
    assert_counts(world.join("east").counts, joined=1, pending=0)


@pytest.mark.parametrize("point", RETIRE_FAULT_POINTS[:2])
def test_a_retirement_that_was_killed_goes_on_in_its_next_run(world: World, point: str) -> None:
    ids = [f"c{n}" for n in range(30)]
    world.everywhere(*ids)
    assert world.join_with_a_crash("claim.after", "west")
    with dies_at(point):
        retired(world, "west")
    retired(world, "west")
    assert world.holders(*ids) == {}
    world.join("east")
    assert world.joined_ids() == sorted(ids)


def test_a_release_whose_maker_was_retired_before_it_stored_a_copy_holds_no_reader(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    shutil.rmtree(Path(str(world.pipeline.datacenters["west"].lake)) / copies.FOLDER)  # as if it died before
    world.join("east")
    with pytest.raises(ReleaseUnreadable, match="releases were made there"):
        find_release(world.pipeline)
    retired(world, "west")
    assert find_release(world.pipeline).number >= 1


@pytest.mark.parametrize("point", RETIRE_FAULT_POINTS)
def test_a_retirement_without_the_lake_that_was_killed_goes_on_in_its_next_run(
    world: World, point: str
) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    lose_lake(world, "west")
    with dies_at(point):
        retired(world, "west", lake_is_gone=True)
    retired(world, "west", lake_is_gone=True)
    assert world.holders("c1", "c2") == {}


def test_a_retirement_that_is_run_again_does_nothing_more(world: World) -> None:
    world.everywhere("c1")
    assert world.join_with_a_crash("claim.after", "west")
    retired(world, "west")
    world.join("east")
    assert retired(world, "west") == Retired(released=0, kept=0, rows=0, was_retired=True)
    holder = world.holder("c1")
    assert holder is not None
    assert holder.epoch.datacenter == "east"


def test_without_its_lake_a_datacenter_is_retired_only_if_a_person_says_that_it_is_gone(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    lose_lake(world, "west")
    with pytest.raises(NotRetired, match="--lake-is-gone"):
        retired(world, "west")
    assert world.ledgers.register.given_up == ()
    with pytest.raises(NotRetired, match="knows no datacenter north; it knows: west"):
        retired(world, "north", lake_is_gone=True)


def test_a_datacenter_whose_lake_can_be_read_is_not_retired_as_if_it_were_gone(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    with pytest.raises(
        NotRetired, match=r"its lake is not gone, .* photon retire .* west, without --lake-is"
    ):
        retired(world, "west", lake_is_gone=True)
    assert world.ledgers.register.given_up == ()


def test_a_lake_that_lets_nobody_in_is_not_taken_for_gone(world: World) -> None:
    world.everywhere("c1")
    world.join("west")

    def refuse() -> None:
        raise PermissionError("not you")

    said = r"nobody knows whether its lake is gone: .*not you.*out of .*yaml, then: "
    with at("lake.after_load", refuse), pytest.raises(NotRetired, match=said):
        retired(world, "west", lake_is_gone=True)
    assert world.ledgers.register.given_up == ()


@pytest.mark.parametrize("gone", ["log", "file"])
def test_a_lake_that_is_there_in_part_counts_as_gone_if_a_person_says_so(world: World, gone: str) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    table = world.pipeline.datacenters["west"].lake / "joined_events"
    if gone == "log":
        shutil.rmtree(table / "_delta_log")
    else:
        next(table.glob("_event_date=*/*.parquet")).unlink()
    world.forget()
    with pytest.raises(NotRetired, match="--lake-is-gone"):
        retired(world, "west")
    assert retired(world, "west", lake_is_gone=True) == Retired(released=2, kept=0, rows=None)


def test_a_retirement_without_the_lake_goes_on_though_the_lake_comes_back(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    lake = world.pipeline.datacenters["west"].lake
    lake.rename(world.folder / "away")
    with dies_at("retire.after_register"):
        retired(world, "west", lake_is_gone=True)
    (world.folder / "away").rename(lake)
    for lake_is_gone in (False, True):
        retired(world, "west", lake_is_gone)
    assert world.holder("c1") is None, "its rows don't count, so its ids must be free"


def test_a_retirement_tells_what_it_does(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    said: list[str] = []
    plan_retire(world.pipeline, world.reader(), "west").apply(said.append)
    assert said == ["ends 1 epoch of datacenter west; held: 1 id"]


def test_a_dry_run_says_what_would_become_of_rows_and_ids_and_changes_nothing(world: World) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    world.everywhere("c3")
    assert world.join_with_a_crash("claim.after", "west")
    before = world.ledgers.copy()
    with_rows = plan_retire(world.pipeline, world.reader(), "west").expected
    assert with_rows == Retired(released=1, kept=2, rows=2)
    lose_lake(world, "west")
    without = plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).expected
    assert without == Retired(released=3, kept=0, rows=None)
    assert world.ledgers.copy().values == before.values


def test_a_dry_run_says_that_a_datacenter_is_retired_already(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    retired(world, "west")
    would = plan_retire(world.pipeline, world.reader(), "west").expected
    assert would == Retired(released=0, kept=1, rows=1, was_retired=True)


def test_the_last_datacenter_is_not_retired(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    retired(world, "west")
    world.join("east")
    with pytest.raises(NotRetired, match="east is the last one"):
        retired(world, "east")
    assert world.ledgers.register.given_up == ("west",)


def test_a_datacenter_that_is_retired_in_the_middle_of_a_batch_commits_no_more(world: World) -> None:
    """E1, E2: west is retired right before its commit, and east joins what it had registered."""
    world.everywhere("c1")

    def retire_and_join() -> None:
        plan_retire(world.pipeline, world.reader(), "west").apply()
        world.join("east")

    with at("commit.before_main", retire_and_join), suppress(Superseded, RetiredDatacenter):
        world.join("west")
    world.forget()
    assert world.joined_ids() == ["c1"], "an event has two rows"


# -- on hold


def test_a_datacenter_on_hold_does_not_start_until_it_is_resumed(world: World) -> None:
    world.everywhere("c1")
    hold(world, "west")
    with pytest.raises(OnHold, match="photon resume"):
        world.join("west")
    hold(world, "west", False)
    assert world.join("west").counts.of("joined") == 1


def test_a_process_whose_datacenter_is_put_on_hold_ends_before_its_next_batch(world: World) -> None:
    world.everywhere("c1")

    def stop(_: object) -> None:
        hold(world, "west")
        world.clicks(("c2", "q1"), datacenter="west")

    counts = world.join("west", callbacks=Callbacks(on_batch=stop)).counts
    assert_counts(counts, foreign=1, joined=1)
    hold(world, "west", False)
    counts = world.join("west").counts
    assert_counts(counts, foreign=2, joined=2)


@pytest.mark.parametrize("names", [["east"], ["east", "west"]])
def test_an_idle_process_whose_datacenter_is_put_on_hold_ends_within_seconds(
    tmp_path: Path, names: list[str]
) -> None:
    world = World(tmp_path, names)
    world.clicks(("c1", "q1"))
    held_us: list[int] = []

    def look() -> bool:
        if not held_us and world.state().exists():
            hold(world, "east")
            held_us.append(world.clock.now_us())
        return bool(held_us) and world.clock.now_us() - held_us[0] > 60 * MICROSECONDS

    assert world.join("east", mode="stop", callbacks=Callbacks(should_stop=look)).ended == "done"
    assert world.clock.now_us() - held_us[0] < 10 * MICROSECONDS


def test_the_others_take_over_the_share_of_a_datacenter_on_hold_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, ["east", "west"], "home: {takeover_delay: 1h}")
    ids = [f"c{n}" for n in range(20)]
    world.everywhere(*ids)
    hold(world, "west")
    began_us = world.clock.now_us()
    world.join("east")
    assert world.joined_ids() == sorted(ids)
    assert world.clock.now_us() - began_us < 10_000_000


# -- the pipeline file


def test_a_pipeline_file_that_lacks_a_datacenter_of_the_registry_is_refused(world: World) -> None:
    world.everywhere("c1")
    world.join("west")
    path = world.pipeline.file
    path.write_text(path.read_text().replace("  west: {logs: logs/west}", "  wast: {logs: logs/west}"))
    whole, world.pipeline = world.pipeline, load_pipeline(path)
    for name in ("east", "wast"):
        with pytest.raises(RegistryMismatch, match=r"knows datacenter west, which .* lacks.*its old name"):
            world.join(name)
        assert not world.state(name).exists(), "what is refused leaves a folder"
    plan_retire(whole, world.reader(), "west").apply()
    assert world.join("east").counts.of("joined_elsewhere") == 1


def test_a_retired_datacenter_has_nothing_to_act_on_and_what_was_its_is_told_once(world: World) -> None:
    world.everywhere("c1", "c2")
    world.join("west")
    world.join("east")
    older = {name: report.as_dict() for name, report in verify(world).items()}
    retired(world, "west")
    a_row_is_removed(world)
    found = verify(world)
    assert {name: one.classes for name, one in found.items()} == {
        "east": {"missing": 1, "joined_elsewhere": 1}
    }
    # An older report of it, or one of another Photon, orders nothing either.
    orders = recover_from(world, {"west": found["east"].as_dict() | {"epoch": older["west"]["epoch"]}})
    assert orders["west"].ordered == 0
    assert waiting_orders(world.state("west")) == []
