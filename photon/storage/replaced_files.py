"""Lists of the files that rebuilds of `joined_events` replaced: by them an older release is read as it was.

Each replacing commit names its list, which lies in the lake before it. A list never changes. One that no
commit names is of a rebuild that was killed, or that met another one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from photon.pipeline.location import Location, OutsideFolder, is_inside
from photon.process.errors import FormatTooNew
from photon.storage.data_files import DataFile
from photon.storage.store import content, store_of

FOLDER = "releases/replaced"
LIST_METADATA = "photon.replaced"  # in the commit: the name of its list
FORMAT = 1


def rebuild_app(datacenter: str) -> str:
    """The name under which rebuilds of a datacenter commit."""
    return f"photon:{datacenter}:rebuild"


@dataclass(frozen=True, slots=True)
class Replacement:
    """The files that left the table by replacement `number`, and the paths of those that came for them."""

    number: int
    name: str
    went: tuple[DataFile, ...]
    came: tuple[str, ...]

    def is_done_in(self, paths: Collection[str]) -> bool:
        """Whether a table of these files may have had it, and nothing has become of its files since."""
        return all(path in paths for path in self.came) and not any(file.path in paths for file in self.went)


class ReplacedFiles:
    """The lists of one lake. OSError where it does not answer."""

    def __init__(self, lake: Location) -> None:
        self._folder = lake / FOLDER
        self._store = store_of(self._folder)

    def add(self, number: int, went: Iterable[DataFile], came: Sequence[str]) -> str:
        """Put a list on disk; its name. It is new, whatever other process adds one of this number."""
        name = f"{number:020d}-{uuid.uuid4().hex}.json"
        stored = {"format": FORMAT, "went": [asdict(file) for file in went], "came": list(came)}
        self._store.make()
        self._store.create(name, content(json.dumps(stored, default=str).encode()))
        self._store.sync("")
        return name

    def names(self, above: int = 0) -> list[str]:
        """The names of all lists with a greater number than this, sorted by number."""
        return sorted(
            name for name in self._store.names() if name.endswith(".json") and _number(name) > above
        )

    def read(self, name: str) -> Replacement:
        """FormatTooNew, FileNotFoundError, OutsideFolder; OSError also if it is damaged."""
        where, text = f"{self._folder / name}, a list of replaced files,", self._store.read(name)
        try:
            stored = json.loads(text)
            if (written := stored["format"]) > FORMAT:
                raise FormatTooNew(where, written, FORMAT)
            went, came = tuple(map(_file, stored["went"])), tuple(stored["came"])
        except (ValueError, KeyError, TypeError):
            raise OSError(f"{where} is damaged: put it back from a copy") from None
        for path in (*came, *(file.path for file in went)):
            if not is_inside(path):  # Spark reads the files by their whole paths
                raise OutsideFolder(str(self._folder / name), path)
        return Replacement(_number(name), name, went, came)

    def all(self) -> list[Replacement]:
        """All lists that are kept. FormatTooNew."""
        return [self.read(name) for name in self.names()]

    def forget(self, through: int | None, before_us: int) -> None:
        """Remove lists of up to this number (None: of any) that were written before a time."""
        old = (name for name in self.names() if through is None or _number(name) <= through)
        self._store.remove(*(name for name in old if self._store.changed_us(name) < before_us))


def _number(name: str) -> int:
    return int(name.partition("-")[0])


def _file(stored: Mapping[str, Any]) -> DataFile:
    day = stored["date"]
    return DataFile(**{**stored, "date": None if day is None else date.fromisoformat(day)})
