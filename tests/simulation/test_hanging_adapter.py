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
def test_a_record_on_which_the_adapter_hangs_is_a_dead_letter_and_the_rest_joins(tmp_path: Path) -> None:
    (tmp_path / "hanging_adapter.py").write_text(ADAPTER)
    world = World(tmp_path, more="adapter: hanging_adapter:hangs\nlimits: {task_timeout: 2s}")
    world.queries("q1")
    world.clicks(("c1", "q1"), ("poison", "q1"))
    counts = world.join(mode="complete").counts
    assert world.joined_ids() == ["c1"]
    assert counts_of(counts, "foreign", "joined", "dead_letters") == {
        "foreign": 2,
        "joined": 1,
        "dead_letters": 1,
    }
    (letter,) = world.rows("dead_letters")
    assert letter["event_id"] == "poison"
    assert "longer than 2 s (limits.task_timeout), at hanging_adapter.py" in letter["reason"]
