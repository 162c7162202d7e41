"""Gc and resharding as assets: a materialization is what one evaluation found and did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.demo.traffic import Traffic
from photon.assets.evaluations import gc_metadata, resharding_metadata
from photon.dispatcher.shift.run import prepare
from photon.pipeline.file import load_pipeline
from photon.registry.opening import close_registries
from photon.upkeep import plans
from photon.upkeep.gc import GcResult
from photon.upkeep.registry_state import RegistrySize
from photon.upkeep.reshard import Resharded
from tests.orchestration.location import Location
from tests.orchestration.test_upkeep import metadata_of, run

DAY_US = 86_400_000_000
KEPT = "registry: {keep_days: 30}\n"
COLLECTED = GcResult(
    because="ids are kept for 30 days",
    boundary_before_us=None,
    boundary_us=DAY_US,
    generation=3,
    rolled=True,
    dropped=(0, 1),
    before=RegistrySize(generations=3, ledgers=6, ids=900, bytes=40_000),
    after=RegistrySize(generations=2, ledgers=4, ids=200, bytes=9_000),
    problem=None,
)
NOTHING_DUE = replace(
    COLLECTED, boundary_before_us=DAY_US, rolled=False, dropped=(), after=COLLECTED.before, because="so"
)
FITS = Resharded(
    because="each of 2 datacenters has a ledger",
    generation=1,
    ledgers_before=2,
    ledgers_wanted=2,
    ledgers=2,
    applied=False,
    ids=100,
    bytes=9_000,
    bytes_per_second=2.5,
)


@pytest.fixture(autouse=True)
def everything_closed() -> Iterator[None]:
    yield
    close_registries()


# -- gc


def test_gc_says_the_boundary_and_what_there_was_before_and_after() -> None:
    metadata = gc_metadata(COLLECTED, 4 * DAY_US)
    assert (metadata["boundary_before"], metadata["boundary"]) == ("none", "1970-01-02 00:00:00 UTC")
    assert (metadata["ids_before"], metadata["ids_after"]) == (900, 200)
    assert (metadata["bytes_before"], metadata["bytes_after"]) == (40_000, 9_000)
    assert (metadata["ledgers_before"], metadata["ledgers_after"]) == (6, 4)
    assert metadata["says"] == (
        "boundary: 1970-01-02 00:00:00 UTC (before: none); ids are kept for 30 days;"
        " generation 3 of ledgers has begun; generation 0, 1 is dropped, with 700 ids"
    )


def test_a_dry_run_of_gc_says_what_would_be() -> None:
    assert gc_metadata(COLLECTED, 4 * DAY_US, dry_run=True)["says"] == (
        "boundary: 1970-01-02 00:00:00 UTC (before: none); ids are kept for 30 days;"
        " generation 3 of ledgers would begin; generation 0, 1 would be dropped, with 700 ids"
    )


def test_the_age_of_the_boundary_is_a_number_that_plots() -> None:
    assert gc_metadata(COLLECTED, 4 * DAY_US)["boundary_age_days"] == 3.0
    assert "boundary_age_days" not in gc_metadata(replace(COLLECTED, boundary_us=None), 4 * DAY_US)


def test_gc_that_finds_nothing_due_says_why() -> None:
    metadata = gc_metadata(NOTHING_DUE, DAY_US)
    assert str(metadata["says"]).endswith("(before: 1970-01-02 00:00:00 UTC); so")
    assert (metadata["generations_begun"], metadata["generations_dropped"]) == (0, 0)


def test_what_gc_could_not_drop_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = replace(NOTHING_DUE, problem="http://b: connection refused")
    monkeypatch.setattr(plans, "carry_out", lambda plan, dry_run, say: left)
    assert metadata_of(run(Location(tmp_path, more=KEPT), "gc"))["problem"] == "http://b: connection refused"


@pytest.mark.server
def test_gc_before_the_first_verification_drops_nothing_and_says_why(tmp_path: Path) -> None:
    location = Location(tmp_path, ("east",), more=KEPT)
    prepare(location.pipeline)
    metadata = metadata_of(run(location, "gc"))
    assert (metadata["boundary"], metadata["generations_dropped"]) == ("none", 0)
    assert "never verified" in metadata["says"]
    assert metadata["ledgers_before"] == metadata["ledgers_after"] == 1


# -- resharding


def said_of(done: Resharded, folder: Path) -> dict[str, Any]:
    return resharding_metadata(done, load_pipeline(Traffic(1).write_pipeline(folder)))


def test_resharding_says_how_many_ledgers_there_are_and_what_each_bears(tmp_path: Path) -> None:
    metadata = said_of(FITS, tmp_path)
    assert metadata["says"] == "2 ledgers: each of 2 datacenters has a ledger"
    assert (metadata["ids_per_ledger"], metadata["bytes_per_ledger"]) == (50, 4_500)
    assert metadata["bytes_per_second_of_busiest"] == 2.5


def test_what_is_proposed_comes_with_the_command_that_does_it(tmp_path: Path) -> None:
    says = str(said_of(replace(FITS, ledgers_wanted=4, is_due=True, because="hot"), tmp_path)["says"])
    assert f"4 ledgers in place of 2: hot. To have that: photon registry reshard {tmp_path}/" in says
    assert "pipeline.yaml 4, a run with ledgers: 4 in its config" in says


def test_what_was_put_in_force_is_told_as_done(tmp_path: Path) -> None:
    done = replace(FITS, ledgers_wanted=4, ledgers=4, generation=2, applied=True, because="hot")
    metadata = said_of(done, tmp_path)
    assert metadata["says"] == "4 ledgers from now on (before: 2): hot"
    would_be = resharding_metadata(done, load_pipeline(tmp_path / "pipeline.yaml"), dry_run=True)
    assert would_be["says"] == "4 ledgers would begin (before: 2): hot"
    assert (metadata["resharded"], metadata["ledgers_before"], metadata["ledgers"]) == (1, 2, 4)


@pytest.mark.server
def test_a_run_with_a_number_puts_it_in_force(tmp_path: Path) -> None:
    location = Location(tmp_path)
    prepare(location.pipeline)
    metadata = metadata_of(run(location, "reshard", ledgers=3))
    assert (metadata["ledgers_before"], metadata["ledgers"], metadata["resharded"]) == (2, 3, 1)
    again = metadata_of(run(location, "reshard", ledgers=3))
    assert (again["ledgers_before"], again["generation"]) == (3, metadata["generation"])


def test_a_number_that_no_registry_has_is_not_started(tmp_path: Path) -> None:
    assert not run(Location(tmp_path), "reshard", ledgers=0).success


# -- anybody may materialize them at any time


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gc", COLLECTED), ("reshard", FITS)],
)
def test_a_dry_run_makes_nothing_and_is_an_observation(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    expected: GcResult | Resharded,
) -> None:
    monkeypatch.setattr(plans, "carry_out", lambda plan, dry_run, say=None: expected if dry_run else None)
    result = run(Location(tmp_path, more=KEPT), name, dry_run=True)
    assert not result.get_asset_materialization_events()
    metadata = metadata_of(result)
    assert metadata["dry_run"]
    assert not [name for name, one in metadata.items() if type(one) in (int, float)], "Dagster plots numbers"
