"""Lakes on S3, by a real MinIO: exactly once through kills, and a store that goes away for a while."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.minio_server import PASSWORD, MinioServer
from photon.clock import SystemClock
from photon.pipeline.file import load_pipeline
from photon.read import joined
from photon.registry.dynamodb.local_server import local_server
from photon.registry.open import close_registries
from photon.registry.operations.init import init_registry
from photon.testing.traffic import Traffic
from tests.conftest import BUCKET
from tests.e2e.photon_process import PATIENCE_SECONDS, photon, photon_json, running, wait_for_rows

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

DATACENTERS = ("east", "west")
ILLS = dict.fromkeys(("click_before_query", "copies_apart", "click_twice_other_file", "broken_line"), 5)
# Before and after each of the steps that make rows readable.
KILLS = (
    "task.after_register",
    "lake.before_commit",
    "lake.after_commit",
    "complete.before_transaction",
)


@pytest.fixture
def traffic() -> Traffic:
    return Traffic(7, DATACENTERS, 200, 50, duration_seconds=20, ills=ILLS)


@pytest.fixture
def pipeline(tmp_path: Path, traffic: Traffic, minio: MinioServer) -> Path:
    storage = f"storage: {{endpoint_url: {minio.url}}}"
    places = {name: f"lake: s3://{BUCKET}/{tmp_path.name}/{name}, {storage}" for name in DATACENTERS}
    made = traffic.write_pipeline(tmp_path, more="limits: {batch_events: 200}\n", places=places)
    traffic.write_all(tmp_path)
    with local_server(tmp_path / "state" / "registry"):
        init_registry(load_pipeline(made), SystemClock())
        close_registries()
    return made


def is_joined_once(pipeline: Path, traffic: Traffic) -> bool:
    ids = joined(pipeline, retired=()).to_table(columns=["_event_id"])["_event_id"].to_pylist()
    return len(ids) == len(set(ids)) == traffic.expected_outcomes().joined_total


def test_joins_that_are_killed_leave_every_event_once_in_lakes_on_s3(
    tmp_path: Path, pipeline: Path, traffic: Traffic
) -> None:
    with local_server(tmp_path / "state" / "registry"):
        for number, point in enumerate(KILLS):
            name = DATACENTERS[number % 2]
            killed = ("join", pipeline, "-d", name, "--engine", "local", "--until-idle", "--crash-at", point)
            died = photon(*killed, status=None)
            assert died.returncode == -9, died.stderr
        counts = photon_json("join", pipeline, "--engine", "local", "--complete")
        assert traffic.expected_outcomes().disagreements(counts) == []
        assert is_joined_once(pipeline, traffic)


def test_a_join_waits_for_a_store_that_is_away_says_so_and_goes_on(
    tmp_path: Path, pipeline: Path, traffic: Traffic, minio: MinioServer
) -> None:
    with (
        local_server(tmp_path / "state" / "registry"),
        running("join", pipeline, "-d", "east", "--engine", "local", "--complete") as process,
    ):
        wait_for_rows(pipeline, "east", 1)
        minio.kill()
        assert process.stderr is not None
        said = process.stderr.readline()
        minio.start()
        assert "waits:" in said, said
        assert f"s3://{BUCKET}/{tmp_path.name}/east" in said
        assert said.rstrip().endswith((f"at {minio.url}", "it is tried again")), said
        assert process.wait(PATIENCE_SECONDS) == 0
        assert "waits:" not in process.stderr.read()
        assert photon_json("join", pipeline, "-d", "west", "--engine", "local", "--complete")
        assert is_joined_once(pipeline, traffic)


def test_neither_state_nor_messages_have_credentials(
    tmp_path: Path, pipeline: Path, minio: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = PASSWORD
    with local_server(tmp_path / "state" / "registry"):
        photon("join", pipeline, "-d", "east", "--engine", "local", "--until-idle")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "this-is-another")
        refused = photon("status", pipeline, status=None)
        trace = photon("trace", pipeline, "c1", status=None)
    said = f"{refused.stdout}{refused.stderr}{trace.stdout}{trace.stderr}"
    assert "SignatureDoesNotMatch" in said
    written = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert written
    for told in (secret, "this-is-another", "Signature="):
        assert told not in said
        assert not [content for content in written if told.encode() in content]
    assert os.environ["AWS_ACCESS_KEY_ID"]
