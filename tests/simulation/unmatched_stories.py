"""Worlds that look for unmatched primaries: real logs, tables and state, and a clock that is told."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

from photon.process.faults import watched
from photon.registry.id_registry import IdRegistry
from photon.releases import copies
from photon.releases.numbering import last_release
from photon.releases.reading import ReleaseUnreadable
from photon.releases.release import CleanVerification
from photon.state.unmatched import UnmatchedProgress, published
from photon.unmatched import run
from photon.unmatched.found import HeldBack, UnmatchedFound
from photon.unmatched.run import find_unmatched
from photon.upkeep.retire import plan_retire
from tests.simulation.world import NOON_US, World
from tests.support.crashes import crash_at

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
UNMATCHED = "unmatched: {after: 24h, columns: [text]}\nreleases: {keep: 30d}"


class UnmatchedWorld(World):
    """A world whose clock is two days behind its first events, and whose logs go on for so long."""

    def __init__(self, folder: Path, datacenters: Sequence[str] = ("east",), more: str = UNMATCHED) -> None:
        super().__init__(folder, datacenters, more)

    def go_on(self, to_us: int = 2 * DAY_US, datacenter: str | None = None) -> None:
        """Have both logs read up to a time since noon: a pair that joins is logged there."""
        names, pair = [datacenter] if datacenter else list(self.pipeline.datacenters), f"at {to_us}"
        for name in names:
            self.join(name)
            self.queries(pair, datacenter=name, at_us=NOON_US + to_us)
            self.clicks((pair, pair), datacenter=name, at_us=NOON_US + to_us)
        self.clock.advance(max(0, NOON_US + to_us - self.clock.now_us()) / 1e6)
        for name in names:
            self.join(name)

    def look(
        self, anew: bool = False, dry_run: bool = False, registry: IdRegistry | None = None
    ) -> UnmatchedFound:
        """Look for unmatched primaries."""
        return find_unmatched(self.pipeline, registry or self.reader(), self.clock, anew, dry_run)

    def unmatched(self) -> list[dict[str, Any]]:
        """All rows of unmatched primaries, by id."""
        return sorted(self.rows("unmatched"), key=lambda row: str(row["primary_id"]))

    def unmatched_ids(self) -> list[str]:
        """Their ids; one that is there twice is named twice."""
        return [row["primary_id"] for row in self.unmatched()]

    def progress(self, datacenter: str = "east") -> UnmatchedProgress:
        found = published(self.pipeline.datacenters[datacenter].lake)
        assert found is not None
        return found

    def copy(self, place: Path) -> Callable[[], None]:
        """Copy a folder, and return what puts the copy back."""
        copy = self.folder / f"copy-{next(self._numbers)}"
        shutil.copytree(place, copy)

        def put_back() -> None:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(copy, place)
            self.forget()

        return put_back

    def lose_state(self, datacenter: str = "east") -> None:
        """Lose all that a dispatcher remembers: its next start begins a new epoch."""
        shutil.rmtree(self.state(datacenter))
        self.forget()

    def must_be_decided(self, *ids: str) -> None:
        """Each of these primaries has a joined row or one row among the unmatched; no id has two of these."""
        written = Counter(self.unmatched_ids())
        twice = sorted(name for name, count in written.items() if count > 1)
        assert not twice, f"unmatched twice: {twice}"
        joined = {row["_primary_id"] for row in self.rows()}
        missing = sorted(name for name in ids if name not in joined and name not in written)
        assert not missing, f"in neither table: {missing}"


def a_new_epoch_goes_on_where_the_old_one_was(world: UnmatchedWorld) -> None:
    """The state is lost, the clock goes back with it, and the new epoch catches up in several runs."""
    world.queries("q1")
    world.go_on(2 * DAY_US)
    world.queries("q2", at_us=NOON_US + 12 * HOUR_US)
    world.go_on(3 * DAY_US)
    world.look()
    world.lose_state()
    world.join()
    for _ in range(2):
        world.look()
        world.go_on(world.clock.now_us() - NOON_US + DAY_US)
    world.must_be_decided("q1", "q2")


def a_second_copy_comes_when_the_first_one_s_log_is_deleted(world: UnmatchedWorld) -> None:
    world.queries("q1", file="first.jsonl")
    world.go_on()
    world.look()
    (world.folder / "logs" / "east" / "queries" / "first.jsonl").unlink()
    world.queries("q1", at_us=NOON_US + 2 * DAY_US, file="second.jsonl")
    world.go_on(4 * DAY_US)
    world.look()
    world.must_be_decided("q1")


def a_primary_comes_late(world: UnmatchedWorld) -> None:
    """When the time of a primary was decided already its line comes, in a file that was read further."""
    world.queries("q1")
    world.go_on()
    world.look()
    world.queries("late", file="a.jsonl")
    world.join()
    found = world.look()
    world.must_be_decided("q1", "late")
    assert found.late == 1


def a_range_is_indexed_after_it_counts_as_read(world: UnmatchedWorld) -> None:
    """A kill between commit and completion: offsets go on, and the primaries are indexed by a later plan."""
    world.go_on()
    world.look()
    world.queries("q1")
    assert world.join_with_a_crash("complete.before_transaction")
    assert world.join_with_a_crash("plan.after_store")  # read back, and not yet run again
    world.look()
    world.join()
    world.look()
    world.must_be_decided("q1")


def a_line_can_not_be_read_for_a_while(world: UnmatchedWorld) -> None:
    """A log's folder is away during a run; what it has is decided by a later one."""
    world.queries("q1", file="b.jsonl")
    world.go_on()
    log = world.folder / "logs" / "east" / "queries" / "b.jsonl"
    log.rename(world.folder / "away")
    found = world.look()
    assert (found.unreadable, found.unreadable_files) == (1, ("queries/b.jsonl",))
    assert "can't be read again" in world.progress().held_back
    (world.folder / "away").rename(log)
    world.look()
    world.must_be_decided("q1")


