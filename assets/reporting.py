"""Telling Dagster how a shift goes while it runs: materializations, and observations of its logs.

What they say is `shift_metadata` and `logs`, when they are due `photon.shift.report`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from dagster import AssetExecutionContext, AssetKey, AssetMaterialization, MetadataValue

from assets.logs import Seen, is_news, observations
from assets.shift_metadata import metadata_of
from photon.clock import Clock, SystemClock
from photon.dispatcher.batch import BatchReport
from photon.pipeline.file import Pipeline
from photon.shift.growth import growth_of
from photon.shift.report import ShiftLog, totals_of
from photon.shift.run import ShiftResult
from resources.environment import Served

# A picture is a third of a stored report: the second report has the first one, then each fifth, and the last.
PICTURE_EVERY, FIRST_PICTURE = 5, 2

log = logging.getLogger(__name__)


class Reporter:
    """Reports of one shift into the events of its run."""

    def __init__(
        self,
        context: AssetExecutionContext,
        key: AssetKey,
        served: Served,
        pipeline: Pipeline,
        clock: Clock | None = None,
    ) -> None:
        """`served` names the assets; `pipeline` is its file as this run has read it."""
        self._context = context
        self._key = key
        self._served = served
        self._pipeline = pipeline
        self._datacenter = context.partition_key
        self._clock = clock or SystemClock()
        self._shift = ShiftLog(pipeline.shift.report_interval.total_seconds())
        self._seen: Seen | None = None
        self._made = 0

    def on_batch(self, batch: BatchReport) -> None:
        """Take in a batch, and report if it is time."""
        self._shift.add(batch, self._clock.now_us())
        self.look()

    def on_wait(self, reason: str) -> None:
        """Say what the shift waits for."""
        self._shift.waits(self._clock.now_us())
        with self._where_possible():
            self._context.log.warning("waits for %s", reason)

    def look(self) -> None:
        """Report if it is time, also while the shift waits: then its backlog is what people want to know."""
        if self._shift.is_due(self._clock.now_us()):
            self._made += 1
            with self._where_possible():
                metadata = self._metadata(with_picture=self._made % PICTURE_EVERY == FIRST_PICTURE)
                self.materialized(metadata)

    def materialized(self, metadata: dict[str, MetadataValue]) -> None:
        """Store a materialization while the run goes on."""
        self._context.log_event(
            AssetMaterialization(self._key, partition=self._datacenter, metadata=metadata)
        )

    def last_metadata(self, result: ShiftResult) -> dict[str, MetadataValue]:
        """What the shift's last materialization says."""
        metadata: dict[str, MetadataValue] = {}
        with self._where_possible():
            metadata = self._metadata(with_picture=True)
        ended = {"ended": MetadataValue.text(result.ended), "seconds": MetadataValue.float(result.seconds)}
        return {**metadata, **ended}

    @contextmanager
    def _where_possible(self) -> Iterator[None]:
        """Reports are for those who watch: a storage of Dagster's that is busy or full ends no shift."""
        try:
            yield
        except Exception:
            log.exception("datacenter %s: a report of its shift could not be stored", self._datacenter)

    def _metadata(self, with_picture: bool) -> dict[str, MetadataValue]:
        now_us = self._clock.now_us()
        self._shift.report(now_us)
        growth = growth_of(self._pipeline, self._datacenter, now_us)
        seen = Seen.of(growth, now_us)
        if is_news(seen, self._seen):
            self._seen = seen
            for observation in observations(self._served, self._datacenter, growth):
                self._context.log_event(observation)
        totals = totals_of(self._pipeline.datacenters[self._datacenter].state)
        return metadata_of(self._shift.reports, totals, growth, with_picture)
