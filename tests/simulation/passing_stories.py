"""Stories of batches that others pass over while their process is silent (A25): west dies, east works.

They are told of the product, and of products that lack one of the rules.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

from photon.dispatcher.completion import Superseded
from photon.dispatcher.recovery.holders import SilenceWatch
from photon.dispatcher.retrying import Callbacks
from photon.process.faults import watched
from photon.registry.entry import Claimant, Epoch
from photon.releases.finding import ReleaseUnreadable, kept_releases
from photon.releases.reading import OpenRelease
from photon.state.lifecycle import ATTEMPTS
from photon.storage.tables import LastCommit, app_id
from tests.simulation.hold_stories import HOME
from tests.simulation.put_back_stories import Copied, gives_up
from tests.simulation.rules import must
from tests.support.crashes import SimulatedCrash, at


def two_that_have_joined(folder: Path, more: str = "") -> Copied:
    """East and west, whose first click is joined in west."""
    world = Copied(folder, ("east", "west"), more=f"{HOME}\n{more}")
    world.everywhere("c1")
    world.join("west")
    world.join("east")
    return world


def dies(world: Copied, point: str = "claim.after") -> None:
    """West dies with a batch open."""
    must(world.join_with_a_crash(point, "west"), f"west passes {point}")


def west(world: Copied) -> LastCommit:
    """How far west's first epoch is in its table, and how many of its batches were passed over."""
    return world.table("west").reached(app_id("west", "1"))


def must_have_gone_on(world: Copied, passed: int, *clicks: str) -> None:
    """West is in its first epoch, each click has one row, and each record counts once."""
    with world.state_of("west") as state:
        must(state.epoch == "1", f"west begins epoch {state.epoch}")
        must(state.passed == passed, f"{state.passed} batches count as passed over")
        must(state.counts().of("pending") == 0, "a record waits for ever")
    for name in ("east", "west"):
        letters = [row for row in world.rows("dead_letters") if row["_datacenter"] == name]
        with closing(world.read_state(name)) as state:
            counted = state.counts().of("dead_letters")
        places = Counter((row["_epoch"], row["_occurrence"]) for row in letters)
        must(max(places.values(), default=1) == 1, f"{name} has a side row twice")
        must(len(letters) == counted, f"{name} has {len(letters)} side rows, and counts {counted}")
    world.must_be_sound(["c1", *clicks])


def a_silent_datacenter_goes_on_where_it_was(
    world: Copied, survivor: str = "", back: str = "", point: str = "claim.after"
) -> None:
    """Whatever happens to the survivor while it passes the batch over, and to west while it takes it."""
    world.everywhere("c2", "c3")
    world.log("west", "clicks", "no record\n")
    dies(world, point)
    if survivor:
        must(world.join_with_a_crash(survivor, "east"), f"east passes {survivor}")
    world.join("east")
    must(west(world).passed == 1, "the batch was not passed over")
    if back:
        must(world.join_with_a_crash(back, "west"), f"west passes {back}")
    world.join("west")
    must_have_gone_on(world, 1, "c2", "c3")


def side_rows_come_late(world: Copied, survivor: str) -> None:
    """West stands still right before it commits a dead letter. Its batch is passed over, and a copy takes it.

    `survivor`: where east dies, which has to leave the rest to the copy; or empty.
    """
    world.everywhere("c2")
    world.log("west", "clicks", "no record\n")
    met, is_gone = list[str](), list[str]()

    def stand_still(point: str, place: Path | None) -> None:
        if is_gone and point != "lake.before_commit":
            raise SimulatedCrash  # it has tried to commit
        if point != "lake.before_commit" or not str(place).endswith("west/dead_letters") or met:
            return
        met.append(point)
        if not survivor:
            world.join("east")
            return
        must(world.join_with_a_crash(survivor, "east"), f"east passes {survivor}")
        world.copy_state("west")
        world.state("west").rename(world.folder / "of-the-sleeper")
        (world.folder / "copy-of-west").rename(world.state("west"))
        must(world.join_with_a_crash("batch.before_run", "west"), "the copy takes the batch")
        world.join("east")  # makes a release
        is_gone.append(point)

    with watched(stand_still), suppress(SimulatedCrash):
        world.join("west")
    must(bool(met), "west commits a dead letter")
    for name in ("east", "west"):
        world.join(name)
    must_have_gone_on(world, 1, "c2")
    for release in kept_releases(world.pipeline):
        try:
            OpenRelease(world.pipeline, release).tables("dead_letters")
        except ReleaseUnreadable as error:
            must(False, f"a side row came late: {error}")


