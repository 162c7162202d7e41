"""Joins whose logs and lakes are on an S3 that fails: they wait, say so once, and lose nothing."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.servers.minio import PASSWORD
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
from tests.faulty_s3 import Fault, FaultyS3
from tests.support.local_servers import local_server

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]

DATACENTERS = ("east", "west")
GONE_SECONDS = 20
# Each fault with its share of the requests, and how many are to meet it.
FAULTS: tuple[tuple[Fault, float, int], ...] = (
    ("busy", 0.3, 60),
    ("cut", 0.2, 30),
    ("busy late", 0.2, 30),
    ("cut late", 0.2, 30),
)


def write(
    tmp_path: Path,
    faulty: FaultyS3,
    traffic: Traffic,
    parts: Sequence[str] = ("logs", "lake"),
    more: str = "",
) -> Path:
    """A pipeline with these parts behind a way that may fail; its logs written, its registry made."""
    here, storage = f"s3://{BUCKET}/{tmp_path.name}", f"storage: {{endpoint_url: {faulty.url}}}"
    places = {
        name: ", ".join([*(f"{part}: {here}/{part}/{name}" for part in parts), storage])
        for name in DATACENTERS
    }
    return written(tmp_path, traffic, places, more)


class Said:
    """The lines that a process has said to people so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self.lines.extend, args=(process.stderr,), daemon=True)
        self._reading.start()

    def waits(self, datacenter: str) -> list[str]:
        """When a datacenter began to wait, and when it went on: what it said, in turn."""
        of_waits = re.compile(rf"{datacenter}: (waits|goes on)\b")
        return [match[1] for line in list(self.lines) if (match := of_waits.search(line))]

    def all(self) -> str:
        self._reading.join()
        return "".join(self.lines)


def until(process: subprocess.Popen[str], faulty: FaultyS3, fault: Fault, met: int) -> None:
    """Wait until so many requests have met a fault."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while faulty.met[fault] < met:
        assert process.poll() is None, f"the join has ended before {met} requests were {fault}"
        assert time.monotonic() < deadline, f"{faulty.met[fault]} requests were {fault}"
        time.sleep(0.05)  # another process asks: there is no clock to inject


@pytest.mark.long
def test_a_store_that_fails_in_all_ways_is_waited_for_and_every_event_is_joined_once(
    tmp_path: Path, faulty: FaultyS3
) -> None:
    traffic = Traffic(7, DATACENTERS, 200, 100, duration_seconds=20)
    pipeline = write(tmp_path, faulty, traffic, more="limits: {batch_events: 100}\n")
    with (
        local_server(tmp_path / "state" / "registry"),
        running("join", pipeline, "--engine", "local", "--until-idle") as process,
    ):
        said = Said(process)
        faulty.delay_seconds = 0.02
        for seed, (fault, share, requests) in enumerate(FAULTS):
            faulty.meet(fault, share=share, seed=seed)
            until(process, faulty, fault, requests)
        faulty.mend()
        faulty.refuse()
        before = {name: len(said.waits(name)) for name in DATACENTERS}
        time.sleep(GONE_SECONDS)  # that long a real store is gone
        during = {name: said.waits(name)[before[name] :] for name in DATACENTERS}
        faulty.listen()
        assert process.wait(PATIENCE_SECONDS) == 0, said.all()
        counts = photon_json("join", pipeline, "--engine", "local", "--complete")
    assert traffic.expected_outcomes().disagreements(counts) == []
    ids = joined_rows(pipeline)["_event_id"].to_pylist()
    assert len(ids) == len(set(ids)) == traffic.expected_outcomes().joined_total
    for name in DATACENTERS:
        assert during[name].count("waits") <= 1, during
        told = said.waits(name)
        assert told == ["waits", "goes on"] * (len(told) // 2), said.all()
    for secret in (PASSWORD, "Signature", "Traceback"):
        assert secret not in said.all()


@pytest.mark.parametrize(("part", "is_first"), [("logs", False), ("lake", False), ("lake", True)])
def test_a_complete_join_that_starts_while_its_store_is_gone_waits_and_reads_all_logs(
    tmp_path: Path, faulty: FaultyS3, part: str, is_first: bool
) -> None:
    """Broken variants: taken for empty, logs would be read to an end that they don't have.

    Before there is a state, a join ended that could not see whether there is a lake.
    """
    traffic = Traffic(8, DATACENTERS, 50, 20, duration_seconds=10)
    pipeline = write(tmp_path, faulty, traffic, [part])
    with local_server(tmp_path / "state" / "registry"):
        if not is_first:
            photon_json("join", pipeline, "-d", "west", "--engine", "local", "--complete")
        faulty.refuse()
        with running("join", pipeline, "-d", "east", "--engine", "local", "--complete") as process:
            says = line_with("waits:", process)
            faulty.listen()
            assert f"Connection refused, at {faulty.url}" in says, says
            assert process.stderr is not None
            assert process.wait(PATIENCE_SECONDS) == 0, process.stderr.read()
            assert "goes on" in process.stderr.read()
        counts = photon_json("join", pipeline, "--engine", "local", "--complete")
    assert traffic.expected_outcomes().disagreements(counts) == []


def test_a_primary_object_that_can_not_be_read_holds_up_its_own_events_alone(
    tmp_path: Path, faulty: FaultyS3
) -> None:
    """Broken variants: all joins wait for it; or a complete one gives its events up as unjoinable."""
    traffic = Traffic(9, ("east",), 50, 20, duration_seconds=10)
    storage = f"storage: {{endpoint_url: {faulty.url}}}"
    places = {"east": f"logs: s3://{BUCKET}/{tmp_path.name}/east, {storage}"}
    pipeline = written(tmp_path, traffic, places)
    (place,) = load_pipeline(pipeline).datacenters.values()
    assert isinstance(place.logs, S3Folder)
    bad = next(iter(S3Store(place.logs).objects("queries"))).name
    faulty.meet("busy", among=lambda method, path: path.endswith(bad))
    with local_server(tmp_path / "state" / "registry"):
        with running("join", pipeline, "-d", "east", "--engine", "local"):
            wait_for_rows(pipeline, "east", 1)
            status = photon("status", pipeline).stdout
        before = len(joined_rows(pipeline))
        assert f"{bad}: cannot be read: " in status
        with running("join", pipeline, "-d", "east", "--engine", "local", "--complete") as process:
            assert bad in line_with("waits:", process)
            faulty.mend()
            assert process.wait(PATIENCE_SECONDS) == 0
        counts = photon_json("join", pipeline, "--engine", "local", "--complete")
    assert before < traffic.expected_outcomes().joined_total
    assert traffic.expected_outcomes().disagreements(counts) == []
