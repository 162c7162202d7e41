"""Ledgers in memory, and the registry as two processes have it."""

from __future__ import annotations

import pytest

from photon.registry.id_registry import IdRegistry
from tests.support.memory_ledgers import MemoryLedgers, memory_registry


@pytest.fixture
def ledgers() -> MemoryLedgers:
    return MemoryLedgers(ledgers=2)


@pytest.fixture
def east(ledgers: MemoryLedgers) -> IdRegistry:
    return memory_registry(ledgers, "east")


@pytest.fixture
def west(ledgers: MemoryLedgers) -> IdRegistry:
    return memory_registry(ledgers, "west")
