"""A store of objects in memory that fails as a test wants it to, and landers that live and die beside it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.store import MemoryStore

from photon.landing.marker import acknowledge
from photon.landing.objects.lander import ObjectsLander
from photon.landing.objects.marker import ObjectsMarker, read_marker
from photon.landing.objects.source import ObjectSource, ObstoreObjects
from photon.process.faults import arm, disarm
from photon.storage.s3 import StoredObject
from tests.support.manual_clock import ManualClock

NAME, BOOT = "gs://bucket/**/*.parquet", "boot-1"
NOON_US = 1_767_607_200_000_000


class Killed(BaseException):
    """The process ends here."""


def parquet(*numbers: int) -> bytes:
    """An object with a row of each number."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"click_id": [f"c{n}" for n in numbers]}), sink)
    return sink.getvalue()


class FailingObjects:
    """The objects, but for what happens before a listing's end or an answer."""

    def __init__(self, store: MemoryStore) -> None:
        self._inner = ObstoreObjects(store)
        self.before_end: Callable[[], None] = lambda: None
        self.before_read: Callable[[str], None] = lambda _: None
        self.reads: list[str] = []
        self.before_each: Callable[[], object] = lambda: None
        self.refuses = ""  # why nothing is listed
        self.lists_quotes = True  # around ETags: Azure's listings have none, its answers have
        self.is_away = False  # as a disk that is not mounted: its folder is there, and empty

    def objects(self) -> Iterator[StoredObject]:
        if self.refuses:
            raise PermissionError(self.refuses)
        for one in () if self.is_away else self._inner.objects():
            self.before_each()
            yield one if self.lists_quotes else replace(one, etag=one.etag.strip('"'))
        self.before_end()

    def read_object(self, name: str, start_bytes: int, end_bytes: int) -> tuple[bytes, StoredObject]:
        self.reads.append(name)
        self.before_read(name)
        return self._inner.read_object(name, start_bytes, end_bytes)


class ObjectsWorld:
    """Objects that are landed into a folder."""

    def __init__(self, folder: Path, pattern: str = "**/*.parquet") -> None:
        self.folder = folder / "clicks"
        self.clock = ManualClock(NOON_US)
        self.store = MemoryStore()
        self.objects = FailingObjects(self.store)
        self.source = ObjectSource(NAME, self.objects, pattern, "")
        self.running: ObjectsLander | None = None
        (self.folder / ".photon").mkdir(parents=True)

    def put(self, objects: Mapping[str, bytes]) -> None:
        for name, data in objects.items():
            obstore.put(self.store, name, data)

    def remove(self, name: str) -> None:
        obstore.delete(self.store, name)

    def lander(self) -> ObjectsLander:
        """Start a lander, as a process that was started anew does."""
        if self.running is not None:
            self.running.close()
        self.running = ObjectsLander(self.source, self.folder, "jsonl", self.clock, BOOT)
        return self.running

    def look(self) -> bool:
        """Have the lander look once, a new one if none runs."""
        lander = self.running or self.lander()
        self.clock.advance(1)
        return lander.look(lambda: False)

    def look_killed_at(self, point: str) -> None:
        """Have a new lander look, and die at a fault point if it gets there."""

        def crash() -> None:
            raise Killed

        arm(point, crash)
        try:
            self.lander().look(lambda: False)
        except Killed:
            pass
        finally:
            disarm()
            self.lander()

    @property
    def marker(self) -> ObjectsMarker:
        marker = read_marker(self.folder)
        assert marker is not None, "there is a marker"
        return marker

    def files(self) -> list[Path]:
        """The files that joins read."""
        return sorted(self.folder.glob("**/[!.]*.jsonl"))

    def lines(self) -> list[str]:
        return sorted(line for file in self.files() for line in file.read_text().splitlines())

    def acknowledge(self) -> None:
        acknowledge(self.folder, [one.id for one in self.marker.failed])


def lines_of(*numbers: int) -> list[str]:
    """The lines of rows of these numbers."""
    return sorted(f'{{"click_id":"c{n}"}}' for n in numbers)
