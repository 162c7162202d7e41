"""Rows that others took and a person has acknowledged stay away, whatever comes (protocol E13)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from photon.dispatcher.table_answers import TableAnswers
from photon.health import foreign_commits
from photon.process.faults import ACKNOWLEDGE_FAULT_POINTS
from photon.registry import taken_rows
from photon.registry.entry import NO_HASHES
from photon.registry.errors import RegistryMismatch
from photon.registry.holds import HashSet
from photon.storage.delta import LakeUnavailable
from photon.upkeep import acknowledged_rows
from photon.upkeep.acknowledged_rows import AcknowledgedRows, NotAcknowledged, plan_acknowledgement_of_rows
from photon.upkeep.plans import carry_out
from photon.upkeep.retire import plan_retire
from tests.simulation.catching import caught_by_story
from tests.simulation.foreign_stories import BACK
from tests.simulation.hold_stories import HOME
from tests.simulation.put_back_stories import Copied
from tests.simulation.rebuilding import rebuild, set_adapter
from tests.simulation.recovery_stories import a_row_is_removed, assert_sound
from tests.simulation.test_rebuild import LOUD
from tests.simulation.verifying import recover_all
from tests.simulation.world import World
from tests.support.crashes import crash_at

Story = Callable[[Copied], None]


@pytest.fixture
def world(tmp_path: Path) -> Copied:
    """East has joined c1 and c2, others took c1's row, and a person acknowledges it."""
    world = taken(tmp_path)
    assert acknowledge(world).rows == 1
    return world


def taken(folder: Path) -> Copied:
    world = Copied(folder, ["east", "west"], HOME)
    world.everywhere("c1", "c2")
    world.join("east")
    world.join("west")
    a_row_is_removed(world)
    return world


def acknowledge(world: World, dry_run: bool = False) -> AcknowledgedRows:
    return carry_out(lambda: plan_acknowledgement_of_rows(world.pipeline, world.reader(), "east"), dry_run)


def is_red(world: World, *retired: str) -> bool:
    foreign_commits._looks_at.cache_clear()
    foreign_commits._watch.cache_clear()
    return bool(foreign_commits.look_at_foreign_commits(world.pipeline, "east", retired))


def both_join(world: World) -> None:
    for name in ("east", "west"):
        world.join(name)


# -- whatever comes


def a_duplicate(world: Copied) -> None:
    world.everywhere("c1")
    both_join(world)


def a_lost_state(world: Copied) -> None:
    shutil.rmtree(world.state())
    world.forget()
    both_join(world)


def a_recovery(world: Copied) -> None:
    recover_all(world)
    both_join(world)


def a_rebuild(world: Copied) -> None:
    """All rows of its day are made again, with another adapter."""
    set_adapter(world, "loud_beside_taken_rows", LOUD)
    assert rebuild(world).tally.replaced == 1
    both_join(world)


WHATEVER: list[Story] = [a_duplicate, a_lost_state, a_recovery, a_rebuild]


@pytest.mark.parametrize("story", WHATEVER, ids=lambda one: one.__name__)
def test_it_stays_away(world: Copied, story: Story) -> None:
    assert not is_red(world)
    story(world)
    assert world.joined_ids() == ["c2"], BACK
    assert_sound(world)
    assert not is_red(world)


@pytest.mark.parametrize("story", WHATEVER[:2], ids=lambda one: one.__name__)
def test_without_the_list_it_comes_back(world: Copied, monkeypatch: pytest.MonkeyPatch, story: Story) -> None:
    monkeypatch.setattr(TableAnswers, "_are_listed", lambda self, ids: [False] * len(ids))

    def told() -> None:
        story(world)
        assert world.joined_ids() == ["c2"], BACK

    caught_by_story(told, because=BACK)


def test_an_order_of_before_brings_nothing_back(tmp_path: Path) -> None:
    world = taken(tmp_path)
    assert recover_all(world)["east"].ordered == 1
    acknowledge(world)
    both_join(world)
    assert world.joined_ids() == ["c2"]
    assert_sound(world)


def test_a_refill_knows_the_list_from_the_lakes(tmp_path: Path) -> None:
    world = taken(tmp_path)
    world.copy(["registry"])
    acknowledge(world)
    world.put_back(["registry"])
    world.forget()
    world.refill()
    a_duplicate(world)
    assert world.joined_ids() == ["c2"], BACK
    assert_sound(world)


def test_a_refill_that_passes_over_lists_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("photon.upkeep.refill.lists_in_lakes", lambda *_: {})
    caught_by_story(partial(test_a_refill_knows_the_list_from_the_lakes, tmp_path), because=BACK)


def test_a_registry_of_before_is_noticed(tmp_path: Path) -> None:
    world = taken(tmp_path)
    world.copy(["registry"])
    acknowledge(world)
    both_join(world)
    world.put_back(["registry"])
    world.forget()
    with pytest.raises(RegistryMismatch, match="photon registry refill"):
        a_duplicate(world)


def a_lake_is_gone_for_good(world: Copied) -> None:
    """East is retired without its lake, so that west joins again what was its."""
    shutil.rmtree(world.folder / "lake" / "east")
    world.forget()
    plan_retire(world.pipeline, world.reader(), "east", True).apply()
    recover_all(world)
    world.join("west")
    assert world.joined_ids() == ["c2"], BACK


def test_a_lake_that_is_gone_brings_nothing_back(world: Copied) -> None:
    a_lake_is_gone_for_good(world)
    world.clicks(("c1", "q1"), datacenter="west")
    world.join("west")
    assert world.joined_ids() == ["c2"], BACK


