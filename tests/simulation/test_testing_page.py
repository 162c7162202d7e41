"""The example of docs/testing.md runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.simulation.world import World

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_example_of_the_page_joins_each_event_once(world: World) -> None:
    world.queries("q1")
    world.clicks(("c1", "q1"), ("c2", "q1"), ("c3", "nowhere"))
    names: dict[str, Any] = {}
    exec(PAGE.read_text().split("```python\n")[1].split("```")[0], names)
    assert names["joined_under_faults"](world.folder / "pipeline.yaml", "east") == ["c1", "c2"]
