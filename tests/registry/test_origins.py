"""Claims as their entries have them: time and place of the one that holds an id, and those that came late."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from photon.registry.appending import append
from photon.registry.closing import Closing
from photon.registry.entry import Claimant, Claims, Entry, LedgerId
from photon.registry.generations import roll
from photon.registry.id_registry import IdRegistry
from photon.registry.origins import claims_behind, origins_of
from photon.storage.tokens import Occurrence
from tests.registry.in_memory import EAST, LEFT, RIGHT, WEST, claims_of, hashes_of, with_rows
from tests.support.memory_ledgers import MemoryLedgers, memory_registry

PLAN, LATE, LATER = Claimant(EAST, 1, "plan"), Claimant(WEST, 1, "late"), Claimant(EAST, 2, "later")
ONE, TWO = LedgerId(0, 0), LedgerId(0, 1)


@pytest.fixture
def registry(ledgers: MemoryLedgers) -> IdRegistry:
    return memory_registry(ledgers, "reader")


def placed(claimant: Claimant, *ids: int) -> Claims:
    """Claims of the ids for records of file 7 at ten times the id, of times that are a hundred times it."""
    many = np.array(ids, np.int64)
    claims = claims_of(claimant, *ids)
    return replace(
        claims, times_us=many * 100, files=np.full(len(ids), 7, np.uint32), offsets_bytes=many * 10
    )


def claim_blindly(registry: IdRegistry, ledger: LedgerId, claims: Claims) -> None:
    """Claim as a process does whose view lacks the newest entries."""
    append(registry.view, registry.positions, {ledger: lambda state: Entry(claims=claims)})


def test_of_each_id_the_claim_that_holds_it_is_told_with_its_time_and_place(registry: IdRegistry) -> None:
    registry.claim(placed(PLAN, LEFT, 2, RIGHT))
    left, right, nobody = origins_of(registry, hashes_of(LEFT, RIGHT, 99))
    assert nobody is None
    assert left is not None
    assert right is not None
    assert (left.claimant, left.ledger, left.time_us) == (PLAN, ONE, 100 * LEFT)
    assert (right.ledger, right.occurrence) == (TWO, Occurrence(7, 10 * RIGHT))
    holders = registry.holders(hashes_of(LEFT, 99))
    assert [holders.holder(index) for index in range(2)] == [PLAN, None]


def test_a_join_that_was_closed_and_rolled_long_ago_is_told_as_one_of_today(registry: IdRegistry) -> None:
    registry.claim(placed(PLAN, LEFT, RIGHT))
    registry.close(Closing(EAST, 1, with_rows(LEFT, RIGHT)))
    roll(registry.view, registry.positions, 1)
    registry.claim(placed(LATER, 3))
    old, new = origins_of(registry, hashes_of(LEFT, 3))
    assert old is not None
    assert new is not None
    assert (old.claimant, old.ledger) == (PLAN, ONE)
    assert (new.claimant, new.ledger) == (LATER, LedgerId(1, 0))


def test_claims_that_came_too_late_are_told_in_their_order(registry: IdRegistry) -> None:
    registry.claim(placed(PLAN, LEFT, 2))
    claim_blindly(registry, ONE, placed(LATE, LEFT))
    claim_blindly(registry, ONE, placed(LATE, 2))
    claim_blindly(registry, ONE, placed(LATER, 2, LEFT))
    (held,) = origins_of(registry, hashes_of(LEFT))
    assert held is not None
    behind = claims_behind(registry, (held.ledger, held.position), hashes_of(LEFT), 10)
    assert [one.claimant for one in behind] == [LATE, LATER]
    behind = claims_behind(registry, (held.ledger, held.position), hashes_of(LEFT), 2)
    assert [one.claimant for one in behind] == [LATE]


def test_an_id_that_was_freed_is_held_by_the_claim_that_came_next(registry: IdRegistry) -> None:
    registry.claim(placed(PLAN, LEFT))
    registry.close(Closing(EAST, 1, with_rows()))
    registry.claim(placed(LATER, LEFT))
    (held,) = origins_of(registry, hashes_of(LEFT))
    assert held is not None
    assert held.claimant == LATER
