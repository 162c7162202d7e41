"""A follower: it delivers each kept release to a sink, in order, as releases are made.

It remembers nothing but what the sink says. It asks no registry and takes no lock in a lake.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from photon.feed.comparing import first_to_begin_with
from photon.feed.kept import oldest_to_begin_with, release_behind
from photon.feed.sink import Sink, SinkUnavailable
from photon.feed.step import FedTable, FeedStopped, Step
from photon.feed.steps import nothing_of, snapshot, steps
from photon.pipeline.file import Pipeline
from photon.pipeline.location import S3Folder
from photon.process.clock import MICROSECONDS, Clock
from photon.process.errors import UserError
from photon.process.readable import counted
from photon.releases import copies
from photon.releases.finding import NoRelease, ReleaseUnreadable, find_release, kept_releases
from photon.releases.release import Release
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import OutputTable

log = logging.getLogger(__name__)

# Where a feed begins: with all rows of the oldest or newest kept release, or behind the newest or a number.
Start = Literal["oldest", "newest", "now"] | int

DELIVERED_ROWS = 50_000  # in one call of a sink: a transaction takes 3 ms, and so many rows some 300
LISTED_EVERY_SECONDS = 10.0  # between, only the next number's name is looked for
LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.05, 2.0  # between two looks for that name
PAUSE_ON_S3_SECONDS = 1.0  # each look is a request that costs money
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 1.0, 60.0


@dataclass
class Follower:
    """Delivers to one sink, which says where to go on. `delivered`: the release that it is known to have."""

    pipeline: Pipeline
    sink: Sink
    start: Start
    clock: Clock
    table: FedTable = "joined"
    delivered: Release | None = field(default=None, init=False)
    _said: str = field(default="", init=False)
    _opened: dict[str, OutputTable] = field(default_factory=dict, init=False)

    def run(self, once: bool = False) -> None:
        """Deliver all that is there, and with `once` end; else go on until the process ends.

        FeedStopped, CursorTooOld; with `once` also what a follower waits for otherwise.
        """
        retry = FIRST_RETRY_SECONDS
        while True:
            try:
                last = self._deliver()
            except (ReleaseUnreadable, LakeUnavailable, SinkUnavailable, NoRelease) as error:
                if once or (isinstance(error, NoRelease) and isinstance(self.start, int)):
                    raise
                self._say(f"{error}; it is tried again")
                self.clock.sleep(retry)
                retry = min(2 * retry, LAST_RETRY_SECONDS)
                continue
            if once:
                return
            self._said, retry = "", FIRST_RETRY_SECONDS
            self._wait_for(last.number + 1)

    def resync(self) -> None:
        """Deliver all rows of the newest release in the place of everything before."""
        self.sink.replace(snapshot(self.pipeline, find_release(self.pipeline), self.table))

    def _deliver(self) -> Release:
        """Deliver the steps that there are; the release behind which the sink then is."""
        while True:
            cursor = self.sink.cursor()
            if cursor is None:
                self.delivered = self.sink.deliver([self._first_step()])
                continue
            if self.delivered is None:
                log.info("going on behind release %s", cursor.number)
            self.delivered = cursor
            behind = steps(
                self.pipeline,
                cursor,
                self.clock,
                table=self.table,
                opened=self._opened,
                inserts_only=self.sink.is_log,
            )
            found = self._allowed(behind)
            for some in together(found, DELIVERED_ROWS):
                self.delivered = self.sink.deliver(some)
                if self.delivered != some[-1].release:
                    break  # another follower was here first
                cursor = some[-1].release
            else:
                return cursor

    def _first_step(self) -> Step:
        if isinstance(self.start, int):
            return nothing_of(release_behind(self.pipeline, self.start), self.table)
        if self.start == "oldest":
            return snapshot(self.pipeline, self._oldest(), self.table)
        newest = find_release(self.pipeline)
        if self.start == "now":
            return nothing_of(newest, self.table)
        return snapshot(self.pipeline, newest, self.table)

    def _oldest(self) -> Release:
        """The oldest kept release behind which nothing ends the feed."""
        oldest = oldest_to_begin_with(self.pipeline, self.clock.now_us())
        later = [one for one in kept_releases(self.pipeline) if one.number > oldest.number]
        first = first_to_begin_with([oldest, *later], self.sink.takes_changes)
        if first != oldest:
            what = "an older one could not be followed on to it"
            log.info("beginning with all rows of release %s: %s", first.number, what)
        return first

    def _allowed(self, found: Iterable[Step]) -> Iterator[Step]:
        for step in found:
            if not (step.is_insert_only or self.sink.takes_changes):
                remedy = "--changes delivers such rows too, --resync all rows of the newest release anew"
                raise FeedStopped(f"{taken_back(step)}: {remedy}")
            yield step

    def _wait_for(self, number: int) -> None:
        """Wait until a lake may have the next release."""
        lakes = [place.lake for place in self.pipeline.datacenters.values()]
        least = (
            PAUSE_ON_S3_SECONDS if any(isinstance(one, S3Folder) for one in lakes) else LEAST_PAUSE_SECONDS
        )
        every = self.pipeline.releases.every.total_seconds() / 10
        pause = min(max(every, least), MOST_PAUSE_SECONDS)
        until_us = self.clock.elapsed_us() + round(LISTED_EVERY_SECONDS * MICROSECONDS)
        while self.clock.elapsed_us() < until_us:
            self.clock.sleep(pause)
            for lake in lakes:
                with suppress(OSError):  # the other lakes may have it
                    if copies.has(lake, number):
                        return

    def _say(self, what: str) -> None:
        """Say something once, until something else is to be said."""
        if what != self._said:
            log.warning("%s", what)
        self._said = what


def together(found: Iterable[Step], most_rows: int) -> Iterator[list[Step]]:
    """Steps in groups of so many rows. Those before one that can't be had come first, then its error."""
    group: list[Step] = []
    error: UserError | None = None
    steps_left = iter(found)
    while error is None:
        try:
            step = next(steps_left, None)
        except UserError as raised:
            error, step = raised, None
        if step is not None:
            group.append(step)
        if group and (step is None or sum(one.inserts for one in group) >= most_rows):
            yield group
            group = []
        if step is None and error is None:
            return
    raise error


def taken_back(step: Step) -> str:
    """Say what a step takes back, and why."""
    done = [
        *([f"takes back {counted(step.deletes, 'row')}"] if step.deletes else []),
        *([f"changes {counted(step.updates, 'row')}"] if step.updates else []),
        *(f"has no row of datacenter {name} any more" for name in step.lakes_gone),
    ]
    notes = f" ({'; '.join(map(str, step.release.notes))})" if step.release.notes else ""
    return f"release {step.release.number} {' and '.join(done)}{notes}"
