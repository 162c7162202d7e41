"""A copy of the registry is put back between a look at the register and its change by a name (A23)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.simulation import hold_stories as stories
from tests.simulation.put_back_stories import Copied
from tests.support.crashes import at


@pytest.mark.parametrize("knows", ["an earlier epoch", "nothing of the datacenter"])
def test_a_start_that_finds_its_epoch_gone_is_refused_with_the_remedy(tmp_path: Path, knows: str) -> None:
    world = Copied(tmp_path)
    world.queries("q1")
    if knows == "nothing of the datacenter":
        world.copy(["registry"])
    world.clicks(("c1", "q1"))
    world.join()
    if knows == "an earlier epoch":
        world.copy(["registry"])
    shutil.rmtree(world.state())
    world.clicks(("d1", "q1"))
    world.join()
    shutil.rmtree(world.state())
    world.clicks(("d1", "q1"), ("e1", "q1"))
    with at("lake.after_commit", lambda: world.put_back(["registry"])):  # the fence of the lost epoch
        refused = world.refused()
    assert refused is not None
    assert f"photon registry refill {world.pipeline.file}" in refused
    world.refill()
    world.join()
    world.must_be_sound(["c1", "d1", "e1"])


@pytest.mark.parametrize("knows", ["an earlier epoch", "nothing of the datacenter"])
def test_a_survivor_that_finds_a_silent_epoch_gone_is_refused_with_the_remedy(
    tmp_path: Path, knows: str
) -> None:
    world = Copied(tmp_path, ("east", "west"), more=stories.HOME)
    if knows == "an earlier epoch":
        world.join("west")
        shutil.rmtree(world.state("west"))
    world.copy(["registry"])
    world.everywhere("c1", "c2")
    assert world.join_with_a_crash("claim.after", "west")
    with at("recover.after_passed", lambda: world.put_back(["registry"])):
        refused = world.refused("east")
    assert refused is not None
    world.join_all()
    world.must_be_sound(["c1", "c2"])
