"""Each object becomes one file, whole or not at all, and what could not be landed is told (K8 to K11)."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from photon.health.landed_objects import ObjectsSeen
from photon.landing.marker import acknowledge
from photon.landing.objects import lander as lander_module
from photon.landing.objects.known import FILE, FORGOTTEN_AFTER_DAYS, Known, failed_in
from photon.landing.objects.lander import ObjectsLander
from photon.landing.objects.marker import ObjectsMarker
from photon.landing.objects.source import source_of
from photon.landing.objects.to_land import ObjectsRefused, ObjectsToLand
from photon.landing.service import Landing
from photon.pipeline.sections import Storage
from photon.process.faults import watched
from photon.storage.store_errors import StoreUnavailable
from tests.landing.objects_world import BOOT, NAME, NOON_US, ObjectsWorld, lines_of, parquet
from tests.support.manual_clock import ManualClock

DAY_SECONDS = 24 * 3_600


class Paused(Landing):
    """Takes note of pauses, and ends after some."""

    def __init__(self, clock: ManualClock, most: int) -> None:
        super().__init__([], clock=clock)
        self.pauses, self._most = list[float](), most

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) == self._most:
            self.stopped.set()


def without_room(point: str, place: object) -> None:
    """Have the disk take no file but the marker."""
    if point == "disk.before_write" and "objects.json" not in str(place):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def world(tmp_path: Path) -> ObjectsWorld:
    return ObjectsWorld(tmp_path)


# -- files


def test_each_object_becomes_a_file_of_its_rows(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1, 2), "h=03/a.parquet": parquet(3)})
    assert world.look()
    assert [file.relative_to(world.folder).parts[:-1] for file in world.files()] == [(), ("h=03",)]
    assert world.lines() == sorted([*lines_of(1, 2), '{"click_id":"c3","h":"03"}'])
    assert (world.marker.landed, world.marker.waiting) == (2, 0)


def test_a_later_version_of_an_object_is_another_file(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    world.put({"a.parquet": parquet(1, 2)})
    world.look()
    assert len(world.files()) == 2
    assert world.lines() == sorted([*lines_of(1), *lines_of(1, 2)])


def test_an_object_whose_file_was_deleted_is_not_landed_again(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    world.files()[0].unlink()
    for _ in range(FORGOTTEN_AFTER_DAYS + 2):
        world.clock.advance(DAY_SECONDS)
        world.lander()
        assert world.look()
    assert world.files() == []
    assert world.objects.reads == ["a.parquet"]


def test_what_the_source_lists_no_more_is_forgotten_after_days(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1), "b.parquet": parquet(2)})
    world.look()
    world.remove("a.parquet")
    world.clock.advance(DAY_SECONDS * (FORGOTTEN_AFTER_DAYS + 2))
    world.look()
    with sqlite3.connect(world.folder / ".photon" / FILE) as known:
        assert known.execute("select count(*) from landed").fetchone() == (1,)


def test_a_source_that_seems_empty_for_days_makes_nobody_forget(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    world.files()[0].unlink()
    world.objects.is_away = True
    world.clock.advance(DAY_SECONDS * (FORGOTTEN_AFTER_DAYS + 2))
    world.look()
    world.objects.is_away = False
    world.look()
    assert world.objects.reads == ["a.parquet"]


@pytest.mark.parametrize(
    "hidden", ["_temporary/0/a.parquet", "_SUCCESS.parquet", ".a.parquet", "d/.x/a.parquet"]
)
def test_what_writers_hide_is_not_landed(world: ObjectsWorld, hidden: str) -> None:
    world.put({hidden: parquet(1)})
    assert world.look()
    assert world.files() == []


# -- kills


@pytest.mark.parametrize(
    "point",
    ["disk.before_write", "disk.before_sync", "disk.after_sync", "land.before_name", "land.after_name"],
)
@pytest.mark.parametrize("count", range(1, 12))
def test_a_lander_that_is_killed_anywhere_lands_each_object_once(
    world: ObjectsWorld, point: str, count: int
) -> None:
    world.put({f"d{n}/a.parquet": parquet(10 * n, 10 * n + 1) for n in range(3)})
    seen: list[str] = []
    for turn in range(3):
        world.look_killed_at(f"{point}:{count + turn}")
        seen = world.lines()
        assert set(seen) <= set(lines_of(0, 1, 10, 11, 20, 21))
        assert len(seen) % 2 == 0  # whole files
    assert world.look()
    assert world.lines() == lines_of(0, 1, 10, 11, 20, 21)
    assert [left.name for left in (world.folder / ".photon").glob("*.unfinished")] == []


def test_a_folder_that_is_put_back_from_a_copy_is_filled_again(world: ObjectsWorld, tmp_path: Path) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    world.lander()
    shutil.copytree(world.folder, tmp_path / "copy")
    world.put({"b.parquet": parquet(2)})
    world.look()
    if world.running is not None:
        world.running.close()
    shutil.rmtree(world.folder)
    shutil.move(tmp_path / "copy", world.folder)
    world.running = None
    assert world.look()
    assert world.lines() == lines_of(1, 2)


def test_a_full_disk_is_told_and_landing_goes_on_after_it(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})

    with watched(without_room):
        assert not world.look()
    assert "no room" in world.marker.problem
    assert world.files() == []
    assert world.look()
    assert world.marker.problem == ""
    assert world.lines() == lines_of(1)


def test_parquet_of_no_bytes_is_told_and_empty_text_is_passed_over(world: ObjectsWorld) -> None:
    world.source = replace(world.source, pattern="**/*")
    world.put({"a.parquet": b"", "b.jsonl": b"", "folder/": b""})
    assert world.look()
    assert [one.name for one in world.marker.failed] == ["a.parquet"]
    assert "is empty" in world.marker.failed[0].reason


def test_a_complete_landing_ends_where_there_is_no_room(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})

    landing = Landing([], complete=True, clock=world.clock)
    with watched(without_room), pytest.raises(ObjectsRefused, match="make room there"):
        ObjectsToLand(NAME, world.folder, "jsonl", lambda: world.source).land(landing, lambda: None)


# -- the store changes meanwhile


def test_an_etag_is_the_same_with_and_without_quotes(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.objects.lists_quotes = False
    assert world.look()
    assert world.lines() == lines_of(1)


def test_an_object_that_is_replaced_while_it_is_read_is_landed_as_it_is_then(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.objects.before_read = lambda name: (
        world.put({name: parquet(2)}) if len(world.objects.reads) == 1 else None
    )
    assert not world.look()
    assert world.marker.at_end is None
    assert world.marker.problem == "a.parquet was replaced while it was read"
    assert world.look()
    assert world.marker.problem == ""
    assert world.lines() == lines_of(2)


def test_an_object_that_goes_before_it_is_landed_is_told_until_somebody_acknowledges_it(
    world: ObjectsWorld,
) -> None:
    world.put({"a.parquet": parquet(1), "b.parquet": parquet(2)})
    world.objects.before_read = lambda name: world.remove(name) if name == "a.parquet" else None
    world.look()
    [failed] = world.marker.failed
    assert (failed.name, failed.is_gone) == ("a.parquet", True)
    assert world.lines() == lines_of(2)
    world.acknowledge()
    world.look()
    assert world.marker.failed_count == 0


def test_an_object_that_goes_while_the_store_is_away_is_told(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1), "b.parquet": parquet(2)})

    def away(_: str) -> None:
        raise StoreUnavailable("no answer")

    world.objects.before_read = away
    assert not world.look()
    assert world.marker.problem == "no answer"
    world.objects.before_read = lambda _: None
    world.remove("a.parquet")
    world.look()
    assert [one.name for one in world.marker.failed] == ["a.parquet"]


def test_an_object_that_went_and_is_there_again_is_landed(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1), "b.parquet": parquet(2)})
    world.objects.before_read = lambda name: world.remove(name) if name == "a.parquet" else None
    world.look()
    world.objects.before_read = lambda _: None
    world.put({"a.parquet": parquet(3)})
    assert world.look()
    assert world.marker.failed_count == 0
    assert world.lines() == lines_of(2, 3)


def test_a_listing_that_ends_with_an_error_decides_nothing(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    before = world.marker
    world.put({"b.parquet": parquet(2)})

    def away() -> None:
        raise StoreUnavailable("page 2 does not come")

    world.objects.before_end = away
    assert not world.look()
    assert world.marker.at_end == before.at_end
    assert world.marker.problem == "page 2 does not come"


def test_a_broken_object_is_told_and_tried_again_once_it_is_another_one(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)[:-9], "b.parquet": parquet(2)})
    for _ in range(3):
        assert world.look()
    assert world.objects.reads.count("a.parquet") == 1
    [failed] = world.marker.failed
    assert (failed.name, failed.is_gone) == ("a.parquet", False)
    assert world.lines() == lines_of(2)
    world.put({"a.parquet": parquet(1)})
    assert world.look()
    assert world.marker.failed_count == 0
    assert world.lines() == lines_of(1, 2)


def test_a_broken_object_that_goes_is_a_loss(world: ObjectsWorld) -> None:
    world.put({"a.parquet": b"PAR1", "b.parquet": parquet(2)})
    world.look()
    world.remove("a.parquet")
    world.look()
    [failed] = world.marker.failed
    assert failed.is_gone


def test_an_object_that_may_not_be_read_is_tried_again_later(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1), "b.parquet": parquet(2)})

    def refuse(name: str) -> None:
        if name == "a.parquet":
            raise PermissionError("archived")

    world.objects.before_read = refuse
    assert world.look()
    assert world.marker.failed_count == 1
    world.objects.before_read = lambda _: None
    assert world.look()
    assert world.marker.failed_count == 1
    world.clock.advance(lander_module.REFUSED_AGAIN_US / 1_000_000)
    assert world.look()
    assert world.lines() == lines_of(1, 2)
    assert world.marker.failed_count == 0


def test_many_archived_objects_ask_once_whether_all_are_refused(world: ObjectsWorld) -> None:
    world.put({f"{n}.parquet": parquet(n) for n in range(5)})
    asked = list[str]()
    world.objects.before_read = lambda _: (_ for _ in ()).throw(PermissionError("archived"))
    world.objects.before_each = lambda: asked.append("an object")
    assert world.look()
    assert world.marker.failed_count == 5
    assert len(asked) == 5 + 1


def test_credentials_that_may_not_list_any_more_fail_no_object(world: ObjectsWorld) -> None:
    world.put({name: parquet(n) for n, name in enumerate(("a.parquet", "b.parquet", "c.parquet"))})

    def expire(name: str) -> None:
        world.objects.refuses = "the store refuses these credentials: ExpiredToken"
        raise PermissionError("forbidden")

    world.objects.before_read = expire
    assert not world.look()
    assert (world.marker.problem, world.marker.failed) == (world.objects.refuses, ())
    world.objects.before_read, world.objects.refuses = lambda _: None, ""
    assert world.look()
    assert world.lines() == lines_of(0, 1, 2)


# -- the marker


def test_a_lister_that_pauses_as_long_as_listings_cost_is_not_silent(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.objects.before_end = lambda: world.clock.advance(120)
    world.look()
    for minutes, is_silent in ((17, False), (19, True)):
        looked_us = world.marker.said_us + minutes * 60_000_000
        assert bool(ObjectsSeen(NAME, "clicks", world.marker, looked_us=looked_us).silent_us) == is_silent


def test_a_marker_says_amid_a_long_listing_that_somebody_lists(
    world: ObjectsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lander_module, "LISTED_AT_ONCE", 1)
    world.look()
    world.put({f"{n}.parquet": parquet(n) for n in range(3)})
    before, told = world.marker, list[ObjectsMarker]()
    world.objects.before_each = lambda: (told.append(world.marker), world.clock.advance(30))
    world.look()
    assert told[-1].said_us > before.said_us
    assert replace(told[-1], said_us=0, due_us=0) == replace(before, said_us=0, due_us=0)


def test_a_marker_amid_landing_promises_no_silence(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.objects.before_end = lambda: world.clock.advance(120)
    due = list[bool]()
    world.objects.before_read = lambda _: due.append(world.marker.due_us > world.marker.said_us)
    assert world.look()
    assert (due, world.marker.due_us > world.marker.said_us) == ([False], True)


def test_what_was_acknowledged_of_a_topic_is_no_failure_of_an_object(world: ObjectsWorld) -> None:
    world.put({"a.parquet": b"PAR1"})
    acknowledge(world.folder, ["3 of 0", *(["\u00e4"])])
    assert world.look()
    assert world.marker.failed_count == 1


def test_of_many_failures_the_marker_names_some_and_the_list_has_all(
    world: ObjectsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lander_module, "MOST_NAMED", 2)
    world.put({f"{n}.parquet": b"PAR1" for n in range(5)})
    world.look()
    assert (len(world.marker.failed), world.marker.failed_count) == (2, 5)
    acknowledge(world.folder, [one.id for one in failed_in(world.folder / ".photon")])
    world.look()
    assert world.marker.failed_count == 0


def test_the_marker_says_that_objects_wait_before_any_has_its_name(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    before = world.marker
    world.put({"b.parquet": parquet(2), "c.parquet": parquet(3)})
    said = []
    world.objects.before_read = lambda _: said.append((world.marker.waiting, len(world.files())))
    world.look()
    assert said[0] == (2, 1)
    assert world.marker.look != before.look
    assert world.marker.waiting == 0


def test_the_end_is_as_of_before_the_listing(world: ObjectsWorld) -> None:
    world.look()
    world.objects.before_end = lambda: world.clock.advance(30)
    world.clock.advance(100)
    asked_us = world.clock.now_us() + 1_000_000
    assert world.look()
    assert world.marker.at_end is not None
    assert world.marker.at_end.as_of_us == asked_us


def test_silence_counts_from_the_last_object_and_anew_when_the_clock_is_set(world: ObjectsWorld) -> None:
    world.look()
    world.clock.advance(300)
    world.look()
    assert world.marker.at_end is not None
    assert world.marker.at_end.quiet_us > 300_000_000
    world.clock.set_back(3_600)
    world.look()
    assert world.marker.at_end.quiet_us < 2_000_000


def test_a_start_after_an_object_was_landed_begins_the_silence_anew(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    world.clock.advance(300)
    world.lander()
    world.look()
    assert world.marker.at_end is not None
    assert world.marker.at_end.quiet_us < 2_000_000


def test_more_objects_than_a_look_remembers_are_landed_by_the_next_ones(
    world: ObjectsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lander_module, "MOST_AT_A_LOOK", 3)
    world.put({f"{n}.parquet": parquet(n) for n in range(7)})
    assert [world.look() for _ in range(3)] == [False, False, True]
    assert world.lines() == lines_of(*range(7))
    assert world.marker.landed == 7


# -- what a look remembers, and what ends it


def test_a_loss_is_told_though_the_store_is_silent_right_after_it(world: ObjectsWorld) -> None:
    world.put({name: parquet(n) for n, name in enumerate(("a.parquet", "b.parquet", "c.parquet"))})

    def fails(name: str) -> None:
        if name == "a.parquet":
            world.remove(name)
        else:
            raise StoreUnavailable("away")

    world.objects.before_read = fails
    assert not world.look()
    world.objects.before_read = lambda _: None
    world.lander()
    assert world.look()
    assert [(one.name, one.is_gone) for one in world.marker.failed] == [("a.parquet", True)]


def test_a_start_leaves_what_a_person_is_writing(world: ObjectsWorld) -> None:
    mine, dead = (
        world.folder / ".photon" / name for name in ("acknowledged.json.x.unfinished", "y.unfinished")
    )
    mine.touch()
    dead.touch()
    world.lander()
    assert (mine.exists(), dead.exists()) == (True, False)


def test_looks_that_land_nothing_come_ever_later(world: ObjectsWorld) -> None:
    landing = Paused(world.clock, 8)
    world.objects.before_end = lambda: (_ for _ in ()).throw(StoreUnavailable("away"))
    ObjectsToLand(NAME, world.folder, "jsonl", lambda: world.source).land(landing, lambda: None)
    assert landing.pauses == [2, 4, 8, 16, 30, 30, 30, 30]


def test_looks_that_land_what_they_may_remember_come_at_once(
    world: ObjectsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lander_module, "MOST_AT_A_LOOK", 1)
    world.put({f"{n}.parquet": parquet(n) for n in range(4)})
    landing = Paused(world.clock, 3)
    ObjectsToLand(NAME, world.folder, "jsonl", lambda: world.source).land(landing, lambda: None)
    assert landing.pauses == [1, 1, 1]


def test_a_broken_object_is_tried_once_more_by_each_start(world: ObjectsWorld) -> None:
    """A person may have mended the pipeline file, or installed what an object needs."""
    world.put({"a.parquet": b"PAR1"})
    assert world.look()
    assert world.look()
    assert world.objects.reads == ["a.parquet"]
    world.lander()
    assert world.look()
    assert world.objects.reads == ["a.parquet"] * 2


def test_an_object_without_an_answer_holds_up_no_other_and_is_told_after_a_minute(
    world: ObjectsWorld,
) -> None:
    world.put({name: parquet(n) for n, name in enumerate(("a.parquet", "b.parquet", "c.parquet"))})

    def fails(name: str) -> None:
        if name == "a.parquet":
            raise StoreUnavailable("the key of its encryption is disabled")

    world.objects.before_read = fails
    assert not world.look()
    assert world.lines() == lines_of(1, 2)
    assert (world.marker.failed, world.marker.problem) == ((), "the key of its encryption is disabled")
    world.clock.advance(60)
    assert world.look()
    [failed] = world.marker.failed
    assert failed.reason == "is not given: the key of its encryption is disabled"


def test_a_silence_goes_on_over_a_start_of_one_boot(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    world.clock.advance(100)
    world.look()
    world.lander()
    world.look()
    assert world.marker.at_end is not None
    assert world.marker.at_end.quiet_us >= 100_000_000


def test_new_objects_end_the_silence_before_any_has_its_name(world: ObjectsWorld) -> None:
    world.put({"a.parquet": parquet(1)})
    world.look()
    world.clock.advance(100)
    world.look()
    world.put({"b.parquet": parquet(2)})
    world.look_killed_at("land.after_name")
    assert world.marker.at_end is not None
    assert world.marker.at_end.quiet_us == 0


def test_a_folder_that_is_empty_now_is_no_end(tmp_path: Path) -> None:
    store, folder, clock = tmp_path / "store", tmp_path / "clicks", ManualClock(NOON_US)
    store.mkdir()
    (folder / ".photon").mkdir(parents=True)
    (store / "a.parquet").write_bytes(parquet(1))
    source = source_of(f"{store}/*.parquet", Storage(), tmp_path)
    lander = ObjectsLander(source, folder, "jsonl", clock, BOOT)
    assert lander.look(lambda: False)
    for emptied in (store / "a.parquet", store):
        emptied.unlink() if emptied.is_file() else emptied.rmdir()
        assert not lander.look(lambda: False)
        assert str(store) in lander.refusal
    lander.close()


def test_a_list_on_a_full_disk_is_not_called_damaged(world: ObjectsWorld) -> None:
    with sqlite3.connect(world.folder / ".photon" / FILE) as other:
        other.execute("create table t (x)")
        other.commit()
        other.execute("begin exclusive")
        with pytest.raises(StoreUnavailable, match="locked"):
            Known(world.folder / ".photon")
