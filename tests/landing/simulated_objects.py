"""A store of objects that a test drives: versions, listings in pages, some old, and what is not read."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import md5

import pyarrow as pa
import pyarrow.parquet as pq

from photon.landing.objects.names import digest_of
from photon.storage.s3 import StoredObject
from photon.storage.store_errors import StoreUnavailable
from tests.support.manual_clock import ManualClock

PAGE = 2  # objects of a listing that one answer has


@dataclass(frozen=True)
class Version:
    """A version of an object. `rows`: the ids that its file is to have; None: it can't be read."""

    name: str
    data: bytes = field(compare=False, repr=False)
    rows: tuple[str, ...] | None = field(compare=False, repr=False)
    etag: str

    @classmethod
    def of(cls, name: str, kind: str, rows: tuple[str, ...]) -> Version:
        """A version with these rows, as text, gzip or Parquet, or broken."""
        data = "".join(f'{{"id":"{one}"}}\n' for one in rows).encode()
        if kind == "gzip":
            data = gzip.compress(data, mtime=0)
        elif kind == "parquet":
            sink = io.BytesIO()
            pq.write_table(pa.table({"id": rows}), sink)
            data = sink.getvalue()
        elif kind == "broken":
            data = b"PAR1" + data
        etag = md5(data, usedforsecurity=False).hexdigest()
        return cls(name, data, None if kind == "broken" else rows, f'"{etag}"')

    @property
    def id(self) -> str:
        """The name by which its failure is acknowledged."""
        return digest_of(self.name, self.etag).hex()


@dataclass
class Listing:
    """What one listing has shown, and what was there when it began."""

    began_us: int
    there: frozenset[Version]
    shown: set[Version] = field(default_factory=set)
    is_whole: bool = False  # no error ended it


@dataclass
class SimulatedObjects:
    """The store (`photon.landing.objects.source.Objects`)."""

    clock: ManualClock
    current: dict[str, Version] = field(default_factory=dict)
    old: dict[str, Version] | None = None  # listings may show these pages instead
    hidden: set[str] = field(default_factory=set)  # names that no listing shows
    refused: set[str] = field(default_factory=set)  # names that may not be read
    silent: set[str] = field(default_factory=set)  # names on which there is no answer
    answers: int | None = None  # so many more answers come; None: all
    listings: list[Listing] = field(default_factory=list)
    # What happens before each answer, and what becomes known with a listing's end; whether a page is an old
    # one, or comes twice.
    before_answer: Callable[[], None] = lambda: None
    listed: Callable[[Listing], None] = lambda _: None
    is_odd: Callable[[], bool] = lambda: False
    puts: dict[Version, int] = field(default_factory=dict)  # when each was put last, in order

    def put(self, version: Version) -> None:
        self.puts[version] = max(self.puts.values(), default=0) + 1
        self.current[version.name] = version
        self.clock.advance(0.001)

    def remove(self, name: str) -> None:
        self.current.pop(name, None)
        self.clock.advance(0.001)

    def objects(self) -> Iterator[StoredObject]:
        listing = Listing(self.clock.elapsed_us(), frozenset(self.current.values()))
        self.listings.append(listing)
        after, shown = "", dict[str, Version]()
        while True:
            self._answer()
            page = self._page(after)
            for one in (shown.setdefault(one.name, one) for one in page):
                listing.shown.add(one)
                yield self._stored(one)
            if not page:
                break
            after = after if self.is_odd() else page[-1].name
        listing.is_whole = True
        self.listed(listing)

    def _page(self, after: str) -> list[Version]:
        there = self.old if self.old is not None and self.is_odd() else self.current
        names = sorted(name for name in there if name > after and name not in self.hidden)
        return [there[name] for name in names[:PAGE]]

    def read_object(self, name: str, start_bytes: int, end_bytes: int) -> tuple[bytes, StoredObject]:
        self._answer()
        if name not in self.current:
            raise FileNotFoundError(name)
        if name in self.refused:
            raise PermissionError(f"{name} is archived")
        if name in self.silent:
            raise StoreUnavailable(f"{name}: no answer")
        one = self.current[name]
        return one.data[start_bytes:end_bytes], self._stored(one)

    def _answer(self) -> None:
        self.before_answer()
        if self.answers is not None:
            self.answers -= 1
            if self.answers < 0:
                raise StoreUnavailable("the store is away")

    def _stored(self, one: Version) -> StoredObject:
        return StoredObject(one.name, len(one.data), one.etag, self.puts[one])
