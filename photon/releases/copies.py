"""The copies of releases that each lake keeps, so that readers ask no registry.

`releases/NUMBER.json` has one release; full five hundreds lie together in `releases/packed`. A number has one
content for ever, so nobody replaces a copy by another one, and the greatest number is the newest release. The
newest one stays, the others until they are older than `releases.keep`.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.releases.release import (
    MOST_GAP_US,
    NOT_VERIFIED,
    CleanVerification,
    Place,
    Release,
    decode_release,
    encode_release,
)
from photon.storage.store import ObjectStore, content, store_of

FOLDER = "releases"
PACKED = f"{FOLDER}/packed"
PACK = 500  # so a lake lists at most some 1,000 single ones, in one request to S3
_VERIFIED = f"{FOLDER}/verified"
_SINGLE = re.compile(r"(\d{12})\.json")
_PACKED = re.compile(r"(\d{12})-(\d{12})\.jsonl\.gz")


class OtherRelease(Exception):
    """A lake has another release under the number of one: the registry was put back (L10)."""


@dataclass(frozen=True, slots=True, order=True)
class _File:
    """The file that has the copies of some releases, from one number to another."""

    first: int
    last: int
    name: str  # in the lake


def latest(lake: Location) -> Release | None:
    """The newest release that a lake has; None without any. OSError, FormatTooNew."""
    store = store_of(lake)
    files = _singles(lake) or _packs(lake)
    return _read(store, files[-1])[-1] if files else None


def oldest(lake: Location) -> Release | None:
    """The oldest release that a lake has; None without any. OSError, FormatTooNew."""
    files = _packs(lake) or _singles(lake)
    return _read(store_of(lake), files[0])[0] if files else None


def release(lake: Location, number: int) -> Release | None:
    """The release with this number, None if the lake has none. OSError, FormatTooNew."""
    store, single = store_of(lake), _single_of(number)
    try:
        return _read(store, single)[0]
    except FileNotFoundError:  # packed, or never there
        packs = [file for file in _packs(lake) if file.first <= number <= file.last]
        found = (one for file in packs for one in _read(store, file))
        return next((one for one in found if one.number == number), None)


def as_of(lake: Location, time_us: int) -> Release | None:
    """The newest release that was made at that time, or before. OSError, FormatTooNew."""
    store, files = store_of(lake), sorted([*_packs(lake), *_singles(lake)])
    first, end = 0, len(files)
    while first < end:  # the first file whose releases were all made later
        middle = (first + end) // 2
        if _read(store, files[middle])[0].made_us <= time_us:
            first = middle + 1
        else:
            end = middle
    found = [one for one in _read(store, files[first - 1]) if one.made_us <= time_us] if first else []
    return found[-1] if found else None


def has(lake: Location, number: int) -> bool:
    """Whether a lake has a copy of a release that is one of the newest. OSError."""
    return store_of(lake).size_bytes(_single_of(number).name) is not None


def following(lake: Location, number: int, most: int) -> dict[int, Release]:
    """The next releases behind a number that a lake has: `most` of them, or all. OSError, FormatTooNew.

    A file has several, so there may be more.
    """
    store, found = store_of(lake), dict[int, Release]()
    for file in sorted([*_packs(lake), *_singles(lake)]):
        if len(found) >= most and file.first > max(found):
            break
        if file.last > number:
            found |= {one.number: one for one in _read(store, file) if one.number > number}
    return found


def kept(lake: Location) -> list[Release]:
    """All releases that a lake has, the oldest first. OSError, FormatTooNew."""
    store = store_of(lake)
    found = {one.number: one for file in [*_packs(lake), *_singles(lake)] for one in _read(store, file)}
    return [found[number] for number in sorted(found)]


def put(lake: Location, releases: Sequence[Release]) -> None:
    """Have the lake keep these releases, on disk. OSError, FormatTooNew, OtherRelease."""
    if not releases:
        return
    store, newest = store_of(lake), releases[-1].number
    store_of(lake / FOLDER).make()
    single = [one for one in releases if one.number // PACK == newest // PACK]
    _pack(lake, [one for one in releases if one.number // PACK < newest // PACK])
    for one in single:
        file = _single_of(one.number)
        if store.size_bytes(file.name) is None:
            store.put(file.name, content(encode_release(one)))
        elif _read(store, file) != [one]:
            raise OtherRelease(f"{lake / file.name} is another release {one.number}")
    store_of(lake / FOLDER).sync()


def note_verified(lake: Location, new: CleanVerification) -> None:
    """Take note of a datacenter's verification since a release. OSError."""
    store_of(lake / FOLDER).make()
    new = new._replace(clean=max(new.clean, verified(lake).clean))
    store_of(lake).put(_VERIFIED, content(json.dumps(new).encode()))
    store_of(lake / FOLDER).sync()


