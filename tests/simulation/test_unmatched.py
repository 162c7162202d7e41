"""Primaries that no foreign event was joined with, in real tables."""

from __future__ import annotations

from pathlib import Path

from tests.simulation.unmatched_stories import DAY_US, HOUR_US, UnmatchedWorld
from tests.simulation.world import NOON_US


def test_a_primary_that_no_row_names_is_written_once_it_is_old_enough(tmp_path: Path) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("a", "q1"))
    world.go_on(DAY_US)
    assert world.look().unmatched.total() == 0
    world.go_on(DAY_US + HOUR_US)
    found = world.look()
    assert world.unmatched_ids() == ["q2"]
    assert dict(found.unmatched) == {"no foreign event": 1}
    (row,) = world.unmatched()
    assert (row["text"], row["_occurrence"], row["conflicting"]) == ("text of q2", "2:62", False)
    assert found.up_to_us == world.progress().up_to_us == (NOON_US + HOUR_US) // HOUR_US * HOUR_US
