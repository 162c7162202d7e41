"""All lakes are put back to older copies, and the registry is not: the releases between are lost for good."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from photon.feed.following import Follower
from photon.feed.step import CursorTooOld, FeedStopped
from photon.releases.finding import ReleaseUnreadable, kept_releases
from photon.releases.release import Release
from tests.feed.test_following import Memory
from tests.simulation.put_back_stories import Copied


@dataclass(frozen=True)
class PutBack:
    """A world whose lakes and states are older than its last three releases."""

    world: Copied
    lost: list[Release]

    @property
    def kept(self) -> list[Release]:
        return kept_releases(self.world.pipeline)

    def follow(self, last: Release | None = None, is_log: bool = False) -> list[int]:
        """Look once behind a cursor; the releases that are delivered."""
        sink = Memory(last=last, is_log=is_log)
        Follower(self.world.pipeline, sink, "oldest", self.world.clock).run(once=True)
        return sink.numbers


@pytest.fixture
def here(tmp_path: Path) -> PutBack:
    world = Copied(tmp_path, ("east", "west"))
    for n in range(5):
        if n == 2:
            world.copy(["state", "lake"])
        goes_on(world, f"c{n}")
    lost = kept_releases(world.pipeline)[-3:]
    world.put_back(["state", "lake"])
    return PutBack(world, lost)


def goes_on(world: Copied, event: str) -> None:
    world.everywhere(event)
    for name in world.pipeline.datacenters:
        world.clock.sleep(40)
        world.join(name)


def test_until_the_next_join_a_follower_says_that_no_lake_has_what_it_delivered(here: PutBack) -> None:
    for each in here.lost:
        with pytest.raises(
            ReleaseUnreadable, match=r"no lake has it any more: .*photon join .*pipeline.yaml"
        ):
            here.follow(each)


def test_behind_a_lost_release_it_ends_at_once_and_waits_for_no_copy(here: PutBack) -> None:
    oldest_kept = here.kept[-1]
    goes_on(here.world, "late")
    first, second, newest = here.lost
    for each in (oldest_kept, first):
        with pytest.raises(CursorTooOld, match=r"lakes were put back.*--resync"):
            here.follow(each)
    for each in (second, newest):  # the registry has the newest one, and a join copies it
        with pytest.raises(FeedStopped, match=r"lake put back.*--resync"):
            here.follow(each)


def test_a_fresh_follower_begins_behind_them(here: PutBack) -> None:
    assert here.follow() == [one.number for one in here.kept]
    goes_on(here.world, "late")
    assert here.follow() == here.follow(is_log=True)
    assert here.follow()[0] > here.lost[-1].number


def test_a_log_goes_on_behind_them(here: PutBack) -> None:
    oldest_kept = here.kept[-1]
    goes_on(here.world, "late")
    goes_on(here.world, "later")
    assert here.follow(oldest_kept, is_log=True)[-1] == here.kept[-1].number
