"""Serves a page with the metrics of a pipeline, and makes it anew for each request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from photon.dispatcher.shift.measured import measured_in
from photon.dispatcher.shift.people import decisions_in_time
from photon.health.judge import Judge
from photon.health.metrics.families import budget_families, families
from photon.health.metrics.landing_families import landing_families
from photon.health.metrics.shift_families import shift_families
from photon.health.status import DatacenterStatus, status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock
from photon.process.errors import UserError, WrongUsage
from photon.verification.availability.budget import Budget, budget_of
from photon.verification.availability.stored import stored_minutes

log = logging.getLogger(__name__)


# Many minutes are read from the lake for the error budget, and they change once a minute.
BUDGET_SECONDS = 30


class PipelineCollector(Collector):
    """Asks datacenters of a pipeline each time it is collected from, without disturbing joins.

    Some verdicts go by what earlier looks have seen, so this process remembers as a watcher does.
    """

    def __init__(self, pipeline: Pipeline, clock: Clock, names: Sequence[str]) -> None:
        self._pipeline, self._clock, self._names = pipeline, clock, tuple(names)
        self._judge = Judge(pipeline, is_patient=True)
        self._budgets: dict[str, Budget] = {}
        self._budgets_us = 0
        self._said: dict[str, str] = {}

    def collect(self) -> Iterable[Metric]:
        found = self.statuses()
        known = {name: one for name, one in found.items() if isinstance(one, DatacenterStatus)}
        self._say({name: str(one) for name, one in found.items() if isinstance(one, Exception)})
        states = {name: self._pipeline.datacenters[name].state for name in known}
        measured = {name: one for name, state in states.items() if (one := measured_in(state)) is not None}
        yield from families(found)
        yield from budget_families(self._newest_budgets(known))
        yield from landing_families(known)
        yield from shift_families(measured)

    def statuses(self) -> dict[str, DatacenterStatus | Exception]:
        """Each datacenter, or why it can't be asked: none of them by a file that commands refuse."""
        try:
            decisions = decisions_in_time(self._pipeline)
        except UserError as error:
            return dict.fromkeys(self._names, error)
        found = dict[str, DatacenterStatus | Exception]()
        for name in self._names:
            try:
                found[name] = status_of(self._pipeline, name, self._clock, decisions, self._judge)
            except (UserError, OSError) as error:
                found[name] = error
        return found

    def _newest_budgets(self, names: Iterable[str]) -> Mapping[str, Budget]:
        """The error budgets as of some seconds ago; none where no minute was judged yet."""
        now_us = self._clock.now_us()
        if not 0 <= now_us - self._budgets_us < BUDGET_SECONDS * MICROSECONDS:  # a clock may be set back
            found = {name: self._budget(name) for name in names}
            self._budgets = {name: one for name, one in found.items() if one is not None}
            self._budgets_us = now_us
        return self._budgets

    def _budget(self, datacenter: str) -> Budget | None:
        """Read what is left of the budget; None too where the lake can't be read: a check tells of that."""
        try:
            return budget_of(stored_minutes(self._pipeline, datacenter), self._pipeline.availability)
        except (UserError, OSError):
            return None

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
