"""Joins make releases: one datacenter after another, with kills and lost answers between."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from photon.dispatcher import releasing
from photon.dispatcher.retrying import Callbacks
from photon.health.status import status_of
from photon.registry.errors import RegistryMismatch
from photon.releases import copies, making
from photon.releases.numbering import last_release
from photon.releases.release import MOST_GAP_US, REFILL_GAP, CleanVerification, Place, Release
from photon.upkeep.refill import plan_refill
from photon.upkeep.retire import plan_retire
from tests.simulation.reading import asking
from tests.simulation.verifying import recover_all
from tests.simulation.world import NOON_US, World
from tests.support.crashes import at, crash_at
from tests.support.memory_ledgers import memory_registry

DAY_US = 86_400_000_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, ("east", "west"))


def lake(world: World, datacenter: str = "east") -> Path:
    found = world.pipeline.datacenters[datacenter].lake
    assert isinstance(found, Path)
    return found


def latest(world: World, datacenter: str = "east") -> Release:
    found = copies.latest(lake(world, datacenter))
    assert found is not None
    return found


def both(world: World, *events: str, at_us: int = NOON_US) -> None:
    """Each datacenter has a copy of all logs."""
    for name in ("east", "west"):
        world.queries("q", datacenter=name, at_us=at_us)
        world.clicks(*((event, "q") for event in events), datacenter=name, at_us=at_us)


def changes(release: Release) -> list[str]:
    return [note.change for note in release.notes]


def test_a_join_that_ends_makes_a_release_of_all_of_its_rows(world: World) -> None:
    both(world, "c", "d")
    world.join()
    made = latest(world)
    assert (made.number, made.by, made.parts["east"].rows) == (0, "east", 2)
    assert made.complete_up_to_us == NOON_US
    assert last_release(world.reader().view) == made
    with asking(world):
        assert status_of(world.pipeline, "east", world.clock).release == made


def test_a_join_without_news_makes_no_release(world: World) -> None:
    both(world, "c")
    world.join()
    before = latest(world)
    world.join()
    assert latest(world) == before


def test_the_next_datacenter_goes_on_from_the_release_of_the_other(world: World) -> None:
    both(world, "c", "d")
    world.join("east")
    both(world, "e")
    world.join("west")
    made = latest(world, "west")
    assert (made.number, made.by) == (1, "west")
    assert {name: part.rows for name, part in made.parts.items()} == {"east": 2, "west": 1}


@pytest.mark.parametrize("point", ["release.before_offer", "release.after_decided", "release.after_copy:2"])
def test_a_crash_while_a_release_is_made_takes_none_back_and_uses_no_number_twice(
    world: World, point: str
) -> None:
    both(world, "c")
    world.join()
    both(world, "d")
    assert world.join_with_a_crash(point)
    decided = last_release(world.reader().view)
    world.join()
    assert latest(world).parts["east"].rows == 2
    assert last_release(world.reader().view) == latest(world)
    if point != "release.before_offer":
        assert latest(world) == decided


def test_a_release_whose_answer_was_lost_is_made_once(world: World) -> None:
    both(world, "c")
    world.join()
    both(world, "d")
    world.join_with_a_crash("release.before_offer")
    world.ledgers.lost_answers = 1
    world.join()
    assert [one.number for one in copies.kept(lake(world))] == [0, 1]


def test_a_release_is_made_while_a_join_goes_on(world: World) -> None:
    both(world, "c")
    made = []

    class Clicks:
        """One more click each ten seconds; the join ends with the last one."""

        left = 10

        def come(self) -> bool:
            self.left -= 1
            world.clock.advance(10)
            both(world, f"c{self.left}")
            made.append(copies.latest(lake(world)))
            return self.left == 0

    clicks = Clicks()
    world.join(mode="stop", callbacks=Callbacks(should_stop=clicks.come))
    numbers = [one.number for one in made if one is not None]
    assert numbers == sorted(numbers)
    assert 2 <= len(set(numbers)) <= 4


# -- state, lake and registry that were lost or put back


def test_a_state_that_was_lost_takes_no_release_back(world: World) -> None:
    both(world, "c", "d")
    world.join()
    before = latest(world)
    shutil.rmtree(world.state())
    both(world, "e")
    world.join()
    made = latest(world)
    assert made.parts["east"].place.epoch == 2
    assert (made.parts["east"].rows, changes(made)) == (3, [])
    assert made.number > before.number


def test_a_lake_that_was_put_back_is_named_by_the_next_release(world: World) -> None:
    both(world, "c")
    world.join()
    shutil.copytree(lake(world), world.folder / "copy")
    world.clock.advance(86_400)
    both(world, "d", at_us=NOON_US + DAY_US)
    world.join()
    before = latest(world)
    shutil.rmtree(lake(world))
    shutil.copytree(world.folder / "copy", lake(world))
    both(world, "e", at_us=NOON_US + DAY_US)
    world.join()
    named = next(one for one in copies.kept(lake(world)) if "lake put back" in changes(one))
    assert named.number > before.number
    assert named.set_back is not None
    assert named.set_back.to_us == (NOON_US + DAY_US) // DAY_US * DAY_US, "the first copy has all before"


@pytest.mark.parametrize("loses_state", [False, True])
def test_a_lake_from_before_an_epoch_without_rows_is_named_too(world: World, loses_state: bool) -> None:
    both(world, "c")
    world.join()
    shutil.copytree(lake(world), world.folder / "copy")
    both(world, "d")
    world.join()
    shutil.rmtree(world.state())
    (world.folder / "logs" / "east").rename(world.folder / "away")
    world.join()
    assert latest(world).cut["east"] == Place(2, 0)
    shutil.rmtree(lake(world))
    shutil.copytree(world.folder / "copy", lake(world))
    if loses_state:
        shutil.rmtree(world.state())
    world.join()
    made = latest(world)
    assert (made.parts["east"].rows, changes(made)) == (1, ["lake put back"])
    assert made.set_back is not None
    world.join()
    assert latest(world) == made, "it is named once"


def registry_is_put_back(world: World) -> None:
    """The registry is as it was before the release 1 that east's lake has."""
    both(world, "c")
    world.join()
    older = world.ledgers.copy()
    world.clicks(("wild", None), datacenter="east", at_us=NOON_US + 1)  # has no row, so ids alone say nothing
    world.join()
    assert latest(world).number == 1
    world.ledgers.put_back(older)
    shutil.rmtree(world.state())  # its view knew more


