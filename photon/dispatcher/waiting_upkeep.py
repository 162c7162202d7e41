"""Upkeep of waiting segments between batches: merge them, and remove the files of others (protocol A22)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial

from photon.process.clock import MICROSECONDS
from photon.process.faults import fault_point
from photon.state.database import StateUnavailable
from photon.state.dispatcher_state import DispatcherState
from photon.state.waiting.merging import Merged, merge, next_merge
from photon.state.waiting.segments import WaitingDamaged, WaitingIndex, remove_file
from photon.storage.full_disks import why_not
from photon.storage.store import store_of
from photon.storage.tokens import new_id

# A file that no segment has any more goes one to two times this later: somebody may look at the state.
SWEEP_EVERY_SECONDS = 300


class WaitingUpkeep:
    """Keeps the waiting segments of one datacenter few. Used by the dispatcher's thread alone."""

    def __init__(self, state: DispatcherState, background: Executor) -> None:
        """`background` merges segments."""
        self._state = state
        self._background = background
        self._merge: tuple[Sequence[str], Future[Merged]] | None = None
        self._swept_us = 0
        self._unlisted: set[str] = set()  # files that had no segment at the last sweep

    def begin(self) -> None:
        """Begin with what is stored: check it, remove other files. WaitingDamaged, StateUnavailable."""
        self._merge = None
        self._state.waiting.forget()
        try:
            self._unlisted = self._find_unlisted()
            self._remove_unlisted()
        except OSError as error:
            raise StateUnavailable(why_not(error, self._state.waiting.folder)) from error
        damaged = []
        for name in sorted(self._state.waiting.names):
            try:
                WaitingIndex(self._state.waiting.folder, name).check()
            except WaitingDamaged:
                damaged.append(name)
            except OSError as error:
                raise StateUnavailable(why_not(error, self._state.waiting.folder)) from error
        if damaged:
            raise WaitingDamaged(damaged)
        self._state.recount_waiting()

    def tend(self, now_us: int) -> None:
        """Take over what was merged, begin the next merge. WaitingDamaged, StateUnavailable."""
        if self._merge is not None and self._merge[1].done():
            self.finish_merge()
        if self._merge is not None:
            return
        if now_us - self._swept_us >= SWEEP_EVERY_SECONDS * MICROSECONDS:
            self._swept_us = now_us
            with suppress(OSError):  # a later sweep finds them too
                self._remove_unlisted()
        if names := next_merge(self._state.waiting.sizes()):
            sources = [(name, self._state.waiting.rows_left(name)) for name in names]
            work = partial(merge, self._state.waiting.folder, sources, new_id())
            self._merge = names, self._background.submit(work)

    def finish_merge(self) -> None:
        """Take over the merge that is under way, if any: wait for it. WaitingDamaged, StateUnavailable."""
        if self._merge is None:
            return
        names, future = self._merge
        self._merge = None
        with suppress(OSError):  # a full disk: what was written of it goes with the next sweep
            merged = future.result()
            if not self._state.plans_refer_to(names) and self._state.waiting.names.issuperset(names):
                fault_point("waiting.after_merge")
                self._state.replace_waiting(merged)
                fault_point("waiting.after_replace")

    def _find_unlisted(self) -> set[str]:
        folder, names = self._state.waiting.folder, self._state.waiting.names
        return {name for name in store_of(folder).names() if name.partition(".")[0] not in names}

    def _remove_unlisted(self) -> None:
        """Remove what two sweeps in a row have found."""
        folder, before, self._unlisted = self._state.waiting.folder, self._unlisted, self._find_unlisted()
        for name in before & self._unlisted:
            with suppress(OSError):  # a file that stays goes with a later sweep
                remove_file(folder, name)
