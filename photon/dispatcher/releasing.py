"""Make releases beside the batches of one datacenter, and keep copies of all in its lake (protocol R).

A thread of its own reads lakes, counts rows and stores copies, whatever hangs there. The dispatcher's thread
tells it what is closed and stated, and appends what came of it to a ledger between two batches.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from photon.dispatcher.closing_batches import BatchCloses
from photon.dispatcher.recovery.distant_lakes import DistantLakes
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, microseconds
from photon.process.faults import fault_point
from photon.registry.errors import RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.register import Register
from photon.releases import copies
from photon.releases.at_once import newest_copies
from photon.releases.making import Counted, ReleaseSight, Said, closed_places, next_release
from photon.releases.numbering import lacked, last_release, offer, take_new_releases
from photon.releases.parts import LakeCounter, count_lakes
from photon.releases.release import NOT_VERIFIED, Part, Place, Release, Statement
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import last_said
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import refuse_moved_lake

log = logging.getLogger(__name__)

SAID_KEPT = 16  # statements that wait for their batch to be closed: one comes each 10 s
# So many releases wait for the own lake to take them, the newest: a day of them. Other lakes have the others.
MOST_COPIED = 2_880
AGAIN_US = 60 * MICROSECONDS  # after registry or lake did not answer
TIDIED_US = 3_600 * MICROSECONDS
END_SECONDS = 10.0  # a join that ends waits so long for its last release
LAST_TRIES = 3  # at the end: others may make releases at the same time


def refuse_lacking_releases(pipeline: Pipeline, registry: IdRegistry, lakes: DistantLakes) -> None:
    """Refuse a registry that lacks a release of which a lake has a copy (L10, R5). RegistryMismatch.

    RegistryUnavailable. Lakes that can't be read are passed over.
    """
    refuse_lacking(registry, newest_copies(pipeline, partial(latest_in, pipeline, lakes)))


def latest_in(pipeline: Pipeline, lakes: DistantLakes, datacenter: str) -> Release | None:
    """The newest copy in a datacenter's lake, which may hang. LakeUnavailable, OSError."""
    return lakes.ask(datacenter, partial(copies.latest, pipeline.datacenters[datacenter].lake))


def refuse_lacking(registry: IdRegistry, newest: Mapping[str, Release]) -> None:
    """Refuse a registry that lacks one of these copies. RegistryMismatch, RegistryUnavailable."""
    lacking = lacked(registry, newest.values())
    if lacking is not None:
        name = next(name for name, one in newest.items() if one is lacking)
        raise registry.view.mismatch(f"it lacks release {lacking.number}, which the lake of {name} has")


@dataclass(frozen=True, slots=True)
class LakeFindings:
    """The findings of a look at all lakes: rows for the next release, and the newest copies if it is due."""

    sight: ReleaseSight
    newest: Mapping[str, Release]


