"""What others did to a datacenter's tables is a red light of it, whoever runs, until it is verified (E11)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from photon.health import foreign_commits
from photon.health.foreign_commits import judge_foreign_commits, look_at_foreign_commits
from photon.jobs.verification import _tell_releases
from photon.verification.report import VerificationReport
from tests.simulation.verifying import recover_all, verify
from tests.simulation.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Clicks c0 to c2 are joined, and no join runs."""
    foreign_commits._looks_at.cache_clear()
    world = World(tmp_path)
    for event in ("c0", "c1", "c2"):
        world.queries("q")
        world.clicks((event, "q"))
        world.join()
    yield world
    foreign_commits._watch.cache_clear()


def table(world: World) -> DeltaTable:
    return DeltaTable(str(world.pipeline.datacenters["east"].lake / "joined_events"))


def light(world: World) -> str:
    """The sentence of the light; empty: it is green."""
    found = look_at_foreign_commits(world.pipeline, "east", ())
    verdict = judge_foreign_commits("east", found, world.pipeline)
    return "" if verdict is None else f"{verdict.level}: {verdict.text}"


def verified(world: World) -> None:
    _tell_releases(world.pipeline, VerificationReport(verify(world), rows=0))


def test_a_row_that_others_deleted_is_red_before_any_join_or_release(world: World) -> None:
    assert light(world) == ""
    table(world).delete("_event_id = 'c1'")
    said = light(world)
    assert said.startswith("error: east: joined_events: rows were taken by others: DELETE in version")
    assert "photon recover" in said
    assert "photon acknowledge" in said


def test_no_acknowledgement_is_offered_where_rows_may_be_altered(world: World) -> None:
    table(world).update(updates={"_event_id": "'c9'"}, predicate="_event_id = 'c1'")
    assert "rows were changed by others" in light(world)
    assert "photon acknowledge" not in light(world)


def test_it_stays_red_while_joins_and_releases_go_on(world: World) -> None:
    table(world).delete("_event_id = 'c1'")
    for event in ("c3", "c4"):
        world.clicks((event, "q"))
        world.join()
        assert "DELETE in version" in light(world)


def test_recovery_and_a_verification_behind_it_end_it(world: World) -> None:
    table(world).delete("_event_id = 'c1'")
    world.clicks(("c3", "q"))
    world.join()
    verified(world)
    assert light(world) != "", "a verification that misses rows ends nothing"
    recover_all(world)
    world.join()
    assert light(world) != "", "nobody has verified what recovery did"
    verified(world)
    assert light(world) == ""


def test_files_that_others_rewrote_are_no_light(world: World) -> None:
    table(world).optimize.compact()
    assert light(world) == ""
    world.clicks(("c3", "q"))
    world.join()
    assert light(world) == ""


def test_a_table_that_no_release_has_yet_is_red_too(world: World) -> None:
    shutil.rmtree(world.pipeline.datacenters["east"].lake / "releases")
    assert light(world) == ""
    table(world).delete("_event_id = 'c1'")
    assert "DELETE in version" in light(world)
