"""How far each app has come in a table, and how its log ends, as of an open handle on it.

delta-rs reads every entry since the last checkpoint, each time that it is asked for an app, and in a store
each entry is a request. So the entries by which a handle goes on are read here, once. An entry that is there
never changes, but for a lake that is put back: then another object lies under its name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from deltalake import DeltaTable

from photon.pipeline.location import Location
from photon.storage.archived_log import LogEntries
from photon.storage.changes import NO_COMMIT
from photon.storage.delta import log_entry
from photon.storage.store import store_of


@dataclass
class LogEnd:
    """The end of a table's log at one version. It knows the apps that somebody has asked for. OSError."""

    folder: Location
    version: int = NO_COMMIT
    mark: str = ""  # tells the entry of this version from another one of its name
    _handle: DeltaTable | None = None
    _apps: dict[str, int | None] = field(default_factory=dict)

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
                entry, mark = self._store.read_version(log_entry(number))
                self.mark = _plain(mark)
            except FileNotFoundError:
                self.mark = ""
                self._apps.clear()
                continue
            self.entries.keep(number, entry)
            lines = (json.loads(line) for line in entry.splitlines() if b'"txn"' in line)
            said = (action["txn"] for action in lines if "txn" in action)
            self._apps.update({str(one["appId"]): int(one["version"]) for one in said})
        self.version = version

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
        return {name: _plain(mark) for name, mark in found.items()} == {last: self.mark}


def _plain(mark: str) -> str:
    """An ETag without what a proxy or a listing puts around it."""
    return mark.removeprefix("W/").strip('"')
