"""The index of one datacenter's primary logs: which segments there are, and their upkeep.

Tasks write segments (`photon.event_store`). The state lists those that count (protocol D7).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress

from photon.dispatcher.completion import IndexLost
from photon.event_store import log_files, segments
from photon.event_store.compaction import CompactedSegment, SegmentCompaction, compact, next_compaction
from photon.event_store.interface import IndexSnapshot, index_folder
from photon.event_store.log_files import write_log_files
from photon.event_store.segments import SegmentDamaged, SegmentInfo, check_segment, file_name
from photon.logs.files import LogFile, TrackedFile
from photon.process.faults import fault_point
from photon.state.database import StateUnavailable
from photon.state.dispatcher_state import DispatcherState
from photon.storage import local_copies
from photon.storage.full_disks import why_not
from photon.storage.store import store_of
from photon.storage.sync import UNFINISHED
from photon.storage.tokens import PlanKey, new_id

log = logging.getLogger(__name__)


class PrimaryIndex:
    """The segments and the log file map of one datacenter. Used by the dispatcher's thread alone."""

    def __init__(self, state: DispatcherState, background: Executor) -> None:
        """`background` merges segments."""
        self.work = state.work
        self.folder = index_folder(self.work)
        self._store = store_of(self.folder)
        self._state = state
        self._background = background
        self._segments: list[SegmentInfo] = []
        self._files: dict[int, LogFile] = {}
        self._log_files, self._is_written = new_id(), False  # the map on disk, and whether it has `_files`
        self._run = new_id()
        self._merge: tuple[SegmentCompaction, Future[CompactedSegment]] | None = None

    # -- what is listed

    def begin(self, files: Iterable[TrackedFile]) -> None:
        """Begin with what is stored: the segments of the state, and these primary files."""
        self._segments = list(self._state.segments())
        self._files, self._is_written = {}, False
        self.follow(files)

    def follow(self, changed: Iterable[TrackedFile]) -> None:
        """Take note of primary files that are new, have moved or are gone."""
        for tracked in changed:
            number = tracked.file.number
            listed = tracked.file if tracked.state == "open" else None
            if self._files.get(number) != listed:
                self._is_written = False
                if listed is None:
                    del self._files[number]
                else:
                    self._files[number] = listed

    def new_segment(self, plan: PlanKey, task: int) -> str:
        """The name of the segment that a task of a plan makes, always the same in this process.

        In another process it is another one: it may split the plan otherwise.
        """
        return f"{plan.plan_id}-{self._run}-{task}"

    def make_anew(self, moved: Iterable[TrackedFile], segments: Iterable[str]) -> None:
        """Have a batch that found files gone index them again where they are, under other segment names.

        A task keeps the segments that it has opened, by their names.
        """
        self.follow(tracked for tracked in moved if tracked.file.side == "primary")
        self.drop(segments)
        self._run = new_id()

    def snapshot(self, of_this_batch: Sequence[str] = ()) -> IndexSnapshot:
        """The index as a batch's tasks see it, with the segments that the batch makes. StateUnavailable."""
        if not self._is_written:
            name = new_id()
            try:
                write_log_files(self.folder, name, self._files.values())
            except OSError as error:
                why = why_not(error, self.folder)
                raise StateUnavailable(f"cannot write to {self.folder}: {why}") from error
            self._remove(self._log_files + log_files.SUFFIX)
            self._log_files, self._is_written = name, True
        return IndexSnapshot(
            self.folder, (*(each.name for each in self._segments), *of_this_batch), self._log_files
        )

    def added(self, new: Iterable[SegmentInfo]) -> None:
        """Take note of segments that the state lists from now on."""
        self._segments += new

    def drop(self, names: Iterable[str]) -> None:
        """Remove segments that were made and will not be listed."""
        for name in names:
            self._remove(file_name(name))

    # -- upkeep

    def tend(self) -> None:
        """Between batches: take over what was merged, begin the next merge. StateUnavailable."""
        if self._merge is not None and self._merge[1].done():
            self.finish_merge()
        if self._merge is None and (compaction := next_compaction(self._segments, self._files)) is not None:
            self._merge = compaction, self._background.submit(compact, self.folder, compaction, new_id())

    def finish_merge(self) -> None:
        """Take over the merge that is under way, if any, and wait for it. StateUnavailable."""
        if self._merge is None:
            return
        compaction, future = self._merge
        self._merge = None
        try:
            self._replace(compaction, future.result())
        except (SegmentDamaged, OSError) as error:  # the next lookup tells of damage
            log.warning("index segments could not be merged: %s", error)

    def _replace(self, compaction: SegmentCompaction, merged: CompactedSegment) -> None:
        new = [merged.segment] if merged.segment is not None else []
        fault_point("index.after_merge")
        self._state.replace_segments(
            [each.name for each in compaction.sources], new, merged.newly_reused(compaction)
        )
        fault_point("index.after_replace")
        self._segments = [each for each in self._segments if each not in compaction.sources] + new
        self.drop(source.name for source in compaction.sources)

    def check(self) -> None:
        """Look at every segment. IndexLost, StateUnavailable."""
        try:
            for each in self._segments:
                check_segment(self.folder, each)
        except SegmentDamaged as error:
            raise IndexLost(str(error)) from None
        except OSError as error:
            raise StateUnavailable(f"cannot read the index in {self.folder}: {error}") from error

    def start_again(self, new: Sequence[SegmentInfo]) -> None:
        """List `new` in place of all segments that there were. StateUnavailable."""
        self._merge = None
        self._state.replace_segments([each.name for each in self._segments], new)
        self._segments = list(new)
        self.clean()

    def clean(self) -> None:
        """Remove files that nobody refers to: of runs that ended early, and of merges."""
        kept = {file_name(each.name) for each in self._segments} | {self._log_files + log_files.SUFFIX}
        with suppress(OSError):
            for name in set(self._store.names()) - kept:
                if name.endswith((segments.SUFFIX, log_files.SUFFIX, UNFINISHED)):
                    self._remove(name)

    def _remove(self, file: str) -> None:
        local_copies.forget(self.folder, file)
        with suppress(OSError):  # a file that stays goes at the next start
            self._store.remove(file)
