"""The folder of a demo: made, recognised, emptied, and held by one demo at a time."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from photon.process.errors import UserError

MARKER = ".photon-demo"
_MARKER_TEXT = "Made by Photon's demo, which empties this folder at its next start.\n"


class FolderRefused(UserError):
    """The folder can't be used: somebody else's, or another demo runs in it."""


@dataclass(frozen=True)
class DemoFolder:
    """Where everything of a demo is."""

    path: Path
    lock: IO[str]  # held as long as a process has it open

    @property
    def pipeline(self) -> Path:
        return self.path / "pipeline.yaml"

    @property
    def dagster_home(self) -> Path:
        return self.path / "dagster"

    @property
    def plot(self) -> Path:
        return self.path / "latency.png"

    @property
    def is_begun(self) -> bool:
        return self.pipeline.exists()

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def empty(self) -> None:
        """Remove all but the marker."""
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != MARKER:
                entry.unlink()

    def rotate_logs(self) -> None:
        """Move the log files of earlier traffic into folders `earlier-N`: new ones get their names."""
        for side in self.path.glob("logs/*/*"):
            number = sum(entry.is_dir() for entry in side.iterdir())
            files = [entry for entry in side.iterdir() if entry.is_file()]
            if files:
                (side / f"earlier-{number:03d}").mkdir()
            for file in files:
                file.rename(side / f"earlier-{number:03d}" / file.name)


@contextlib.contextmanager
def held_folder(path: Path) -> Iterator[DemoFolder]:
    """The demo's folder at `path`, made if need be.

    FolderRefused for one that is not a demo's, or is in use.
    """
    path = path.absolute()
    if path.exists() and not (path / MARKER).exists() and (not path.is_dir() or any(path.iterdir())):
        raise FolderRefused(
            f"{path} was not made by Photon's demo, which would empty it; name another folder with --folder"
        )
    path.mkdir(parents=True, exist_ok=True)
    with (path / MARKER).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderRefused(
                f"another demo runs in {path}, or its last processes are just being ended; "
                "end it with Ctrl-C, or name another folder with --folder"
            ) from None
        if lock.tell() == 0:
            lock.write(_MARKER_TEXT)
            lock.flush()
        yield DemoFolder(path, lock)
