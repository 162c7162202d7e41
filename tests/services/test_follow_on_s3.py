"""Followers into a folder on S3, of lakes there, die by kill -9: its files are those of one that lives."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from infra.servers.minio import MinioServer
from photon.feed.cursor_file import CursorFile
from photon.feed.folder import FedFolder
from photon.feed.marker import ASIDE, MARKER, read_marker
from photon.feed.sink import SinkUnavailable
from photon.pipeline.location import S3Folder
from tests.e2e.photon_process import PHOTON, photon
from tests.e2e.process_marks import soon
from tests.feed.made_steps import FED, release, step
from tests.feed.test_folder import files, marker
from tests.releases.lakes import Lakes, new_lakes

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
KILLED_WITHIN_SECONDS = 0.5
KILLS = 6


@pytest.fixture
def lakes(on_s3: S3Folder, minio: MinioServer, tmp_path: Path) -> Iterator[Lakes]:
    """Two datacenters whose lakes are on S3, the store that the environment names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", minio.url)
        lakes = new_lakes(on_s3 / "lakes", tmp_path)
        lakes.release()
        yield lakes


def test_followers_that_are_killed_leave_the_files_of_one_that_lives(
    lakes: Lakes, on_s3: S3Folder, tmp_path: Path
) -> None:
    rng, fed = random.Random(1), on_s3 / "fed"
    photon("follow", lakes.pipeline.file, "--to", str(fed), "--once")  # begins the folder
    said = (tmp_path / "said.log").open("w")

    def follower() -> subprocess.Popen[bytes]:
        command = [*PHOTON, "follow", str(lakes.pipeline.file), "--to", str(fed)]
        return subprocess.Popen(command, stdout=said, stderr=said, env=os.environ)

    def is_delivered() -> bool:
        there = read_marker(fed)
        return there is not None and there.release == lakes.made[-1].release

    followers = [follower(), follower()]
    try:
        for _ in range(KILLS):
            for _ in range(3):
                lakes.go_on(rng.choice(["east", "west"]))
            time.sleep(rng.uniform(0, KILLED_WITHIN_SECONDS))
            at = rng.randrange(2)
            followers[at].kill()
            followers[at].wait()
            followers[at] = follower()
        assert soon(is_delivered), Path(said.name).read_text()[-2_000:]
    finally:
        for one in followers:
            one.kill()
            one.wait()
        said.close()
    alone = tmp_path / "alone"
    photon("follow", lakes.pipeline.file, "--to", alone, "--once")
    assert files(fed) == {name: data for name, data in files(alone).items() if name.endswith(".jsonl")}
    assert marker(fed) == marker(alone)


def test_a_marker_that_another_machine_has_moved_is_not_put_over(on_s3: S3Folder) -> None:
    slow = CursorFile(on_s3 / ASIDE, MARKER, FED)
    with closing(FedFolder(on_s3, FED)) as sink:
        sink.deliver([step(1, after=None)])
        _, version = slow.versioned()
        sink.deliver([step(2), step(3)])
    assert not slow.swap(release(2), version, files=0)
    assert marker(on_s3)["files"] == 3


def test_of_two_that_begin_a_folder_at_once_one_gives_way(on_s3: S3Folder) -> None:
    first, second = step(1, after=None), step(2, after=None)

    def meanwhile() -> Iterator[pa.Table]:
        with closing(FedFolder(on_s3, FED)) as there:
            there.deliver([second])
        return first.pages()

    with closing(FedFolder(on_s3, FED)) as here:
        with pytest.raises(SinkUnavailable, match="another follower begins it just now"):
            here.deliver([replace(first, pages=meanwhile)])
        assert here.cursor() == release(2)
    assert list(files(on_s3)) == ["000000000002.jsonl"]
