"""All that a datacenter's `land` names, whatever its kind, as things that land it until they are stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from photon.landing.service import Landing, topics_of
from photon.pipeline.file import Pipeline
from photon.process.clock import SystemClock


class Lands(Protocol):
    """A service that lands the sources of one kind; `held` and `not_landed` say why some are not landed."""

    stopped: threading.Event
    not_landed: list[str]  # what somebody has to acknowledge first

    @property
    def held(self) -> Mapping[str, str]:
        """The sources that wait for another process, each with a sentence."""
        ...

    def run(self) -> None:
        """Land until `stopped`. UserError, OSError."""
        ...


def landings_of(
    pipeline: Pipeline,
    names: Sequence[str],
    complete: bool = False,
    stop_requested: Callable[[], bool] = lambda: False,
    is_patient: bool = False,
) -> list[Lands]:
    """The services that land the sources of these datacenters; one event stops them all.

    `complete`: it ends once all that is there now is landed. `is_patient`: see `Landing`.
    """
    stopped, clock, found = threading.Event(), SystemClock(), list[Lands]()
    if topics := topics_of(pipeline, names):
        found.append(Landing(topics, clock, complete, is_patient, stop_requested, stopped))
    from photon.landing.objects.service import ObjectsLanding, objects_of  # late: a status needs no boto3

    if objects := objects_of(pipeline, names):
        found.append(ObjectsLanding(objects, clock, complete, is_patient, stop_requested, stopped))
    return found


def land_all(landings: Sequence[Lands]) -> list[str]:
    """Run them beside one another; what is not landed until it is acknowledged. UserError, OSError."""
    with ThreadPoolExecutor(max(1, len(landings)), "landing") as threads:
        for done in [threads.submit(one.run) for one in landings]:
            done.result()
    return [what for one in landings for what in one.not_landed]
