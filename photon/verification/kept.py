"""Results that verifications keep in a lake, so that the next reads only what is new (docs/adr/0050).

A run keeps a folder of Parquet files: the records that are settled, those that are open, those that are
settled no more, and where primary events are. One JSON file, a manifest, says which folders count, up to
which byte logs were read, and at which versions the tables were. It is written last, and never changed.
"""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, BinaryIO

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.registry.segments import SUFFIX
from photon.storage.changes import Commit
from photon.storage.delta import lake_errors
from photon.storage.store import ObjectStore, store_of

FOLDER, MANIFEST = "verification_kept", re.compile(r"kept-(\d+)-\w+\.json")
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
class KeptManifest:
    """The manifest of one datacenter."""

    fingerprint: str  # covers all that a result depends on beside logs and tables
    runs: Sequence[KeptRun]  # at least one, in their order
    files: Mapping[int, KeptFile] = field(default_factory=dict)  # keyed by file number
    commits: Mapping[str, Commit] = field(default_factory=dict)  # tables by datacenter/name
    mended: Mapping[str, int] = field(default_factory=dict)  # batch by occurrence of a mended letter

    @property
    def number(self) -> int:
        """Number of the last run."""
        return self.runs[-1].number

    @property
    def begun_us(self) -> int:
        """When all was read that it has."""
        return self.runs[0].at_us


def still_needed(runs: Sequence[KeptRun], files: Mapping[int, KeptFile]) -> list[KeptRun]:
    """The runs whose results count for one of these files, and the first run, which says when all was read.

    The first one keeps no results that nobody needs. Where log files come and go, all would grow without end.
    """
    least = min((file.since_run for file in files.values()), default=math.inf)
    counting = [run if run.number >= least else replace(run, files={}) for run in runs]
    return counting[:1] + [run for run in counting[1:] if run.files]


def kept_folder(pipeline: Pipeline, datacenter: str) -> Location:
    """Where all of a datacenter lies that is kept."""
    return pipeline.datacenters[datacenter].lake / FOLDER


def read_kept(pipeline: Pipeline, datacenter: str) -> KeptManifest | None:
    """The newest manifest all of whose files are there; None if there is none. LakeUnavailable, FormatTooNew.

    Of two verifications at once the one whose name comes first counts.
    """
    folder = kept_folder(pipeline, datacenter)
    with lake_errors(f"read what verification kept in {folder}"):
        store = store_of(folder)
        sizes = store.sizes()
        for name, _ in sorted(_manifests(sizes), key=lambda found: (-found[1], found[0])):
            kept = _parsed(folder / name, store.read(name))
            if all(_is_whole(sizes, run) for run in kept.runs):
                return kept
    return None


def next_number(pipeline: Pipeline, datacenter: str) -> int:
    """The number of the next run. LakeUnavailable."""
    folder = kept_folder(pipeline, datacenter)
    with lake_errors(f"read what verification kept in {folder}"):
        return 1 + max((number for _, number in _manifests(store_of(folder).names())), default=0)


def new_folder(pipeline: Pipeline, datacenter: str, number: int) -> Location:
    """A folder for the results of a run. LakeUnavailable."""
    folder = kept_folder(pipeline, datacenter) / f"run-{number}-{uuid.uuid4().hex}"
    with lake_errors(f"write to {folder.parent}, which must be writable"):
        store_of(folder).make()
    return folder


def run_in(folder: Location, number: int, at_us: int) -> KeptRun:
    """The results that a run has written to a folder, put on disk. LakeUnavailable."""
    store = store_of(folder)
    with lake_errors(f"write to {folder}"):
        files = {name: size for name, size in sorted(store.sizes().items()) if name.endswith(".parquet")}
        store.sync(*files, *{name.partition("/")[0] for name in files}, "")
        store_of(folder.parent).sync()
    return KeptRun(number, at_us, folder.name, files)


def store_kept(pipeline: Pipeline, datacenter: str, kept: KeptManifest) -> None:
    """Make a manifest count, and remove what none needs any more. LakeUnavailable."""
    folder = kept_folder(pipeline, datacenter)
    name = f"kept-{kept.number}-{uuid.uuid4().hex}.json"
    text = json.dumps({"format": FORMAT, **asdict(kept)}).encode()

    def write(sink: BinaryIO) -> None:
        sink.write(text)

    with lake_errors(f"write to {folder}, which must be writable"):
        store = store_of(folder)
        store.put(name, write)
        store.sync()
        _remove_old(store, {name, *(run.folder for run in kept.runs if run.files)})


def _remove_old(store: ObjectStore, needed: Collection[str]) -> None:
    before_us = (time.time() - REMOVED_AFTER_SECONDS) * MICROSECONDS
    # One object tells how old a folder is: each is written in one go. Markers of folders tell nothing.
    written = (name for name in store.sizes() if name.endswith((".parquet", ".json", SUFFIX)))
    one_of = {name.partition("/")[0]: name for name in written}
    for found, name in one_of.items():
        if found not in needed and store.changed_us(name) < before_us:
            store.remove(name) if found == name else store.remove_folder(found)


def _manifests(names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The manifests among these objects, with the numbers of their runs."""
    for name in names:
        if (match := MANIFEST.fullmatch(name)) is not None:
            yield name, int(match[1])


def _is_whole(sizes: Mapping[str, int], run: KeptRun) -> bool:
    return all(sizes.get(f"{run.folder}/{name}") == size for name, size in run.files.items())


def _parsed(path: Location, text: bytes) -> KeptManifest:
    values: dict[str, Any] = json.loads(text)
    if values["format"] > FORMAT:
        raise FormatTooNew(path, values["format"], FORMAT)
    return KeptManifest(
        fingerprint=values["fingerprint"],
        runs=tuple(KeptRun(**run) for run in values["runs"]),
        files={int(number): KeptFile(**file) for number, file in values["files"].items()},
        commits={name: Commit(**commit) for name, commit in values["commits"].items()},
        mended=values["mended"],
    )