def each_return_dies_of_the_same_work(world: Copied) -> None:
    """West dies with its claims again and again, and so does the survivor before it claims them."""
    world.everywhere("c2", "c3")
    for _ in range(ATTEMPTS):
        dies(world, "commit.before_main")
        must(world.join_with_a_crash("recover.after_close", "east"), "east passes the batch over")
    with world.state_of("west") as state:
        plan = state.open_plan()
    lost = plan.content.attempts.died if plan is not None else 0
    must(lost == ATTEMPTS - 1, f"attempts are forgotten: {lost} were lost before this one")
    world.join("west")
    world.join("east")
    must_have_gone_on(world, ATTEMPTS, "c2", "c3")


def a_void_claim_ends_nobody(world: Copied) -> None:
    """A copy of west has claimed for its batch and is gone: west is taken for dead right before it claims."""
    world.clicks(("w2", "q1"), datacenter="west")
    others = [f"d{number}" for number in range(16)]  # some in each ledger
    world.clicks(*((click, "q1") for click in others), datacenter="east")
    world.claim(Claimant(Epoch("west", 1), west(world).batch + 1, "of-a-copy"), *others)
    ended = ""
    with at("claim.before", lambda: world.join("east")):
        try:
            world.join("west")
        except Superseded as error:
            ended = str(error)
    must(not ended, f"its process ends: {ended}")
    must_have_gone_on(world, 1, "w2", *others)


def a_lake_put_back(world: Copied) -> None:
    """West's lake is put back to before its batch was passed over: west has to notice it."""
    world.everywhere("c2")
    dies(world)
    world.copy(["lake"])
    world.join("east")
    world.put_back(["lake"], ["west"])
    world.everywhere("c4")
    for name in ("west", "east", "west"):
        world.join(name, callbacks=Callbacks(should_stop=gives_up()))
    with world.state_of("west") as state:
        must(state.epoch != "1", "west goes on with a lake that was put back")
    world.must_be_sound(["c1", "c2", "c4"])


def a_survivor_meets_a_lake_put_back(world: Copied) -> None:
    """West's lake was put back, and lacks more than the batch that is open: its epoch is ended."""
    world.copy(["lake"])
    for click in ("c2", "c3"):
        world.everywhere(click)
        world.join("west")
    world.everywhere("c4")
    dies(world)
    world.put_back(["lake"], ["west"])
    world.join("east")
    for name in ("west", "east", "west"):
        world.join(name)
    world.must_be_sound(["c1", "c2", "c3", "c4"])


def rows_come_right_before_the_batch_is_passed_over(world: Copied) -> None:
    """West was only slow: it commits while east is about to pass its batch over."""
    world.everywhere("c2")
    met = list[str]()

    def commits(point: str, place: Path | None) -> None:
        if point == "lake.before_commit" and str(place).endswith("west/joined_events") and not met:
            met.append(point)
            dies(world, "commit.after_main")

    dies(world)
    with watched(commits):
        world.join("east")
    must(bool(met), "east is about to pass the batch over")
    world.join("west")
    must_have_gone_on(world, 0, "c2")


def a_part_of_a_lake_put_back(world: Copied) -> None:
    """West's joined rows are put back to before its batch was passed over; no ledger knows of its close."""
    world.everywhere("c2")
    dies(world)
    lake = Path(str(world.pipeline.datacenters["west"].lake))
    copy = world.folder / "joined-before"
    shutil.copytree(lake / "joined_events", copy)
    must(world.join_with_a_crash("recover.after_raised", "east"), "east raises the side tables")
    shutil.rmtree(lake / "joined_events")
    shutil.copytree(copy, lake / "joined_events")
    world.join("west", callbacks=Callbacks(should_stop=gives_up()))
    world.join("east")
    with world.state_of("west") as state:
        must(state.epoch != "1", "west goes on with a lake that was put back")
    world.must_be_sound(["c1", "c2"])


def a_new_batch_has_its_own_silence(world: Copied) -> None:
    """West gives no beat, and goes on to the next batch: a new one has all of `silent_after`."""
    watch, epoch = SilenceWatch(10), Epoch("west", 1)
    for now_us, batch in ((0, 1), (5, 1), (10, 1), (11, 2)):
        watch.look({epoch: (7, batch)}, now_us)
    must(not watch.is_silent(epoch), "a new batch is passed over at once")
