"""Lists of joins that stay without a row: others took it, and a person has acknowledged that (protocol E13).

`taken/DATACENTER.DIGEST` in each lake has the hashes of a datacenter's ids. A list counts once the register
names its digest; any lake that has it will do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from contextlib import suppress

import numpy as np

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.registry.entry import NO_HASHES, Hashes
from photon.registry.holds import HashSet
from photon.registry.register import Register
from photon.storage.delta import LakeDamaged, LakeUnavailable, lake_errors
from photon.storage.store import content, store_of

FOLDER = "taken"
_STORED = np.dtype("<u8")


def put_list(pipeline: Pipeline, gone: Collection[str], datacenter: str, hashes: Hashes) -> str:
    """Have every lake keep a list that is not gone, on disk; the list's digest. LakeUnavailable."""
    data = np.unique(hashes, axis=0).astype(_STORED).tobytes()
    digest = hashlib.sha256(data).hexdigest()
    for folder in _folders(pipeline, gone):
        with lake_errors(
            f"write the list of acknowledged rows into {folder}", "bring the lake back, and again"
        ):
            store_of(folder).make()
            store_of(folder).put(_file(datacenter, digest), content(data))
            store_of(folder).sync()
    return digest


def listed(pipeline: Pipeline, register: Register) -> HashSet:
    """The ids of all lists that the register names. LakeUnavailable: no lake has one of them."""
    lists = (_read(pipeline, register, name, digest) for name, digest in register.taken.items())
    return HashSet(np.unique(np.concatenate([NO_HASHES, *lists]), axis=0))


def lists_in_lakes(pipeline: Pipeline, gone: Collection[str]) -> dict[str, Hashes]:
    """The ids of all lists that any lake has, by datacenter. LakeUnavailable."""
    found: dict[str, list[Hashes]] = {}
    for folder in _folders(pipeline, gone):
        with lake_errors(f"read the lists of acknowledged rows in {folder}"):
            for name in list(store_of(folder).names()):
                datacenter, _, digest = name.rpartition(".")
                if (hashes := _content(folder, name, digest)) is not None:
                    found.setdefault(datacenter, []).append(hashes)
    return {name: np.unique(np.concatenate(some), axis=0) for name, some in found.items()}


def tidy_lists(pipeline: Pipeline, gone: Collection[str], datacenter: str, digest: str) -> None:
    """Remove the datacenter's lists of before this one, as far as lakes can be reached."""
    for folder in _folders(pipeline, gone):
        with suppress(OSError):
            names = store_of(folder).names(f"{datacenter}.")
            others = [one for one in names if one.rpartition(".")[0] == datacenter]
            store_of(folder).remove(*(one for one in others if one != _file(datacenter, digest)))


def _read(pipeline: Pipeline, register: Register, datacenter: str, digest: str) -> Hashes:
    away = []
    for folder in _folders(pipeline, register.lakes_gone):
        try:
            with lake_errors(f"read {folder / _file(datacenter, digest)}"):
                hashes = _content(folder, _file(datacenter, digest), digest)
        except LakeDamaged:
            continue
        except LakeUnavailable as error:
            away.append(str(error))
            continue
        if hashes is not None:
            return hashes
    raise LakeUnavailable(
        "; ".join(away)
        or f"no lake has the list of datacenter {datacenter}'s rows that others took and a person has "
        f"acknowledged: bring the lakes back, or make it anew: photon acknowledge {pipeline.typed} "
        f"{datacenter} --rows"
    )


def _content(folder: Location, name: str, digest: str) -> Hashes | None:
    """The ids of a file; None: it is another one's, or damaged. OSError."""
    data = store_of(folder).read(name)
    if hashlib.sha256(data).hexdigest() != digest:
        return None
    return np.frombuffer(data, _STORED).astype(np.uint64).reshape(-1, 2)


def _folders(pipeline: Pipeline, gone: Collection[str]) -> Iterator[Location]:
    return (place.lake / FOLDER for name, place in pipeline.datacenters.items() if name not in gone)


def _file(datacenter: str, digest: str) -> str:
    return f"{datacenter}.{digest}"
