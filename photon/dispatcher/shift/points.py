"""Record how a shift goes, each ten seconds in its state and each minute in its lake; a wait begins a point.

The lake is written on a thread beside: one that hangs, is full or is away keeps no batch waiting.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from photon.dispatcher.dispatcher import Dispatcher
from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.dispatcher.shift.growth import LIVE_BYTES, unread_now
from photon.dispatcher.shift.lease import FAILING_TRIES, LeaseStatus
from photon.dispatcher.shift.measured import MeasuredFile
from photon.dispatcher.shift.report import ShiftLog
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, in_utc
from photon.process.errors import FormatTooNew
from photon.process.machine import Machine
from photon.state.database import StateUnavailable
from photon.state.points import FINAL_CLASSES, POINTS, Activity, Mark, RecentPoints, Row, mark_row
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import refuse_moved_lake

RECENT_SECONDS, STORED_SECONDS = 10.0, 60.0
MOST_ROWS_KEPT = 1_440  # a day of them: so long a lake may be away
MOST_CUTS = 10  # points in the time of one: a new one begins with a wait and after it
AGAIN_US = 60 * MICROSECONDS  # after it took nothing
S3_PAUSE_US = 600 * MICROSECONDS  # between two commits there, of some twenty requests each
END_SECONDS = 5.0  # a shift that ends waits so long for it

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Gauges:
    """How a datacenter is at one moment; None: not known."""

    epoch: str | None = None
    watermark_us: int | None = None
    unread_bytes: int | None = None
    pending: int | None = None
    complete_up_to_us: int | None = None
    unread_files: int | None = None

    @classmethod
    def of(cls, dispatcher: Dispatcher) -> Gauges:
        """StateUnavailable, sqlite3.Error."""
        state, said = dispatcher.state, dispatcher.tools.observer.completeness.said
        return cls(
            state.epoch,
            state.watermark_us,
            sum(sum(files.values()) for files in dispatcher.reader.backlog_bytes.values()),
            state.counts().of("pending"),
            None if said is None else said.complete_up_to_us,
            len(dispatcher.reader.unread()),
        )


class _Span:
    """The work since the last point."""

    def __init__(self, every_seconds: float, now_us: int) -> None:
        self._every_us = round(every_seconds * MICROSECONDS)
        self._log = ShiftLog(every_seconds, now_us)
        self._begin(now_us)

    def _begin(self, now_us: int) -> None:
        self._since_us, self.due_us = now_us, now_us + self._every_us
        self._batches = 0
        self._requests, self._request_seconds = 0, 0.0

    def is_empty(self, now_us: int) -> bool:
        return not self._batches and now_us == self._since_us

    def may_end(self, now_us: int) -> bool:
        """Whether it is long enough to be a point, before it is due."""
        return (now_us - self._since_us) * MOST_CUTS >= self._every_us

    def add(self, batch: BatchReport, now_us: int) -> None:
        self._batches += 1
        self._log.add(batch, now_us)

    def add_requests(self, requests: int, seconds: float) -> None:
        self._requests += requests
        self._request_seconds += seconds

    def end(self, now_us: int) -> Row:
        """The columns of this span; the next one begins now."""
        report = self._log.report(now_us)
        row: Row = {
            "seconds": report.seconds,
            "batches": report.batches,
            "foreign": report.foreign,
            **{name: report.classes.get(name, 0) for name in FINAL_CLASSES},
            **({} if report.latency is None else asdict(report.latency)),
            "registry_requests": self._requests,
            "registry_seconds": self._request_seconds,
        }
        self._begin(now_us)
        return row


class PointsRecorder:
    """Records one shift. Used by the dispatcher's thread alone."""

    def __init__(self, pipeline: Pipeline, datacenter: str, machine: Machine) -> None:
        self._pipeline, self._datacenter, self._machine = pipeline, datacenter, machine
        self._clock = machine.clock
        now_us = self._clock.elapsed_us()
        self._recent, self._stored = _Span(RECENT_SECONDS, now_us), _Span(STORED_SECONDS, now_us)
        self._waits_for = self._fails_because = ""
        self._failed_tries = 0
        self._followed: tuple[Dispatcher, MeasuredFile] | None = None
        self._gauges = Gauges()
        self._requests = (0, 0.0)  # the registry's, when they were last looked at
        self._file = RecentPoints(pipeline.datacenters[datacenter].state)
        self._rows: deque[Row] = deque(maxlen=MOST_ROWS_KEPT)  # that the lake has not taken yet
        self._is_its_lake = False  # a shift that has begun has seen that it is
        self._storing: list[Row] = []
        self._job: Future[None] | None = None
        self._again_us = now_us
        lake = pipeline.datacenters[datacenter].lake
        self._pause_us = 0 if isinstance(lake, Path) else S3_PAUSE_US
        self._problem = ""  # was told already

    def recording(self, callbacks: Callbacks) -> Callbacks:
        """Have the callbacks also record what they are told."""

        def should_stop() -> bool:
            self.tend()  # the shift asks all the time, also while it waits
            return callbacks.should_stop()

        def on_batch(batch: BatchReport) -> None:
            for span in (self._recent, self._stored):
                span.add(batch, self._clock.elapsed_us())
            callbacks.on_batch(batch)

        def on_wait(reason: str) -> None:
            self._cut()
            self._waits_for = reason
            callbacks.on_wait(reason)

        def on_cause(reason: str) -> None:
            self._waits_for = reason
            callbacks.on_cause(reason)

        def on_resume(reason: str, seconds: float) -> None:
            self._cut()
            self._waits_for = ""
            callbacks.on_resume(reason, seconds)

        def on_failure(reason: str) -> None:
            if self._failed_tries + 1 == FAILING_TRIES:
                self._cut()
            self._failed_tries, self._fails_because = self._failed_tries + 1, reason
            callbacks.on_failure(reason)

        def on_progress() -> None:
            if self._failed_tries >= FAILING_TRIES:
                self._cut()
            self._failed_tries = 0
            callbacks.on_progress()

        on_passed = partial(self.mark, "passed over")
        return Callbacks(
            should_stop, on_batch, on_wait, on_resume, on_cause, on_failure, on_progress, on_passed
        )

    @contextmanager
    def following(self, dispatcher: Dispatcher, measured: MeasuredFile) -> Iterator[None]:
        """Look at a dispatcher that has begun, and at what its process measures, until it ends."""
        self._followed, self._requests = (dispatcher, measured), measured.total("registry_request_seconds")
        self._is_its_lake = True
        try:
            yield
        finally:
            measured.write()
            self._look()
            self._followed = None

    def mark(self, kind: Mark, says: str, at_us: int | None = None) -> None:
        """Have the lake tell that something happened, now or then."""
        self._rows.append(mark_row(kind, says, self._clock.now_us() if at_us is None else at_us))

    def mark_killed(self, before: LeaseStatus) -> None:
        """Have the lake tell that the process before this one died, with its last sign of life."""
        if before.lease is None:
            return
        by = f" (run {before.lease.run} of Dagster)" if before.lease.run else ""
        process = f"process {before.lease.process} of {before.lease.host}{by}"
        went_on = in_utc(self._clock.now_us(), "seconds")
        self.mark(
            "killed", f"{process} was killed, or its machine; the next one began {went_on}", before.beat_us
        )

    def tend(self) -> None:
        """Add the points that are due."""
        now_us = self._clock.elapsed_us()
        self._add(self._recent.due_us <= now_us, self._stored.due_us <= now_us)
        self._tend_lake()

    def _cut(self) -> None:
        """Add points that end now, so that the next ones begin with a wait, or after it."""
        now_us = self._clock.elapsed_us()
        self._add(self._recent.may_end(now_us), self._stored.may_end(now_us))

    def _add(self, recent: bool, stored: bool) -> None:
        """End these spans, and keep their points."""
        if recent:
            self._file.add(self._point(self._recent))
        if stored:
            self._rows.append(self._point(self._stored))

    def close(self) -> None:
        """Add the last points. Waits for the lake, but not for long."""
        self._again_us = now_us = self._clock.elapsed_us()
        ends_us = now_us + round(END_SECONDS * MICROSECONDS)
        self._add(not self._recent.is_empty(now_us), not self._stored.is_empty(now_us))
        self._tend_lake()
        while self._job is not None:
            left_seconds = max(0.0, (ends_us - self._clock.elapsed_us()) / MICROSECONDS)
            if not wait([self._job], left_seconds).done:
                log.warning("graphs of %s lack its last points: its lake does not answer", self._datacenter)
                return
            self._tend_lake()

    def _look(self) -> None:
        """See how the datacenter is; where its state can't be read now, it is as it was."""
        if self._followed is None:
            return
        dispatcher, measured = self._followed
        with suppress(StateUnavailable, sqlite3.Error, OSError):
            self._gauges = Gauges.of(dispatcher)
            if self._kept_by:  # nobody reads logs then, and they grow
                unread_bytes = unread_now(self._pipeline, self._datacenter, dispatcher.reader.files)
                self._gauges = replace(self._gauges, unread_bytes=unread_bytes)
        (before, before_seconds), self._requests = self._requests, measured.total("registry_request_seconds")
        requests, seconds = self._requests
        for span in (self._recent, self._stored):
            span.add_requests(requests - before, seconds - before_seconds)

    def _point(self, span: _Span) -> Row:
        """End a span, with how all is at its end."""
        self._look()
        now_us, gauges = self._clock.now_us(), self._gauges
        lag_us = None if gauges.watermark_us is None else now_us - gauges.watermark_us
        return {
            "at": now_us,
            **span.end(self._clock.elapsed_us()),
            "activity": self._activity,
            "waits_for": self._kept_by,
            "epoch": gauges.epoch,
            "lag_seconds": None if lag_us is None else lag_us / MICROSECONDS,
            "unread_bytes": gauges.unread_bytes,
            "unread_files": gauges.unread_files,
            "pending": gauges.pending,
            "complete_up_to": gauges.complete_up_to_us,
        }

    @property
    def _kept_by(self) -> str:
        """Name the cause for which the shift joins nothing: it waits, or each try fails."""
        return self._waits_for or (self._fails_because if self._failed_tries >= FAILING_TRIES else "")

    @property
    def _activity(self) -> Activity:
        if self._kept_by:
            return "waiting"
        return "behind" if (self._gauges.unread_bytes or 0) > LIVE_BYTES else "live"

    def _tend_lake(self) -> None:
        """Take the answer of the thread beside, and give it what has come since."""
        if self._job is not None:
            if not self._job.done():
                return
            self._take_answer(self._job)
        if self._rows and self._is_its_lake and self._clock.elapsed_us() >= self._again_us:
            rows = self._storing = list(self._rows)
            self._rows.clear()
            self._job = self._machine.ask(
                f"points of {self._datacenter}",
                lambda: self._store(rows),
            )
            self._again_us = self._clock.elapsed_us() + self._pause_us

    def _store(self, rows: list[Row]) -> None:
        refuse_moved_lake(self._pipeline.datacenters[self._datacenter].lake)
        POINTS.append(self._pipeline, self._datacenter, rows)

    def _take_answer(self, job: Future[None]) -> None:
        self._job = None
        try:
            job.result()
            self._problem = ""
        except (LakeUnavailable, FormatTooNew) as error:
            if not self._problem:
                log.warning("graphs of %s lack its latest points: %s", self._datacenter, error)
            self._problem = str(error)
            self._rows.extendleft(reversed(self._storing))
            self._again_us = self._clock.elapsed_us() + AGAIN_US
        self._storing = []


@contextmanager
def recording_points(pipeline: Pipeline, datacenter: str, machine: Machine) -> Iterator[PointsRecorder]:
    """Record a shift; its last points are added at its end. A process that is killed adds none."""
    recorder = PointsRecorder(pipeline, datacenter, machine)
    try:
        yield recorder
    except Exception:
        recorder.close()
        raise
    recorder.close()
