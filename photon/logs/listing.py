"""Find log files by listing a bucket, which takes a second for some twenty thousand objects.

A whole listing takes at most a tenth of the time. Between two of them only what sorts behind the last name
of a folder is listed: names that hold their time are found at once, others by the next whole listing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from photon.logs.discovery import FileProblem, FoundFile, GlobbedPaths, Scan, reason_of
from photon.storage.s3 import StoredObject

REST_PER_LISTING = 9  # of a whole listing's time, before the next one
MOST_FOLDERS = 16  # of which the ends are listed in a look: those that grew last


class ListObjects(Protocol):
    """How objects are listed."""

    def __call__(self, below: str = "", after: str = "") -> Iterator[StoredObject]:
        """Those below a folder, in the order of their names, behind a name. OSError."""


class ListedWatch:
    """The objects of one log, listed again and again. Thread-safe."""

    def __init__(
        self,
        objects: ListObjects,
        found_object: Callable[[StoredObject], FoundFile],
        pattern: str,
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects, self._found_object = objects, found_object
        self._globbed = GlobbedPaths(pattern)
        self._elapsed_seconds = elapsed_seconds
        self._lock = threading.Lock()
        self._found: dict[str, FoundFile] = {}  # by path
        self._ends: dict[str, str] = {}  # folder -> its last name, those that grew last at the end
        self._next_whole_seconds = 0.0
        self._seen = Scan()

    def scan(self, whole: bool = False) -> Scan:
        with self._lock:
            now_seconds = self._elapsed_seconds()
            is_whole = whole or now_seconds >= self._next_whole_seconds
            try:
                new = self._list_all(now_seconds) if is_whole else self._list_ends()
            except OSError as error:
                self._next_whole_seconds = 0.0
                return Scan(problems=(FileProblem(".", f"the logs folder {reason_of(error)}"),))
            if new or is_whole:
                self._seen = self._scan()
            return replace(self._seen, is_whole=is_whole)

    def _list_all(self, now_seconds: float) -> bool:
        listed = {each.name: each for each in self._objects(self._globbed.folder)}
        before, self._found = self._found, {}
        for name, each in listed.items():
            known = before.get(name)
            found = self._found_object(each)
            self._found[name] = known if known == found else found
        self._ends = {}
        for each in sorted(listed.values(), key=lambda each: each.modified_us):
            self._note_end(each.name)
        took_seconds = self._elapsed_seconds() - now_seconds
        self._next_whole_seconds = now_seconds + (1 + REST_PER_LISTING) * took_seconds
        return True

    def _list_ends(self) -> bool:
        """List what sorts behind the last name of all, and behind those of the folders that grew last."""
        last = max(self._ends.values(), default="")
        recent = list(self._ends.items())[-MOST_FOLDERS:]
        ends = [("", last), *((folder, end) for folder, end in recent if end != last)]
        new = [
            each
            for folder, end in ends
            for each in self._objects(folder or self._globbed.folder, end)
            if each.name not in self._found
        ]
        for each in new:
            self._found[each.name] = self._found_object(each)
            self._note_end(each.name)
        return bool(new)

    def _note_end(self, name: str) -> None:
        folder = name.rpartition("/")[0]
        self._ends[folder] = max(name, self._ends.pop(folder, ""))

    def _scan(self) -> Scan:
        paths = sorted(path for path in self._found if self._globbed.match(path))
        folders = {""}.union(path.rpartition("/")[0] for path in self._found)
        return Scan(tuple(self._found[path] for path in paths), folders=frozenset(folders))
