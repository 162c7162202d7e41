"""`photon status` of a datacenter whose process is there and does not go on."""

from __future__ import annotations

from pathlib import Path

from photon.dispatcher.retrying import Callbacks
from photon.dispatcher.shift.people import decisions_of
from photon.health.headline import headline
from photon.health.status import status_of
from photon.storage.tables import fence_epoch
from tests.simulation import hold_stories as stories
from tests.simulation.reading import asking
from tests.simulation.world import World
from tests.support.crashes import at
from tests.support.faulty_disk import FULL, FaultyDisk


def said_of(world: World, datacenter: str) -> str:
    with asking(world):
        decisions = decisions_of(world.pipeline)
    one = status_of(world.pipeline, datacenter, world.clock, decisions)
    return headline(one, "p.yaml")


def test_a_full_disk_is_told_with_its_error_until_the_wait_is_over(tmp_path: Path) -> None:
    world, said = World(tmp_path), dict[str, str]()
    world.events("c1")
    world.join_with_a_crash("plan.before_store")  # makes the tables
    disk = FaultyDisk(world.folder, world.clock)
    disk.fail("lake.before_commit", FULL)

    def on_wait(reason: str) -> None:
        said["waits"] = said_of(world, "east")
        disk.mend()

    with disk.in_use():
        told = Callbacks(on_wait=on_wait, on_resume=lambda *_: said.update(goes_on=said_of(world, "east")))
        world.join(callbacks=told)
    assert said["waits"].startswith("east WAITS for 0 s: ")
    assert "No space left on device" in said["waits"]
    assert said["waits"].endswith("; mend that, and it goes on by itself")
    assert "WAITS" not in said["goes_on"]


def test_a_process_whose_epoch_others_have_ended_is_told_as_fenced(tmp_path: Path) -> None:
    world, said = World(tmp_path, ["east", "west"], stories.HOME), list[str]()
    world.everywhere("c1")

    def others_go_on() -> None:
        said.append(said_of(world, "west"))
        fence_epoch(world.pipeline.datacenters["west"].lake, "west", "1")
        said.append(said_of(world, "west"))

    with at("commit.before_main", others_go_on):
        world.join("west")
    before, after = said
    assert "FENCED" not in before
    assert after.startswith("west is FENCED: others have ended its epoch. ")
    assert after.endswith("continue it, or end it, then start it with photon join p.yaml -d west")
