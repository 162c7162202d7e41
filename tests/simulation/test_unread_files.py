"""Nothing is given up, complete or deletable while a file is there that matches and can't be read (D11)."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from photon.dispatcher.log_reader import opened_logs
from photon.dispatcher.shift.deletable_files import deletable
from photon.logs import unread_files
from photon.logs.unread_files import AWAITED_US
from photon.process.clock import MICROSECONDS
from photon.releases.copies import latest
from photon.state.completeness.published import last_said
from photon.state.losses import losses_of, open_losses, plan_acknowledgement
from photon.state.view import StateView, view_state
from photon.unmatched.deciding import UnmatchedSight, due
from tests.simulation.world import NOON_US, World, assert_counts
from tests.support.manual_clock import ManualClock
from tests.support.without_privileges import reading_as_others_do

SOON = "retry: {unjoinable_after: 1s, allowed_lateness: 1us}"


def place_of(world: World, kind: str, name: str) -> Path:
    """Where a world writes a log of east."""
    world.log("east", kind, file=f"{kind}-place.jsonl")
    found = next(Path(world.folder).rglob(f"{kind}-place.jsonl"))
    found.unlink()
    return found.with_name(name)


def taken_out(world: World, kind: str) -> tuple[Path, bytes]:
    """The log that was just written, as gzip, with its plain file gone."""
    log = place_of(world, kind, "a.jsonl")
    whole = gzip.compress(log.read_bytes(), mtime=0)
    log.unlink()
    return log.with_name("b.jsonl.gz"), whole


def hold(world: World, kind: str, *events: str) -> tuple[Path, bytes]:
    """Write a log of these events as half a gzip file; the place and all of its bytes."""
    if kind == "clicks":
        world.clicks(*((each, "q1") for each in events))
    else:
        world.queries(*events)
    place, whole = taken_out(world, kind)
    place.write_bytes(whole[: len(whole) // 2])
    return place, whole


def view_of(world: World) -> StateView:
    return view_state(world.state(), world.clock.now_us())


def may_be_deleted(world: World) -> list[str]:
    view = view_of(world)
    reader = opened_logs(world.pipeline, "east", view, world.clock.now_us())
    said = last_said(world.pipeline.datacenters["east"].lake)
    found = deletable(reader.files.values(), (), said, world.clock.now_us(), 0, unread=reader.unread())
    return [one.file.path for one in found]


def test_no_log_may_be_deleted_while_half_a_gzip_file_may_need_it(world: World) -> None:
    world.queries("q1")
    place, whole = hold(world, "clicks", "c1")
    world.clicks(("c2", "q1"))
    world.join()
    world.clock.advance(3_600)
    world.join()
    assert may_be_deleted(world) == []
    assert last_said(world.pipeline.datacenters["east"].lake).unread == 1
    place.write_bytes(whole)
    assert_counts(world.join().counts, joined=2, unjoinable=0)
    assert world.joined_ids() == ["c1", "c2"]


@pytest.mark.parametrize("mode", ["until_idle", "complete"])
def test_no_click_is_given_up_while_its_primary_is_in_a_file_that_is_not_read(
    tmp_path: Path, mode: str
) -> None:
    world = World(tmp_path, more=SOON)
    place, whole = hold(world, "queries", "q1")
    world.clicks(("c1", "q1"))
    for seconds in (1, 60, 120):
        world.queries(f"other{seconds}", at_us=NOON_US + seconds * MICROSECONDS)
        world.join(mode=mode)
        world.clock.advance(60)
    assert_counts(world.join(mode=mode).counts, pending=1, unjoinable=0)
    place.write_bytes(whole)
    assert_counts(world.join(mode=mode).counts, pending=0, joined=1)


def test_no_click_is_given_up_while_its_primary_is_in_a_file_of_mode_000(tmp_path: Path) -> None:
    world = World(tmp_path, more=SOON)
    world.queries("q1")
    log = place_of(world, "queries", "a.jsonl")
    log.chmod(0)
    world.clicks(("c1", "q1"))
    with reading_as_others_do():
        world.join()
        world.clock.advance(60)
        assert_counts(world.join(mode="complete").counts, pending=1)
    log.chmod(0o644)
    assert_counts(world.join(mode="complete").counts, joined=1)


def test_a_click_waits_for_a_file_that_was_read_and_has_mode_000_since(tmp_path: Path) -> None:
    """Broken variant: a complete join never ends, and nobody is told which file its event waits for."""
    world = World(tmp_path, more=SOON)
    world.events("c1")
    world.join()
    log = place_of(world, "queries", "a.jsonl")
    log.chmod(0)
    world.clicks(("c2", "q1"))
    with reading_as_others_do():
        assert_counts(world.join(mode="complete").counts, joined=1, pending=1)
        assert [one.path for one in view_of(world).unread] == ["queries/a.jsonl"]
    log.chmod(0o644)
    assert_counts(world.join(mode="complete").counts, joined=2)
    assert view_of(world).unread == ()


def test_the_watermark_goes_on_when_a_file_that_was_read_in_part_is_given_up(tmp_path: Path) -> None:
    """Broken variant: its unread bytes hold the watermark after the acknowledgement."""
    world = World(tmp_path, more=SOON)
    world.events("c1")
    log = place_of(world, "queries", "a.jsonl")
    with log.open("a") as appending:
        appending.write('{"half')
    world.join()
    log.chmod(0)
    world.clock.advance(3_600)
    later_us = NOON_US + 3_600 * MICROSECONDS
    world.queries("q2", at_us=later_us, file="later.jsonl")
    world.clicks(("c2", "q2"), at_us=later_us)
    with reading_as_others_do():
        world.join()
        assert view_of(world).watermark_us == NOON_US
        plan_acknowledgement(world.state(), world.clock.now_us()).apply()
        world.clicks(("c3", "q2"), at_us=later_us)
        world.join()
        assert view_of(world).watermark_us == later_us


def test_a_link_to_a_disk_that_is_not_mounted_holds_as_a_file_does(tmp_path: Path) -> None:
    world = World(tmp_path, more=f"{SOON}\ntailing: {{links_lead_out: true}}")
    world.queries("q1")
    log = place_of(world, "queries", "a.jsonl")
    disk = tmp_path / "disk.jsonl"
    log.rename(disk)
    data = disk.read_bytes()
    disk.unlink()
    log.symlink_to(disk)
    world.clicks(("c1", "q1"))
    assert_counts(world.join(mode="complete").counts, pending=1)
    disk.write_bytes(data)
    assert_counts(world.join(mode="complete").counts, joined=1)


def test_an_end_that_was_said_is_taken_back_and_releases_say_how_many_files_are_not_read(
    world: World,
) -> None:
    world.events("c1")
    world.join(mode="complete")
    lake = world.pipeline.datacenters["east"].lake
    assert last_said(lake).is_final
    up_to_us = last_said(lake).complete_up_to_us
    place, whole = hold(world, "clicks", "c2")
    world.clock.advance(60)
    world.join(mode="complete")
    said = last_said(lake)
    assert (said.is_final, said.unread) == (False, 1)
    assert "b.jsonl.gz" in said.unread_named[0]
    assert said.complete_up_to_us == up_to_us
    assert latest(lake).parts["east"].unread == 1
    place.write_bytes(whole)
    world.clock.advance(60)
    world.join(mode="complete")
    assert last_said(lake).is_final
    assert latest(lake).parts["east"].unread == 0


def test_no_primary_is_unmatched_while_a_click_on_it_may_be_in_a_file_that_is_not_read(
    world: World,
) -> None:
    world.events("c1")
    world.join(mode="complete")
    lake = world.pipeline.datacenters["east"].lake
    hold(world, "clicks", "c2")  # nothing joins any more: an own look sees it
    view, release = view_of(world), latest(lake)
    now_us = world.clock.now_us()
    unread = opened_logs(world.pipeline, "east", view, now_us).unread()
    sight = UnmatchedSight("east", 1, now_us, 0, release, last_said(lake), view.watermark_us, True, unread)
    found = due(sight)
    assert found.up_to_us is None
    assert "b.jsonl.gz" in found.because


def test_entries_outlive_their_process(world: World) -> None:
    world.events("c1")
    hold(world, "clicks", "c2")
    world.join()
    (before,) = view_of(world).unread
    world.forget()
    world.clock.advance(60)
    world.join()
    assert view_of(world).unread == (before,)


def test_an_acknowledged_file_holds_nothing_is_lost_bytes_and_joins_when_it_can_be_read(
    world: World,
) -> None:
    place, whole = hold(world, "queries", "q1")
    world.clicks(("c1", "q1"))
    world.join()
    plan = plan_acknowledgement(world.state(), world.clock.now_us())
    assert any("b.jsonl.gz" in name for name in plan.names)
    plan.apply()
    view = view_of(world)
    lost = losses_of(view, world.state())
    assert lost.unread_bytes == len(whole) // 2
    assert not open_losses(world.state(), view)
    assert_counts(world.join(mode="complete").counts, unjoinable=1)
    place.write_bytes(whole)
    assert_counts(world.join(mode="complete").counts, joined=1, unjoinable=0)
    assert losses_of(view_of(world), world.state()).unread_bytes == 0


def test_an_acknowledged_file_that_changes_holds_again(world: World) -> None:
    world.queries("q1")
    place, whole = hold(world, "clicks", "c1")
    world.join()
    plan_acknowledgement(world.state(), world.clock.now_us()).apply()
    reader = opened_logs(world.pipeline, "east", view_of(world), world.clock.now_us())
    assert reader.unread() == ()
    place.write_bytes(whole[: len(whole) // 2 + 3])
    world.join()
    assert len(opened_logs(world.pipeline, "east", view_of(world), world.clock.now_us()).unread()) == 1


def test_a_file_that_goes_unread_is_a_loss(world: World) -> None:
    world.events("c1")
    place, whole = hold(world, "clicks", "c2")
    world.clicks(("c1", "q1"))
    world.join()
    place.unlink()
    for _ in range(3):
        world.join()
    view = view_of(world)
    assert open_losses(world.state(), view).unread_bytes == len(whole) // 2
    assert opened_logs(world.pipeline, "east", view, world.clock.now_us()).unread() == ()


def test_a_pipe_is_named_and_holds_nothing_back(world: World) -> None:
    world.events("c1")
    os.mkfifo(place_of(world, "clicks", "pipe.jsonl"))
    assert_counts(world.join(mode="complete").counts, joined=1)
    reader = opened_logs(world.pipeline, "east", view_of(world), world.clock.now_us())
    assert reader.unread() == ()
    assert "pipe.jsonl" in reader.passed_over["foreign"][0].path


def test_a_pipe_that_takes_the_place_of_a_log_blocks_nobody(world: World) -> None:
    world.queries("q1")
    world.clicks(("c1", "q1"), ("c2", "unread"))
    world.join()
    log = place_of(world, "clicks", "a.jsonl")
    log.unlink()
    os.mkfifo(log)
    world.clock.advance(3_600)
    world.join()


def test_what_is_beyond_the_bound_of_entries_holds_and_joins_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_files, "MOST_ENTRIES", 2)
    world = World(tmp_path, more=SOON)
    places = {}
    for number in range(5):
        world.queries(f"q{number}")
        place, whole = taken_out(world, "queries")
        places[place.with_name(f"b{number}.jsonl.gz")] = whole
        place.with_name(f"b{number}.jsonl.gz").write_bytes(whole[:-1])
    world.clicks(*((f"c{number}", f"q{number}") for number in range(5)))
    world.queries("other", at_us=NOON_US + 60 * MICROSECONDS)
    assert_counts(world.join(mode="complete").counts, pending=5)
    assert len(view_of(world).unread) == 3
    for done, (place, whole) in enumerate(places.items(), start=1):
        place.write_bytes(whole)
        world.clock.advance(3_600)
        assert_counts(world.join(mode="complete").counts, joined=done, unjoinable=0)
    assert view_of(world).unread == ()


class Writer(ManualClock):
    """A clock that has a byte of a file written each time that somebody waits for a while."""

    place, left = Path(), b""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds + 30)
        if self.left:
            with self.place.open("ab") as file:
                file.write(self.left[:1])
            self.left = self.left[1:]


def test_a_join_that_ends_when_it_is_idle_waits_for_a_file_that_grows(world: World) -> None:
    """Broken variant: it ends beside half a file that is being copied, without its clicks."""
    world.queries("q1")
    place, whole = hold(world, "clicks", "c1")
    world.join()
    world.clock = clock = Writer(world.clock.now_us())
    half = len(whole) // 2
    place.write_bytes(whole[: half + 1])
    clock.place, clock.left = place, whole[half + 1 :]
    assert_counts(world.join().counts, joined=1)


def test_a_join_that_ends_when_it_is_idle_does_not_wait_for_a_file_that_grows_no_more(world: World) -> None:
    world.queries("q1")
    hold(world, "clicks", "c1")
    world.clicks(("c2", "q1"))
    before_us = world.clock.now_us()
    assert_counts(world.join().counts, joined=1)
    assert world.clock.now_us() - before_us < AWAITED_US
