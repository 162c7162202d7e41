"""The asset of unmatched primaries: only for pipelines that ask for it; it says what it found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from photon.registry.opening import close_registries
from tests.orchestration.location import Location
from tests.orchestration.test_upkeep import metadata_of, run


@pytest.fixture(autouse=True)
def everything_closed() -> Iterator[None]:
    yield
    close_registries()


def test_only_who_asks_for_unmatched_primaries_has_their_asset(tmp_path: Path) -> None:
    for name, more, is_there in (("without", "", False), ("with", "unmatched: {}", True)):
        location = Location(tmp_path / name, more=more)
        assets = location.defs.get_repository_def().asset_graph.get_all_asset_keys()
        assert (location.served.asset_key("unmatched") in assets) == is_there


@pytest.mark.server
def test_a_run_that_is_held_back_says_why(tmp_path: Path) -> None:
    location = Location(tmp_path, more="unmatched: {after: 1s}")
    from photon.dispatcher.shift.run import prepare

    prepare(location.pipeline)
    assert "no datacenter has joined yet" in str(metadata_of(run(location, "find_unmatched"))["says"])
