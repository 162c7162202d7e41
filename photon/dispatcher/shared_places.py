"""Tell what two datacenters or two pipelines share, perhaps by mistake. Nothing is refused: each joins right.

A state remembers where it is. One that finds itself elsewhere was moved, or it is a copy: then the state
where it was is there still, with the same epoch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from photon.logs.discovery import GlobbedPaths
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew
from photon.state.database import STATE_FILE, StateReader, StateUnavailable
from photon.state.dispatcher_state import DispatcherState


def shared_logs(pipeline: Pipeline, datacenter: str | None = None) -> Sequence[str]:
    """Which datacenters read one and the same folder, in words.

    `datacenter`: only what it shares with those before it.
    """
    return [
        f"datacenters {one} and {other} read the same {what} logs ({place}): that will do for a try-out, but "
        f"what is lost there, both lose; give {other} a copy of its own (datacenters.{other}.logs)"
        for one, other in combinations(pipeline.datacenters, 2)
        if datacenter in (None, other)
        for what, place in _shared(pipeline, one, other)
    ]


def note_place(state: DispatcherState, pipeline: Pipeline) -> None:
    """Remember where the state is, unless it is a copy of one that is there still."""
    if why_copy(state, pipeline) is None:
        state.note_place(_place(state, pipeline))


def why_copy(state: StateReader, pipeline: Pipeline) -> str | None:
    """Name the state that this one is a copy of, and what that means; None: no such state is there."""
    stored = state.meta("place")
    if stored is None:
        return None
    was, now = json.loads(stored), json.loads(_place(state, pipeline))
    original = Path(was["state"])
    if was["state"] == now["state"] or not _has_epoch(original, state):
        return None
    if was["registry"] == now["registry"]:
        what = "both join as one datacenter with one registry, and each has only a part of the rows"
    else:
        what = "each has a registry of its own, so both join the same events"
    return (
        f"the state {state.folder} is a copy of {original}, which is there still: {what}. Go on with one of"
        f" the two; or give this pipeline a name, a lake and a state of its own ({pipeline.file})"
    )


def _has_epoch(folder: Path, state: StateReader) -> bool:
    """Whether a folder has another state of the same epoch."""
    try:
        if not (folder / STATE_FILE).exists() or (folder / STATE_FILE).samefile(state.path):
            return False
        other = StateReader(folder)
    except (OSError, StateUnavailable, FormatTooNew):
        return False
    try:
        return other.epoch == state.epoch
    except StateUnavailable:
        return False
    finally:
        other.close()


def _place(state: StateReader, pipeline: Pipeline) -> str:
    endpoints = pipeline.registry.endpoints
    registry = (
        [str(pipeline.registry_folder.resolve())]
        if endpoints == "local"
        else [endpoint.url for endpoint in endpoints]
    )
    return json.dumps({"state": str(state.folder.resolve()), "registry": registry})


def _shared(pipeline: Pipeline, one: str, other: str) -> list[tuple[str, Location]]:
    """The logs that two datacenters have in one folder: by the folder that a glob begins in."""
    found: list[tuple[str, Location]] = []
    for kind, log in (("primary", pipeline.primary), ("foreign", pipeline.foreign)):
        below = GlobbedPaths(log.files).folder.rstrip("/")
        places = [_below(pipeline.datacenters[name].logs, below) for name in (one, other)]
        if _is_same(*places):
            found.append((kind, places[0]))
    if len(found) == 2:
        return [("primary and foreign", pipeline.datacenters[one].logs)]
    return found


def _below(folder: Location, path: str) -> Location:
    return folder / path if path else folder


def _is_same(one: Location, other: Location) -> bool:
    if not (isinstance(one, Path) and isinstance(other, Path)):
        return one == other
    try:
        return one.samefile(other)
    except OSError:
        return one.resolve() == other.resolve()
