"""Repairing an endpoint of three real servers: lost, restored, or behind, while claims go on (B10, B11)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.servers.stores import StoreServer
from photon.pipeline.file import Pipeline
from photon.process.clock import SystemClock
from photon.process.faults import REPAIR_FAULT_POINTS
from photon.registry.entry import Claimant, Epoch
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.generations import roll
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import close_registries, init_registry, open_reader
from photon.upkeep.registry_state import registry_state
from photon.upkeep.repair import plan_repair
from tests.simulation.world import hashed
from tests.support.claims import claims_for
from tests.support.crashes import dies_at
from tests.support.shares import a_share

pytestmark = pytest.mark.server


@pytest.fixture
def pipeline(new_pipeline: Callable[[], Pipeline]) -> Pipeline:
    made = new_pipeline()
    init_registry(made, SystemClock())
    return made


def claim(registry: IdRegistry, batch: int, *ids: str) -> None:
    claimant = Claimant(Epoch("a", 1), batch, "p")
    assert registry.claim(claims_for(claimant, hashed(*ids))).are_of(claimant).all()


def held(pipeline: Pipeline, *ids: str) -> list[bool]:
    registry = open_reader(pipeline)
    registry.catch_up()  # with one store down, a mere reader lacks the last entry
    return list(registry.holders(hashed(*ids)).are_held)


def behind(pipeline: Pipeline) -> list[int]:
    return [one.behind for one in registry_state(pipeline).endpoints]


def with_some_claims(pipeline: Pipeline, batches: int = 40) -> IdRegistry:
    registry = open_reader(pipeline)
    for batch in range(1, batches + 1):
        claim(registry, batch, f"{batch}-1", f"{batch}-2")
    return registry


def without(server: StoreServer, registry: IdRegistry) -> None:
    """Make claims that a server misses."""
    server.kill()
    for batch in range(100, 110):
        claim(registry, batch, f"{batch}-1", f"{batch}-2")
    server.start()


def test_a_wiped_endpoint_is_filled_and_then_any_other_one_may_be_lost(
    pipeline: Pipeline, servers: list[StoreServer]
) -> None:
    with_some_claims(pipeline)
    servers[2].wipe()
    servers[2].start()
    assert plan_repair(pipeline, servers[2].url).sentences()[0].endswith("no table of this pipeline")
    done = plan_repair(pipeline, servers[2].url).apply()
    assert done.copied >= 40
    assert behind(pipeline) == [0, 0, 0]
    for out in (0, 1):
        servers[out].kill()
        close_registries()
        assert held(pipeline, "1-1", "40-2", "none") == [True, True, False]
        servers[out].start()


def test_all_is_copied_before_the_endpoint_comes_up_also_behind_a_seal_that_nobody_can_prove(
    pipeline: Pipeline, servers: list[StoreServer]
) -> None:
    """A seal has two copies of an insert while one store is down, and they prove nothing."""
    registry = with_some_claims(pipeline, 5)
    roll(registry.view, registry.positions, ledgers=3)
    for batch in range(6, 16):
        claim(registry, batch, f"{batch}-1", f"{batch}-2")
    servers[0].wipe()
    servers[0].start()
    assert plan_repair(pipeline, servers[0].url).apply().mended == 0


def test_joins_go_on_while_an_endpoint_is_repaired(pipeline: Pipeline, servers: list[StoreServer]) -> None:
    registry, batches = with_some_claims(pipeline), iter(range(41, 10_000))
    ends, claimed = threading.Event(), list[int]()

    def work() -> None:
        while not ends.is_set():
            batch = next(batches)
            claim(registry, batch, f"{batch}-1")
            claimed.append(batch)

    worker = threading.Thread(target=work)
    worker.start()
    servers[1].wipe()
    servers[1].start()
    try:
        plan_repair(pipeline, servers[1].url).apply()
    finally:
        ends.set()
        worker.join()
    assert claimed
    assert all(held(pipeline, *(f"{batch}-1" for batch in claimed)))
    servers[0].kill()
    close_registries()
    assert all(held(pipeline, *(f"{batch}-1" for batch in claimed)))


@pytest.mark.parametrize("point", a_share(REPAIR_FAULT_POINTS, 0))
def test_a_repair_that_was_killed_is_run_again(
    pipeline: Pipeline, servers: list[StoreServer], point: str
) -> None:
    registry = with_some_claims(pipeline, 5)
    roll(registry.view, registry.positions, ledgers=3)
    with_some_claims(pipeline, 5)
    if point == "repair.after_compared":  # makes a difference, so that the repair compares
        without(servers[1], open_reader(pipeline))
    servers[0].wipe()
    servers[0].start()
    with dies_at(point):
        plan_repair(pipeline, servers[0].url).apply()
    close_registries()
    assert held(pipeline, "1-1") == [True]
    plan_repair(pipeline, servers[0].url).apply()
    assert behind(pipeline) == [0, 0, 0]
    servers[1].kill()
    close_registries()
    assert held(pipeline, "5-2", "1-1") == [True, True]


def test_an_endpoint_put_back_to_an_older_copy_is_out_of_use_before_it_is_started(
    pipeline: Pipeline, servers: list[StoreServer], tmp_path: Path
) -> None:
    with_some_claims(pipeline, 3)
    servers[2].kill()
    shutil.copytree(servers[2].folder, tmp_path / "older")
    servers[2].start()
    claim(open_reader(pipeline), 4, "4-1")
    servers[2].kill()
    with pytest.raises(RegistryUnavailable, match="does not answer"):
        plan_repair(pipeline, servers[2].url, anew=True).apply()
    shutil.rmtree(servers[2].folder)
    shutil.copytree(tmp_path / "older", servers[2].folder)
    servers[2].start()
    assert [one.health for one in registry_state(pipeline).endpoints] == ["up", "up", "out of use"]
    assert not plan_repair(pipeline, servers[2].url, anew=True).apply().went_on
    servers[0].kill()
    close_registries()
    assert held(pipeline, "1-1", "4-1") == [True, True]


def test_what_an_endpoint_missed_while_it_was_down_is_mended_when_another_one_is_repaired(
    pipeline: Pipeline, servers: list[StoreServer]
) -> None:
    without(servers[0], with_some_claims(pipeline, 3))
    assert behind(pipeline)[0] > 0
    servers[2].wipe()
    servers[2].start()
    assert plan_repair(pipeline, servers[2].url).apply().mended > 0
    assert behind(pipeline) == [0, 0, 0]


def test_an_endpoint_that_is_none_or_the_only_one_is_refused(
    pipeline: Pipeline, servers: list[StoreServer]
) -> None:
    with pytest.raises(RegistryMismatch, match="is no endpoint of"):
        plan_repair(pipeline, "http://nowhere").apply()
    only = pipeline.registry.model_copy(update={"endpoints": pipeline.registry.endpoints[:1]})
    alone = pipeline.model_copy(update={"name": f"{pipeline.name}-alone", "registry": only})
    init_registry(alone, SystemClock())
    with pytest.raises(RegistryMismatch, match="is the only endpoint"):
        plan_repair(alone, servers[0].url).apply()


def test_with_too_few_others_nothing_is_changed(pipeline: Pipeline, servers: list[StoreServer]) -> None:
    with_some_claims(pipeline, 2)
    servers[0].kill()
    with pytest.raises(RegistryUnavailable, match="nothing was changed"):
        plan_repair(pipeline, servers[2].url).apply()
    servers[0].start()
    assert held(pipeline, "1-1") == [True]
