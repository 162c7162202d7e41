"""Logs and lakes on S3, by a real MinIO: exactly once through kills and a store that goes away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, BinaryIO, Literal

import pytest

from infra.servers.minio import PASSWORD, MinioServer
from orchestration.demo.traffic import Traffic
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import S3Folder
from photon.storage.s3 import S3Store
from tests.conftest import BUCKET
from tests.e2e.photon_process import (
    PATIENCE_SECONDS,
    joined_rows,
    line_with,
    photon,
    photon_json,
    running,
    wait_for_rows,
)
from tests.e2e.written_pipeline import written
from tests.support.local_servers import local_server

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

Part = Literal["logs", "lake"]  # of a datacenter; the other is in a local folder
DATACENTERS = ("east", "west")
ILLS = dict.fromkeys(("click_before_query", "copies_apart", "click_twice_other_file", "broken_line"), 5)
# Before and after each of the steps that read this part or write it.
KILLS: dict[Part, tuple[str, ...]] = {
    "logs": ("plan.after_store", "task.after_index", "claim.after", "complete.before_transaction"),
    "lake": (
        "claim.after",
        "lake.before_commit",
        "lake.after_commit",
        "complete.before_transaction",
    ),
}


# What a join says first where the store refuses its credentials.
REFUSED: dict[Part, str] = {"logs": "waits:", "lake": "waits: cannot read the view of the registry"}


def write(tmp_path: Path, minio: MinioServer, traffic: Traffic, part: Part = "logs", more: str = "") -> Path:
    """A pipeline with this part of each datacenter on S3, its logs written; its registry."""
    storage = f"storage: {{endpoint_url: {minio.url}}}"
    places = {name: f"{part}: s3://{BUCKET}/{tmp_path.name}/{name}, {storage}" for name in DATACENTERS}
    return written(tmp_path, traffic, places, more)


@pytest.fixture
def traffic() -> Traffic:
    return Traffic(7, DATACENTERS, 200, 50, duration_seconds=20, ills=ILLS)


@pytest.fixture(params=["logs", "lake"])
def part(request: pytest.FixtureRequest) -> Part:
    found: Part = request.param
    return found


@pytest.fixture
def pipeline(tmp_path: Path, traffic: Traffic, minio: MinioServer, part: Part) -> Path:
    return write(tmp_path, minio, traffic, part, "limits: {batch_events: 200}\n")


def is_joined_once(pipeline: Path, traffic: Traffic) -> bool:
    ids = joined_rows(pipeline)["_event_id"].to_pylist()
    return len(ids) == len(set(ids)) == traffic.expected_outcomes().joined_total


def test_joins_that_are_killed_leave_every_event_once(
    tmp_path: Path, pipeline: Path, traffic: Traffic, part: Part
) -> None:
    with local_server(tmp_path / "state" / "registry"):
        for number, point in enumerate(KILLS[part]):
            name = DATACENTERS[number % 2]
            killed = ("join", pipeline, "-d", name, "--engine", "local", "--until-idle")
            died = photon(*killed, status=None, crash_at=point)
            assert died.returncode == -9, died.stderr
        counts = photon_json("join", pipeline, "--engine", "local", "--complete")
        assert traffic.expected_outcomes().disagreements(counts) == []
        assert is_joined_once(pipeline, traffic)


def test_a_join_waits_for_a_store_that_is_away_says_so_once_and_goes_on(
    tmp_path: Path, pipeline: Path, traffic: Traffic, minio: MinioServer
) -> None:
    with (
        local_server(tmp_path / "state" / "registry"),
        running("join", pipeline, "-d", "east", "--engine", "local", "--complete") as process,
    ):
        wait_for_rows(pipeline, "east", 1)
        minio.kill()
        said = line_with("waits:", process)
        minio.start()
        assert f"s3://{BUCKET}/{tmp_path.name}/east" in said, said
        assert said.rstrip().endswith((f"at {minio.url}", "it is tried again")), said
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stderr is not None
        assert "waits:" not in process.stderr.read()
        counts = photon_json("join", pipeline, "--engine", "local", "--complete")
        assert traffic.expected_outcomes().disagreements(counts) == []
        assert is_joined_once(pipeline, traffic)


def _lines_until(stream: IO[str], words: str) -> list[str]:
    """What is said, up to the line with these words. A listener may be refused before the first look."""
    lines = []
    for line in stream:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"nobody said {words!r} in {lines}")


def test_neither_state_nor_messages_have_credentials(
    tmp_path: Path, pipeline: Path, part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_server(tmp_path / "state" / "registry"):
        joined = photon("join", pipeline, "-d", "east", "--engine", "local", "--until-idle")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "this-is-another")
        commands = (("status", pipeline), ("trace", pipeline, "c1"))
        done = [photon(*command, status=None) for command in commands]
        with running("join", pipeline, "-d", "west", "--engine", "local", "--until-idle") as refused:
            assert refused.stderr is not None
            says = "".join(_lines_until(refused.stderr, REFUSED[part]))
    said = says + "".join(f"{each.stdout}{each.stderr}" for each in (joined, *done))
    assert "SignatureDoesNotMatch" in said
    written = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert written
    for told in (PASSWORD, "this-is-another", "Signature="):
        assert told not in said
        assert not [content for content in written if told.encode() in content]


def test_a_join_that_rests_is_woken_by_a_notice_of_a_new_object(tmp_path: Path, minio: MinioServer) -> None:
    traffic = Traffic(13, ("east",), 20, 10, duration_seconds=10)
    places = {
        "east": f"logs: s3://{BUCKET}/{tmp_path.name}/east, storage: {{endpoint_url: {minio.url}}}",
    }
    pipeline = written(tmp_path, traffic, places, "tailing: {poll_interval: 1h}\n")
    expected = traffic.expected_outcomes().joined_total
    (place,) = load_pipeline(pipeline).datacenters.values()
    assert isinstance(place.logs, S3Folder)
    logs = S3Store(place.logs)
    with (
        local_server(tmp_path / "state" / "registry"),
        running("join", pipeline, "-d", "east", "--engine", "local"),
    ):
        wait_for_rows(pipeline, "east", expected)
        click = next(iter(logs.objects("clicks")))
        line = json.loads(logs.read(click.name).splitlines()[0])
        put(logs, "clicks/0.jsonl", json.dumps(line | {"click_id": "new"}).encode())
        wait_for_rows(pipeline, "east", expected + 1)


def put(logs: S3Store, name: str, content: bytes) -> None:
    def write(sink: BinaryIO) -> None:
        sink.write(content)

    logs.create(name, write)
