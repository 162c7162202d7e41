"""Up to when primaries are due, which of them a run looks at, and what it leaves to the next one. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from photon.event_store.segments import Places
from photon.logs.files import ByteRange, TrackedFile
from photon.logs.unread_files import UnreadFile, why_held
from photon.process.clock import CLOCK_TOLERANCE_US, MICROSECONDS, in_utc
from photon.releases.release import Release
from photon.state.completeness.estimate import Completeness
from photon.state.unmatched import UnmatchedProgress

HOUR_US = 3_600 * MICROSECONDS
FULL_PASS_EVERY_US = 24 * HOUR_US  # what a run passed over, for whatever reason, comes within a day
MOST_CANDIDATES = 2**24  # of one run: so much work is lost with it
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class UnmatchedSight:
    """All that is known as a run begins: what the owner says of its logs, and the release it goes by.

    `has_all_rows`: the owner has no row that is not in the release.
    """

    owner: str
    epoch: int
    now_us: int
    after_us: int
    release: Release
    said: Completeness | None
    watermark_us: int | None
    has_all_rows: bool = False
    unread: tuple[UnreadFile, ...] = ()  # what of the owner's logs is there and not read, by an own look too

    @property
    def is_final(self) -> bool:
        """Whether somebody has called the logs complete, and nothing of them is awaited."""
        return self.said is not None and self.said.is_final and self.has_all_rows


@dataclass(frozen=True)
class Due:
    """Before which hour primaries are due (None: none is), and what keeps it from being later."""

    up_to_us: int | None
    because: str


def due(sight: UnmatchedSight) -> Due:
    """The last full hour behind which every foreign event that may name its primaries has come (U3).

    The owner's own statement counts, of its current epoch: it alone tells how far its logs are read.
    """
    release, said = sight.release, sight.said
    if sight.unread:  # what the owner said before may be older than they are
        return Due(None, why_held(sight.unread))
    if said is not None and said.unread:
        return Due(None, f"files are not read, such as {said.unread_named[0]}")
    part = release.parts.get(sight.owner)
    if said is None or said.epoch != str(sight.epoch) or part is None or part.place.epoch != sight.epoch:
        silent = f"datacenter {sight.owner} has not said in its epoch {sight.epoch} up to when it is complete"
        return Due(None, f"{silent}: it has to join")
    bounds: list[tuple[int | None, str]] = [(sight.now_us, "its clock says")]
    if not sight.is_final:
        statement = None if part.statement is None else part.statement.complete_up_to_us
        bounds += [
            (release.made_us, f"release {release.number} was made at"),
            (said.complete_up_to_us, "its foreign logs are complete up to"),
            (statement, f"release {release.number} is complete up to"),
            (sight.watermark_us, _PRIMARIES_READ),
        ]
    if release.set_back is not None and rows_left(release, sight.owner):
        why = f"rows have left ({release.set_back.why}), so it is complete up to"
        bounds.append((release.set_back.to_us, why))
    for at_us, because in bounds:
        if at_us is None:
            return Due(None, _SILENT if because == _PRIMARIES_READ else f"{because} no event time yet")
    at_us, because = min((at_us, because) for at_us, because in bounds if at_us is not None)
    up_to_us = (at_us - sight.after_us) // HOUR_US * HOUR_US
    return Due(up_to_us, f"{because} {in_utc(at_us, 'seconds')}")


_PRIMARIES_READ = "its primary logs are read up to"
# A log that does not grow says nothing of how far it goes (C6).
_SILENT = (
    "none of its primary logs has grown since it began to join, so nobody knows up to when they go on: "
    "log something, or call them complete by a join with --complete"
)


def rows_left(release: Release, owner: str) -> bool:
    """Whether rows are gone with which the owner's primaries may have been joined (R4)."""
    return release.set_back is not None and owner in release.set_back.awaits


def why_all(
    before: UnmatchedProgress | None,
    epoch: int,
    version: int,
    now_us: int,
    rows_left_with: int,
    anew: bool,
) -> str:
    """Why a run looks at all of the index, and not only at what came since `before`; empty: it need not (U4).

    `version`: the last run that the table has of this epoch. `rows_left_with`: the last release with which
    joined rows may have left.
    """
    if anew:
        return "by order"
    if before is None:
        return "no earlier run has left how far it came"
    if before.epoch != epoch:
        return f"epoch {epoch} has begun since"
    if before.run != version:
        return f"the table has run {version}, and run {before.run} has left how far it came"
    if not 0 <= now_us - before.full_pass_us < FULL_PASS_EVERY_US:
        return "the last look at all was a day ago"
    if before.release < rows_left_with:
        return f"rows have left with release {rows_left_with}"
    return ""


