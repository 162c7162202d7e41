"""A follower that dies at any of its steps goes on: nothing is lacking, and what comes again is the same."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from photon.process.faults import FOLLOW_FAULT_POINTS
from tests.e2e.photon_process import photon
from tests.releases.lakes import Lakes, new_lakes
from tests.support.shares import a_share

pytestmark = pytest.mark.slow
KILLED = -signal.SIGKILL


@pytest.fixture
def lakes(tmp_path: Path) -> Lakes:
    """Four releases, the first one without rows."""
    found = new_lakes(tmp_path / "lakes", tmp_path)
    found.release()
    return found.go_on("east", "west", "east")


# tests/feed/test_folder.py dies at all of them in one process.
@pytest.mark.parametrize("point", a_share([*FOLLOW_FAULT_POINTS, "disk.before_sync", "disk.after_sync"], 0))
def test_a_folder_has_the_same_files_in_the_end(lakes: Lakes, tmp_path: Path, point: str) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    photon("follow", lakes.pipeline.file, "--to", whole, "--once")
    photon("follow", lakes.pipeline.file, "--to", broken, "--once", status=KILLED, crash_at=f"{point}:3")
    photon("follow", lakes.pipeline.file, "--to", broken, "--once")
    assert files(broken) == files(whole)
    assert len(files(whole)) == 3


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


@pytest.mark.parametrize("point", FOLLOW_FAULT_POINTS)
def test_lines_that_come_again_on_standard_output_are_the_same(
    lakes: Lakes, tmp_path: Path, point: str
) -> None:
    follow = "follow", lakes.pipeline.file, "--once", "--cursor", tmp_path / "cursor.json"
    whole = photon("follow", lakes.pipeline.file, "--once").stdout
    killed = photon(*follow, status=KILLED, crash_at=f"{point}:3").stdout
    rest = photon(*follow).stdout
    assert whole.startswith(killed)
    assert whole.endswith(rest)
    assert len(killed) + len(rest) >= len(whole)
    assert photon(*follow).stdout == ""
