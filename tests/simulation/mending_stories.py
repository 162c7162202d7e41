"""Histories in which dead letters are mended and looked at again (protocol E4, docs/adr/0047).

They are told of the product by the tests of mending.
"""

from __future__ import annotations

import json
from functools import partial
from unittest import mock

from photon.dispatcher.recovery.orders import MOST_RECORDS
from photon.upkeep.dead_letters.mending import Mending, plan_mending
from photon.upkeep.dead_letters.open_letters import open_letters, plan_recovery_of_letters
from photon.upkeep.plans import carry_out
from tests.simulation import failing_adapter
from tests.simulation.verifying import verify
from tests.simulation.world import NOON_US, World, assert_counts

BAD = f'{{"click": "c1", "query": "q1", "position": 7 "at": {NOON_US}}}'


def mended(line: bytes, reason: str) -> bytes | None:
    """Put the comma in that the program forgot."""
    return line.replace(b'7 "at"', b'7, "at"') if reason.startswith("not valid JSON") else None


def mend(world: World, dry_run: bool = False, datacenter: str = "east") -> Mending:
    return carry_out(partial(plan_mending, world.pipeline, datacenter, mended), dry_run)


def world_with_a_bad_line(world: World) -> World:
    """Make a world in which one click is joined, and one line lacks a comma."""
    world.events("c0")
    world.log("east", "clicks", BAD + "\n")
    counts = world.join().counts
    assert_counts(counts, foreign=2, joined=1, dead_letters=1)
    assert_agreed(world)
    return world


def assert_agreed(world: World) -> None:
    """Verification finds nothing wrong, and the very classes that the dispatchers have counted."""
    for name, report in verify(world).items():
        assert not report.findings, f"{name}: {report.as_dict()}"
        with world.state_of(name) as state:
            counted = {each: count for each, count in state.counts().classes.items() if count}
        found = {each: count for each, count in report.classes.items() if count}
        assert found == counted, f"{name}: verification finds {found}, the dispatcher counted {counted}"


def a_mended_line_is_joined_in_its_place(world: World, points: tuple[str, ...] = ()) -> None:
    world_with_a_bad_line(world)
    assert mend(world).ordered.ordered == 1
    assert_agreed(world)
    for point in points:
        world.join_with_a_crash(point)
        assert_agreed(world)
    counts = world.join().counts
    assert_counts(counts, foreign=2, joined=2, dead_letters=0)
    (row,) = [row for row in world.rows() if row["_event_id"] == "c1"]
    (letter,) = world.rows("dead_letters")
    assert row["_occurrence"] == letter["_occurrence"], "a mended record has another place"
    assert row["position"] == "7", "the row is not made of the mended line"
    assert_agreed(world)
    assert mend(world).ordered.ordered == 0, "what was mended is still a dead letter"


def one_letter_counts_of_a_record_that_fails_twice(world: World, fails: list[str]) -> None:
    """The line is mended and the adapter fails on it; then the adapter is mended. `fails`: its faults."""
    world_with_a_bad_line(world)
    fails.append("c1")
    mend(world)
    counts = world.join().counts
    assert_counts(counts, joined=1, dead_letters=1)
    letters = open_letters(world.pipeline, "east").first(MOST_RECORDS)
    assert [(each.event_id, "KeyError" in each.reason) for each in letters] == [("c1", True)]
    assert_agreed(world)
    fails.clear()
    plan_recovery_of_letters(world.pipeline, "east").apply()
    counts = world.join().counts
    assert_counts(counts, joined=2, dead_letters=0)
    assert not len(open_letters(world.pipeline, "east")), "a letter that was joined is still one"
    assert_agreed(world)


def a_letter_that_is_looked_at_again_and_dropped_is_filtered(world: World, fails: list[str]) -> None:
    """The adapter fails on a whole record, and drops it once it is mended. `fails`: its faults."""
    world.events("c1")
    fails.append("c1")
    # The adapter drops c1 later only: at first it fails.
    with mock.patch.object(failing_adapter, "drops", ()):
        assert world.join().counts.of("dead_letters") == 1
    fails.clear()
    plan_recovery_of_letters(world.pipeline, "east").apply()
    assert_counts(world.join().counts, filtered=1, dead_letters=0)
    assert_agreed(world)


def click(event_id: str, query: str | None) -> str:
    return json.dumps({"click": event_id, "query": query, "at": NOON_US})
