"""Joins with logs, tables, state and view on S3, by each way to find keys, and by keys that are rotated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from infra.servers.minio import MinioServer
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import S3Folder
from photon.storage.s3 import S3Store, forget_clients
from tests.conftest import BUCKET
from tests.e2e.photon_process import joined_rows, photon_json, running, stop, wait_for_rows
from tests.support.key_services import WAYS, KeyServices, StoreUsers

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

TRAFFIC = Traffic(7, ("east",), 50, 20, duration_seconds=10)
EXPECTED = TRAFFIC.expected_outcomes().joined_total
# As `photon verify` does where there is much to read: Spark's JVM reads the tables.
VERIFY = """from photon.jobs import verification
from photon.pipeline.file import load_pipeline
verification.WITHOUT_SPARK_BYTES = -1
print(verification.verify(load_pipeline("pipeline.yaml"), ["east"]).ok)"""
# Objects and tables are opened by each way in tests/contract; a whole join by two of them runs always.
ALWAYS = ("file", "container")
LATER = 30  # events that come once keys are others


@pytest.fixture
def users(minio: MinioServer) -> StoreUsers:
    return StoreUsers(minio.url)


@pytest.fixture
def services(tmp_path: Path, minio: MinioServer, users: StoreUsers) -> Iterator[KeyServices]:
    (tmp_path / "keys").mkdir()
    found = KeyServices(tmp_path / "keys", users.role_of(tmp_path.name))
    yield found
    found.close()
    forget_clients()


def written(folder: Path, url: str) -> Path:
    """A pipeline with all of a datacenter on S3; its logs are there."""
    at = f"s3://{BUCKET}/{folder.name}"
    places = {"east": f"logs: {at}/logs, lake: {at}/lake, storage: {{endpoint_url: {url}}}"}
    made = TRAFFIC.write_pipeline(folder, places=places)
    TRAFFIC.write_all(folder, {"east": load_pipeline(made).datacenters["east"].logs})
    return made


def use(monkeypatch: pytest.MonkeyPatch, services: KeyServices, way: str) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in services.environment(way).items():
        monkeypatch.setenv(name, value)
    forget_clients()


def joined_by(way: str, folder: Path, url: str, patch: pytest.MonkeyPatch, services: KeyServices) -> Path:
    """Join all of a pipeline on S3 with the keys of one way."""
    pipeline = written(folder, url)
    use(patch, services, way)
    printed = photon_json("join", pipeline, "--engine", "local", "--complete")
    assert TRAFFIC.expected_outcomes().disagreements(printed) == []
    return pipeline


@pytest.mark.parametrize(
    "way", [way if way in ALWAYS else pytest.param(way, marks=pytest.mark.long) for way in WAYS]
)
def test_a_datacenter_that_is_all_on_s3_is_joined_and_verified_by_each_way(
    tmp_path: Path, minio: MinioServer, monkeypatch: pytest.MonkeyPatch, services: KeyServices, way: str
) -> None:
    pipeline = joined_by(way, tmp_path, minio.url, monkeypatch, services)
    photon_json("verify", pipeline)
    assert joined_rows(pipeline).num_rows == EXPECTED


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_verification_by_spark_reads_tables_with_the_keys_of_each_way(
    tmp_path: Path, minio: MinioServer, monkeypatch: pytest.MonkeyPatch, services: KeyServices, way: str
) -> None:
    joined_by(way, tmp_path, minio.url, monkeypatch, services)
    done = subprocess.run(
        [sys.executable, "-c", VERIFY], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("True\n"), done.stdout + done.stderr


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_keys_that_are_rotated_under_a_running_join_lose_no_event(
    tmp_path: Path,
    minio: MinioServer,
    monkeypatch: pytest.MonkeyPatch,
    services: KeyServices,
    users: StoreUsers,
    engine: str,
) -> None:
    pipeline = written(tmp_path, minio.url)
    logs = load_pipeline(pipeline).datacenters["east"].logs
    assert isinstance(logs, S3Folder)
    before, after = f"before-{engine}", f"after-{engine}"
    services.give(users.add(before))
    use(monkeypatch, services, "file")
    with running("join", pipeline, "-d", "east", "--engine", engine) as process:
        wait_for_rows(pipeline, "east", EXPECTED)
        services.give(users.add(after))
        users.end(before)
        forget_clients()
        click = next(iter(S3Store(logs).objects("clicks")))
        line = json.loads(S3Store(logs).read(click.name).splitlines()[0])
        for number in range(LATER):
            event = json.dumps(line | {"click_id": f"later-{number}"}).encode()
            S3Store(logs).create(f"clicks/{number}.jsonl", lambda sink, event=event: sink.write(event))
        wait_for_rows(pipeline, "east", EXPECTED + LATER)
        assert stop(process) == 0
    ids = joined_rows(pipeline)["_event_id"].to_pylist()
    assert len(ids) == len(set(ids)) == EXPECTED + LATER
