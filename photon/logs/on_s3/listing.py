"""Find log files by listing a bucket, with few requests.

A full look lists all pages, one after the other, and only that says what is not there. Between full looks one
request a log finds what sorts behind its last name: names that hold their time are found at once. A look is
soon followed by the next one where it found something new, and more and more seldom where it did not.

Where somebody tells of new objects a look asks for those, by their names, at once.

What is kept grows with the objects of the log that are there, and not with others below its prefix.
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

REST_PER_PAGE, PAGE_EVERY_SECONDS = 9, 1.0  # before the next page passes so much of its time, or so long
FULL_LOOK_EVERY_SECONDS = 170.0  # where nothing is new: what is in no order is found within three minutes
# Between two listings of what is behind the last names passes a fourth of the time since something was new.
LISTED_AFTER_PART, LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 4, 0.25, 4.8
LATE_PART = 32  # of a pause: so much too late is no reason to list a look too soon
TOLD_PAUSE_SECONDS = 1.0  # the least one where somebody tells of new objects
MOST_ASKED = 64  # objects that are asked for by name in a look; of more the ends of their folders are listed
REQUESTS_AT_ONCE = 16
# Folders of which a look lists what came behind the last name, as many requests: half of them those that
# grew last, and the others have their turn. Of one that has not grown for so long a full look finds it.
LISTED_FOLDERS, FOLDER_GROWS_SECONDS = 16, 300.0


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
        # path -> object that the pattern matches; in order but for the latest, so that one pass sorts them.
        self._found: dict[str, FoundFile] = {}
        self._ends: dict[str, str] = {}  # folder -> its last name of the log, those that grew last at the end
        # folder -> when something new was found in it, after the first look
        self._grew_seconds: dict[str, float] = {}
        self._turn_after = ""  # the folder of which the end was listed last in turn
        self._scans, self._scan_seconds = 0, 0.0
        self._new_seconds = self._listed_seconds = 0.0  # when something was new, and when ends were listed
        self._in_round: set[str] = set()  # the names that this full look has found so far
        self._next_after = ""  # where it goes on; empty: none is under way
        self._pages = 0  # of this one, else of the last one
        self._is_known = False  # one has ended
        self._round_began_seconds, self._round_began_scan = 0.0, 0
        self._next_page_seconds = 0.0
        self._seen = Scan()

    def scan(self, whole: bool = False, told: Sequence[str] | None = None) -> Scan:
        with self._lock:
            self._scans += 1
            try:
                is_whole, changed = self._look(whole, told)
            except OSError as error:
                problem = FileProblem(".", f"the logs folder {reason_of(error)}")
                return Scan(problems=(problem,), is_whole=False, is_away=True)
            if changed:
                self._seen = self._scan()
            took_seconds = self._elapsed_seconds() - self._round_began_seconds
            ago = self._scans - self._round_began_scan
            # Objects on its last page may be newer than its first page is.
            began_ago = 1 if ago == 0 and self._pages > 1 else ago
            due_seconds = self._listed_seconds + self._pause_seconds(told is not None)
            return replace(
                self._seen,
                is_whole=is_whole,
                took_seconds=took_seconds,
                began_scans_ago=began_ago,
                due_in_seconds=max(0.0, due_seconds - self._elapsed_seconds()),
            )

    def _look(self, whole: bool, told: Sequence[str] | None) -> tuple[bool, bool]:
        """List what is due: whether a full look has ended with it, and whether something is new."""
        now_seconds = self._elapsed_seconds()
        until_next_seconds, self._scan_seconds = now_seconds - self._scan_seconds, now_seconds
        # Whoever looks now and then alone sees all of it each time.
        if whole or not self._is_known or until_next_seconds >= FULL_LOOK_EVERY_SECONDS:
            self._begin_round()
            changed, has_ended = False, False
            while not has_ended:
                has_ended, is_new = self._list_page()
                changed |= is_new
            return True, changed
        asked = [name for name in dict.fromkeys(told or ()) if self._globbed.match(name)]
        changed, has_ended = self._ask_for(asked[:MOST_ASKED]), False
        is_due = self._is_due(until_next_seconds, told is not None) or len(asked) > MOST_ASKED
        is_one_page = self._pages == 1 and not self._next_after
        if is_due and not is_one_page:
            changed |= self._list_ends()
        if is_due if is_one_page else self._is_page_due():
            has_ended, is_new = self._list_page()
            changed |= is_new
        return has_ended, changed

    def _is_due(self, until_next_seconds: float, is_told: bool) -> bool:
        """Whether what is behind the last names has to be listed now: the next scan would be too late."""
        pause_seconds = self._pause_seconds(is_told)
        next_seconds = self._elapsed_seconds() + min(until_next_seconds, pause_seconds)
        return next_seconds > self._listed_seconds + pause_seconds + pause_seconds / LATE_PART

    def _pause_seconds(self, is_told: bool) -> float:
        """How long nobody need list what is behind the last names."""
        least_seconds = TOLD_PAUSE_SECONDS if is_told else LEAST_PAUSE_SECONDS
        part_seconds = (self._elapsed_seconds() - self._new_seconds) / LISTED_AFTER_PART
        return min(max(least_seconds, part_seconds), MOST_PAUSE_SECONDS)

    def _is_page_due(self) -> bool:
        """Whether a full look goes on, or begins: at once if something is new since the last one began."""
        now_seconds = self._elapsed_seconds()
        if now_seconds < self._next_page_seconds:
            return False
        is_behind = self._new_seconds >= self._round_began_seconds
        is_old = now_seconds - self._round_began_seconds >= FULL_LOOK_EVERY_SECONDS
        return bool(self._next_after) or is_behind or is_old

    def _begin_round(self) -> None:
        self._next_after, self._in_round = "", set()

    def _list_page(self) -> tuple[bool, bool]:
        """The next page of a full look: whether it was the last one, and whether something is new."""
        began_seconds, is_first = self._elapsed_seconds(), not self._next_after
        page = list(islice(self._bucket.objects(self._globbed.folder, self._next_after), LISTED_AT_ONCE))
        if is_first:
            self._round_began_seconds, self._round_began_scan = began_seconds, self._scans
            self._pages = 0
        self._pages += 1
        changed = self._take(sorted(page, key=lambda each: each.modified_us))
        has_ended = len(page) < LISTED_AT_ONCE
        if has_ended:
            gone = self._found.keys() - self._in_round
            for name in gone:
                del self._found[name]
            if gone:
                self._ends = self._ends_of_found()
                self._grew_seconds = {one: self._grew_seconds.get(one, 0.0) for one in self._ends}
            changed |= bool(gone)
            self._begin_round()
            self._is_known = True
        else:
            self._next_after = page[-1].name
        now_seconds = self._elapsed_seconds()
        if has_ended and self._pages == 1:
            self._listed_seconds = now_seconds
        rest_seconds = max(REST_PER_PAGE * (now_seconds - began_seconds), PAGE_EVERY_SECONDS)
        self._next_page_seconds = now_seconds + rest_seconds
        return has_ended, changed

    def _ask_for(self, names: Sequence[str]) -> bool:
        """Take note of the objects of these names; whether there is something new."""
        if not names:
            return False
        with ThreadPoolExecutor(min(len(names), REQUESTS_AT_ONCE)) as threads:
            asked = list(threads.map(self._bucket.object, names))
        return self._take([each for each in asked if each is not None])

    def _list_ends(self) -> bool:
        """List what sorts behind the last name of all, and of folders that grow: a page of each."""
        last = max(self._ends.values(), default="")
        in_turn = [(self._scope_of(folder), end) for folder, end in self._folders_in_turn() if end != last]
        ends = [(self._globbed.folder, last), *in_turn]
        with ThreadPoolExecutor(min(len(ends), REQUESTS_AT_ONCE)) as threads:
            listed = threads.map(lambda end: list(islice(self._bucket.objects(*end), LISTED_AT_ONCE)), ends)
            changed = self._take([each for found in listed for each in found])
        self._listed_seconds = self._elapsed_seconds()
        return changed

    def _scope_of(self, folder: str) -> str:
        """Where the end of a folder is listed: if it is the last one of those in its parent, that one too.

        There the next day has a folder of its own.
        """
        parent, last = folder.rpartition("/")[0], self._ends[folder]
        is_below = len(folder) > len(self._globbed.folder)
        beside = (end for end in self._ends.values() if end.startswith(f"{parent}/"))
        return parent if parent and is_below and max(beside) == last else folder

    def _folders_in_turn(self) -> list[tuple[str, str]]:
        """Folders that grow, with their last names: half of them grew last, the others have their turn."""
        since_seconds = self._elapsed_seconds() - FOLDER_GROWS_SECONDS
        growing = [one for one in self._ends if self._grew_seconds.get(one, 0.0) > since_seconds]
        if len(growing) > self._most_folders:
            most_recent = self._most_folders // 2
            others = sorted(growing[: len(growing) - most_recent])
            turn = bisect_right(others, self._turn_after)
            in_turn = (others[turn:] + others[:turn])[: self._most_folders - most_recent]
            self._turn_after = in_turn[-1]
            growing = in_turn + growing[len(growing) - most_recent :]
        return [(folder, self._ends[folder]) for folder in growing]

    def _take(self, listed: list[StoredObject]) -> bool:
        """Take note of the log's objects; whether one of them is new, or another one by now."""
        changed = False
        for each in listed:
            if not self._globbed.match(each.name):
                continue
            found, known = self._found_object(each), self._found.get(each.name)
            if found != known:
                self._found[each.name] = known = found
                changed = True
                self._note_new(each.name)
            self._in_round.add(known.path)
        return changed

    def _note_new(self, name: str) -> None:
        folder, self._new_seconds = name.rpartition("/")[0], self._elapsed_seconds()
        self._ends[folder] = max(name, self._ends.pop(folder, ""))  # to the end
        if self._is_known:
            self._grew_seconds[folder] = self._new_seconds

    def _ends_of_found(self) -> dict[str, str]:
        """The last names of folders, in the order of before: an end that went is none."""
        last: dict[str, str] = {}
        for name in self._found:
            folder = name.rpartition("/")[0]
            last[folder] = max(name, last.get(folder, ""))
        return {folder: last[folder] for folder in self._ends if folder in last}

    def _scan(self) -> Scan:
        self._found = {path: self._found[path] for path in sorted(self._found)}
        return Scan(tuple(self._found.values()), folders=frozenset(["", *self._ends]))
