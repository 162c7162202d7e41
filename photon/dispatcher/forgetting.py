"""Forget log files that are gone, read, and named by nothing (protocol D13)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from photon.dispatcher.closing_batches import BatchCloses
from photon.dispatcher.log_reader import LogReader
from photon.dispatcher.recovery.orders import waiting_orders
from photon.logs.files import TrackedFile
from photon.logs.forgotten_files import FORGET_FILES_AFTER_DAYS, forgettable, with_strangers_of
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS
from photon.process.readable import counted
from photon.state.dispatcher_state import DispatcherState
from photon.state.losses import acknowledged
from photon.storage.delta import LakeUnavailable
from photon.storage.verified_files import read_verified_offsets

EVERY_SECONDS = 3_600

log = logging.getLogger(__name__)


@dataclass
class Forgetting:
    """Forgets files of one datacenter, once an hour. Used by the dispatcher's thread alone."""

    pipeline: Pipeline
    datacenter: str
    state: DispatcherState
    _done_us: int | None = field(default=None, init=False)

    def tend(self, reader: LogReader, closes: BatchCloses, now_us: int) -> Collection[int]:
        """Forget what may be, behind a look and between two plans, and return the numbers.

        Nothing while work comes again or an order waits: they name files.
        WaitingDamaged, StateUnavailable, OSError.
        """
        is_done = self._done_us is not None and 0 <= now_us - self._done_us < EVERY_SECONDS * MICROSECONDS
        if is_done or not self._is_at_rest():
            return ()
        self._done_us = now_us
        since_us = self._note_gone(reader.files, now_us)
        known_losses = acknowledged(self.state.folder, self.state.epoch).may_be_lost
        found = forgettable(reader.files, since_us, now_us, reader.folders(), known_losses)
        named = self.state.named_files() | closes.named_files() if found else set()
        found = self._verified([one for one in found if one.file.number not in named])
        if found:
            self._forget(reader, found)
        return {one.file.number for one in found}

    def _is_at_rest(self) -> bool:
        state = self.state
        has_work = state.has_open_plan or state.count_requeued() or state.index_lost
        return not has_work and not waiting_orders(state.folder)

    def _note_gone(self, files: Mapping[int, TrackedFile], now_us: int) -> dict[int, int]:
        """Note since when files are gone; what a clock that was ahead has noted counts from now."""
        noted = self.state.gone_since_us()
        gone = {number for number, one in files.items() if one.state != "open"}
        new = {number: now_us for number in gone if noted.get(number, now_us + 1) > now_us}
        back = noted.keys() - gone
        if new or back:
            self.state.note_gone(new, back)
        return noted | new

    def _verified(self, found: list[TrackedFile]) -> list[TrackedFile]:
        """Those of which gc awaits nothing: while it drops ids, it goes by what was verified (C2)."""
        if self.pipeline.registry.keep_days is None or all(one.file.side == "primary" for one in found):
            return found
        try:
            verified = read_verified_offsets(self.pipeline, self.datacenter, self.state.epoch or "")
        except LakeUnavailable as error:
            log.debug("log files are forgotten later: %s", error)
            return []
        return [
            one
            for one in found
            if one.file.side == "primary" or one.offset_bytes <= verified.get(one.file.number, -1)
        ]

    def _forget(self, reader: LogReader, found: list[TrackedFile]) -> None:
        numbers = {one.file.number for one in found}
        left = {number: one for number, one in reader.files.items() if number not in numbers}
        changed = with_strangers_of(found, left)
        counts = Counter(str(one.file.side) for one in found)
        if self.pipeline.registry.keep_days is None:
            counts["unverified"] = counts["foreign"]
        self.state.forget_files(numbers, changed.values(), counts)
        reader.forget(numbers, changed)
        days = counted(FORGET_FILES_AFTER_DAYS, "day")
        log.info("%s forgotten: read, and gone for %s", counted(len(found), "log file", "are"), days)
