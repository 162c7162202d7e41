"""A trace in a chain of pipelines: the primary event is a row of the one before, with a story of its own."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from photon.feed.marker import Marker, read_marker
from photon.feed.step import FeedStopped
from photon.pipeline.file import Pipeline, PipelineError, load_pipeline
from photon.process.errors import FormatTooNew
from photon.tracing.report import Trace

OWN_ID = ("_event_id",)  # by it a row of the pipeline before is the event that is joined there


@dataclass(frozen=True)
class EventBefore:
    """The event of the pipeline before whose row is the primary event. `pipeline` None: it is elsewhere."""

    event_id: str
    name: str
    file: Path
    pipeline: Pipeline | None

    @property
    def command(self) -> str:
        """The command that traces it."""
        return f"photon trace {shlex.quote(str(self.file))} {shlex.quote(self.event_id)}"


def events_before(pipeline: Pipeline, found: Trace) -> list[EventBefore]:
    """The events of the pipeline before that the traced event's records name; none without a feed."""
    marker = next(_markers(pipeline), None)
    if marker is None or pipeline.primary.id != OWN_ID:
        return []
    before = None
    with suppress(PipelineError):
        before = load_pipeline(marker.pipeline)
    keys = {record.key for one in found.datacenters.values() for record in one.records if record.key}
    return [EventBefore(key, marker.name, marker.pipeline, before) for key in sorted(keys)]


def _markers(pipeline: Pipeline) -> Iterator[Marker]:
    """The markers of the datacenters' fed logs, those that can be read."""
    for place in pipeline.datacenters.values():
        folder = pipeline.primary.fed_folder(place.logs)
        with suppress(FeedStopped, FormatTooNew, OSError):
            if folder is not None and (marker := read_marker(folder)) is not None:
                yield marker
