"""Serves a page with the metrics of a pipeline, and makes it anew for each request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from photon.clock import Clock
from photon.errors import WrongUsage
from photon.metrics.families import families
from photon.pipeline.file import Pipeline
from photon.shift.people import decisions_of
from photon.shift.status import statuses_of

log = logging.getLogger(__name__)


class PipelineCollector(Collector):
    """Asks all datacenters of a pipeline each time it is collected from, without disturbing joins."""

    def __init__(self, pipeline: Pipeline, clock: Clock) -> None:
        self._pipeline, self._clock = pipeline, clock
        self._said: dict[str, str] = {}

    def collect(self) -> Iterable[Metric]:
        decisions = decisions_of(self._pipeline)
        found, errors = statuses_of(self._pipeline, self._clock, decisions)
        self._say({name: str(error) for name, error in errors.items()})
        return families({**found, **errors}, self._clock.now_us())

    def describe(self) -> Iterable[Metric]:
        """Nothing is collected before somebody asks."""
        return []

    def _say(self, errors: dict[str, str]) -> None:
        """Why a datacenter can't be read, once and not at each look."""
        for name, why in errors.items():
            if self._said.get(name) != why:
                log.warning("%s can't be read: %s", name, why)
        self._said = errors


def page_of(pipeline: Pipeline, clock: Clock) -> str:
    """The metrics as OpenMetrics text."""
    return str(generate_latest(_registry(pipeline, clock)), "utf-8")


@contextmanager
def serving(pipeline: Pipeline, clock: Clock, host: str, port: int) -> Iterator[int]:
    """Serve the metrics at http://HOST:PORT/metrics; the port, any that is free for 0. WrongUsage."""
    try:
        server, thread = start_http_server(port, host, _registry(pipeline, clock))
    except OSError as error:
        raise WrongUsage(f"{host}:{port} can't be listened at: {error}; name another --port") from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _registry(pipeline: Pipeline, clock: Clock) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(PipelineCollector(pipeline, clock))
    return registry
