"""A task finds in a snapshot of a view who holds each id, as its plan sees it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from photon.registry.closing import Closing
from photon.registry.entry import Claimant
from photon.registry.generations import roll
from photon.registry.holds import HashRun, RunFile
from photon.registry.id_registry import MOST_INLINE, IdRegistry
from photon.registry.lookups import Hold, IdHolders
from photon.registry.view_store import ViewStore
from tests.registry.in_memory import EAST, LEFT, RIGHT, WEST, claims_of, hashes_of, with_rows
from tests.support.memory_ledgers import MemoryLedgers

PLAN, NEXT_PLAN = Claimant(EAST, 1, "plan 1"), Claimant(EAST, 2, "plan 2")
OTHER = Claimant(WEST, 1, "plan of west")


def look_up(registry: IdRegistry, plan: Claimant, *ids: int, time_us: int = 100) -> IdHolders:
    """Look ids up as a task on another machine does."""
    snapshot = pickle.loads(pickle.dumps(registry.snapshot()))
    found: IdHolders = snapshot.open(plan).look_up(hashes_of(*ids), np.full(len(ids), time_us, np.int64))
    return found


def codes(found: IdHolders) -> list[Hold]:
    return list(map(Hold, found.codes.tolist()))


def joined(registry: IdRegistry, claimant: Claimant, *ids: int) -> None:
    """Have a plan join ids, to its close."""
    registry.claim(claims_of(claimant, *ids))
    registry.close(Closing(claimant.epoch, claimant.batch, with_rows(*ids)))


def test_each_plan_sees_its_own_holds_those_of_its_datacenter_and_others(
    east: IdRegistry, west: IdRegistry
) -> None:
    joined(west, OTHER, 2, RIGHT)
    west.claim(claims_of(Claimant(WEST, 2, "open"), 3))
    joined(east, PLAN, 4)
    east.claim(claims_of(NEXT_PLAN, 5))
    east.read_on()
    asked = (2, RIGHT, 3, 4, 5, 6)
    found = look_up(east, NEXT_PLAN, *asked)
    elsewhere = [Hold.JOINED_ELSEWHERE, Hold.JOINED_ELSEWHERE, Hold.ELSEWHERE]
    assert codes(found) == [*elsewhere, Hold.HERE, Hold.THIS_PLAN, Hold.NOBODY]
    third = look_up(east, Claimant(EAST, 2, "another plan"), *asked)
    assert codes(third) == [*elsewhere, Hold.HERE, Hold.HERE, Hold.NOBODY]
    assert third.holder(4) == NEXT_PLAN
    assert found.holder(2) == Claimant(WEST, 2, "open")
    assert [found.holder(at).epoch.datacenter for at in range(5)] == ["west", "west", "west", "east", "east"]
    assert found.by[5] == -1
    assert found.are(Hold.HERE, Hold.THIS_PLAN).tolist() == [False, False, False, True, True, False]


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize("plan", [None, PLAN])
def test_what_a_plan_holds_is_told_with_the_place_of_its_record(
    ledgers: MemoryLedgers, east: IdRegistry, west: IdRegistry, plan: Claimant | None, rolls: bool
) -> None:
    west.claim(claims_of(OTHER, 2))
    claims = claims_of(PLAN, 2, LEFT, RIGHT)
    claims.files[:] = (3, 4, 5)
    east.claim(claims)
    if rolls:
        roll(east.view, ledgers, 1)
    found = pickle.loads(pickle.dumps(east.snapshot(plan))).open(PLAN).look_up(claims.hashes, claims.times_us)
    assert codes(found) == [Hold.ELSEWHERE, Hold.THIS_PLAN, Hold.THIS_PLAN]
    assert found.places.files.tolist() == [-1, 4, 5]
    assert found.places.offsets_bytes.tolist() == [-1, 300, 600]


# -- with files


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ViewStore]:
    opened = ViewStore(tmp_path / "state", tmp_path / "runs")
    yield opened
    opened.close()


@pytest.fixture
def kept(ledgers: MemoryLedgers, east: IdRegistry, store: ViewStore) -> IdRegistry:
    return IdRegistry(ledgers, store.load(east.read_register(), "kept"), store)


def many(first: int, length: int) -> tuple[int, ...]:
    return tuple(range(first, first + length))


def test_a_snapshot_of_few_new_holds_writes_nothing(kept: IdRegistry, store: ViewStore) -> None:
    kept.claim(claims_of(PLAN, *many(0, 100)))
    (runs,) = kept.snapshot().runs.values()
    assert sum(len(run) for run in runs if isinstance(run, HashRun)) == 100
    assert not store.listed


def test_a_snapshot_of_many_new_holds_names_their_files(kept: IdRegistry, tmp_path: Path) -> None:
    kept.claim(claims_of(PLAN, *many(0, MOST_INLINE + 1)))
    snapshot = kept.snapshot(NEXT_PLAN)
    assert all(isinstance(run, RunFile) for runs in snapshot.runs.values() for run in runs)
    assert len(pickle.dumps(snapshot)) < 10_000
    kept.claim(claims_of(NEXT_PLAN, *many(MOST_INLINE, 50)))
    asked = (0, 1_000, MOST_INLINE, MOST_INLINE + 1, MOST_INLINE + 60)
    found = look_up(kept, NEXT_PLAN, *asked)
    assert codes(found) == [Hold.HERE, Hold.HERE, Hold.HERE, Hold.THIS_PLAN, Hold.NOBODY]


def test_files_of_a_snapshot_stay_while_newer_ones_are_taken(kept: IdRegistry, tmp_path: Path) -> None:
    kept.claim(claims_of(PLAN, *many(0, MOST_INLINE + 1)))
    first = kept.snapshot()
    for batch in (2, 3):  # each is merged with the file before
        kept.claim(claims_of(Claimant(EAST, batch, "p"), *many(batch * 100_000, MOST_INLINE + 1)))
        kept.snapshot()
        assert codes(first.open(PLAN).look_up(hashes_of(5), np.array([100]))) == [Hold.THIS_PLAN]
    files = len(list((tmp_path / "runs").iterdir()))
    for batch in (4, 5):
        kept.claim(claims_of(Claimant(EAST, batch, "p"), *many(batch * 100_000, MOST_INLINE + 1)))
        kept.snapshot()
    assert len(list((tmp_path / "runs").iterdir())) <= files + 2
    (oldest, *_) = first.runs[0]
    assert isinstance(oldest, RunFile)
    assert not (tmp_path / "runs" / f"{oldest.name}.holds").exists()
