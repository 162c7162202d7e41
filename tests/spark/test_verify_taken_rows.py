"""Both engines count an event once whose row others took, before and after a person acknowledges that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from photon.verification.report import VerificationReport
from tests.simulation.reading import asking
from tests.simulation.test_taken_rows_of_duplicates import joined_thrice, told_as_one_event
from tests.simulation.world import World
from tests.spark.both_engines import verify

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_both_engines_count_it_once_also_with_kept_results(tmp_path: Path, session: Any) -> None:
    def by_both(world: World) -> VerificationReport:
        with asking(world):
            return verify(world.pipeline, ["east", "west"], session=session, keep=True)

    told_as_one_event(joined_thrice(tmp_path), by_both)
