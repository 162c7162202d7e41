"""Real processes are killed with -9: datacenters, endpoints, commands. Nothing is lost or joined twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.outages.drive import Dose, drive_until

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

WORLDS = 2  # worlds at once: stopped processes take no processor
FEW = Dose(kills=2, stops=1, stopped_seconds=(10.0, 12.0), endpoint_outages=2, commands=3, refills=1)


def test_after_ten_kills_beside_a_local_registry_every_event_has_one_row(tmp_path: Path) -> None:
    """The long form: `python -m tests.e2e.outages.drive --local`."""
    dose = Dose(kills=3, stops=1, stopped_seconds=(3.0, 4.0), commands=4, stores=0)
    outcomes = drive_until(10, 30_000, dose, 1, tmp_path)
    assert {outcome.seed: outcome.wrong for outcome in outcomes if outcome.wrong} == {}
    assert all(outcome.rows > 0 for outcome in outcomes)


def test_after_twenty_kills_every_event_has_one_row(tmp_path: Path) -> None:
    """`make soak-outages` has more of them."""
    outcomes = drive_until(20, 20_000, FEW, WORLDS, tmp_path)
    assert {outcome.seed: outcome.wrong for outcome in outcomes if outcome.wrong} == {}
    assert all(outcome.rows > 0 for outcome in outcomes)
    told = sum((outcome.survived for outcome in outcomes), Counter[str]())
    assert told["stop"] == 2 * WORLDS
    assert min(told["kill at a point"], told["kill of a server"], told["kill of registry refill"]) > 0