def test_a_registry_that_lacks_a_release_of_a_lake_is_refused(world: World) -> None:  # R5
    registry_is_put_back(world)
    with pytest.raises(RegistryMismatch, match="lacks release 1"):
        world.join()


def test_without_the_rule_a_number_is_used_again_and_is_noticed_when_its_release_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasing, "lacked", lambda *_: None)
    registry_is_put_back(world)
    with pytest.raises(RegistryMismatch, match="is another release 1"):
        world.join()


def test_rows_that_somebody_deletes_are_named_by_the_next_release(world: World) -> None:
    both(world, "c", "d")
    world.join()
    DeltaTable(str(lake(world) / "joined_events")).delete("_event_id = 'c'")
    both(world, "e")
    world.join()
    note = next(note for note in latest(world).notes)
    assert (note.change, note.datacenter) == ("changed by others", "east")
    assert "DELETE" in note.says
    assert latest(world).parts["east"].rows == 2


@pytest.mark.parametrize("change", ["UPDATE", "DELETE and INSERT"])
def test_rows_that_somebody_changes_are_named_though_they_are_as_many_as_before(
    world: World, change: str
) -> None:
    both(world, "c", "d")
    world.join()
    table = DeltaTable(str(lake(world) / "joined_events"))
    wanted = ["UPDATE in version"]
    if change == "UPDATE":
        table.update(updates={"_primary_occurrence": "'1:7'"}, predicate="_event_id = 'c'")
    else:
        rows = table.to_pyarrow_table(filters=[("_event_id", "=", "c")])
        table.delete("_event_id = 'c'")
        write_deltalake(table, rows, mode="append")
        wanted = ["DELETE in version", "WRITE in version"]
    world.join()
    [note] = latest(world).notes
    assert (note.change, latest(world).rows) == ("changed by others", 2)
    assert all(text in note.says for text in wanted)
    made = latest(world)
    world.join()
    assert latest(world) == made, "they are named once"


def test_files_that_somebody_rewrites_without_changing_a_row_make_no_release(world: World) -> None:
    for event in ("c", "d"):
        both(world, event)
        world.join()
    made = latest(world)
    assert DeltaTable(str(lake(world) / "joined_events")).optimize.compact()["numFilesAdded"] == 1
    world.join()
    assert latest(world) == made


# -- datacenters that retire, and refills


def test_a_datacenter_that_retires_without_its_lake_has_no_part_in_the_next_release(world: World) -> None:
    both(world, "c")
    world.join("west")
    both(world, "d")
    world.join("east")
    assert latest(world).parts.keys() == {"east", "west"}
    shutil.rmtree(lake(world, "west"))
    plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).apply()
    made = latest(world)
    assert (list(made.parts), changes(made)) == (["east"], ["retired"])
    assert made.set_back is not None
    assert (made.set_back.awaits, made.complete_up_to_us) == (("east",), NOON_US // DAY_US * DAY_US)
    copies.note_verified(lake(world), CleanVerification(made.number))
    both(world, "e")
    world.join("east")
    assert (latest(world).set_back, latest(world).complete_up_to_us) == (None, NOON_US)


def test_a_datacenter_that_has_joined_nothing_itself_keeps_the_release_of_a_retirement(world: World) -> None:
    both(world, "c")
    world.join("west")
    world.join("east")
    shutil.rmtree(lake(world, "west"))
    plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).apply()
    assert changes(latest(world)) == ["retired"]
    assert latest(world).rows == 0


def what_left_is_ordered(world: World) -> None:
    """One of two events has left with west's lake."""
    both(world, "c")
    world.join("west")
    both(world, "d")
    world.join("east")
    shutil.rmtree(lake(world, "west"))
    plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).apply()
    assert latest(world).complete_up_to_us == NOON_US // DAY_US * DAY_US
    assert recover_all(world, only="east")["east"].ordered == 1


