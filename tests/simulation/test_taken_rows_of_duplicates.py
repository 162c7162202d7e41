"""An event whose row others took counts once in verification: its other records stay duplicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from photon.verification.report import VerificationReport
from tests.simulation.hold_stories import HOME
from tests.simulation.reading import asking
from tests.simulation.recovery_stories import a_row_is_removed, a_row_is_removed_and_its_id_free
from tests.simulation.test_rows_acknowledged import acknowledge, both_join
from tests.simulation.verifying import recover_from
from tests.simulation.world import World, assert_counts
from tests.spark.both_engines import verify_alone

Classes = Mapping[str, Mapping[str, int]]
SOUND = {"east": {"joined": 2, "duplicates": 2}, "west": {"joined_elsewhere": 4}}
TAKEN = {
    "east": {"joined": 1, "duplicates": 2, "missing": 1},
    "west": {"joined_elsewhere": 3, "missing": 1},
}


def alone(world: World, **options: bool) -> VerificationReport:
    with asking(world):
        return verify_alone(world.pipeline, list(world.pipeline.datacenters), **(options or {"keep": True}))


def classes(world: World) -> Classes:
    """The classes of each datacenter that has records in them, beside kept results."""
    found = alone(world).datacenters
    of_all = alone(world, anew=True).datacenters
    assert {name: one.equation() for name, one in found.items()} == {
        name: one.equation() for name, one in of_all.items()
    }
    return {name: {key: n for key, n in one.classes.items() if n} for name, one in found.items()}


def test_the_first_record_is_missing_or_acknowledged_and_the_others_are_duplicates(tmp_path: Path) -> None:
    world = World(tmp_path, ["east", "west"], HOME)
    for click in ("c1", "c1", "c1", "c2"):
        world.everywhere(click)
    both_join(world)
    assert classes(world) == SOUND
    a_row_is_removed(world)
    assert classes(world) == TAKEN
    acknowledge(world)
    assert classes(world) == SOUND
    world.clicks(("c1", "q1"))
    both_join(world)
    assert classes(world)["east"] == {"joined": 2, "duplicates": 3}


@pytest.mark.parametrize("plant", [a_row_is_removed, a_row_is_removed_and_its_id_free])
def test_a_recovery_of_the_one_record_makes_all_as_it_was(
    tmp_path: Path, plant: Callable[[World], None]
) -> None:
    world = World(tmp_path)
    world.events("c1", "c1", "c2", "c1")
    before = world.join().counts.as_dict()
    sound = classes(world)
    plant(world)
    recover(world, ordered=1)
    assert (world.join().counts.as_dict(), world.joined_ids()) == (before, ["c1", "c2"])
    assert classes(world) == sound


def test_a_record_that_joins_stands_for_its_event_before_one_without_a_primary(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.clicks(("c1", "nobody"))
    world.events("c1")
    world.join()
    world.clock.advance(86_400)
    before = world.join().counts.as_dict()
    sound = classes(world)
    a_row_is_removed(world)
    recover(world, ordered=1)
    assert (world.join().counts.as_dict(), world.joined_ids()) == (before, ["c1"])
    assert classes(world) == sound


def test_where_its_primary_log_is_gone_too_it_is_given_up_and_nobody_is_accused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.events("c1", "c1", "c2")
    world.join()
    a_row_is_removed(world)
    (tmp_path / "logs/east/queries/a.jsonl").unlink()
    recover(world, ordered=1)
    assert_counts(world.join(mode="complete").counts, joined=1, duplicates=1, unjoinable=1)
    assert alone(world).datacenters["east"].violations == []


def recover(world: World, ordered: int) -> None:
    done = recover_from(world, {"east": alone(world).datacenters["east"].as_dict()})
    assert done["east"].ordered == ordered
