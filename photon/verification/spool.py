"""Rows that a verification leaves in files for its tasks, because they are too many to be sent.

On this machine's disk, or in the lakes where tasks run elsewhere. What a killed verification leaves in a lake
goes with the results that are kept no more (`photon.verification.kept`).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.storage.delta import LakeUnavailable, lake_errors
from photon.storage.store import store_of
from photon.verification.kept import new_folder

NO_RUN = 0  # the number of no run whose results are kept
GROUP_ROWS = 2**16


class Spool:
    """The files of one verification, one for each datacenter."""

    def __init__(self, pipeline: Pipeline, in_lakes: bool) -> None:
        self._pipeline, self._in_lakes = pipeline, in_lakes
        self._here = TemporaryDirectory(prefix="photon-verify-")
        self._folders: dict[str, Location] = {}

    def path_of(self, datacenter: str, rows: pa.Table) -> str:
        """The file with these rows of a datacenter, written by the first call. LakeUnavailable."""
        name = f"{datacenter}.parquet"
        if datacenter not in self._folders:
            folder = self._new_folder(datacenter)
            self._folders[datacenter] = folder

            def write(sink: BinaryIO) -> None:
                pq.write_table(rows, sink, row_group_size=GROUP_ROWS)

            with lake_errors(f"write to {folder}"):
                store_of(folder).create(name, write)
        return str(self._folders[datacenter] / name)

    def _new_folder(self, datacenter: str) -> Location:
        if self._in_lakes:
            return new_folder(self._pipeline, datacenter, NO_RUN)
        return Path(self._here.name)

    def close(self) -> None:
        """Remove the files; a lake that is away keeps them for a while."""
        self._here.cleanup()
        for folder in self._folders.values() if self._in_lakes else ():
            with suppress(LakeUnavailable), lake_errors(f"remove {folder}"):
                store_of(folder.parent).remove_folder(folder.name)
