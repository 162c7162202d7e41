"""Leave out what status and verification know of unmatched primaries, and their tests find each."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.health import unmatched as health
from photon.verification import unmatched_scope
from tests.simulation import test_unmatched_status as of_status
from tests.simulation import test_unmatched_verified as of_verification
from tests.simulation.unmatched_stories import DAY_US, HOUR_US, UnmatchedWorld


def test_without_the_rule_a_run_that_does_not_happen_passes_for_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = UnmatchedWorld(tmp_path)
    world.queries("q1", "q2")
    world.clicks(("a", "q1"))
    world.go_on(DAY_US + HOUR_US)
    monkeypatch.setattr(health, "_due_since_us", lambda *of: None)
    with pytest.raises(ValueError, match="not enough values"):
        of_status.test_a_run_that_does_not_happen_is_told_with_the_command_once_it_is_late(world)


def test_without_the_rule_what_left_since_the_last_run_is_a_false_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = of_verification.looked_at(UnmatchedWorld(tmp_path))
    monkeypatch.setattr(unmatched_scope, "_have_rows_left", lambda *of: False)
    with pytest.raises(AssertionError):
        of_verification.test_what_a_later_release_says_to_have_lost_its_rows_is_open(world)
