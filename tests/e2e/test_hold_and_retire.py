"""`photon hold`, `resume` and `retire` of a datacenter that died with events registered and not joined."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from photon import read
from photon.pipeline.file import load_pipeline
from photon.state.points import POINTS
from tests.documents import Block, blocks
from tests.e2e.one_query import one_query
from tests.e2e.photon_process import (
    PATIENCE_SECONDS,
    joined_rows,
    photon,
    photon_json,
    running,
    wait_for_rows,
)
from tests.support.followed_pages import follow

pytestmark = [pytest.mark.server, pytest.mark.slow]

CLICKS = [f"c{number}" for number in range(40)]
SETTINGS = "home: {takeover_delay: 0s}\nrecovery: {silent_after: 3s}\n"
JOIN = ("--until-idle", "--engine", "local")


def marks(pipeline: Path, datacenter: str) -> list[str]:
    """The kinds of the marks in a datacenter's lake, in their order."""
    kinds = POINTS.between(load_pipeline(pipeline), datacenter, 0, 2**62, ["at", "mark"])["mark"].to_pylist()
    return [kind for kind in kinds if kind is not None]


def test_a_person_puts_a_datacenter_on_hold_and_retires_it(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path, *CLICKS, datacenters=("east", "west"), more=SETTINGS)
    lake = tmp_path / "lake" / "west"
    photon("registry", "init", pipeline)
    photon("join", pipeline, "-d", "west", *JOIN, status=-9, crash_at="claim.after")

    assert photon_json("hold", pipeline, "east") == {"on_hold": ["east"]}
    assert "photon resume" in photon("join", pipeline, "-d", "east", *JOIN, status=3).stderr
    assert photon_json("resume", pipeline, "east") == {"on_hold": []}
    assert marks(pipeline, "east") == []  # it has no lake yet

    assert "is not gone" in photon("retire", pipeline, "west", "--lake-is-gone", status=3).stderr
    lake.rename(tmp_path / "gone")
    assert "--lake-is-gone" in photon("retire", pipeline, "west", status=3).stderr
    would = photon_json("retire", pipeline, "west", "--lake-is-gone", "--dry-run")
    assert (would["rows"], would["released"]) == (None, len(CLICKS))
    done = photon_json("retire", pipeline, "west", "--lake-is-gone")
    assert (done["dry_run"], done["released"], done["kept"], done["rows"]) == (False, len(CLICKS), 0, None)

    photon("join", pipeline, "-d", "east", *JOIN)
    for verb in ("hold", "hold", "resume"):
        photon(verb, pipeline, "east")
    assert marks(pipeline, "east") == ["hold", "resume"]
    (tmp_path / "gone").rename(lake)
    assert sorted(joined_rows(pipeline)["_event_id"].to_pylist()) == sorted(CLICKS)
    assert "retired" in photon("join", pipeline, "-d", "west", *JOIN, status=3).stderr
    for verb in ("hold", "resume"):
        assert "is retired: it never runs again" in photon(verb, pipeline, "west", status=3).stderr


def test_a_retirement_without_the_lake_orders_what_others_called_joined_by_it_though_it_was_killed(
    tmp_path: Path,
) -> None:
    pipeline = one_query(tmp_path, *CLICKS, datacenters=("east", "west"), more=SETTINGS)
    photon("registry", "init", pipeline)
    for name in ("west", "east"):
        photon("join", pipeline, "-d", name, *JOIN)
    assert len(joined_rows(pipeline)) == len(CLICKS)
    shutil.rmtree(tmp_path / "lake" / "west")
    retire = ("retire", pipeline, "west", "--lake-is-gone")
    would = photon(*retire, "--dry-run").stdout
    assert f"join again what they called joined by it, at most {len(CLICKS)} events" in would

    photon(*retire, status=-9, crash_at="release.after_decided")
    done = photon_json(*retire)
    assert done["was_retired"]
    orders = done["ordered"]["east"]
    assert orders["ordered"] + orders["waiting"] == len(CLICKS)
    [note] = photon_json("releases", pipeline)["releases"][-1]["notes"]
    assert f"and {len(CLICKS)} rows with it; completeness goes back to" in note["says"]
    photon("join", pipeline, "-d", "east", *JOIN)
    assert read.joined(pipeline, release="latest").count_rows() == len(CLICKS)


def test_a_row_is_taken_out_of_a_table_that_a_join_follows_and_the_event_joined_again(tmp_path: Path) -> None:
    """The blocks of docs/operations/backups.md: a hold has to end the join before the row is deleted."""
    section = "A row that the registry does not know"
    hold, take_out = (block for block in blocks("docs/operations/backups.md") if block.section == section)
    pipeline = one_query(tmp_path, *CLICKS)
    with running("join", pipeline, "--engine", "local") as join:
        wait_for_rows(pipeline, "east", len(CLICKS))
        follow([hold], tmp_path)
        join.communicate(timeout=PATIENCE_SECONDS)
    of_click = take_out.text.replace("'ID'", f"'{CLICKS[7]}'")
    assert "'num_deleted_rows': 1" in follow([Block(section, "bash", of_click)], tmp_path)
    assert CLICKS[7] not in joined_rows(pipeline)["_event_id"].to_pylist()
    photon("join", pipeline, *JOIN)
    assert sorted(joined_rows(pipeline)["_event_id"].to_pylist()) == sorted(CLICKS)
