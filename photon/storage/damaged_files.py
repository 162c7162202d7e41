"""Data files of a table that are gone, cut short or damaged: which they are, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from photon.pipeline.location import Location
from photon.storage.delta import LakeUnavailable
from photon.storage.store import store_of

REMEDY = "from a copy of the lake; if there is none, see docs/operations.md, a damaged data file"


def damaged(datacenter: str, file: object, why: str) -> LakeUnavailable:
    """The error that names a data file which is there, and is not what was committed."""
    return LakeUnavailable(f"datacenter {datacenter}: the data file {file} {why}; put it back {REMEDY}")


def refuse_incomplete(datacenter: str, folder: Location, version: int, sizes: Mapping[str, int]) -> None:
    """LakeUnavailable if a data file of this version of a table is gone, or is not as long as its log says.

    `sizes`: of all its files, by path. Reads none of them: Spark takes an empty file for one without rows.
    """
    store = store_of(folder)
    there = set(store.names())
    # Photon writes its files into the folder itself; others may make folders of partitions.
    there |= {path for path in sizes if "/" in path and store.size_bytes(path) is not None}
    if lost := [path for path in sizes if path not in there]:
        raise LakeUnavailable(
            f"datacenter {datacenter}: {folder}: {len(lost)} data files that version {version} of the table "
            f"names are gone, such as {folder / lost[0]}; put them back {REMEDY}"
        )
    if not isinstance(folder, Path):  # an object of a store is whole, and each look costs a request
        return
    for path, size_bytes in sizes.items():
        found_bytes = store.size_bytes(path)
        if found_bytes != size_bytes:
            why = f"has {found_bytes or 0:,} bytes, and was committed with {size_bytes:,}"
            raise damaged(datacenter, folder / path, why)
