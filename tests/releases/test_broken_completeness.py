"""Broken variants on purpose: a test notices that completeness is said of rows that are not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.dispatcher import observing
from tests.releases import test_made_in_joins as joins
from tests.simulation.world import World


def test_without_the_rule_completeness_rises_while_an_order_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "waiting_orders", lambda _: [])
    with pytest.raises(AssertionError):
        joins.test_completeness_does_not_rise_while_an_order_waits(World(tmp_path, ("east", "west")))
