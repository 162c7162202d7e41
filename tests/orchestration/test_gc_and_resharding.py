"""Gc and resharding as jobs, and what their metadata says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.upkeep.registry import advice_metadata, gc_metadata
from photon.clock import SystemClock
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import load_pipeline
from photon.registry.consensus.acceptor import StoreSize
from photon.registry.interface import Claim
from photon.registry.open import close_registries, open_registry
from photon.registry.operations import resharding
from photon.registry.operations.gc import EndpointGc
from photon.registry.operations.init import find_registry
from photon.registry.operations.resharding import Advice, Load, Resharded
from photon.shift.run import prepare
from photon.testing.traffic import Traffic
from photon.upkeep import pipeline_gc
from photon.upkeep.pipeline_gc import GcResult
from tests.orchestration.location import Location
from tests.orchestration.test_upkeep import metadata_of, run

DAY_US = 86_400_000_000
GC_RESULT = GcResult(
    None,
    DAY_US,
    "ids are kept for 30 days",
    {
        "http://a": EndpointGc(0, StoreSize(7, 700), StoreSize(9, 900), StoreSize(2, 200)),
        "http://b": EndpointGc(1, StoreSize(3, 300), None, None, "connection refused"),
    },
)
LOAD = Load(ids=100, bytes=9_000, commits_per_second=2.5)


@pytest.fixture(autouse=True)
def everything_closed() -> Iterator[None]:
    yield
    close_registries()


# -- gc


def test_gc_says_the_boundary_and_sizes_before_and_after_at_each_endpoint() -> None:
    metadata = gc_metadata(GC_RESULT, 1.25)
    assert metadata["boundary"] == "1970-01-02T00:00:00.000000+00:00"
    assert (metadata["items_deleted"], metadata["bytes_deleted"]) == (10, 1_000)
    assert metadata["endpoints_left"] == 1
    first, second = (record.data for record in metadata["endpoints"].records)  # type: ignore[union-attr]
    assert (first["items_before"], first["items_deleted"], first["items_after"]) == (9, 7, 2)
    assert (second["problem"], second["items_after"]) == ("connection refused", -1)


def test_the_run_of_gc_deletes_old_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_gc, "run_gc", lambda pipeline, clock, say: GC_RESULT)
    assert metadata_of(run(Location(tmp_path), "collection"))["because"] == "ids are kept for 30 days"


@pytest.mark.server
def test_without_a_number_of_days_a_run_says_that_ids_are_kept(tmp_path: Path) -> None:
    location = Location(tmp_path, ("east",))
    prepare(location.pipeline)
    metadata = metadata_of(run(location, "collection"))
    assert (metadata["boundary"], metadata["items_deleted"]) == ("none", 0)
    assert "keep_days is null" in metadata["because"]


# -- resharding


def with_times(folder: Path, policy: str = "propose") -> Location:
    """A location whose ids carry their time."""
    made = Location(folder, ("east",))
    text = made.file.read_text().replace("foreign:\n", "foreign:\n  time_in_id: true\n")
    made.file.write_text(text + f"registry: {{shards: 4, resharding: {{policy: {policy}}}}}\n")
    return made


@pytest.mark.server
def test_a_run_with_a_number_puts_it_in_force(tmp_path: Path) -> None:
    location = with_times(tmp_path)
    make_registry(location)
    metadata = metadata_of(run(location, "resharding", shards=12))
    assert (metadata["shards_before"], metadata["shards_put_in_force"]) == (4, 12)
    assert metadata["begins"].startswith("20")


@pytest.mark.server
@pytest.mark.parametrize(("policy", "in_force"), [("propose", 4), ("apply", 64)])
def test_a_run_without_one_asks_the_policy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, policy: str, in_force: int
) -> None:
    monkeypatch.setattr(resharding, "SHARD_LIMITS", Load(ids=1, bytes=None, commits_per_second=500))
    location = with_times(tmp_path, policy)
    make_registry(location)
    now_us = SystemClock().now_us()
    claims = [Claim(EventKey(f"id-{number}", now_us), "east:e:1#p:1:0") for number in range(63)]
    open_registry(find_registry(load_pipeline(location.file))).commit(claims)
    metadata = metadata_of(run(location, "resharding"))
    assert (metadata["shards"], metadata["proposed"]) == (4, 64)  # for 63 ids and the register
    again = metadata_of(run(location, "resharding"))
    assert again["shards"] == in_force
    assert ("proposed" in again) == (policy == "propose")


def make_registry(location: Location) -> None:
    prepare(load_pipeline(location.file))


@pytest.mark.parametrize(
    ("advice", "says"),
    [
        (None, "shards are fixed"),
        (Advice(4, LOAD, None), "4 shards are as many as it takes"),
        (Advice(4, LOAD, None, awaits_us=DAY_US), "too early to judge"),
        (Advice(4, LOAD, 8), "8 shards would do better: photon reshard pipeline.yaml 8, or"),
        (Advice(4, LOAD, 8, applied=Resharded(4, 8, DAY_US)), "8 shards were put in force"),
    ],
)
def test_what_the_policy_says_is_in_words(advice: Advice | None, says: str, tmp_path: Path) -> None:
    pipeline = load_pipeline(Traffic(1).write_pipeline(tmp_path))
    metadata = advice_metadata(advice, pipeline)
    assert says in str(metadata["says"]).replace(f"{tmp_path}/", "")
    if advice is not None:
        assert (metadata["ids_per_shard"], metadata["bytes_per_shard"]) == (25, 2_250)


def test_a_number_that_no_registry_has_fails_the_run(tmp_path: Path) -> None:
    assert not run(Location(tmp_path), "resharding", shards=0).success
