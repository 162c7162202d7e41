"""A verification that finds no event without a row has releases count its datacenter's statements again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from photon.jobs.verification import _tell_releases
from photon.releases import copies
from photon.releases.release import Part, Place, Release, SetBack
from photon.verification.report import DatacenterReport, Finding, VerificationReport
from tests.simulation.world import World

BEFORE = Release(4, 1, "east", {"east": Part(Place(1, 1), "table", 3, 1)})
AWAITED = replace(BEFORE, number=5, set_back=SetBack(0, 5, ("east",), "the lake of west is gone"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(("release", "awaited"), [(BEFORE, {}), (AWAITED, {"east": 5})])
def test_only_a_release_that_awaits_a_verification_is_told_of_one(
    world: World, release: Release, awaited: dict[str, int]
) -> None:
    copies.put(world.pipeline.datacenters["east"].lake, [release])
    assert copies.awaited(world.pipeline, ["east"]) == awaited


@pytest.mark.parametrize(
    ("kind", "number"), [(None, 5), ("conflicting", 5), ("missing", -1), ("table_gone", -1)]
)
def test_events_without_a_row_are_still_awaited(world: World, kind: str | None, number: int) -> None:
    lake = world.pipeline.datacenters["east"].lake
    copies.put(lake, [AWAITED])
    findings = [] if kind is None else [Finding(kind, 1)]
    report = VerificationReport({"east": DatacenterReport(findings=findings, epoch="1", release=5)}, rows=0)
    _tell_releases(world.pipeline, report)
    assert copies.verified(lake).release == number
