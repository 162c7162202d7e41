"""Pools: upkeep waits for upkeep, and a shift for nobody. How they wait is tried in test_starts."""

from __future__ import annotations

import pytest
from dagster import DagsterInstance
from dagster._core.instance.config import PoolGranularity

from photon.assets.reports import VERIFICATION
from photon.assets.upkeep import UPKEEP
from photon.assets.work import BACKFILL_POOL, RECOVERY_POOL, REPAIR_POOL, UPKEEP_POOL, VERIFICATION_POOL
from tests.orchestration.location import Location


@pytest.fixture
def location(tmp_path_factory: pytest.TempPathFactory) -> Location:
    return Location(tmp_path_factory.mktemp("clicks"))


def test_what_takes_long_has_a_pool_of_its_own_and_shifts_have_none(location: Location) -> None:
    graph = location.defs.get_repository_def().asset_graph
    pools = {node.key.path[-1]: node.pools for node in graph.asset_nodes if not node.is_external}
    assert pools == {
        "joined_events": set(),
        "daily_joins": {BACKFILL_POOL},
        "verification_report": {VERIFICATION_POOL},
        "recovery": {RECOVERY_POOL},
        **{name: {UPKEEP_POOL} for name in ("registry_state", "compaction", "resharding")},
    }
    assert {kind.name: kind.pool for kind in UPKEEP} == {
        "repair": REPAIR_POOL,
        "retirement": RECOVERY_POOL,
        **dict.fromkeys(("hold", "resume", "acknowledgement")),
    }
    assert VERIFICATION.pool == VERIFICATION_POOL


def test_a_pool_has_one_run_at_a_time(instance: DagsterInstance) -> None:
    pools = instance.get_concurrency_config().pool_config
    assert pools.default_pool_limit == 1
    assert pools.pool_granularity is PoolGranularity.RUN  # by ops, a run that waits would have a process
