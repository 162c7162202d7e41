"""The world that most of the tests here begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A datacenter without any logs yet."""
    return World(tmp_path)