def test_who_frees_all_of_a_lake_that_is_gone_is_caught(
    world: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("photon.upkeep.retire.listed", lambda *_: HashSet(NO_HASHES))
    monkeypatch.setattr("photon.verification.scope.listed", lambda *_: HashSet(NO_HASHES))
    caught_by_story(partial(a_lake_is_gone_for_good, world), because=BACK)


def test_a_trace_tells_that_its_row_was_taken_and_acknowledged(world: Copied) -> None:
    found = world.trace("c1")
    assert "others took it, and a person has acknowledged that: it stays away" in found.verdict
    assert found.what_to_do.startswith("Nothing: a person has acknowledged")
    assert "acknowledged" not in world.trace("c2").verdict + world.trace("c2").what_to_do


def test_without_the_list_a_trace_sends_people_to_recover(tmp_path: Path) -> None:
    found = taken(tmp_path).trace("c1")
    assert "its row is gone" in found.verdict
    assert "photon recover" in found.what_to_do


def test_a_trace_without_any_list_names_the_lakes(world: Copied) -> None:
    for name in ("east", "west"):
        shutil.rmtree(world.folder / "lake" / name / taken_rows.FOLDER)
    found = world.trace("c1")
    assert found.registry is not None
    assert any("bring the lakes back" in one for one in found.problems)


# -- the acknowledgement itself


@pytest.mark.parametrize("point", ACKNOWLEDGE_FAULT_POINTS)
def test_one_that_is_killed_is_run_again(tmp_path: Path, point: str) -> None:
    world = taken(tmp_path)
    with crash_at(point):
        acknowledge(world)
    assert is_red(world)
    a_duplicate(world)
    assert world.joined_ids() == ["c2"], BACK
    acknowledge(world)
    assert not is_red(world)
    a_lost_state(world)
    assert world.joined_ids() == ["c2"], BACK


def test_what_a_killed_one_has_stored_counts_for_nobody(tmp_path: Path) -> None:
    world = taken(tmp_path)
    with crash_at("acknowledge.after_list"):
        acknowledge(world)
    recover_all(world)
    both_join(world)
    assert world.joined_ids() == ["c1", "c2"]
    assert_sound(world)


def test_of_two_at_once_the_second_looks_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, put = taken(tmp_path), acknowledged_rows.put_list
    others: list[str] = []

    def another_comes_first(*args: object) -> str:
        digest = put(*args)  # type: ignore[arg-type]
        if not others:
            others.append("c2")
            world.table().load().delete("_event_id = 'c2'")
            assert acknowledge(world).rows == 2
        return digest

    monkeypatch.setattr(acknowledged_rows, "put_list", another_comes_first)
    assert acknowledge(world).rows == 2
    world.everywhere("c1", "c2")
    both_join(world)
    assert world.joined_ids() == []


def test_what_others_take_next_is_red_again(world: Copied) -> None:
    world.table().load().delete("_event_id = 'c2'")
    assert is_red(world)
    recover_all(world)
    both_join(world)
    assert world.joined_ids() == ["c2"]


def test_any_lake_has_the_list(world: Copied) -> None:
    shutil.rmtree(world.folder / "lake" / "east" / taken_rows.FOLDER)
    a_duplicate(world)
    assert world.joined_ids() == ["c2"], BACK


def test_a_list_that_no_lake_has_is_named_with_the_remedy(world: Copied) -> None:
    for name in ("east", "west"):
        shutil.rmtree(world.folder / "lake" / name / taken_rows.FOLDER)
    with pytest.raises(LakeUnavailable, match=r"photon acknowledge .* east --rows"):
        taken_rows.listed(world.pipeline, world.ledgers.register)
    assert acknowledge(world).rows == 1
    a_duplicate(world)
    assert world.joined_ids() == ["c2"], BACK


def test_nothing_is_acknowledged_while_a_lake_is_away(tmp_path: Path) -> None:
    world = taken(tmp_path)
    lake = world.folder / "lake" / "west"
    lake.rename(tmp_path / "away")
    lake.write_text("")
    with pytest.raises(LakeUnavailable, match="west"):
        acknowledge(world)
    assert not world.ledgers.register.taken


def test_rows_of_a_retired_datacenter_are_acknowledged_too(tmp_path: Path) -> None:
    world = Copied(tmp_path, ["east", "west"], HOME)
    world.everywhere("c1", "c2")
    both_join(world)
    plan_retire(world.pipeline, world.reader(), "east").apply()
    a_row_is_removed(world)
    assert is_red(world, "east")
    assert acknowledge(world).rows == 1
    assert not is_red(world, "east")
    world.clicks(("c1", "q1"), datacenter="west")
    recover_all(world)
    world.join("west")
    assert world.joined_ids() == ["c2"], BACK
    assert not is_red(world, "east")
    a_row_is_removed(world, "c2")
    assert is_red(world, "east"), "an acknowledgement ends what comes after it"


def test_of_a_lake_that_is_gone_nothing_is_acknowledged(world: Copied) -> None:
    (world.folder / "lake" / "east").rename(world.folder / "away")
    plan_retire(world.pipeline, world.reader(), "east", True).apply()
    with pytest.raises(NotAcknowledged, match=r"its rows count no more.* photon recover"):
        acknowledge(world)


def test_a_dry_run_acknowledges_nothing(tmp_path: Path) -> None:
    world = taken(tmp_path)
    assert acknowledge(world, dry_run=True).rows == 1
    assert is_red(world)
    assert not world.ledgers.register.taken
