"""Look at the index of primary events once, and write rows of what no row names; nothing is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from photon.event_store.logs import Index, open_segments, store_for_a_look
from photon.event_store.segments import SegmentDamaged, SegmentInfo, check_segment
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.pipeline.location import Location
from photon.pipeline.sections import PrimaryLog
from photon.releases.reading import OpenRelease
from photon.state.unmatched import UnmatchedProgress
from photon.storage.columns import UNMATCHED_COLUMNS
from photon.storage.output_files import OutputFile, write_rows
from photon.storage.tokens import PlanKey
from photon.unmatched.candidates import Named, UnmatchedCandidates, by_hour, in_ranges
from photon.unmatched.deciding import MOST_CANDIDATES, UnmatchedSight, capped, window_of
from photon.unmatched.found import HeldBack
from photon.unmatched.lakes import Lakes, named_in
from photon.unmatched.lines import LineReading, Trouble
from photon.unmatched.reasons import reasons_of

TRIES = 3  # at a view: index segments may be merged, and logs rotated, while they are read


@dataclass(frozen=True)
class OwnersPrimaries:
    """The owner's primary logs and their index at one moment. `under_way`: what may not be indexed yet."""

    folder: Location
    files: Mapping[int, TrackedFile]
    segments: tuple[SegmentInfo, ...]
    under_way: tuple[ByteRange, ...]
    watermark_us: int | None

    @property
    def open_files(self) -> dict[int, LogFile]:
        """The files whose lines can be read."""
        return {number: one.file for number, one in self.files.items() if one.state == "open"}


@dataclass
class LookedAt:
    """The result of one look: rows in `files`, which are not committed yet, and numbers of them.

    All that is due before `up_to_us` was looked at. `is_cut`: more is due, and left to the next run.
    """

    view: OwnersPrimaries
    up_to_us: int
    is_cut: bool
    candidates: int = 0
    files: list[OutputFile] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    late: int = 0
    conflicting: int = 0
    lines: Trouble = field(default_factory=Trouble)


@dataclass(frozen=True)
class Looking:
    """How one run looks at the index. `before`: what the run before has left, `plan`: its own name.

    `at_all`: it looks at what earlier ones have decided, too. `writes`: rows are stored, not only counted.
    """

    logs: Location
    log: PrimaryLog
    columns: tuple[str, ...]
    lakes: Lakes
    opened: OpenRelease
    sight: UnmatchedSight
    before: UnmatchedProgress | None
    since_us: int | None
    at_all: bool
    plan: PlanKey
    writes: bool

    def look(self, see: Callable[[], OwnersPrimaries], view: OwnersPrimaries, until_us: int) -> LookedAt:
        """Look at all that is due before a time, or at as much as one run takes. HeldBack, LakeUnavailable.

        What can't be read is looked for in a new view: logs are rotated, and segments merged, at any moment.
        """
        for tries_left in reversed(range(TRIES)):
            try:
                found = self._look_once(view, until_us)
            except (SegmentDamaged, FileNotFoundError) as error:
                if not tries_left:
                    raise HeldBack(
                        f"the index of primaries can't be read ({error}): a join mends it"
                    ) from error
                view = see()
                continue
            lost = found.lines.files
            newer = see() if lost and tries_left else view
            if all(newer.open_files.get(number) == file for number, file in lost.items()):
                break
            view = newer
        return found

    def _look_once(self, view: OwnersPrimaries, until_us: int) -> LookedAt:
        for each in view.segments if self.at_all else ():
            check_segment(view.folder, each)
        names = tuple(each.name for each in view.segments)
        segments = [one.places for one in open_segments(view.folder, names)]
        window = window_of(self.sight, view.files, until_us, self.before, self.since_us, self.at_all)
        before_us = None if self.before is None else self.before.up_to_us
        up_to_us = capped(by_hour(segments, window), before_us, until_us, MOST_CANDIDATES)
        window = replace(window, up_to_us=up_to_us)
        found = LookedAt(view, up_to_us, up_to_us < until_us)
        table = self.lakes.own
        schema = table.schema() if table.exists() else UNMATCHED_COLUMNS
        reading = LineReading(self.log, self.columns, schema)
        index = Index(view.folder, names)
        with store_for_a_look(self.logs, self.log, index, view.open_files.values()) as store:
            for candidates in in_ranges(segments, window):
                found.candidates += len(candidates)
                known = self._known(candidates)
                for rows in reading.rows(store, known, window, found.lines):
                    self._add(rows, found)
        return found

    def _known(self, candidates: UnmatchedCandidates) -> Named:
        known = Named(candidates)
        if len(candidates):
            # A row names the copy of the earliest time, unless that one came late.
            from_us = None if self.at_all else int(candidates.times_us.min())
            for page in named_in(self.opened, from_us):
                known.take(page)
            for page in self.lakes.written():
                known.take(page)
        return known

    def _add(self, rows: pa.Table, found: LookedAt) -> None:
        if not rows.num_rows:
            return
        rows = rows.append_column("reason", reasons_of(rows["primary_id"], self.lakes.places.values()))
        found.reasons.update(rows["reason"].to_pylist())
        found.conflicting += sum(rows["conflicting"].to_pylist())
        if self.before is not None:
            times_us = rows["primary_time"].cast(pa.int64()).to_numpy()
            found.late += int(np.sum(times_us < self.before.up_to_us))
        if not self.writes:
            return
        plan = self.plan
        stamp = (plan.datacenter, plan.epoch, plan.batch, plan.plan_id)
        for name, value in zip(("_datacenter", "_epoch", "_batch", "_plan"), stamp, strict=True):
            kind = UNMATCHED_COLUMNS.field(name).type
            rows = rows.append_column(name, pa.array([value] * rows.num_rows, kind))
        more = [name for name in rows.column_names if name not in UNMATCHED_COLUMNS.names]
        rows = rows.select([*UNMATCHED_COLUMNS.names, *more])
        lake = self.lakes.places[self.lakes.owner]
        found.files.append(write_rows(lake, "unmatched", plan.batch, rows))
