"""Find log files by listing a bucket, a page at a look.

All pages of twenty thousand objects take a second. So a look lists what sorts behind the last name of a
folder: names that hold their time are found at once. The pages that find all others, and what went or was
replaced, take a tenth of the time: one round of them after the other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Protocol

from photon.logs.discovery import FileProblem, FoundFile, GlobbedPaths, Scan, reason_of
from photon.storage.s3 import LISTED_AT_ONCE, StoredObject

REST_PER_PAGE = 9  # of a page's time, before the next one
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
        self._in_round: set[str] = set()  # the names that this round has found so far
        self._next_after = ""  # where this round goes on
        self._next_page_seconds = 0.0
        self._is_known = False  # one round has ended
        self._seen = Scan()

    def scan(self, whole: bool = False) -> Scan:
        with self._lock:
            try:
                is_whole, changed = self._look(whole)
            except OSError as error:
                problem = FileProblem(".", f"the logs folder {reason_of(error)}")
                return Scan(problems=(problem,), is_whole=False, is_away=True)
            if changed:
                self._seen = self._scan()
            return replace(self._seen, is_whole=is_whole)

    def _look(self, whole: bool) -> tuple[bool, bool]:
        """List what is due: whether a round has ended with it, and whether something is new."""
        if whole or not self._is_known:
            self._begin_round()
            changed, has_ended = False, False
            while not has_ended:
                has_ended, is_new = self._list_page()
                changed |= is_new
            return True, changed
        changed, has_ended = self._list_ends(), False
        if self._elapsed_seconds() >= self._next_page_seconds:
            has_ended, is_new = self._list_page()
            changed |= is_new
        return has_ended, changed

    def _begin_round(self) -> None:
        self._next_after, self._in_round = "", set()

    def _list_page(self) -> tuple[bool, bool]:
        """The next page of this round: whether it was the last one, and whether something is new."""
        began_seconds = self._elapsed_seconds()
        page = list(islice(self._objects(self._globbed.folder, self._next_after), LISTED_AT_ONCE))
        changed = self._take(sorted(page, key=lambda each: each.modified_us))
        has_ended = len(page) < LISTED_AT_ONCE
        if has_ended:
            gone = self._found.keys() - self._in_round
            for name in gone:
                del self._found[name]
            changed |= bool(gone)
            self._begin_round()
            self._is_known = True
        else:
            self._next_after = page[-1].name
        now_seconds = self._elapsed_seconds()
        self._next_page_seconds = now_seconds + REST_PER_PAGE * (now_seconds - began_seconds)
        return has_ended, changed

    def _list_ends(self) -> bool:
        """List what sorts behind the last name of all, and behind those of the folders that grew last."""
        last = max(self._ends.values(), default="")
        recent = list(self._ends.items())[-MOST_FOLDERS:]
        ends = [(self._globbed.folder, last), *((folder, end) for folder, end in recent if end != last)]
        return self._take([each for folder, end in ends for each in self._objects(folder, end)])

    def _take(self, listed: list[StoredObject]) -> bool:
        """Take note of objects; whether one of them is new, or another one by now."""
        changed = False
        for each in listed:
            self._in_round.add(each.name)
            found = self._found_object(each)
            if self._found.get(each.name) != found:
                if each.name not in self._found:
                    self._note_end(each.name)
                self._found[each.name] = found
                changed = True
        return changed

    def _note_end(self, name: str) -> None:
        folder = name.rpartition("/")[0]
        self._ends[folder] = max(name, self._ends.pop(folder, ""))  # to the end

    def _scan(self) -> Scan:
        paths = sorted(path for path in self._found if self._globbed.match(path))
        folders = {""}.union(path.rpartition("/")[0] for path in self._found)
        return Scan(tuple(self._found[path] for path in paths), folders=frozenset(folders))
