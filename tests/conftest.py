"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from infra.servers.minio import CREDENTIALS, MinioServer
from photon.pipeline.location import Location, S3Folder
from photon.storage.s3_credentials import forget_keys
from tests.faulty_s3 import FaultyS3
from tests.support import programs

BUCKET = "photon"  # the bucket in the tests' MinIO
SHARE_A_SESSION = "tests/spark"

# A slow example only says that the machine is busy.
settings.register_profile("photon", deadline=None, max_examples=40)
settings.register_profile("long", deadline=None, max_examples=400)
settings.load_profile("photon")
# A shell has its background jobs ignore Ctrl-C, and so would all that tests start.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Have the end of a run say what was skipped; look for garbage more rarely, which took a tenth of it."""
    config.pluginmanager.register(programs)
    gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    """Leave modules and tests, which all stay, out of each look for garbage."""
    gc.collect()
    gc.freeze()


class ByFile(LoadFileScheduling):
    """Give whole files to processes, and all files that share a Spark session to one."""

    def _split_scope(self, nodeid: str) -> str:
        return SHARE_A_SESSION if nodeid.startswith(SHARE_A_SESSION) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    """A session takes a minute of a core until it is warm, in each process that starts one."""
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def as_nice_as_before() -> Iterator[None]:
    """Keep the niceness of the test's process: upkeep would make all later tests yield to others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.nice", lambda increment: 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def disks_that_are_not_waited_for() -> Iterator[None]:
    """Have the test's process sync nothing: no test cuts the power, and a busy disk takes its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("photon.storage.sync.SQLITE_SYNCHRONOUS", "OFF")
        patch.setattr("os.fsync", os.fstat)  # refuses a closed file likewise
        yield


@pytest.fixture(autouse=True)
def modules_of_users_end_with_their_test(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget modules from a test's folders, as a command's process does when it ends."""
    yield
    for folder in [place for place in sys.path if place.startswith(str(tmp_path_factory.getbasetemp()))]:
        sys.path.remove(folder)
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


@pytest.fixture(scope="module")
def shared_spark() -> Iterator[None]:
    """Share a Spark session among a module's runs: a start takes longer than most runs."""
    from photon.jobs.session import stop_session

    started: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for user in ("photon.jobs.session", "photon.resources.spark"):
            patch.setattr(f"{user}.stop_session", started.append)
        yield
    if started:
        stop_session(started[0])


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinioServer]:
    """A MinIO with a bucket, whose credentials are in the environment."""
    programs.needed("MinIO")
    folder = tmp_path_factory.mktemp("minio")
    with MinioServer(folder, [BUCKET]) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def faulty(minio: MinioServer) -> Iterator[FaultyS3]:
    """A way to the MinIO that fails as a test wants it to."""
    found = FaultyS3(minio.url)
    yield found
    found.mend()
    found.refuse()


@pytest.fixture
def on_s3(minio: MinioServer, tmp_path: Path) -> S3Folder:
    """An empty folder on S3, and the keys of the environment as it is now."""
    forget_keys()
    return S3Folder(BUCKET, f"Läden & Co/{tmp_path.name}", minio.url)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.server)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty folder on this machine's disk, or on S3: what is tested holds for both."""
    found: Location = tmp_path / "store" if request.param == "local" else request.getfixturevalue("on_s3")
    return found


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for local copies of objects, in which no other test has left one."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path