@dataclass
class Releasing:
    """The releases of one datacenter's process. Used by the dispatcher's thread; `worker` has one thread."""

    pipeline: Pipeline
    datacenter: str
    registry: IdRegistry
    closes: BatchCloses
    clock: Clock
    worker: Executor
    lakes: DistantLakes
    _said: deque[Said] = field(default_factory=lambda: deque(maxlen=SAID_KEPT))
    _to_copy: list[Release] = field(default_factory=list)
    _copying: list[Release] = field(default_factory=list)
    _job: Future[LakeFindings | None] | None = None  # counting, or storing copies

    def __post_init__(self) -> None:
        self._lake = self.pipeline.datacenters[self.datacenter].lake
        self._every_us = microseconds(self.pipeline.releases.every)
        self._counters = {
            name: LakeCounter(name, place.lake) for name, place in self.pipeline.datacenters.items()
        }
        self._last = last_release(self.registry.view)
        now_us = self.clock.elapsed_us()
        # Nobody knows how old the last one is: the clock of its maker need not be right.
        self._heard_us = self._tried_us = now_us if self._last is not None else now_us - self._every_us
        self._again_us = now_us
        self._problem = ""  # was told already
        self._tidied_us: int | None = None
        self._verified = NOT_VERIFIED
        take_new_releases(self.registry.view)  # other lakes have what was missed
        self._to_copy = [] if self._last is None else [self._last]
        if (said := last_said(self._lake)) is not None:
            self.said(said)

    def said(self, said: Completeness) -> None:
        """Take in what was stated of the rows' completeness."""
        seen = {name: Place(*place) for name, place in said.seen.items()}
        statement = Statement(said.complete_up_to_us, said.mostly_up_to_us)
        place = Place(int(said.epoch), said.batch)
        self._said.append(Said(statement, place, seen, said.unread))

    def tend(self) -> None:
        """Go on with what is under way; begin a release when it is due. RegistryMismatch, FormatTooNew."""
        self._note_new()
        if self._job is not None:
            if not self._job.done():
                return
            self._finish_job(self._job)
        if self.clock.elapsed_us() < self._again_us:
            return
        if self._to_copy:
            self._begin_copying()
        elif self._is_due():
            self._begin_counting()
        if self._job is not None and self._job.done():
            self._finish_job(self._job)

    def finish(self) -> None:
        """Make a last release, if something is new, and store copies; not for long."""
        deadline_us = self.clock.elapsed_us() + round(END_SECONDS * MICROSECONDS)
        self._note_new()
        self._await_job(deadline_us)
        for _ in range(LAST_TRIES if self.closes.due is None else 0):  # else the registry does not answer
            before = self._last
            if self._job is None:
                self._begin_counting()
            self._await_job(deadline_us)
            if self._last is before:
                break
        if self._job is None:
            self._begin_copying()
            self._await_job(deadline_us)

    def _await_job(self, deadline_us: int) -> None:
        left_seconds = (deadline_us - self.clock.elapsed_us()) / MICROSECONDS
        if self._job is None:
            return
        if wait([self._job], max(0.0, left_seconds)).done:
            self._finish_job(self._job)
        else:
            log.warning("the last release comes with the next join: a lake does not answer in time")

    def _is_due(self) -> bool:
        now_us = self.clock.elapsed_us()
        return min(now_us - self._heard_us, now_us - self._tried_us) >= self._every_us

    def _note_new(self) -> None:
        for release in take_new_releases(self.registry.view):
            self._to_copy.append(release)
            self._last, self._heard_us = release, self.clock.elapsed_us()

    # -- on the dispatcher's thread

    def _begin_counting(self) -> None:
        view, register, epoch = self.registry.view, self.registry.register, self.closes.epoch
        self._tried_us = self.clock.elapsed_us()
        if view.is_over(epoch) or self.datacenter in register.lakes_gone:
            return
        closed = closed_places(view)
        own = Place(epoch.number, self.closes.closed_through)
        closed[self.datacenter] = max(own, closed.get(self.datacenter, own))
        last, said = self._last, tuple(self._said)
        self._job = self.worker.submit(lambda: self._look(last, closed, said, register))

    def _begin_copying(self) -> None:
        self._copying, self._to_copy = self._to_copy, []
        if some := tuple(self._copying):
            self._job = self.worker.submit(lambda: self._copy(some))

    def _finish_job(self, job: Future[LakeFindings | None]) -> None:
        self._job = None
        try:
            looked = job.result()
            if looked is not None:
                refuse_lacking(self.registry, looked.newest)
                offer(self.registry, lambda last: self._made(looked.sight, last))
                self._note_new()
            self._problem = ""
        except copies.OtherRelease as error:
            raise self.registry.view.mismatch(str(error)) from None
        except (RegistryUnavailable, LakeUnavailable, OSError) as error:
            if str(error) != self._problem:
                log.warning("the next release is made later: %s", error)
            self._problem = str(error)
            self._to_copy = [*self._copying, *self._to_copy][-MOST_COPIED:]
            self._again_us = self.clock.elapsed_us() + AGAIN_US
        self._copying = []

    def _made(self, sight: ReleaseSight, last: Release | None) -> Release | None:
        """The next release, unless another one came before it: then all is counted anew."""
        return next_release(sight, self.clock.now_us()) if last == sight.last else None

    # -- on the thread beside

    def _look(
        self, last: Release | None, closed: Mapping[str, Place], said: tuple[Said, ...], register: Register
    ) -> LakeFindings:
        """Count the lakes that can be read. OSError.

        Copies are asked for before a release is offered (R5): where nothing is new, none is.
        """
        counted = count_lakes(self.pipeline, self._counters, last, closed, register, self._count)
        if last is not None and last.set_back is not None:
            self._verified = copies.verified(self._lake)
        sight = ReleaseSight(
            self.datacenter, last, counted, said, frozenset(register.lakes_gone), self._verified
        )
        is_new = next_release(sight, self.clock.now_us()) is not None
        return LakeFindings(sight, newest_copies(self.pipeline, self._latest_in) if is_new else {})

    def _latest_in(self, datacenter: str) -> Release | None:
        """The newest copy in a lake; None also if that can't be read, as its count says so."""
        with suppress(LakeUnavailable, OSError):
            return latest_in(self.pipeline, self.lakes, datacenter)
        return None

    def _count(self, counter: LakeCounter, before: Part | None, closed: Place) -> Counted:
        """Count a lake; one of another datacenter may hang. LakeUnavailable."""
        if counter.datacenter == self.datacenter:
            return counter.count(before, closed)
        return self.lakes.ask(counter.datacenter, lambda: counter.count(before, closed))

    def _copy(self, some: Sequence[Release]) -> None:
        """Store copies, and now and then remove old ones. OSError, LakeUnavailable."""
        refuse_moved_lake(self._lake)
        copies.put(self._lake, some)
        fault_point("release.after_copy")
        now_us = self.clock.elapsed_us()
        if self._tidied_us is None or now_us - self._tidied_us >= TIDIED_US:
            self._tidied_us = now_us
            copies.tidy(self._lake, some[-1], microseconds(self.pipeline.releases.keep))
