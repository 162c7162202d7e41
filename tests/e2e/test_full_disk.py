"""A full disk: the batch is not completed, the error says so, and the join resumes when there is room."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, init_registry
from tests.e2e.one_query import one_query
from tests.e2e.photon_process import PATIENCE_SECONDS, joined_rows, line_with, photon, photon_json, running
from tests.e2e.process_marks import soon
from tests.e2e.small_disk import SmallDisk

pytestmark = [pytest.mark.server, pytest.mark.slow]

# Errors have the system's words and a remedy; SQLite does not pass the system's words on.
CAUSES = {"lake": "No space left on device.*make room", "state": r"no room|No space left on device"}
SIZES = {"lake": "128k", "state": "256k"}


@pytest.fixture(params=CAUSES)
def what(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def disk(tmp_path: Path, what: str) -> Iterator[SmallDisk]:
    """A small disk for the lake, or the state; the registry is beside it."""
    try:
        mounted = SmallDisk(tmp_path / what / "east", SIZES[what])
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a full disk can't be had")
    yield mounted
    mounted.unmount()


def test_a_full_disk_is_named_and_the_join_resumes_when_there_is_room(
    tmp_path: Path, disk: SmallDisk, what: str
) -> None:
    traffic = Traffic(1, ("east",), primary_per_second=400, foreign_per_second=100, duration_seconds=25)
    pipeline = traffic.write_pipeline(tmp_path, "full")
    traffic.write_all(tmp_path)
    init_registry(load_pipeline(pipeline), SystemClock())
    close_registries()
    with running("join", pipeline, "--engine", "local") as process:
        said = line_with(f"/{what}/east", process)  # the registry may be waited for before
        assert "waits:" in said, said

        def status_has_the_cause() -> bool:
            status = photon("status", pipeline, "--check", status=1).stdout
            return re.search(CAUSES[what], status) is not None and "WAITS for 0 s" not in status

        assert soon(status_has_the_cause, PATIENCE_SECONDS)
        disk.grow("64m")
        lines = [line_with("goes on after", process)]
        process.send_signal(signal.SIGTERM)
        lines += process.communicate(timeout=PATIENCE_SECONDS)[1].splitlines()
        assert process.returncode == 0
    assert len([line for line in lines if "waits:" in line or "goes on" in line]) == 1, lines
    counts = photon_json("join", pipeline, "--complete", "--engine", "local")
    assert traffic.expected_outcomes().disagreements(counts) == []
    assert joined_rows(pipeline).num_rows == traffic.expected_outcomes().joined_total


def test_a_disk_of_the_registry_that_gets_full_while_all_is_at_rest_is_no_all_is_well(tmp_path: Path) -> None:
    """Broken variant: who has nothing to write meets no error, and the next batch finds no room."""
    registry = tmp_path / "state" / "registry"
    try:
        disk = SmallDisk(registry, "8m")
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a full disk can't be had")
    try:
        pipeline = one_query(tmp_path, "c0")
        photon("join", pipeline, "--complete", "--engine", "local")
        assert photon("status", pipeline, "--check").stdout.startswith("All is well")
        fill = registry / "fill"
        with suppress(OSError), fill.open("wb", buffering=0) as file:  # until there is no room
            while file.write(bytes(2**16)):
                pass
        said = photon("status", pipeline, "--check", status=1).stdout
        assert f"there is no room in {registry}" in said
        fill.unlink()
        assert photon("status", pipeline, "--check").stdout.startswith("All is well")
    finally:
        disk.unmount()