def a_foreign_event_is_read_late(world: UnmatchedWorld) -> None:
    """Foreign logs are behind: their events are awaited, however old the primary is."""
    world.queries("q1")
    world.go_on(2 * HOUR_US)
    world.clock.advance(3 * DAY_US / 1e6)
    world.look()
    world.clicks(("a", "q1"), at_us=NOON_US + HOUR_US)
    world.go_on(3 * DAY_US)
    world.look()
    assert world.unmatched_ids() == [], "written before its time"


def a_lake_is_not_mounted(world: UnmatchedWorld) -> None:
    """West owned and wrote; it is retired, and its lake is away when east looks for the first time."""
    write_by_east_alone(world)
    plan_retire(world.pipeline, world.reader(), "east").apply()
    lake = world.pipeline.datacenters["east"].lake
    lake.rename(world.folder / "disk")
    lake.mkdir()
    with suppress(HeldBack, ReleaseUnreadable):
        world.look()
    assert list(lake.iterdir()) == [], "something was made where a lake is not mounted"
    lake.rmdir()
    (world.folder / "disk").rename(lake)
    world.look()
    world.must_be_decided("q1")


def write_by_east_alone(world: UnmatchedWorld) -> None:
    """East, the first by name, is the owner and has written a primary that both have."""
    for name in world.pipeline.datacenters:
        world.queries("q1", datacenter=name)
    world.go_on()
    world.look()
    assert world.unmatched_ids() == ["q1"]


def an_owner_that_stood_still_commits_after_its_retirement(world: UnmatchedWorld) -> None:
    """East stands still before it commits. A retirement dies before it fences; west writes; east goes on."""
    for name in world.pipeline.datacenters:
        world.queries("q1", datacenter=name)
    world.go_on()

    def takes_over(point: str, place: object) -> None:
        if point == "unmatched.before_commit" and not taken:
            taken.append(point)
            with crash_at("retire.after_register") as crash:
                plan_retire(world.pipeline, world.reader(), "east").apply()
            assert crash.has_happened
            world.look()

    taken: list[str] = []
    with watched(takes_over), suppress(HeldBack):
        world.look()
    assert taken
    world.must_be_decided("q1")


def a_run_is_killed_and_run_again(world: UnmatchedWorld, point: str) -> None:
    world.queries("q1", "q2")
    world.clicks(("a", "q2"))
    world.go_on()
    with crash_at(point) as crash:
        world.look()
    assert crash.has_happened
    world.forget()
    world.queries("q3", at_us=NOON_US + HOUR_US)
    world.go_on(3 * DAY_US)
    world.look()
    world.must_be_decided("q1", "q2", "q3")
    assert world.progress().run == max(row["_batch"] for row in world.unmatched())


def two_runs_meet(world: UnmatchedWorld) -> None:
    """A second run reads, commits and ends while the first one stands still before its commit."""
    world.queries("q1")
    world.go_on()

    def meets(point: str, place: object) -> None:
        if point == "unmatched.before_commit" and not met:
            met.append(point)
            with mock.patch.object(run, "LOCK", "of-the-second.lock"):
                world.look()

    met: list[str] = []
    with watched(meets), suppress(HeldBack):
        world.look()
    assert met
    world.must_be_decided("q1")


def rows_leave_with_their_lake(world: UnmatchedWorld) -> None:
    """A primary was matched by a row in west's lake, which is lost, and its foreign event with it."""
    world.queries("q1", datacenter="east")
    world.queries("q1", datacenter="west")
    world.clicks(("a", "q1"), datacenter="west")
    world.join("west")
    world.go_on()
    world.look()
    assert world.unmatched_ids() == []
    shutil.rmtree(world.pipeline.datacenters["west"].lake)
    world.lose_state("west")
    plan_retire(world.pipeline, world.reader(), "west", True).apply()
    world.go_on(2 * DAY_US + 4 * HOUR_US, "east")
    verified(world, "east")
    world.go_on(2 * DAY_US + 8 * HOUR_US, "east")
    release = last_release(world.reader().view)
    assert release is not None
    assert release.set_back is None
    assert release.unmatched_up_to_us is None, "a run of before rows left counts"
    world.look()
    world.must_be_decided("q1")
    release = last_release(world.reader().view)
    assert release is not None
    assert release.unmatched_up_to_us == world.progress().up_to_us


def a_new_epoch_has_other_numbers_of_files(world: UnmatchedWorld) -> None:
    """The state is lost, and the new epoch knows a new file by the number that an old one had."""
    world.queries("q1", "q2", "q3", file="b.jsonl")
    world.go_on()
    world.look()
    world.lose_state()
    (world.folder / "logs" / "east" / "queries" / "a.jsonl").unlink()
    world.queries("late", file="in-its-place.jsonl")
    world.go_on(2 * DAY_US + 4 * HOUR_US)
    world.look()
    world.must_be_decided("q1", "q2", "q3", "late")


def verified(world: UnmatchedWorld, datacenter: str) -> None:
    """Have a datacenter say that none of its events lacks a row: then it counts as complete again."""
    release = last_release(world.reader().view)
    assert release is not None
    copies.note_verified(world.pipeline.datacenters[datacenter].lake, CleanVerification(release.number))
