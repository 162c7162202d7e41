"""How far each app has come in a table, and how its log ends, as of an open handle on it.

delta-rs reads every entry since the last checkpoint, each time that it is asked for an app, and in a store
each entry is a request. So the entries by which a handle goes on are read here, once. An entry that is there
never changes, but for a lake that is put back: then another object lies under its name. So what one handle
of a process has read is another one's as well, where a listing tells that it is the same object.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field

from deltalake import DeltaTable

from photon.pipeline.location import Location
from photon.storage.archived_log import MOST_KEPT, MOST_KEPT_BYTES, LogEntries
from photon.storage.changes import NO_COMMIT
from photon.storage.delta import log_entry
from photon.storage.store import store_of

_read: dict[tuple[Location, int, str], bytes] = {}  # by version and mark, by any handle of this process
_reading = threading.Lock()


@dataclass
class LogEnd:
    """The end of a table's log at one version. It knows the apps that somebody has asked for. OSError."""

    folder: Location
    version: int = NO_COMMIT
    mark: str = ""  # tells the entry of this version from another one of its name
    _handle: DeltaTable | None = None
    _apps: dict[str, int | None] = field(default_factory=dict)
    _listed: dict[str, str] = field(default_factory=dict)  # marks that the last listing saw

    def __post_init__(self) -> None:
        self.entries, self._store = LogEntries(self.folder), store_of(self.folder)

    def begin(self, handle: DeltaTable) -> None:
        """Know nothing but how the log ends, of a handle that was just opened."""
        self._apps.clear()
        self.entries.forget()
        self._handle, self.version = handle, handle.version() - 1
        self.follow()

    def follow(self) -> None:
        """Read the entries up to the handle's. Where one has left the log by now, delta-rs is asked again."""
        assert self._handle is not None, "a handle was opened"
        version = self._handle.version()
        for number in range(self.version + 1, version + 1):
            try:
                entry, self.mark = self._read_once(number)
            except FileNotFoundError:
                self.mark = ""
                self._apps.clear()
                continue
            self.entries.keep(number, entry)
            lines = (json.loads(line) for line in entry.splitlines() if b'"txn"' in line)
            said = (action["txn"] for action in lines if "txn" in action)
            self._apps.update({str(one["appId"]): int(one["version"]) for one in said})
        self.version, self._listed = version, {}  # another table may lie there by the next look

    def _read_once(self, number: int) -> tuple[bytes, str]:
        """An entry and its mark. FileNotFoundError."""
        mark = self._listed.get(log_entry(number), "")
        if (known := _read.get((self.folder, number, mark))) is not None:
            return known, mark
        entry, mark = self._store.read_version(log_entry(number))
        mark = _plain(mark)
        with _reading:
            if mark and len(entry) <= MOST_KEPT_BYTES:
                _read[self.folder, number, mark] = entry
            if len(_read) > MOST_KEPT:
                del _read[next(iter(_read))]
        return entry, mark

    def version_of(self, app: str, handle: DeltaTable) -> int | None:
        """How far an app has come in the table of this handle; None: it has not begun. DeltaError."""
        if handle is not self._handle or handle.version() != self.version:
            return handle.transaction_version(app)
        if app not in self._apps:
            self._apps[app] = handle.transaction_version(app)
        return self._apps[app]

    @property
    def is_there(self) -> bool:
        """Whether the log has the very entry with which it ended."""
        mark = self._store.version(log_entry(self.version))
        return mark is not None and self.mark == _plain(mark)

    @property
    def is_last(self) -> bool:
        """Whether it still ends with it: asked at once, so that a store is asked once."""
        last, following = log_entry(self.version), log_entry(self.version + 1)
        found = self._store.versions(last, following)
        self._listed = {name: _plain(mark) for name, mark in found.items()}
        return self._listed.get(last) == self.mark and following not in self._listed


def _plain(mark: str) -> str:
    """An ETag without what a proxy or a listing puts around it."""
    return mark.removeprefix("W/").strip('"')
