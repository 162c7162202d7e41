"""Pools: upkeep waits for upkeep, and a shift for nobody."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from dagster import DagsterInstance

from assets.reports import VERIFICATION
from assets.upkeep import UPKEEP
from assets.work import BACKFILL_POOL, RECOVERY_POOL, REPAIR_POOL, UPKEEP_POOL, VERIFICATION_POOL
from tests.e2e.process_marks import soon
from tests.orchestration.location import Location

# Dagster keeps what a run prints by processes that follow its output. Those of a run in a thread sometimes
# take no notice of SIGTERM: Dagster waits half a minute for each, and leaves them behind.
NO_OUTPUT_KEPT = """
compute_logs:
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
"""


@pytest.fixture
def home(home: Path) -> Path:
    with (home / "dagster.yaml").open("a") as settings:
        settings.write(NO_OUTPUT_KEPT)
    return home


@pytest.fixture
def location(tmp_path_factory: pytest.TempPathFactory) -> Location:
    return Location(tmp_path_factory.mktemp("clicks"))


def test_a_verb_waits_until_the_one_before_has_left_its_pool(
    location: Location, instance: DagsterInstance
) -> None:
    storage = instance.event_log_storage
    assert storage.supports_global_concurrency_limits
    storage.initialize_concurrency_limit_to_default(UPKEEP_POOL)
    assert storage.claim_concurrency_slot(UPKEEP_POOL, "another run", "step").is_claimed
    results = []
    job = location.defs.resolve_job_def(location.served.job_name("compact"))
    thread = threading.Thread(target=lambda: results.append(job.execute_in_process(instance=instance)))
    thread.start()
    try:
        waits = soon(lambda: storage.get_concurrency_info(UPKEEP_POOL).pending_step_count == 1)
        assert waits
        assert results == []
    finally:
        storage.free_concurrency_slot_for_step("another run", "step")
        thread.join()
    assert results[0].success


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


def test_a_pool_has_one_place_and_that_of_a_killed_run_is_freed(instance: DagsterInstance) -> None:
    assert instance.global_op_concurrency_default_limit == 1
    assert 0 < instance.run_monitoring_settings["free_slots_after_run_end_seconds"] <= 60
