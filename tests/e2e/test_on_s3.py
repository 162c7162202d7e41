"""Logs and lakes on S3, by a real MinIO and a way to it that fails: joins wait, say so, and lose nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO

import pytest

from examples.demo.traffic import Traffic
from infra.servers.minio import PASSWORD, MinioServer
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import S3Folder
from photon.process.clock import SystemClock
from photon.process.errors import NOT_DONE
from photon.registry.opening import close_registries, init_registry
from photon.storage.s3 import S3Store
from tests.conftest import BUCKET
from tests.e2e.photon_process import (
    PATIENCE_SECONDS,
    joined_rows,
    line_with,
    photon,
    photon_json,
    running,
    status_with,
    wait_for_rows,
)
from tests.faulty_s3 import FaultyS3

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

DATACENTERS = ("east", "west")
ILLS = dict.fromkeys(("click_before_query", "copies_apart", "click_twice_other_file", "broken_line"), 5)
# Before and after each of the steps that read logs, or write to a lake.
KILLS = (
    "plan.after_store",
    "task.after_index",
    "claim.after",
    "lake.before_commit",
    "lake.after_commit",
    "complete.before_transaction",
)
# A join says this first where the store refuses its credentials.
REFUSED = {"logs": "waits:", "lake": "waits: cannot read the view of the registry"}
LOCAL = ("--engine", "local")


def written(folder: Path, url: str, traffic: Traffic, *parts: str, more: str = "") -> Path:
    """A pipeline with these parts of each datacenter on S3, its logs written and its registry made."""

    def place(name: str) -> str:
        at = [f"{part}: s3://{BUCKET}/{folder.name}/{part}/{name}" for part in parts]
        return ", ".join([*at, f"storage: {{endpoint_url: {url}}}"])

    places = {name: place(name) for name in traffic.datacenters}
    made = traffic.write_pipeline(folder, more=more, places=places)
    pipeline = load_pipeline(made)
    traffic.write_all(folder, {name: place.logs for name, place in pipeline.datacenters.items()})
    init_registry(pipeline, SystemClock())
    close_registries()
    return made


def logs_on_s3(pipeline: Path) -> S3Store:
    place = load_pipeline(pipeline).datacenters["east"].logs
    assert isinstance(place, S3Folder)
    return S3Store(place)


def assert_joined_once(pipeline: Path, traffic: Traffic) -> None:
    """Check that all events in the logs are joined, with one row each."""
    expected = traffic.expected_outcomes()
    assert expected.disagreements(photon_json("join", pipeline, *LOCAL, "--complete")) == []
    ids = joined_rows(pipeline)["_event_id"].to_pylist()
    assert len(ids) == len(set(ids)) == expected.joined_total


def test_joins_that_are_killed_leave_every_event_once(tmp_path: Path, minio: MinioServer) -> None:
    traffic = Traffic(7, DATACENTERS, 200, 50, duration_seconds=20, ills=ILLS)
    pipeline = written(tmp_path, minio.url, traffic, "logs", "lake", more="limits: {batch_events: 200}\n")
    for number, point in enumerate(KILLS):
        command = ("join", pipeline, "-d", DATACENTERS[number % 2], *LOCAL, "--until-idle")
        died = photon(*command, status=None, crash_at=point)
        assert died.returncode == -9, died.stderr
    assert_joined_once(pipeline, traffic)


@pytest.mark.parametrize("part", REFUSED)
def test_neither_state_nor_messages_have_credentials(
    tmp_path: Path, minio: MinioServer, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    pipeline = written(tmp_path, minio.url, Traffic(7, DATACENTERS, 20, 5, duration_seconds=20), part)
    joined = photon("join", pipeline, "-d", "east", *LOCAL, "--until-idle")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "this-is-another")
    done = [photon(*command, status=None) for command in (("status", pipeline), ("trace", pipeline, "c1"))]
    with running("join", pipeline, "-d", "west", *LOCAL, "--until-idle") as refused:
        says = line_with(REFUSED[part], refused)
    said = says + "".join(f"{each.stdout}{each.stderr}" for each in (joined, *done))
    assert "SignatureDoesNotMatch" in said
    state = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert state
    for told in (PASSWORD, "this-is-another", "Signature="):
        assert told not in said
        assert not [content for content in state if told.encode() in content]


def test_a_join_that_rests_is_woken_by_a_notice_of_a_new_object(tmp_path: Path, minio: MinioServer) -> None:
    traffic = Traffic(13, ("east",), 20, 10, duration_seconds=10)
    pipeline = written(tmp_path, minio.url, traffic, "logs", more="tailing: {poll_interval: 1h}\n")
    expected = traffic.expected_outcomes().joined_total
    logs = logs_on_s3(pipeline)
    with running("join", pipeline, "-d", "east", *LOCAL):
        wait_for_rows(pipeline, "east", expected)
        click = next(iter(logs.objects("clicks")))
        line = json.loads(logs.read(click.name).splitlines()[0])

        def write(sink: BinaryIO) -> None:
            sink.write(json.dumps(line | {"click_id": "new"}).encode())

        logs.create("clicks/0.jsonl", write)
        wait_for_rows(pipeline, "east", expected + 1)


@pytest.mark.parametrize(
    ("part", "is_first"),
    [("logs", False), ("lake", False), pytest.param("lake", True, marks=pytest.mark.long)],
)
def test_a_complete_join_that_starts_while_its_store_is_gone_waits_and_reads_all_logs(
    tmp_path: Path, faulty: FaultyS3, part: str, is_first: bool
) -> None:
    """Broken variants: taken for empty, logs would be read to an end that they don't have.

    Before there is a state, a join ended that could not see whether there is a lake.
    """
    traffic = Traffic(8, DATACENTERS, 50, 20, duration_seconds=10)
    pipeline = written(tmp_path, faulty.url, traffic, part)
    if not is_first:
        photon_json("join", pipeline, "-d", "west", *LOCAL, "--complete")
    faulty.refuse()
    with running("join", pipeline, "-d", "east", *LOCAL, "--complete") as process:
        says = line_with("waits:", process)
        faulty.listen()
        assert f"Connection refused, at {faulty.url}" in says, says
        _, rest = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, rest
    assert "waits:" not in rest
    assert "goes on" in rest
    assert_joined_once(pipeline, traffic)


def test_a_primary_object_that_can_not_be_read_holds_up_its_own_events_alone(
    tmp_path: Path, faulty: FaultyS3
) -> None:
    """Broken variants: all joins wait for it; or a complete one gives its events up as unjoinable."""
    traffic = Traffic(9, ("east",), 50, 20, duration_seconds=10)
    pipeline = written(tmp_path, faulty.url, traffic, "logs")
    bad = next(iter(logs_on_s3(pipeline).objects("queries"))).name
    faulty.meet("busy", among=lambda method, path: path.endswith(bad))
    with running("join", pipeline, "-d", "east", *LOCAL):
        # A store may be busy for a moment: an object is named when a minute has passed.
        status_with(f"{bad} (primary log", pipeline)
    assert len(joined_rows(pipeline)) < traffic.expected_outcomes().joined_total
    assert bad in photon("join", pipeline, "-d", "east", *LOCAL, "--complete", status=NOT_DONE).stderr
    faulty.mend()
    assert_joined_once(pipeline, traffic)
