"""Join and status say which places two datacenters or two pipelines share by mistake."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from photon.dispatcher.shared_places import shared_logs
from photon.pipeline.file import Pipeline, load_pipeline
from tests.support.commands import photon

PIPELINE = """
name: searches
datacenters: {{east: {{logs: {east}}}, west: {{logs: {west}}}}}
primary: {{files: "queries/*.csv", format: csv, id: query, time: at}}
foreign: {{files: "clicks/*.csv", format: csv, id: click, key: query, time: at}}
"""


def pipeline(folder: Path, east: str, west: str) -> Pipeline:
    (folder / "p.yaml").write_text(PIPELINE.format(east=east, west=west))
    return load_pipeline(folder / "p.yaml")


def with_logs(folder: Path, *names: str) -> None:
    for name in names:
        for kind in ("queries", "clicks"):
            (folder / name / kind).mkdir(parents=True)
        (folder / name / "queries" / "a.csv").write_text("query,at\nq1,1700000000\n")
        (folder / name / "clicks" / "a.csv").write_text("click,query,at\nc1,q1,1700000002\n")


def test_datacenters_with_copies_of_their_own_share_nothing(tmp_path: Path) -> None:
    with_logs(tmp_path, "e", "w")
    assert shared_logs(pipeline(tmp_path, "e", "w")) == []


@pytest.mark.parametrize("west", ["e", "./e/../e", "link"])
def test_one_folder_of_two_datacenters_is_told_whatever_its_name(tmp_path: Path, west: str) -> None:
    with_logs(tmp_path, "e")
    (tmp_path / "link").symlink_to("e")
    (told,) = shared_logs(pipeline(tmp_path, "e", west))
    assert "datacenters east and west read the same primary and foreign logs" in told
    assert "datacenters.west.logs" in told


def test_one_kind_of_logs_that_two_datacenters_share_by_a_link_is_told(tmp_path: Path) -> None:
    with_logs(tmp_path, "e", "w")
    shutil.rmtree(tmp_path / "w" / "clicks")
    (tmp_path / "w" / "clicks").symlink_to("../e/clicks")
    (told,) = shared_logs(pipeline(tmp_path, "e", "w"))
    assert "read the same foreign logs" in told


@pytest.mark.parametrize(("west", "is_shared"), [("s3://logs/e/", True), ("s3://logs/w", False)])
def test_one_prefix_of_a_bucket_is_told(tmp_path: Path, west: str, is_shared: bool) -> None:
    assert bool(shared_logs(pipeline(tmp_path, "s3://logs/e", west))) is is_shared


def test_it_is_told_once_of_a_pair(tmp_path: Path) -> None:
    shared = pipeline(tmp_path, "e", "e")
    assert [len(shared_logs(shared, name)) for name in ("east", "west")] == [0, 1]


@pytest.mark.server
def test_join_and_status_tell_of_shared_logs_and_of_a_copied_project(tmp_path: Path) -> None:
    project, copy = tmp_path / "project", tmp_path / "copy"
    with_logs(project, "e")
    file = pipeline(project, "e", "e").file
    joins = ["join", "--until-idle", "--engine", "local", "-d", "east"]
    first = photon(*joins, file)
    assert first.exit_code == 0
    assert "read the same primary and foreign logs" in first.output
    assert "read the same primary and foreign logs" in photon("status", file).output
    assert "is a copy of" not in first.output

    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("*.lock"))
    again = photon(*joins, copy / "p.yaml")
    assert again.exit_code == 0
    told = f"state/east is a copy of {project}/state/east, which is there still"
    assert told in again.output
    assert told in photon("status", copy / "p.yaml").output
    assert "is a copy of" not in photon("status", file).output

    shutil.rmtree(project)
    assert "is a copy of" not in photon(*joins, copy / "p.yaml").output
