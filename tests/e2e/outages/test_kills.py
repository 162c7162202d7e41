"""Real processes are killed with -9 and stopped, at fault points and at any moment: nothing lost or twice."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.outages.drive import Dose, Outcome, drive

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

WORLDS = 5  # at once: what is stopped takes no processor
FIRST_SEED = 20_000
DOSE = Dose(kills=2, stops=2, stopped_seconds=(10.0, 12.0), endpoint_outages=3)


def test_after_twenty_kills_and_twenty_stops_every_event_has_one_row(tmp_path: Path) -> None:
    def one(seed: int) -> Outcome:
        return drive(tmp_path / str(seed), seed, DOSE)

    with ThreadPoolExecutor(WORLDS) as pool:
        outcomes = list(pool.map(one, range(FIRST_SEED, FIRST_SEED + WORLDS)))
    print(*outcomes, sep="\n")
    assert {outcome.seed: outcome.wrong for outcome in outcomes if outcome.wrong} == {}
    survived = sum((outcome.survived for outcome in outcomes), Counter[str]())
    assert (survived["kill"], survived["stop"]) == (20, 20)
    assert min(survived["kill at a point"], survived["stop at a point"]) > 0
    assert all(outcome.rows > 0 for outcome in outcomes)
