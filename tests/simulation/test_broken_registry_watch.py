"""Without a look at the newest rows a registry that was put back joins events twice (protocol A23)."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.dispatcher.recovery.registry_watch import RegistryWatch
from tests.simulation.test_put_back import ahead_by_rows_of_no_release


@pytest.mark.parametrize("again", ["east", "west"])
def test_who_looks_at_no_rows_joins_events_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    monkeypatch.setattr(RegistryWatch, "check", lambda self: self.registry.catch_up())
    world = ahead_by_rows_of_no_release(tmp_path)
    world.clicks(("d1", "q1"), datacenter=again)
    assert world.refused(again) is None
    assert world.joined_ids() == ["c1", "d1", "d1"]
