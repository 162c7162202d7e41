"""A full disk: the batch is not completed, the error says so, and the join resumes when there is room."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.demo.traffic import Traffic
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, init_registry
from tests.e2e.photon_process import PATIENCE_SECONDS, joined_rows, line_with, photon, photon_json, running
from tests.e2e.small_disk import SmallDisk
from tests.support.local_servers import local_server


@pytest.fixture
def disks() -> Iterator[list[SmallDisk]]:
    mounted: list[SmallDisk] = []
    yield mounted
    for disk in mounted:
        disk.unmount()


WAIT_SECONDS = 4.0
# What the system says, and what to do; SQLite does not pass on the system's words.
CAUSES = {"lake": "No space left on device.*make room", "state": r"no room|No space left on device"}


def make_registry(pipeline: Path) -> None:
    init_registry(load_pipeline(pipeline), SystemClock())
    close_registries()


@pytest.fixture(autouse=True)
def server(tmp_path: Path) -> Iterator[None]:
    """One server for all commands of a test; without it each command would start its own."""
    with local_server(tmp_path / "state" / "registry"):
        yield


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize(("what", "size"), [("lake", "128k"), ("state", "256k")])
def test_a_full_disk_is_named_and_the_join_resumes_when_there_is_room(
    tmp_path: Path, disks: list[SmallDisk], what: str, size: str
) -> None:
    traffic = Traffic(1, ("east",), primary_per_second=400, foreign_per_second=100, duration_seconds=25)
    pipeline = traffic.write_pipeline(tmp_path, "full")
    traffic.write_all(tmp_path)
    make_registry(pipeline)
    try:
        disks.append(SmallDisk(tmp_path / what / "east", size))
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a full disk can't be had")
    with running("join", pipeline, "--engine", "local") as process:
        assert process.stderr is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        said = ""
        # On a busy machine the registry may be waited for before.
        while f"/{what}/east" not in said and time.monotonic() < deadline:
            said = process.stderr.readline()
        assert "waits:" in said, said
        assert process.poll() is None
        time.sleep(WAIT_SECONDS)
        status = photon("status", pipeline, "--check", status=1).stdout
        assert "east WAITS for 0 s" not in status
        assert re.search(CAUSES[what], status), status
        disks[0].grow("64m")
        lines = [line_with("goes on after", process)]
        process.send_signal(signal.SIGTERM)
        lines += process.communicate(timeout=PATIENCE_SECONDS)[1].splitlines()
        assert process.returncode == 0
    assert len([line for line in lines if "waits:" in line or "goes on" in line]) == 1, lines
    counts = photon_json("join", pipeline, "--complete", "--engine", "local")
    assert traffic.expected_outcomes().disagreements(counts) == []
    assert joined_rows(pipeline).num_rows == traffic.expected_outcomes().joined_total


@pytest.mark.server
@pytest.mark.slow
def test_a_lake_that_is_read_only_is_named_and_the_join_resumes_when_it_can_be_written(
    tmp_path: Path, disks: list[SmallDisk]
) -> None:
    traffic = Traffic(seed=2, datacenters=("east",), duration_seconds=5)
    pipeline = traffic.write_pipeline(tmp_path, "readonly")
    traffic.write_all(tmp_path)
    make_registry(pipeline)
    try:
        disks.append(SmallDisk(tmp_path / "lake" / "east", "64m"))
        disks[0].write_protect(True)
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a read-only one can't be had")
    with running("join", pipeline, "--until-idle", "--engine", "local") as process:
        said = line_with("waits:", process)
        assert "/lake/east" in said, said
        disks[0].write_protect(False)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert joined_rows(pipeline).num_rows == traffic.expected_outcomes().joined_total
