"""Data files of a table that are gone, cut short or damaged: which they are, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from photon.pipeline.location import Location, is_inside
from photon.process.pages import page
from photon.process.readable import counted
from photon.storage.delta import LakeUnavailable
from photon.storage.store import store_of

_PAGE = page("docs/operations/backups.md")
REMEDY = f"from a copy of the lake; if there is none, see {_PAGE}, a damaged data file"


def damaged(datacenter: str, file: object, why: str) -> LakeUnavailable:
    """The error that names a data file which is there, and is not what was committed."""
    return LakeUnavailable(f"datacenter {datacenter}: the data file {file} {why}; put it back {REMEDY}")


def missing_files(folder: Location, paths: Iterable[str]) -> list[str]:
    """Which of these data files are gone: one listing of each folder that they name tells it.

    So is one whose path leads out of the table's folder: nothing that lies there is the table's.
    """
    wanted = list(paths)
    within = {path.rpartition("/")[0] for path in wanted if is_inside(path)}  # of days; "": the table's own
    there = {
        f"{name}/{file}" if name else file
        for name in within
        for file in store_of(folder / name if name else folder).names()
    }
    return [path for path in wanted if path not in there]


def gone(folder: Location, version: int, lost: Sequence[str]) -> str:
    """Say that a version of a table names files that are gone, and what to do."""
    return (
        f"{folder}: {counted(len(lost), 'data file', 'are')} gone that version {version} of the table names, "
        f"such as {folder / lost[0]}; put them back {REMEDY}"
    )


def refuse_incomplete(datacenter: str, folder: Location, version: int, sizes: Mapping[str, int]) -> None:
    """LakeUnavailable if a data file of this version of a table is gone, or is not as long as its log says.

    `sizes`: of all its files, by path. Reads none of them: Spark takes an empty file for one without rows.
    """
    if lost := missing_files(folder, sizes):
        raise LakeUnavailable(f"datacenter {datacenter}: {gone(folder, version, lost)}")
    if not isinstance(folder, Path):  # an object of a store is whole, and each look costs a request
        return
    store = store_of(folder)
    for path, size_bytes in sizes.items():
        found_bytes = store.size_bytes(path)
        if found_bytes != size_bytes:
            why = f"has {found_bytes or 0:,} bytes, and was committed with {size_bytes:,}"
            raise damaged(datacenter, folder / path, why)
