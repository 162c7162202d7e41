"""Changes since results were kept: which of them still count, and which records must be read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from photon.logs.files import LogFile, TrackedFile
from photon.logs.folders import log_folder
from photon.pipeline.location import Location
from photon.storage.changes import ChangedFiles
from photon.storage.columns import TableName
from photon.storage.tokens import Occurrence
from photon.verification.kept import KeptFile, KeptManifest

Table = tuple[str, TableName]  # a datacenter's table


@dataclass(frozen=True)
class Since:
    """A datacenter's kept results, and what is new beside the logs that grew."""

    kept: KeptManifest
    trusted: Mapping[int, KeptFile]  # the log files whose results count, by number
    changed: Mapping[Table, ChangedFiles]
    mended: tuple[Occurrence, ...] = ()  # dead letters that were taken up again since


@dataclass(frozen=True, slots=True)
class FileLook:
    """How a log file looks in its folder."""

    size_bytes: int
    changed_ns: int


def look_at(files: Mapping[int, TrackedFile], logs: Location) -> dict[int, FileLook | None]:
    """How these files look, by number; None: it is not there."""
    folder = log_folder(logs)
    found = folder.find({tracked.file.path for tracked in files.values()})

    def look(file: LogFile) -> FileLook | None:
        now = found.get(file.path)
        if now is None or (folder.is_immutable and now.inode != file.inode):
            return None
        return FileLook(now.size_bytes, now.modified_ns)

    return {number: look(tracked.file) for number, tracked in files.items()}


def is_trusted(kept: KeptFile, tracked: TrackedFile, look: FileLook | None) -> bool:
    """Whether results that are kept of a log file still count: it is as it was, or has grown.

    What was overwritten in a file that has grown since is found when all is verified anew.
    """
    if look is None or tracked.state != "open" or tracked.offset_bytes < kept.end_bytes:
        return False
    if look.size_bytes == kept.size_bytes:
        return look.changed_ns == kept.changed_ns
    return look.size_bytes > kept.size_bytes and not tracked.file.compressed


def trusted_files(
    kept: Mapping[int, KeptFile], files: Mapping[int, TrackedFile], looks: Mapping[int, FileLook | None]
) -> dict[int, KeptFile]:
    """The log files whose kept results count, by number."""
    return {
        number: each
        for number, each in kept.items()
        if number in files and is_trusted(each, files[number], looks.get(number))
    }


def mended_since(kept: Mapping[str, int], now: Iterable[tuple[Occurrence, int]]) -> tuple[Occurrence, ...]:
    """The dead letters that were taken up, again or for the first time, since results were kept."""
    return tuple(occurrence for occurrence, batch in now if kept.get(str(occurrence)) != batch)
