"""Feed a folder that is a log of the next pipeline: one file for each release that inserts rows.

A file appears whole and on disk, then the cursor moves in the *marker*, `.photon/feed.json`. After a crash
between the two the next follower leaves the file alone, which may have been read (G4). A log takes nothing
back: the marker counts the rows that a release deletes or changes, and their lines stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.compute as pc

from photon.feed.cursor_file import CursorFile, locked
from photon.feed.marker import ASIDE, FED_FILE, MARKER
from photon.feed.sink import Fed, SinkUnavailable, in_turn, sink_errors
from photon.feed.step import FeedStopped, Step
from photon.pipeline.location import Location
from photon.process.faults import fault_point
from photon.releases.release import Release
from photon.storage.json_lines import lines
from photon.storage.store import store_of
from photon.storage.sync import UNFINISHED

CREATED_ROWS = 100_000  # up to so many go to S3 from memory, in a request that replaces no other follower's


class FedFolder:
    """A fed folder, here or on S3. Two machines that begin at the same release write the same bytes."""

    takes_changes = True  # the marker counts them, and no line changes
    is_log, is_table = True, False

    def __init__(self, folder: Location, fed: Fed) -> None:
        self._folder, self._marker = folder, CursorFile(folder / ASIDE, MARKER, fed)
        self._locks = ExitStack()
        if isinstance(folder, Path):
            self._locks.enter_context(locked(folder / ASIDE / "lock"))
            self._tidy()

    def close(self) -> None:
        """Let another follower of this machine in."""
        self._locks.close()

    def cursor(self) -> Release | None:
        return self._marker.read()

    def deliver(self, steps: Sequence[Step]) -> Release | None:
        return in_turn(self.cursor(), steps, self._take)

    def replace(self, step: Step) -> None:
        raise FeedStopped(
            f"{self._folder} is a log, of which nothing can be replaced: begin an empty folder by --to, "
            "and the next pipeline anew"
        )

    def _take(self, step: Step) -> Release | None:
        with sink_errors(f"folder {self._folder}"):
            if step.after is None:
                self._expect_no_other_file(step)
            if step.inserts:
                self._put(_name_of(step), step)
            if step.after is None and not isinstance(self._folder, Path):
                self._expect_to_begin_alone(step)
        fault_point("follow.after_rows")
        last = self._mark(step)
        fault_point("follow.after_cursor")
        return last

    def _put(self, name: str, step: Step) -> None:
        """Put the step's file, whole and on disk. A file that is there stays: it may have been read."""

        def write(file: BinaryIO) -> None:
            for page in step.pages():
                file.write(lines(page.filter(pc.equal(page["_change_type"], "insert"))))

        store = store_of(self._folder)
        if store.size_bytes(name) is None and isinstance(self._folder, Path):
            store_of(self._folder / ASIDE).put(name, write)
            (self._folder / ASIDE / name).rename(self._folder / name)
        elif store.size_bytes(name) is None and step.inserts > CREATED_ROWS:
            store.put(name, write)
        elif store.size_bytes(name) is None:
            with suppress(FileExistsError):  # a follower on another machine was first
                store.create(name, write)
        store.sync()

    def _mark(self, step: Step) -> Release | None:
        """Move the marker's cursor to the step; the cursor that the marker has then."""
        stored, version = self._marker.versioned()
        last: Release | None = None if stored is None else stored["release"]
        if last is not None and last.number >= step.release.number:
            return last  # a follower on another machine was first
        if self._marker.swap(step.release, version, **_facts(stored or _facts_before(step), step)):
            return step.release
        return self.cursor()

    def _expect_no_other_file(self, step: Step) -> None:
        """Raise FeedStopped if other files are there: no marker says what is in them."""
        there = sorted(filter(FED_FILE.fullmatch, store_of(self._folder).names()))
        if others := [name for name in there if name != _name_of(step)]:
            raise FeedStopped(
                f"{self._folder} has {others[0]} and no {ASIDE}/{MARKER}: put the marker back, "
                "or begin an empty folder by --to"
            )

    def _expect_to_begin_alone(self, step: Step) -> None:
        """Give way to a follower on another machine that begins with another release: SinkUnavailable.

        The follower that puts its file later sees the other's. Both may see it: then both begin again.
        """
        try:
            self._expect_no_other_file(step)
        except FeedStopped:
            store_of(self._folder).remove(_name_of(step))
            raise SinkUnavailable(f"folder {self._folder}: another follower begins it just now") from None

    def _tidy(self) -> None:
        """Remove files that a killed process had written and not yet renamed."""
        aside = store_of(self._folder / ASIDE)
        with sink_errors(f"folder {self._folder}"):
            aside.remove(*(name for name in aside.names() if name.endswith((".jsonl", UNFINISHED))))


def _name_of(step: Step) -> str:
    return f"{step.release.number:012d}.jsonl"


def _facts_before(step: Step) -> dict[str, Any]:
    """Begin the facts beside the marker's cursor. `begins_behind`: no row up to these places ever comes."""
    return {
        "begins_behind": {} if step.inserts else step.release.cut,
        "files": 0,
        "last_file": None,
        "taken_back": {"deletes": 0, "updates": 0, "lakes_gone": []},
    }


def _facts(before: dict[str, Any], step: Step) -> dict[str, Any]:
    """Bring the facts beside the marker's cursor forward by one step."""
    taken_back = before["taken_back"]
    return {
        "begins_behind": before["begins_behind"],
        "files": before["files"] + (step.inserts > 0),
        "last_file": _name_of(step) if step.inserts else before["last_file"],
        "taken_back": {
            "deletes": taken_back["deletes"] + step.deletes,
            "updates": taken_back["updates"] + step.updates,
            "lakes_gone": [*taken_back["lakes_gone"], *step.lakes_gone],
        },
    }
