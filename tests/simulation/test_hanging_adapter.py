"""An adapter hangs on one record: the deadline ends it, and the record is a dead letter (protocol A17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.world import World, counts_of

ADAPTER = """
from photon.adapters import per_event

@per_event
def hangs(foreign, primary):
    while foreign["click"] == "poison":
        pass
    return foreign
"""


@pytest.mark.slow
def test_a_record_on_which_the_adapter_hangs_is_a_dead_letter_and_the_rest_joins_in_the_second_attempt(
    tmp_path: Path,
) -> None:
    (tmp_path / "hanging_adapter.py").write_text(ADAPTER)
    world = World(tmp_path, more="adapter: hanging_adapter:hangs\nlimits: {task_timeout: 10s}")
    world.queries("q1")
    ids = [f"c{n}" for n in range(100)]
    world.clicks(*((i, "q1") for i in ids[:50]), ("poison", "q1"), *((i, "q1") for i in ids[50:]))
    counts = world.join(mode="complete").counts
    assert world.joined_ids() == sorted(ids)
    assert {row["_batch"] for row in world.rows()} == {2}, "the batch that hung, as it was"
    assert counts_of(counts, "foreign", "joined", "dead_letters") == {
        "foreign": 101,
        "joined": 100,
        "dead_letters": 1,
    }
    (letter,) = world.rows("dead_letters")
    assert letter["event_id"] == "poison"
    assert "longer than 0.5 s, at hanging_adapter.py" in letter["reason"]