def verified(lake: Location) -> CleanVerification:
    """The last verification that `note_verified` stored. OSError."""
    try:
        release, ordered, clean = json.loads(store_of(lake).read(_VERIFIED))
        return CleanVerification(release, Place(*ordered), clean)
    except (FileNotFoundError, ValueError, TypeError):
        return NOT_VERIFIED


def clean_release(pipeline: Pipeline, datacenter: str, retired: Collection[str]) -> int:
    """With which release a verification began that found nothing wrong: of a retired one all others'.

    Or with which an acknowledgement of its own rows began, which any datacenter may have.
    """

    def of(name: str) -> int:
        with suppress(OSError):
            return verified(pipeline.datacenters[name].lake).clean
        return NOT_VERIFIED.clean

    others = pipeline.datacenters.keys() - {*retired} if datacenter in retired else ()
    return max(of(datacenter), min(map(of, others), default=NOT_VERIFIED.clean))


def awaited(pipeline: Pipeline, datacenters: Iterable[str]) -> dict[str, int]:
    """The newest release in each datacenter's lake, where that awaits a verification of it (R4, E11)."""
    found: dict[str, int] = {}
    for name in datacenters:
        with suppress(OSError):
            newest = latest(pipeline.datacenters[name].lake)
            awaits = () if newest is None or newest.set_back is None else newest.set_back.awaits
            if newest is not None and (name in awaits or any(one.foreign for one in newest.parts.values())):
                found[name] = newest.number
    return found


def tidy(lake: Location, newest: Release, keep_us: int) -> None:
    """Pack full five hundreds, and remove releases that are older than the newest one by so much, or more.

    By their own times: a clock that is wrong makes no release older by more than `MOST_GAP_US`, which comes
    on top. The newest release stays. OSError, FormatTooNew.
    """
    before_us = newest.elapsed_us - keep_us - MOST_GAP_US
    store, singles = store_of(lake), _singles(lake)
    if singles:
        full = [file for file in singles if file.last // PACK < singles[-1].last // PACK]
        _pack(lake, [one for file in full for one in _read(store, file)])
        store.remove(*(file.name for file in full))
    for file in sorted([*_packs(lake), *_singles(lake)])[:-1]:
        if _read(store, file)[-1].elapsed_us >= before_us:
            return
        store.remove(file.name)


def _pack(lake: Location, releases: Iterable[Release]) -> None:
    by_pack: dict[int, list[Release]] = {}
    for one in releases:
        by_pack.setdefault(one.number // PACK, []).append(one)
    if not by_pack:
        return
    store = store_of(lake)
    store_of(lake / PACKED).make()
    for number, some in by_pack.items():
        first, last = number * PACK, (number + 1) * PACK - 1
        name = f"{PACKED}/{first:012d}-{last:012d}.jsonl.gz"
        before = [] if store.size_bytes(name) is None else _read(store, _File(first, last, name))
        together = {one.number: one for one in [*some, *before]}
        packed = gzip.compress(b"\n".join(encode_release(together[at]) for at in sorted(together)))
        store.put(name, content(packed))
    store_of(lake / PACKED).sync()
    store_of(lake / FOLDER).sync()


def _single_of(number: int) -> _File:
    return _File(number, number, f"{FOLDER}/{number:012d}.json")


def _singles(lake: Location) -> list[_File]:
    found = (_SINGLE.fullmatch(name) for name in store_of(lake / FOLDER).names())
    return sorted(_single_of(int(one[1])) for one in found if one is not None)


def _packs(lake: Location) -> list[_File]:
    found = (_PACKED.fullmatch(name) for name in store_of(lake / PACKED).names())
    return sorted(_File(int(one[1]), int(one[2]), f"{PACKED}/{one[0]}") for one in found if one is not None)


def _read(store: ObjectStore, file: _File) -> list[Release]:
    stored = store.read(file.name)
    lines = gzip.decompress(stored).splitlines() if file.name.endswith(".gz") else [stored]
    return [decode_release(line, file.name) for line in lines]