@dataclass(frozen=True)
class Selection:
    """Which events of the index are candidates.

    `from_us`, `positions`: those of earlier times and places were looked at; None: none was. Events before
    `since_us` are in nobody's scope. `quiet`: files that have not grown for so long that their events are due
    whatever time they have, if that is later than `latest_us`.
    """

    up_to_us: int
    from_us: int | None
    since_us: int | None
    positions: Mapping[int, int]
    files: frozenset[int]
    quiet: frozenset[int]
    latest_us: int

    def among(self, places: Places) -> Mask:
        """Which of these events are candidates."""
        return self.are_candidates(places.files, places.times_us, places.offsets_bytes)

    def are_candidates(
        self, files: npt.NDArray[np.uint32], times_us: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
    ) -> Mask:
        """Which events of these files, times and places are due, and no earlier run has looked at."""
        found = self.are_due(files, times_us)
        if self.from_us is not None:
            found &= (offsets >= _of_files(self.positions, files)) | (times_us >= self.from_us)
        return found

    def are_due(self, files: npt.NDArray[np.uint32], times_us: npt.NDArray[np.int64]) -> Mask:
        """Which events of these files and times are due, and in scope."""
        is_wild = times_us > self.latest_us
        if is_wild.any():
            is_wild &= _of_files(dict.fromkeys(self.quiet, 1), files) > 0
        found = ((times_us < self.up_to_us) | is_wild) & (_of_files(dict.fromkeys(self.files, 1), files) > 0)
        if self.since_us is not None:
            found &= times_us >= self.since_us
        return np.asarray(found, bool)


def _of_files(values: Mapping[int, int], files: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """The value of each event's file; 0 where it has none."""
    end = max(values, default=0) + 1
    by_number = np.zeros(end + 1, np.int64)
    by_number[list(values)] = list(values.values())
    return by_number[np.minimum(files, end)]


def window_of(
    sight: UnmatchedSight,
    files: Mapping[int, TrackedFile],
    up_to_us: int,
    before: UnmatchedProgress | None,
    since_us: int | None,
    looks_at_all: bool,
) -> Selection:
    """The candidates of a run. `before`: what the last run has left."""
    there = {number: one for number, one in files.items() if one.state == "open"}
    quiet_us = min(sight.now_us, sight.release.made_us) - sight.after_us
    is_all = looks_at_all or before is None
    return Selection(
        up_to_us,
        None if is_all or before is None else before.up_to_us,
        since_us,
        {} if before is None else before.positions,
        frozenset(there),
        frozenset(number for number, one in there.items() if one.grown_us < quiet_us),
        sight.now_us + CLOCK_TOLERANCE_US,
    )


def up_to(due_us: int, before: UnmatchedProgress | None, epoch: int, have_left: bool) -> int:
    """Up to which time a run looks: never less than an earlier one, unless its epoch or its matches went."""
    if before is None or before.epoch != epoch or have_left:
        return due_us
    return max(due_us, before.up_to_us)


def capped(candidates: Mapping[int, int], from_us: int | None, up_to_us: int, most: int) -> int:
    """The hour up to which there are not many more candidates than `most`, by how many each hour has.

    What lies before `from_us` is looked at in any case. The first hour is taken whole, so each run comes on.
    """
    first = -(2**62) if from_us is None else from_us // HOUR_US
    count = 0
    for hour in sorted(hour for hour in candidates if first <= hour < up_to_us // HOUR_US):
        if count and count + candidates[hour] > most:
            return hour * HOUR_US
        count += candidates[hour]
    return up_to_us


def positions_of(
    files: Mapping[int, TrackedFile], under_way: Sequence[ByteRange], unreadable: Collection[int]
) -> dict[int, int]:
    """Up to where the index has all events of each primary file, and they could be read (U4).

    `under_way`: ranges of plans that are open, or taken up again: nobody knows whether they are indexed.
    """
    found = {
        number: one.offset_bytes
        for number, one in files.items()
        if one.state == "open" and number not in unreadable
    }
    for each in under_way:
        if each.file_number in found:
            found[each.file_number] = min(found[each.file_number], each.start_bytes)
    return found


def read_as_of(sight: UnmatchedSight, files: Mapping[int, TrackedFile], positions: Mapping[int, int]) -> int:
    """The time by which all that had come to the owner's primary logs was looked at (U8).

    By its last statement it had read what had come, but for files that `positions` do not cover.
    """
    said_us = 0 if sight.said is None else sight.said.said_us
    uncovered = [
        one.grown_us
        for number, one in files.items()
        if one.state == "open" and positions.get(number, 0) < one.size_bytes
    ]
    return min([sight.now_us if sight.is_final else said_us, *uncovered])


def next_run(version: int, epoch: int, release: Release, owner: str) -> int:
    """The number of a run: above all that the table has of its epoch, and all that the release says (U2)."""
    part = release.parts.get(owner)
    is_same = part is not None and part.place.epoch == epoch
    return max(version, part.side_batches.get("unmatched", 0) if part is not None and is_same else 0) + 1
