"""The marker of a folder with landed objects, `.photon/objects.json`: what of the source is in its files.

The lander alone writes it; joins, people and monitoring read it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from photon.landing.marker import ASIDE, AtEnd, MarkerDamaged
from photon.landing.objects.names import digest_of
from photon.process.errors import FormatTooNew
from photon.storage.store import content, store_of

MARKER = "objects.json"
FORMAT = 1
MOST_NAMED = 100  # failures in a marker; all are counted


@dataclass(frozen=True, slots=True)
class Failed:
    """An object that can't be landed, or that went before it was."""

    name: str  # its key below the source's folder
    etag: str
    reason: str
    since_us: int
    is_gone: bool = False

    @property
    def id(self) -> str:
        """The name by which somebody acknowledges it."""
        return digest_of(self.name, self.etag).hex()

    def sentence(self) -> str:
        """Name the object and the reason, for people."""
        return f"{self.name} {self.reason}"


@dataclass(frozen=True, slots=True)
class ObjectsMarker:
    """How far a source is landed, as of the moment at which it was said."""

    objects: str  # the source, as the pipeline file names it
    boot: str  # of the machine: its clock that nobody sets begins with it
    said_us: int
    look: str  # the id of the last look that found new objects, said before any has a file
    waiting: int = 0  # listed, and in no file
    waiting_bytes: int = 0
    at_end: AtEnd | None = None  # all that was listed as of then is landed or failed
    failed: tuple[Failed, ...] = ()
    failed_count: int = 0
    landed: int = 0  # since the folder was begun
    landed_bytes: int = 0
    due_us: int = 0  # so long it may be silent, for nobody lists before
    problem: str = ""  # why nothing is landed now; empty: nothing is wrong


def read_marker(folder: Path) -> ObjectsMarker | None:
    """The marker of a landed folder; None: it has none. MarkerDamaged, FormatTooNew, OSError."""
    path = folder / ASIDE / MARKER
    try:
        said = json.loads(path.read_bytes())
        if (version := said.pop("format")) > FORMAT:
            raise FormatTooNew(path, version, FORMAT)
        at_end, failed = said.pop("at_end"), said.pop("failed")
        end = None if at_end is None else AtEnd(**at_end)
        return ObjectsMarker(**said, at_end=end, failed=tuple(Failed(**one) for one in failed))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MarkerDamaged(
            f"{path}: expected a marker that landing wrote: remove it, landing writes another one"
        ) from None


def put_marker(folder: Path, marker: ObjectsMarker) -> None:
    """Put a marker in the place of the one before, on disk. OSError."""
    store = store_of(folder / ASIDE)
    store.make()
    store.put(MARKER, content(json.dumps({"format": FORMAT, **asdict(marker)}).encode()))
    store.sync()
