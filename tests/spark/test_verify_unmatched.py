"""The identity of primaries by Spark: it says what the engine without Spark says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.reading import asking
from tests.simulation.test_unmatched_verified import SOUND, looked_at, table, told
from tests.simulation.unmatched_stories import UnmatchedWorld
from tests.spark.both_engines import verify

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_both_engines_tell_the_same_of_primaries_also_with_kept_results(tmp_path: Path, session: Any) -> None:
    world = looked_at(UnmatchedWorld(tmp_path))

    def found() -> tuple[dict[str, int], dict[str, list[str]]]:
        with asking(world):
            return told(verify(world.pipeline, ["east"], session=session, keep=True).datacenters["east"])

    assert found() == (SOUND, {})
    table(world).delete("primary_id = 'q2'")
    table(world).update(predicate="primary_id = 'q3'", updates={"primary_id": "'q4'"})
    terms, findings = found()
    assert terms == {**SOUND, "unmatched": 1, "missing": 2}
    assert findings == {
        "primary_missing": ["q2", "q3"],
        "unmatched_twice": ["q4"],
        "unmatched_without_primary": ["q4"],
    }
