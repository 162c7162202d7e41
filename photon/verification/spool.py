"""Rows, and holds of events, that a verification leaves in files for its tasks: too many to be sent.

On this machine's disk, or in the lakes where tasks run elsewhere. What a killed verification leaves in a lake
goes with the results that are kept no more (`photon.verification.kept`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.registry.holds import HashRun, RunFile
from photon.registry.lookups import ViewSnapshot
from photon.registry.segments import write_run
from photon.storage.delta import LakeUnavailable, lake_errors
from photon.storage.store import store_of
from photon.verification.kept import new_folder

NO_RUN = 0  # the number of no run whose results are kept
GROUP_ROWS = 2**16
MOST_HOLDS_SENT = 2**16  # with one run, 1.4 MB: each task gets them again


class Spool:
    """The files of one verification, one for each datacenter."""

    def __init__(self, pipeline: Pipeline, in_lakes: bool) -> None:
        self._pipeline, self._in_lakes = pipeline, in_lakes
        self._here = TemporaryDirectory(prefix="photon-verify-")
        self._folders: dict[str, Location] = {}
        self._written: set[str] = set()

    def path_of(self, datacenter: str, rows: pa.Table) -> str:
        """The file with these rows of a datacenter, written by the first call. LakeUnavailable."""
        name = f"{datacenter}.parquet"
        if name not in self._written:
            self._written.add(name)
            folder = self._folder_of(datacenter)

            def write(sink: BinaryIO) -> None:
                pq.write_table(rows, sink, row_group_size=GROUP_ROWS)

            with lake_errors(f"write to {folder}"):
                store_of(folder).create(name, write)
        return str(self._folders[datacenter] / name)

    def with_runs_in_files(self, view: ViewSnapshot, datacenter: str) -> ViewSnapshot:
        """The view with its long runs in files that tasks map, in a datacenter's folder. LakeUnavailable.

        Files of its own: those of a join's process go once that has merged them.
        """
        if not any(_is_long(run) for runs in view.runs.values() for run in runs):
            return view
        folder = self._folder_of(datacenter)
        with lake_errors(f"write to {folder}"):
            runs = {
                generation: tuple(
                    write_run(folder, f"holds-{generation}-{number}", run) if _is_long(run) else run
                    for number, run in enumerate(some)
                )
                for generation, some in view.runs.items()
            }
        return replace(view, runs=runs)

    def _folder_of(self, datacenter: str) -> Location:
        if datacenter not in self._folders:
            own = self._in_lakes
            folder = new_folder(self._pipeline, datacenter, NO_RUN) if own else Path(self._here.name)
            self._folders[datacenter] = folder
        return self._folders[datacenter]

    def close(self) -> None:
        """Remove the files; a lake that is away keeps them for a while."""
        self._here.cleanup()
        for folder in self._folders.values() if self._in_lakes else ():
            with suppress(LakeUnavailable), lake_errors(f"remove {folder}"):
                store_of(folder.parent).remove_folder(folder.name)


def _is_long(run: HashRun | RunFile) -> TypeGuard[HashRun]:
    return isinstance(run, HashRun) and len(run) > MOST_HOLDS_SENT