@pytest.mark.parametrize("point", ["", "order.after_taken", "commit.after_main:2"])
def test_completeness_rises_again_once_what_left_is_joined_again(world: World, point: str) -> None:
    what_left_is_ordered(world)
    if point:
        world.join_with_a_crash(point)
    world.join("east")
    assert (latest(world).rows, latest(world).set_back) == (2, None)
    assert latest(world).complete_up_to_us == NOON_US


def test_completeness_does_not_rise_while_an_order_waits(world: World) -> None:
    what_left_is_ordered(world)
    both(world, "e")

    def refuse() -> None:
        raise OSError("the disk is full")

    with at("order.after_mended", refuse):
        world.join("east")
    assert latest(world).rows == 2
    assert latest(world).complete_up_to_us == NOON_US // DAY_US * DAY_US


@pytest.mark.parametrize("joins", [False, True])
def test_a_release_of_a_retirement_that_was_killed_is_copied_by_whoever_comes_next(
    world: World, joins: bool
) -> None:
    both(world, "c")
    world.join("west")
    both(world, "d")
    world.join("east")
    shutil.rmtree(lake(world, "west"))
    with crash_at("release.after_decided") as crash:
        plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).apply()
    assert crash.has_happened
    decided = last_release(world.reader().view)
    assert decided is not None
    assert copies.release(lake(world), decided.number) is None
    if joins:
        world.join("east")
    else:
        plan_retire(world.pipeline, world.reader(), "west", lake_is_gone=True).apply()
    assert copies.release(lake(world), decided.number) == decided
    assert changes(decided) == ["retired"]


def test_a_datacenter_that_retires_with_its_lake_keeps_its_part(world: World) -> None:
    both(world, "c")
    world.join("west")
    plan_retire(world.pipeline, world.reader(), "west").apply()
    both(world, "d")
    world.join("east")
    assert {name: part.rows for name, part in latest(world).parts.items()} == {"east": 1, "west": 1}
    assert latest(world).complete_up_to_us == NOON_US


def test_a_refilled_registry_goes_on_with_the_last_release_under_a_higher_number(world: World) -> None:
    both(world, "c")
    world.join()
    older = world.ledgers.copy()
    both(world, "d")
    world.join()
    before = latest(world)
    world.ledgers.put_back(older)
    registry = memory_registry(world.ledgers, "refill")
    plan_refill(world.pipeline, registry).apply()
    found = last_release(world.reader().view)
    assert found is not None
    assert (found.number, changes(found)) == (before.number + REFILL_GAP, ["refilled"])
    assert found.parts == before.parts
    both(world, "e")
    world.join()
    assert latest(world).number == found.number + 1
    assert latest(world).parts["east"].rows == 3


# -- copies


def test_a_lake_keeps_its_newest_release_whatever_its_age_and_others_until_they_are_old(world: World) -> None:
    both(world, "c")
    world.join()
    first = latest(world)
    some = [
        Release(n, first.made_us + n, "east", first.parts, elapsed_us=n) for n in range(1, 2 * copies.PACK)
    ]
    copies.put(lake(world), some)
    copies.tidy(lake(world), some[-1], keep_us=0)
    assert copies.release(lake(world), 7) == some[6]
    assert copies.release(lake(world), 2 * copies.PACK - 1) == latest(world) == some[-1]
    assert copies.as_of(lake(world), first.made_us + 9) == some[8]
    assert copies.as_of(lake(world), first.made_us - 1) is None
    assert [one.number for one in copies.kept(lake(world))] == list(range(2 * copies.PACK))
    copies.tidy(lake(world), some[-1], keep_us=-MOST_GAP_US)
    assert copies.kept(lake(world)) == [some[-1]] == [copies.oldest(lake(world))]


def test_copies_of_daily_joins_go_a_day_after_they_are_old(world: World) -> None:
    for day in range(12):
        both(world, f"c{day}")
        world.join()
        world.clock.advance(86_400)
    assert [one.number for one in copies.kept(lake(world))] == list(range(2, 12)), (
        "7 days and one, at the last start"
    )


def kept_by_a_clock_that_is_ahead(world: World) -> list[int]:
    for event in ("c", "d", "e", "f"):
        both(world, event)
        world.join()
        if event == "d":
            world.clock.advance(30 * 86_400)
    return [one.number for one in copies.kept(lake(world))]


def test_a_clock_that_is_far_ahead_removes_no_young_copy(world: World) -> None:
    assert kept_by_a_clock_that_is_ahead(world) == [0, 1, 2, 3]


def test_without_the_most_that_a_gap_counts_a_clock_that_is_ahead_removes_all_copies(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "MOST_GAP_US", 365 * DAY_US)
    assert kept_by_a_clock_that_is_ahead(world) == [2, 3]


def test_a_lake_that_was_moved_away_is_not_made_again(world: World) -> None:
    both(world, "c")
    there = lake(world)
    with at("release.after_decided", lambda: there.rename(there.with_name("away"))):
        world.join(callbacks=Callbacks(should_stop=lambda: not there.exists()))
    assert not lake(world).exists()
