"""Both engines name a row as ambiguous where a nearer primary of its id and other content came later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.reading import asking
from tests.simulation.test_ids_used_again import joined_too_early

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_both_engines_name_the_row_and_call_it_right(tmp_path: Path, session: Any) -> None:
    from tests.spark.both_engines import verify

    world = joined_too_early(tmp_path)
    with asking(world):
        report = verify(world.pipeline, ["east"], session=session).datacenters["east"]
    assert [(one.kind, one.count) for one in report.findings] == [("ambiguous", 1)]
    assert report.violations == []
