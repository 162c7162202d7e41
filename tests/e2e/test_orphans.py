"""`photon join` is killed at many moments: both datacenters end with it, and the next join starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from photon.dispatcher.shift.lease import holder_of
from tests.e2e.one_query import one_query
from tests.e2e.photon_process import PHOTON, photon
from tests.e2e.process_marks import MARK, marked, soon

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = one_query(tmp_path_factory.mktemp("orphans"), "c1", datacenters=("east", "west"))
    photon("join", file, "--until-idle", "--engine", "local")
    return file


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    name = str(tmp_path)
    yield name
    for left in marked(name):
        left.kill()


def started(pipeline: Path, mark: str, engine: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*PHOTON, "join", str(pipeline), "--engine", engine],
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def joins(mark: str) -> list[psutil.Process]:
    """The datacenters' processes."""
    return [process for process in marked(mark) if "-d" in cmdline(process)]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def have_begun(pipeline: Path, mark: str) -> bool:
    return bool(joins(mark))


def are_two(pipeline: Path, mark: str) -> bool:
    return len(joins(mark)) == 2


def open_libraries(pipeline: Path, mark: str) -> bool:
    """Say whether processes are in the midst of imports: Arrow is loaded, Photon's modules are not yet."""
    return any("arrow" in each.path for process in joins(mark) for each in maps(process))


def maps(process: psutil.Process) -> list[psutil._common.pmmap_grouped]:
    try:
        return list(process.memory_maps())
    except psutil.NoSuchProcess:
        return []


def one_has_its_lock(pipeline: Path, mark: str) -> bool:
    return any(holder_of(pipeline.parent / "state" / name) for name in ("east", "west"))


def both_have_their_locks(pipeline: Path, mark: str) -> bool:
    return all(holder_of(pipeline.parent / "state" / name) for name in ("east", "west"))


def a_jvm_starts(pipeline: Path, mark: str) -> bool:
    return any("java" in "".join(cmdline(process)[:1]) for process in marked(mark))


LOCAL = [have_begun, are_two, open_libraries, one_has_its_lock, both_have_their_locks]
ALWAYS = [open_libraries, one_has_its_lock]  # tests/unit/test_lifeline.py kills at many more moments


@pytest.mark.parametrize(
    ("engine", "moment"),
    [
        *(
            pytest.param(
                "local", moment, id=moment.__name__, marks=[] if moment in ALWAYS else pytest.mark.long
            )
            for moment in LOCAL
        ),
        pytest.param("spark", a_jvm_starts, id=a_jvm_starts.__name__, marks=pytest.mark.spark),
    ],
)
def test_no_datacenter_outlives_the_command_that_is_killed_and_the_next_join_starts(
    pipeline: Path, mark: str, engine: str, moment: Callable[[Path, str], bool]
) -> None:
    command = started(pipeline, mark, engine)
    assert soon(lambda: moment(pipeline, mark))
    command.kill()
    command.wait()
    assert soon(lambda: not joins(mark))
    photon("join", pipeline, "--until-idle", "--engine", "local")
    assert soon(lambda: not marked(mark))  # the registry's server and a JVM end soon after
