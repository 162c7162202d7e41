"""The feed of a primary log: how far it is, and whether somebody has to set it going."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from photon.feed.marker import ASIDE, MARKER, Marker, read_marker
from photon.feed.step import FeedStopped
from photon.health.verdict import Level, Verdict, level_after, passing
from photon.pipeline.file import Pipeline, PipelineError, load_pipeline
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS
from photon.process.errors import FormatTooNew, UserError
from photon.process.pace import span
from photon.releases import copies


@dataclass(frozen=True)
class FeedSeen:
    """A fed folder at one moment. `marker` None: there is none, or `problem` says why it can't be read.

    `newest`: the newest release of the pipeline that feeds it, if the marker is behind that one, and since
    when. Where this machine does not reach its lakes nobody can tell.
    """

    folder: Location
    marker: Marker | None = None
    problem: str = ""
    newest: int | None = None
    behind_since_us: int = 0

    def sentence(self) -> str:
        """How far the feed is, for people."""
        if self.marker is None:
            return f"waits for its feed: {self.problem or f'{self.folder} has no {ASIDE}/{MARKER} yet'}"
        return f"fed by pipeline {self.marker.name} up to {self.marker.release.sentence()}"


def look_at_feed(pipeline: Pipeline, datacenter: str) -> FeedSeen | None:
    """The feed of a datacenter's primary log; None: no feed writes it."""
    folder = pipeline.primary.fed_folder(pipeline.datacenters[datacenter].logs)
    if folder is None:
        return None
    try:
        marker = read_marker(folder)
    except (FeedStopped, FormatTooNew, OSError) as error:
        return FeedSeen(folder, problem=str(error))
    if marker is None:
        return FeedSeen(folder)
    try:
        newest, since_us = _newest_behind(marker)
    except (UserError, PipelineError):  # its file or its lakes are elsewhere
        newest, since_us = None, 0
    return FeedSeen(folder, marker, newest=newest, behind_since_us=since_us)


def _newest_behind(marker: Marker) -> tuple[int | None, int]:
    """The newest release that the marker is behind, and since when; None: it is behind none. UserError."""
    # They take long to import, and most pipelines are fed by none.
    from photon.feed.comparing import is_again
    from photon.releases.finding import asked_of_lakes

    first, last = load_pipeline(marker.pipeline), marker.release
    newest, _ = asked_of_lakes(first, copies.latest)
    found = max((one for one in newest.values()), key=lambda one: one.number, default=last)
    if found.number <= last.number or is_again(last, found):
        return None, 0
    after, _ = asked_of_lakes(first, lambda lake: copies.release(lake, last.number + 1))
    return found.number, min((one.made_us for one in after.values()), default=last.made_us)


def judge_feed(datacenter: str, seen: FeedSeen | None, now_us: int, pipeline: Pipeline) -> Verdict | None:
    """The verdict on a feed that is not there, or stands still though there is more to deliver; else None."""
    if seen is None:
        return None
    first = "FIRST.yaml" if seen.marker is None else shlex.quote(str(seen.marker.pipeline))
    remedy = f"let it run: photon follow {first} --to {shlex.quote(str(seen.folder))}"
    level: Level = "warn"
    if seen.marker is None:
        says = seen.sentence()
    elif seen.newest is None:
        return None
    else:
        behind_us = now_us - seen.behind_since_us
        level = level_after(behind_us, pipeline.health.lag)
        says = (
            f"waits for the feed of pipeline {seen.marker.name}: its marker is at release "
            f"{seen.marker.release.number}, {seen.newest} is the newest, and nothing came for "
            f"{span(behind_us / MICROSECONDS)}"
        )
    if level == "ok":
        return None
    return passing(level, f"{datacenter} {says}", remedy, says.partition(":")[0])
