"""Find log files by listing a bucket, a page at a look.

All pages of twenty thousand objects take a second. So a look lists what sorts behind the last name of a
folder: names that hold their time are found at once. The pages that find all others, and what went or was
replaced, take a tenth of the time: one round of them after the other.

Where somebody tells of new objects a look asks for those, by their names, and lists now and then.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Protocol

from photon.logs.discovery import FileProblem, FoundFile, GlobbedPaths, Scan, reason_of
from photon.storage.s3 import LISTED_AT_ONCE, StoredObject

REST_PER_PAGE = 9  # this part of a page's time passes before the next one
MOST_ASKED = 64  # objects that are asked for by name in a look; of more the ends of their folders are listed
# Where somebody tells of new objects: so late is one of which nobody told, and so seldom come pages.
ENDS_EVERY_SECONDS, PAGE_EVERY_SECONDS = 2.0, 1.0
REQUESTS_AT_ONCE = 16
# Folders of which a look lists what came behind the last name, as many requests: half of them those that
# grew last, and the others have their turn.
LISTED_FOLDERS = 16


class Bucket(Protocol):
    """Objects as a store lists them."""

    def objects(self, below: str = "", after: str = "") -> Iterator[StoredObject]:
        """Those below a folder, in the order of their names, behind a name. OSError."""

    def object(self, name: str) -> StoredObject | None:
        """The object of this name, if there is one. OSError."""


class ListedWatch:
    """The objects of one log, listed again and again. Thread-safe."""

    def __init__(
        self,
        bucket: Bucket,
        found_object: Callable[[StoredObject], FoundFile],
        pattern: str,
        most_folders: int = LISTED_FOLDERS,
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bucket, self._found_object = bucket, found_object
        self._globbed = GlobbedPaths(pattern)
        self._most_folders = most_folders  # at a look
        self._elapsed_seconds = elapsed_seconds
        self._lock = threading.Lock()
        self._found: dict[str, FoundFile] = {}  # path -> object
        self._ends: dict[str, str] = {}  # folder -> its last name, those that grew last at the end
        self._turn_after = ""  # the folder of which the end was listed last in turn
        self._next_ends_seconds = 0.0  # when ends are listed where news come
        self._in_round: set[str] = set()  # the names that this round has found so far
        self._next_after = ""  # where this round goes on
        self._round_began_seconds = 0.0
        self._next_page_seconds = 0.0
        self._is_known = False  # one round has ended
        self._seen = Scan()

    def scan(self, whole: bool = False, told: Sequence[str] | None = None) -> Scan:
        with self._lock:
            try:
                is_whole, changed = self._look(whole, told)
            except OSError as error:
                problem = FileProblem(".", f"the logs folder {reason_of(error)}")
                return Scan(problems=(problem,), is_whole=False, is_away=True)
            if changed:
                self._seen = self._scan()
            took_seconds = self._elapsed_seconds() - self._round_began_seconds
            return replace(self._seen, is_whole=is_whole, took_seconds=took_seconds)

    def _look(self, whole: bool, told: Sequence[str] | None) -> tuple[bool, bool]:
        """List what is due: whether a round has ended with it, and whether something is new."""
        if whole or not self._is_known:
            self._begin_round()
            changed, has_ended = False, False
            while not has_ended:
                has_ended, is_new = self._list_page()
                changed |= is_new
            return True, changed
        unknown = self._unknown(told or ())
        changed, has_ended = self._ask_for(unknown[:MOST_ASKED]), False
        if told is None or len(unknown) > MOST_ASKED or self._elapsed_seconds() >= self._next_ends_seconds:
            changed |= self._list_ends()
        if self._elapsed_seconds() >= self._next_page_seconds:
            has_ended, is_new = self._list_page()
            changed |= is_new
            if told is not None:
                earliest_seconds = self._elapsed_seconds() + PAGE_EVERY_SECONDS
                self._next_page_seconds = max(self._next_page_seconds, earliest_seconds)
        return has_ended, changed

    def _begin_round(self) -> None:
        self._next_after, self._in_round = "", set()

    def _list_page(self) -> tuple[bool, bool]:
        """The next page of this round: whether it was the last one, and whether something is new."""
        began_seconds = self._elapsed_seconds()
        if not self._next_after:
            self._round_began_seconds = began_seconds
        page = list(islice(self._bucket.objects(self._globbed.folder, self._next_after), LISTED_AT_ONCE))
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

    def _unknown(self, told: Sequence[str]) -> list[str]:
        """The names of objects of this log that somebody told of, and that no look has found."""
        return [name for name in dict.fromkeys(told) if name not in self._found and self._globbed.match(name)]

    def _ask_for(self, names: Sequence[str]) -> bool:
        """Take note of the objects of these names; whether there are any."""
        if not names:
            return False
        with ThreadPoolExecutor(min(len(names), REQUESTS_AT_ONCE)) as threads:
            asked = list(threads.map(self._bucket.object, names))
        return self._take([each for each in asked if each is not None])

    def _list_ends(self) -> bool:
        """List what sorts behind the last name of all, and behind those of some folders."""
        last = max(self._ends.values(), default="")
        in_turn = [(folder, end) for folder, end in self._folders_in_turn() if end != last]
        ends = [(self._globbed.folder, last), *in_turn]
        with ThreadPoolExecutor(min(len(ends), REQUESTS_AT_ONCE)) as threads:
            listed = threads.map(lambda end: list(self._bucket.objects(*end)), ends)
            changed = self._take([each for found in listed for each in found])
        self._next_ends_seconds = self._elapsed_seconds() + ENDS_EVERY_SECONDS
        return changed

    def _folders_in_turn(self) -> list[tuple[str, str]]:
        """Folders with their last names: half of them grew last, the others have their turn."""
        if len(self._ends) <= self._most_folders:
            return list(self._ends.items())
        most_recent = self._most_folders // 2
        folders = list(self._ends)
        others = sorted(folders[: len(folders) - most_recent])
        turn = bisect_right(others, self._turn_after)
        in_turn = (others[turn:] + others[:turn])[: self._most_folders - most_recent]
        self._turn_after = in_turn[-1]
        return [(folder, self._ends[folder]) for folder in in_turn + folders[len(folders) - most_recent :]]

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
