"""Serves a page with the metrics of a pipeline, and makes it anew for each request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from photon.dispatcher.shift.measured import measured_in
from photon.dispatcher.shift.people import decisions_of
from photon.dispatcher.shift.status import DatacenterStatus, statuses_of
from photon.errors import UserError, WrongUsage
from photon.health.metrics.families import families
from photon.health.metrics.judged_families import judged_families
from photon.health.metrics.judging import Judging
from photon.health.metrics.shift_families import shift_families
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock

log = logging.getLogger(__name__)


class PipelineCollector(Collector):
    """Asks datacenters of a pipeline each time it is collected from, without disturbing joins."""

    def __init__(self, pipeline: Pipeline, clock: Clock, names: Sequence[str]) -> None:
        self._pipeline, self._clock, self._names = pipeline, clock, tuple(names)
        self._judging = Judging(pipeline, clock)
        self._said: dict[str, str] = {}

    def collect(self) -> Iterable[Metric]:
        found, errors = self._statuses()
        self._say({name: str(error) for name, error in errors.items()})
        states = {name: self._pipeline.datacenters[name].state for name in found}
        measured = {name: one for name, state in states.items() if (one := measured_in(state)) is not None}
        yield from families({**found, **errors}, self._clock.now_us())
        yield from judged_families(self._judging.judged(found))
        yield from shift_families(measured)

    def _statuses(self) -> tuple[dict[str, DatacenterStatus], dict[str, Exception]]:
        """Each datacenter, and why some can't be asked: none of them by a file that commands refuse."""
        try:
            decisions = decisions_of(self._pipeline)
        except UserError as error:
            return {}, dict.fromkeys(self._names, error)
        return statuses_of(self._pipeline, self._clock, decisions, self._names)

    def describe(self) -> Iterable[Metric]:
        """Nothing is collected before somebody asks."""
        return []

    def _say(self, errors: dict[str, str]) -> None:
        """Why a datacenter can't be read, once and not at each look."""
        for name, why in errors.items():
            if self._said.get(name) != why:
                log.warning("%s can't be read: %s", name, why)
        self._said = errors


def page_of(pipeline: Pipeline, clock: Clock, names: Sequence[str] | None = None) -> str:
    """The metrics of all datacenters, or of some, as OpenMetrics text."""
    return str(generate_latest(_registry(pipeline, clock, names)), "utf-8")


@contextmanager
def serving(
    pipeline: Pipeline, clock: Clock, host: str, port: int, names: Sequence[str] | None = None
) -> Iterator[int]:
    """Serve the metrics at http://HOST:PORT/metrics; the port, any that is free for 0. WrongUsage.

    Of the datacenters with these names, or of all.
    """
    try:
        server, thread = start_http_server(port, host, _registry(pipeline, clock, names))
    except OSError as error:
        raise WrongUsage(
            f"{host}:{port} can't be listened at: {error}; name another one with --serve"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _registry(pipeline: Pipeline, clock: Clock, names: Sequence[str] | None) -> CollectorRegistry:
    registry, every = CollectorRegistry(), list(pipeline.datacenters)
    registry.register(PipelineCollector(pipeline, clock, every if names is None else names))
    return registry
