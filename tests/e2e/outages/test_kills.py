"""Real processes are killed with -9: datacenters, endpoints, commands. Nothing is lost or joined twice."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.outages.drive import Dose, Outcome, drive_until

pytestmark = [pytest.mark.server, pytest.mark.slow]

WORLDS = 2  # at once: what is stopped takes no processor
FIRST_SEED = 20_000
FEW = Dose(kills=2, stops=1, stopped_seconds=(10.0, 12.0), endpoint_outages=2, commands=3, refills=1)
MANY = Dose(kills=3, stops=2, stopped_seconds=(10.0, 60.0), endpoint_outages=3, commands=6, refills=3)


def survived(outcomes: list[Outcome]) -> Counter[str]:
    """What all worlds have survived; none of them is wrong."""
    assert {outcome.seed: outcome.wrong for outcome in outcomes if outcome.wrong} == {}
    assert all(outcome.rows > 0 for outcome in outcomes)
    return sum((outcome.survived for outcome in outcomes), Counter[str]())


@pytest.mark.timeout(900)
def test_after_twenty_kills_every_event_has_one_row(tmp_path: Path) -> None:
    told = survived(drive_until(20, FIRST_SEED, FEW, WORLDS, tmp_path))
    assert told["stop"] == 2 * WORLDS
    assert min(told["kill at a point"], told["kill of a server"], told["kill of registry refill"]) > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_after_a_hundred_kills_every_event_has_one_row(tmp_path: Path) -> None:
    """With another seed each time."""
    survived(drive_until(100, random.randrange(2**31), MANY, WORLDS, tmp_path))
