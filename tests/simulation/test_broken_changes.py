"""Registries broken on purpose where the register changes meanwhile: exploration finds each.

See `tests.simulation.test_broken_registries`.
"""

from __future__ import annotations

from typing import Any

import pytest

from photon.registry.consensus.register import Register
from photon.registry.operations.copying import Copying
from photon.registry.quorum import outcomes
from photon.registry.quorum.rounds import Rounds
from tests.simulation.catching_registries import ANOTHER_CHOSEN, caught_by_exploration

Patch = pytest.MonkeyPatch


def test_a_win_that_asks_for_no_boundary_lets_in_what_was_collected(monkeypatch: Patch) -> None:  # C1
    monkeypatch.setattr(outcomes, "is_too_old", lambda key, register: False)
    caught_by_exploration("another commit while an id is collected", because="won below the boundary")


def test_replies_of_a_store_that_was_replaced_meanwhile_are_no_win(monkeypatch: Patch) -> None:  # B11
    def by_any_members(self: Rounds, register: Any, began_with: Any) -> bool:
        return isinstance(register, Register)

    monkeypatch.setattr(Rounds, "_is_confirmed_by", by_any_members)
    caught_by_exploration("a commit while an endpoint is replaced", because="it won, but did not hold the id")


def test_a_repair_that_copies_nothing_lets_another_one_win(monkeypatch: Patch) -> None:  # B10
    monkeypatch.setattr(Copying, "_copy", lambda self, ids, target: 0)
    caught_by_exploration("another commit while an endpoint is replaced", because=ANOTHER_CHOSEN)
