"""A disk that stands still: what writes to it hangs, and not even kill -9 ends that."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

IMAGE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class FrozenDisk:
    """A file system of its own, at `folder`."""

    folder: Path

    def freeze(self) -> None:
        _run("fsfreeze", "--freeze", self.folder)

    def thaw(self) -> None:
        subprocess.run(["fsfreeze", "--unfreeze", str(self.folder)], check=False, capture_output=True)

    @contextmanager
    def thawed(self) -> Iterator[None]:
        """Thaw it at the end, so that processes which hang can be killed."""
        try:
            yield
        finally:
            self.thaw()


@contextmanager
def frozen_disk(folder: Path, image: Path) -> Iterator[FrozenDisk]:
    """A disk at an empty `folder`, in a file `image`; the test is skipped where none can be mounted."""
    folder.mkdir(parents=True)
    try:
        with image.open("xb") as file:
            file.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", image)
        _run("mount", "-o", "loop", image, folder)
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a disk that stands still can't be had")
    disk = FrozenDisk(folder)
    try:
        yield disk
    finally:
        disk.thaw()
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def _run(*command: str | Path) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True)
