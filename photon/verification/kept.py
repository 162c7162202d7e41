"""What verifications keep in a datacenter's lake, so that the next reads only what is new (docs/adr/0050).

A run keeps a folder of Parquet files: the records that are settled, those that are open, those that are
settled no more, and where primary events are. One JSON file, a manifest, says which folders count, up to
which byte logs were read, and at which versions the tables were. It is written last, and never changed.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from photon.errors import FormatTooNew
from photon.pipeline.file import Pipeline
from photon.storage.changes import Commit
from photon.storage.sync import make_folder, sync, write_synced
from photon.storage.tables import lake_errors

FOLDER, MANIFESTS = "verification_kept", "kept-*.json"
FORMAT = 1
# Another verification may still read a folder that counts no more.
REMOVED_AFTER_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class KeptFile:
    """How far results are kept of one log file, and how it looked then."""

    end_bytes: int
    since_run: int  # results of earlier runs don't count
    size_bytes: int
    changed_ns: int
    latest_us: int | None = None  # the latest time of an event in it, for gc


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A folder of results; its files as they were written, by name, with their sizes."""

    number: int
    at_us: int
    folder: str
    files: Mapping[str, int]


@dataclass(frozen=True)
class Kept:
    """The manifest of one datacenter."""

    fingerprint: str  # of all that a result depends on beside logs and tables
    runs: Sequence[KeptRun]  # at least one, in their order
    files: Mapping[int, KeptFile] = field(default_factory=dict)  # by number
    commits: Mapping[str, Commit] = field(default_factory=dict)  # of tables, as datacenter/name
    mended: Mapping[str, int] = field(default_factory=dict)  # batch by occurrence of a mended letter

    @property
    def number(self) -> int:
        """Of its last run."""
        return self.runs[-1].number

    @property
    def begun_us(self) -> int:
        """When all was read that it has."""
        return self.runs[0].at_us


def kept_folder(pipeline: Pipeline, datacenter: str) -> Path:
    """Where all of a datacenter lies that is kept."""
    lake = pipeline.datacenters[datacenter].lake
    assert isinstance(lake, Path), "results are kept in lakes on this machine (`Scope.can_be_kept`)"
    return lake / FOLDER


def read_kept(pipeline: Pipeline, datacenter: str) -> Kept | None:
    """The newest manifest all of whose files are there; None if there is none. LakeUnavailable, FormatTooNew.

    Of two verifications at once the one whose name comes first counts.
    """
    folder = kept_folder(pipeline, datacenter)
    with lake_errors(f"read what verification kept in {folder}"):
        found = sorted(folder.glob(MANIFESTS), key=lambda path: (-_number(path), path.name))
        for path in found:
            kept = _parsed(path)
            if all(_is_whole(folder, run) for run in kept.runs):
                return kept
    return None


def next_number(pipeline: Pipeline, datacenter: str) -> int:
    """The number of the next run. LakeUnavailable."""
    folder = kept_folder(pipeline, datacenter)
    with lake_errors(f"read what verification kept in {folder}"):
        return 1 + max((_number(path) for path in folder.glob(MANIFESTS)), default=0)


def new_folder(pipeline: Pipeline, datacenter: str, number: int) -> Path:
    """A folder for the results of a run. LakeUnavailable."""
    folder = kept_folder(pipeline, datacenter) / f"run-{number}-{uuid.uuid4().hex}"
    with lake_errors(f"write to {folder.parent}, which must be writable"):
        make_folder(folder)
    return folder


def run_in(folder: Path, number: int, at_us: int) -> KeptRun:
    """The results that a run has written to a folder, put on disk. LakeUnavailable."""
    with lake_errors(f"write to {folder}"):
        written = sorted(folder.glob("*/*.parquet"))
        for path in (*written, *{path.parent for path in written}, folder, folder.parent):
            sync(path)
        files = {str(path.relative_to(folder)): path.stat().st_size for path in written}
    return KeptRun(number, at_us, folder.name, files)


def store_kept(pipeline: Pipeline, datacenter: str, kept: Kept) -> None:
    """Make a manifest count, and remove what none needs any more. LakeUnavailable."""
    folder = kept_folder(pipeline, datacenter)
    path = folder / f"kept-{kept.number}-{uuid.uuid4().hex}.json"
    text = json.dumps({"format": FORMAT, **asdict(kept)}).encode()

    def write(sink: BinaryIO) -> None:
        sink.write(text)

    with lake_errors(f"write to {folder}, which must be writable"):
        unnamed = path.with_suffix(".new")
        write_synced(unnamed, write)
        unnamed.rename(path)
        sync(folder)
        _remove_old(folder, path, kept)


def _remove_old(folder: Path, newest: Path, kept: Kept) -> None:
    needed = {newest.name, *(run.folder for run in kept.runs)}
    before = time.time() - REMOVED_AFTER_SECONDS
    for path in folder.iterdir():
        if path.name not in needed and path.stat().st_mtime < before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _number(path: Path) -> int:
    return int(path.name.split("-")[1])


def _is_whole(folder: Path, run: KeptRun) -> bool:
    paths = ((folder / run.folder / name, size) for name, size in run.files.items())
    return all(path.exists() and path.stat().st_size == size for path, size in paths)


def _parsed(path: Path) -> Kept:
    values: dict[str, Any] = json.loads(path.read_text())
    if values["format"] > FORMAT:
        raise FormatTooNew(path, values["format"], FORMAT)
    return Kept(
        fingerprint=values["fingerprint"],
        runs=tuple(KeptRun(**run) for run in values["runs"]),
        files={int(number): KeptFile(**file) for number, file in values["files"].items()},
        commits={name: Commit(**commit) for name, commit in values["commits"].items()},
        mended=values["mended"],
    )
