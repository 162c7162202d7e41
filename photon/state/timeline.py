"""When a datacenter first saw each byte of its logs, and when each of its batches could be read.

Availability is measured by this timeline (docs/adr/0044); joins never read it. The state folder has it as
lines of JSON in `timeline/`, a file for each hour. A lost line makes availability look worse, never better.
So lines are not synced, and a disk that takes none stops no join.
"""

from __future__ import annotations

import json
import logging
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from photon.logs.files import TrackedFile
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew
from photon.process.operating_system import private_folder
from photon.storage.full_disks import why_not

FOLDER, SUFFIX = "timeline", ".jsonl"
FORMAT = 1
STEP_US = MICROSECONDS  # at most a line a second
MOST_SIZES_A_SECOND = 50  # on average: if thousands of files grow, lines come less often
UNKNOWN_US = 0
# Lines are kept for so long; they take at most some 100 MB a day. Verifications judge minutes by them, and so
# have to come more often.
KEEP_US = 3 * 86_400 * MICROSECONDS

Ints = npt.NDArray[np.int64]

log = logging.getLogger(__name__)


class Timeline:
    """Writes the timeline of one epoch."""

    def __init__(
        self, state: Path, epoch: str, files: Mapping[int, TrackedFile], keep_us: int = KEEP_US
    ) -> None:
        """`files`: as the state knows them. Nobody knows when their unread bytes came."""
        self._folder, self._epoch, self._keep_us = state / FOLDER, epoch, keep_us
        self._sizes = {number: tracked.offset_bytes for number, tracked in files.items()}
        self._away: set[int] = set()  # files that were away since their sizes were last written
        self._clean_us = UNKNOWN_US  # all that came until this time is in `_sizes`
        self._written_us = 0
        self._next_sizes_us = 0
        self._batches: list[tuple[int, int]] = []
        self._hour = ""
        self._is_failing = False

    def looked(self, files: Mapping[int, TrackedFile], now_us: int, seen_until_us: int) -> None:
        """Take in a look, which saw all that came to the logs until `seen_until_us`, often its own time."""
        grown: dict[int, int] = {}
        for number, tracked in files.items():
            if tracked.state != "open":
                self._away.add(number)
            elif tracked.size_bytes > self._sizes.get(number, 0):
                grown[number] = tracked.size_bytes
            else:
                self._away.discard(number)
        if not grown:
            self._clean_us = seen_until_us
        elif now_us >= self._next_sizes_us or now_us < self._written_us:  # or a clock was set back
            # Bytes that a file got while it was away may have come at any time.
            after_us = UNKNOWN_US if self._away & grown.keys() else self._clean_us
            sizes = {str(number): [self._sizes.get(number, 0), size] for number, size in grown.items()}
            if self._write(now_us, {"after": after_us, "clean": seen_until_us, "sizes": sizes}):
                self._sizes |= grown
                self._away -= grown.keys()
                self._clean_us = seen_until_us
            self._next_sizes_us = now_us + max(STEP_US, len(grown) * MICROSECONDS // MOST_SIZES_A_SECOND)

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget files whose bytes are all told."""
        for number in numbers:
            self._sizes.pop(number, None)
            self._away.discard(number)

    def committed(self, batch: int, readable_us: int) -> None:
        """Take in since when the rows of a batch can be read."""
        self._batches.append((batch, readable_us))
        if not 0 <= readable_us - self._written_us < STEP_US:
            self.flush(readable_us)

    def flush(self, now_us: int) -> None:
        """Write the batches that are only in memory."""
        if self._batches:
            self._write(now_us, {})

    def _write(self, now_us: int, line: dict[str, Any]) -> bool:
        batches, self._batches = self._batches, []
        self._written_us = now_us
        hour = datetime.fromtimestamp(now_us / MICROSECONDS, UTC).strftime("%Y%m%dT%H")
        own = {"format": FORMAT, "epoch": self._epoch, "at": now_us, "clean": self._clean_us}
        line = {**own, **line, "batches": batches}
        try:
            if hour != self._hour:
                private_folder(self._folder)
                self._remove_old(now_us)
                self._hour = hour
            with (self._folder / (hour + SUFFIX)).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        except OSError as error:
            if not self._is_failing:
                log.warning(
                    "the timeline %s takes no line, availability will look worse: %s",
                    self._folder,
                    why_not(error, self._folder),
                )
            self._is_failing = True
            return False
        self._is_failing = False
        return True

    def _remove_old(self, now_us: int) -> None:
        for path in self._folder.iterdir():
            if _end_of_hour_us(path.stem) < now_us - self._keep_us:
                path.unlink(missing_ok=True)


@dataclass
class EpochTimeline:
    """When files of one epoch grew, and when its batches could be read."""

    # Bytes [start, end) that came after a time, by file number. Starts ascend.
    starts: dict[int, Ints] = field(default_factory=dict)
    ends: dict[int, Ints] = field(default_factory=dict)
    after_us: dict[int, Ints] = field(default_factory=dict)
    batches: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # ascending
    readable_us: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    first_us: int = UNKNOWN_US
    last_us: int = UNKNOWN_US  # until this time no file held more bytes than `ends` says

    def came_after(self, files: Ints, offsets: Ints) -> Ints:
        """For each place in a log, the time after which its bytes came; `UNKNOWN_US`: not known."""
        found = np.full(len(files), UNKNOWN_US, np.int64)
        for number in np.unique(files).tolist():
            if number in self.starts:
                rows = np.flatnonzero(files == number)
                at = np.searchsorted(self.starts[number], offsets[rows], side="right") - 1
                is_known = (at >= 0) & (offsets[rows] < self.ends[number][at])
                found[rows[is_known]] = self.after_us[number][at[is_known]]
        return found

    def readable(self, batches: Ints) -> Ints:
        """When the rows of each batch could be read.

        A batch without a line gets the time of the next one, which is later; `UNKNOWN_US` if there is none.
        """
        at = np.searchsorted(self.batches, batches)
        padded = np.append(self.readable_us, UNKNOWN_US)
        return padded[at]

    def first_batch_since(self, time_us: int) -> int:
        """The batch behind the last one that could be read before this time; 0 if none could."""
        earlier = self.batches[self.readable_us < time_us]
        return int(earlier[-1]) + 1 if len(earlier) else 0

    def first_unread_us(self, number: int, offset_bytes: int) -> int:
        """The time after which the bytes of a file from this offset on came."""
        if number in self.starts and offset_bytes < self.ends[number][-1]:
            return int(self.came_after(np.array([number]), np.array([offset_bytes]))[0])
        return self.last_us


def read_timeline(state: Path, since_us: int = 0) -> dict[str, EpochTimeline]:
    """Growth and batches of each epoch, from the hour of `since_us` on. FormatTooNew, OSError."""
    # Arrays of plain numbers: a day may have hundreds of thousands of them.
    intervals: dict[tuple[str, int], array[int]] = {}
    batches: dict[str, array[int]] = {}
    timelines: dict[str, EpochTimeline] = {}
    for line in _lines(state / FOLDER, since_us):
        epoch, at_us = line["epoch"], line["at"]
        one = timelines.setdefault(epoch, EpochTimeline(first_us=at_us))
        one.last_us = max(one.last_us, line["clean"])
        after_us = min(line.get("after", UNKNOWN_US), at_us)
        for number, (start, end) in line.get("sizes", {}).items():
            intervals.setdefault((epoch, int(number)), array("q")).extend((start, end, after_us))
        for batch in line["batches"]:
            batches.setdefault(epoch, array("q")).extend(batch)
    for (epoch, number), numbers in intervals.items():
        one = timelines[epoch]
        one.starts[number], one.ends[number], one.after_us[number] = _without_overlaps(numbers)
    for epoch, numbers in batches.items():
        found = np.array(numbers, np.int64).reshape(-1, 2)
        found = found[np.lexsort((found[:, 1], found[:, 0]))]
        is_first = np.diff(found[:, 0], prepend=-1) != 0
        timelines[epoch].batches, timelines[epoch].readable_us = found[is_first].T
    return timelines


def _without_overlaps(numbers: array[int]) -> tuple[Ints, Ints, Ints]:
    """Cut intervals so that each byte is in one: that of the earliest line.

    A new process tells the unread bytes once more, and does not know when they came.
    """
    starts, ends, after_us = np.array(numbers, np.int64).reshape(-1, 3).T
    bounds = np.unique(np.concatenate((starts, ends)))
    line_of = np.full(len(bounds) - 1, -1)
    firsts, lasts = np.searchsorted(bounds, starts), np.searchsorted(bounds, ends)
    for line in reversed(range(len(starts))):
        line_of[firsts[line] : lasts[line]] = line
    is_told = line_of >= 0
    return bounds[:-1][is_told], bounds[1:][is_told], after_us[line_of[is_told]]


def _lines(folder: Path, since_us: int) -> Iterator[dict[str, Any]]:
    for path in _files_since(folder, since_us):
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # half a line, of a process that was killed
                continue
            if line["format"] > FORMAT:
                raise FormatTooNew(path, line["format"], FORMAT)
            yield line


def _files_since(folder: Path, since_us: int) -> Iterable[Path]:
    try:
        files: Collection[Path] = [path for path in folder.iterdir() if path.suffix == SUFFIX]
    except FileNotFoundError:
        return []
    return sorted(path for path in files if _end_of_hour_us(path.stem) > since_us)


def _end_of_hour_us(name: str) -> int:
    try:
        began = datetime.strptime(name, "%Y%m%dT%H").replace(tzinfo=UTC)
    except ValueError:  # no file of ours
        return 2**62
    return (int(began.timestamp()) + 3600) * MICROSECONDS
