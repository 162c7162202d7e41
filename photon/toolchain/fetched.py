"""A folder that is fetched from a package registry, whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from photon.process.errors import UserError

# The file in each fetched folder that says what was asked for, so that a new version is fetched anew.
STAMP = "FETCHED"
UNFINISHED = ".unfinished-"

FETCH_ATTEMPTS = 3
RETRY_PAUSE_SECONDS = 3


class FetchFailed(UserError):
    """Something could not be fetched; the message names it, the reason and what to do."""


def share_dir() -> Path:
    """Return the folder for what pip can't install.

    It is in the environment that Photon is installed in; or the user's, where only others may write there.
    """
    of_all = Path(sys.prefix) / "share" / "photon"
    there = next(place for place in (of_all, *of_all.parents) if place.exists())
    if there == of_all or os.access(there, os.W_OK):
        return of_all
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "photon"


@dataclass(frozen=True)
class Fetched(ABC):
    """A folder, and how to fill it. `title` says what it is, with its version."""

    title: str
    folder: Path

    @abstractmethod
    def stamp(self) -> str:
        """A short text that changes whenever the files would."""

    @abstractmethod
    def fill(self, files: Path, work: Path) -> None:
        """Put all files into `files`, a folder that does not exist yet. Raises FetchFailed.

        `work` is a folder for what is needed on the way.
        """

    def is_there(self) -> bool:
        """Whether the folder holds exactly what is asked for."""
        try:
            return (self.folder / STAMP).read_text() == self.stamp()
        except OSError:
            return False

    def fetch(self) -> None:
        """Fill the folder, whole or not at all; an older one is replaced.

        Raises FetchFailed or JavaMissing; the folder is then as it was.
        """
        parent = self.folder.parent
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=parent) as unfinished:
            work = Path(unfinished)
            files = work / "files"
            self.fill(files, work)
            (files / STAMP).write_text(self.stamp())
            if self.folder.exists():
                self.folder.rename(work / "replaced")
            files.rename(self.folder)
