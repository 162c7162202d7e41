"""Both engines name rows that were acknowledged as taken and are there again (protocol E13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.reading import asking
from tests.simulation.test_rows_acknowledged import acknowledge, taken

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_both_engines_name_a_listed_row_that_is_there_again(tmp_path: Path, session: Any) -> None:
    from tests.spark.both_engines import verify

    world = taken(tmp_path)
    acknowledge(world)
    table = world.table().load()
    table.restore(table.version() - 1)
    with asking(world):
        report = verify(world.pipeline, ["east", "west"], session=session)
    (finding,) = (one for each in report.datacenters.values() for one in each.violations)
    assert (finding.kind, finding.count, finding.examples[0].event_id) == ("row_put_back", 1, "c1")
    assert finding.examples[0].where.startswith("east: row of ")
