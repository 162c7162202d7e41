"""A verification tells its tasks who holds which event: short runs inline, long ones as files."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from photon.registry.entry import Claimant, Epoch
from photon.registry.holds import HashRun
from photon.registry.lookups import Hold
from photon.registry.segments import SUFFIX
from photon.storage.delta import LakeUnavailable
from photon.verification import spool as spooling
from photon.verification.spool import Spool
from photon.verification.tasks import NO_PLAN
from tests.simulation.world import NOON_US, World, hashed

IDS = [f"c{number}" for number in range(200)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """West has joined 200 events, and holds one more."""
    made = World(tmp_path, ("east", "west"))
    made.registered_elsewhere(*IDS)
    made.claim(Claimant(Epoch("west", 1), 2, "p"), "open")
    return made


def spool(world: World, monkeypatch: pytest.MonkeyPatch, most: int, in_lakes: bool = False) -> Spool:
    monkeypatch.setattr(spooling, "MOST_HOLDS_SENT", most)
    return Spool(world.pipeline, in_lakes)


@pytest.mark.parametrize("in_lakes", [False, True])
@pytest.mark.parametrize("most", [1, 100, 10_000])
def test_tasks_hear_the_same_of_files_as_of_the_view_itself(
    world: World, monkeypatch: pytest.MonkeyPatch, most: int, in_lakes: bool
) -> None:
    own = spool(world, monkeypatch, most, in_lakes)
    view = world.reader().snapshot(NO_PLAN)
    sent = pickle.loads(pickle.dumps(own.with_runs_in_files(view, "east")))
    asked = hashed(*IDS, "open", "nobody"), np.full(len(IDS) + 2, NOON_US)
    found = sent.open(NO_PLAN).look_up(*asked)
    assert found.codes.tolist() == view.open(NO_PLAN).look_up(*asked).codes.tolist()
    assert found.codes.tolist()[-3:] == [Hold.JOINED_ELSEWHERE, Hold.ELSEWHERE, Hold.NOBODY]
    assert found.holder(0).epoch.datacenter == "west"
    own.close()


def test_a_long_run_is_not_sent_itself_and_its_file_goes_at_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = spool(world, monkeypatch, 100, in_lakes=True)
    view = own.with_runs_in_files(world.reader().snapshot(NO_PLAN), "east")
    assert sum(len(run) for runs in view.runs.values() for run in runs if isinstance(run, HashRun)) < 100
    lake = world.pipeline.datacenters["east"].lake
    assert isinstance(lake, Path)
    assert list(lake.glob(f"**/*{SUFFIX}"))
    own.close()
    assert not list(lake.glob(f"**/*{SUFFIX}"))


def test_a_lake_that_takes_no_file_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = world.pipeline.datacenters["east"].lake
    assert isinstance(lake, Path)
    lake.parent.mkdir(exist_ok=True)
    lake.write_text("no folder")
    with pytest.raises(LakeUnavailable):
        spool(world, monkeypatch, 1, in_lakes=True).with_runs_in_files(world.reader().snapshot(), "east")
