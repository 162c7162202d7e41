"""Backups that are put back, with the product's own commands, local registry and tables (protocol A23).

docs/operations/backups.md says how: its blocks are run as they stand there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.documents import Block, blocks
from tests.e2e.one_query import log_clicks, one_query
from tests.e2e.photon_process import joined_rows, photon
from tests.support.followed_pages import follow

pytestmark = [pytest.mark.server, pytest.mark.slow]

JOIN = ("--until-idle", "--engine", "local")


def click(pipeline: Path, first: int, end: int) -> None:
    """Log these clicks."""
    log_clicks(pipeline, *(f"c{n}" for n in range(first, end)))


def must_have(pipeline: Path, clicks: int) -> None:
    """Check that each of so many clicks has one row."""
    ids = joined_rows(pipeline)["_event_id"].to_pylist()
    assert sorted(ids) == sorted(f"c{n}" for n in range(clicks))


def section(name: str) -> list[Block]:
    """The commands of a section."""
    return [block for block in blocks("docs/operations/backups.md") if block.section == name]


@pytest.mark.spark
def test_the_page_says_how_to_back_up_and_restore_and_no_event_gets_a_second_row(tmp_path: Path) -> None:
    """260 clicks are joined and copied, then 140 more are; those are logged again, too."""
    pipeline = one_query(tmp_path)
    click(pipeline, 0, 260)
    photon("join", pipeline, *JOIN)
    follow(section("Make a copy"), tmp_path)
    click(pipeline, 260, 400)
    photon("join", pipeline, *JOIN)
    click(pipeline, 300, 310)
    said = follow(section("Put a copy of the state back"), tmp_path)
    assert f"photon registry refill {pipeline}" in said
    assert "400 rows: 140 ids put back" in said
    must_have(pipeline, 400)
    follow(section("Put a copy of all back"), tmp_path)
    must_have(pipeline, 400)


def test_a_registry_that_is_deleted_is_made_anew_and_filled(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path)
    click(pipeline, 0, 20)
    photon("join", pipeline, *JOIN)
    shutil.rmtree(pipeline.parent / "state" / "registry")
    click(pipeline, 10, 30)
    refused = photon("join", pipeline, *JOIN, status=3)
    assert f"photon registry init {pipeline}, then photon registry refill {pipeline}" in refused.stderr
    photon("registry", "init", pipeline)
    assert f"photon registry refill {pipeline}" in photon("join", pipeline, *JOIN, status=3).stderr
    photon("registry", "refill", pipeline)
    photon("join", pipeline, *JOIN)
    must_have(pipeline, 30)
