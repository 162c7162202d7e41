"""Reports of a running shift to Dagster: materializations, and observations of its logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from dagster import AssetExecutionContext, AssetMaterialization, MetadataValue

from assets.logs import ObservedLogs, observations, of_datacenter
from assets.pictures import latency_plot, shares_plot
from assets.runs import Metadata, markdown_table
from assets.side_tables import joined_now, rows_now
from photon.dispatcher.retrying import BatchReport
from photon.dispatcher.shift.growth import Growth, growth_of
from photon.dispatcher.shift.misconfigured import signs_of_misconfiguration
from photon.dispatcher.shift.report import ShiftLog, ShiftReport
from photon.dispatcher.shift.run import ShiftResult
from photon.errors import UserError
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Shift
from photon.process.clock import MICROSECONDS, Clock, SystemClock, in_utc
from photon.process.pace import size, span
from photon.process.readable import counted
from photon.read import Watermark, newest_watermark
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import last_said
from photon.state.database import StateUnavailable
from photon.state.outcomes import Counts
from photon.storage.columns import TableName
from photon.verification.report import equation_table
from resources.environment import ServedPipeline

# A picture is a third of a stored report: the second report has the first one, then each fifth, and the last.
PICTURE_EVERY, FIRST_PICTURE = 5, 2
NEEDS_YOU = "needs_you"
REPORT_SECONDS = 60.0  # a shift waits so long between two reports, each of which is a row of Dagster's
# Which count tells how many records a side table has. Reports with a picture materialize those that grew.
COUNT_OF_TABLE: Mapping[TableName, str] = {
    "dead_letters": "dead_letters",
    "unjoined": "unjoinable",
    "too_old": "too_old",
    "conflicting": "conflicting",
}

log = logging.getLogger(__name__)


def report_seconds(shift: Shift) -> float:
    """How long a shift waits between two reports: so short that it reports before it ends for being idle."""
    return min(REPORT_SECONDS, shift.idle_timeout.total_seconds() / 2)


class Reporter:
    """Reports one shift in the events of its run."""

    def __init__(
        self,
        context: AssetExecutionContext,
        served: ServedPipeline,
        pipeline: Pipeline,
        clock: Clock | None = None,
    ) -> None:
        """`served` names the assets; `pipeline` is its file as this run has read it."""
        self._context = context
        self._served = served
        self._pipeline = pipeline
        self._datacenter = context.partition_key
        self._clock = clock or SystemClock()
        self._shift = ShiftLog(report_seconds(pipeline.shift))
        self._observed: ObservedLogs | None = None
        self._reports = 0
        self._reported: dict[TableName, int] = {}  # the records of each side table
        self._is_warned = False  # a join that nobody can have meant was warned of

    def on_batch(self, batch: BatchReport) -> None:
        """Add a batch, and report if it is time."""
        self._shift.add(batch, self._clock.now_us())
        self.report_if_due()

    def on_wait(self, reason: str) -> None:
        self._shift.waits(self._clock.now_us())
        with self._tolerating_errors():
            self._context.log.warning("waits: %s", reason)

    def on_resume(self, reason: str, seconds: float) -> None:
        with self._tolerating_errors():
            since = in_utc(self._clock.now_us() - round(seconds * MICROSECONDS), "seconds")
            self._context.log.info(
                "goes on: since %s, for %s, it has waited: %s", since, span(seconds), reason
            )

    def report_if_due(self) -> None:
        """Report if it is time. Call it while the shift waits too: then people want to know the backlog."""
        if self._shift.is_due(self._clock.now_us()):
            self._reports += 1
            with self._tolerating_errors():
                self.materialize(self._metadata(self._reports % PICTURE_EVERY == FIRST_PICTURE))

    def materialize(self, metadata: Metadata) -> None:
        """Store a materialization while the run goes on."""
        key = self._served.asset_key("joined_events")
        self._context.log_event(AssetMaterialization(key, partition=self._datacenter, metadata=metadata))

    def last_metadata(self, result: ShiftResult) -> Metadata:
        metadata: Metadata = {}
        with self._tolerating_errors():
            metadata = self._metadata(with_picture=True)
        return {**metadata, "ended": result.ended, "seconds": float(result.seconds)}

    @contextmanager
    def _tolerating_errors(self) -> Iterator[None]:
        """Log errors: a storage of Dagster's that is busy or full must not end a shift."""
        try:
            yield
        except Exception:
            log.exception("datacenter %s: a report of its shift could not be stored", self._datacenter)

    def _metadata(self, with_picture: bool) -> Metadata:
        now_us = self._clock.now_us()
        self._shift.report(now_us)
        growth = growth_of(self._pipeline, self._datacenter, now_us)
        if growth.state_unreadable:  # not to be shown as empty
            raise StateUnavailable(growth.state_unreadable)
        observed = ObservedLogs.of(growth, now_us)
        if observed.is_due(self._observed):
            self._observed = observed
            for observation in observations(self._served, self._datacenter, growth):
                self._context.log_event(observation)
        lake = self._pipeline.datacenters[self._datacenter].lake
        metadata = shift_metadata(
            self._datacenter, self._shift.reports, growth, last_said(lake), with_picture
        )
        if with_picture:
            self._materialize_side_tables(growth.state.counts)
            metadata |= joined_now(self._pipeline, self._datacenter)
            metadata |= self._union()
            metadata |= self._signs_of_misconfiguration(growth.state.counts)
        return metadata

    def _union(self) -> Metadata:
        """How complete the rows of all datacenters are together; nothing where one of them can't be asked."""
        try:
            return union_metadata(newest_watermark(self._pipeline))
        except (UserError, OSError):
            return {}

    def _signs_of_misconfiguration(self, counts: Counts) -> Metadata:
        """Signs that the pipeline file is wrong, and what to look at; a run warns of it once."""
        signs = signs_of_misconfiguration(self._pipeline, self._datacenter, counts.as_dict())
        if not signs:
            return {}
        if not self._is_warned:
            self._is_warned = True
            self._context.log.warning("nobody can have meant this: %s", "; ".join(signs))
        return {NEEDS_YOU: MetadataValue.md("\n".join(f"- {each}" for each in signs))}

    def _materialize_side_tables(self, counts: Counts) -> None:
        """Materialize each side table that has more than at the last report."""
        for table, name in COUNT_OF_TABLE.items():
            records = counts.as_dict()[name]
            if records != self._reported.get(table, 0):
                self._reported[table] = records
                metadata = {
                    **of_datacenter(self._datacenter, {"records": records}),
                    **rows_now(self._pipeline, self._served.datacenters, table),
                }
                self._context.log_event(
                    AssetMaterialization(self._served.asset_key(table), metadata=metadata)
                )


def shift_metadata(
    datacenter: str,
    reports: Sequence[ShiftReport],
    growth: Growth,
    said: Completeness | None,
    with_picture: bool,
) -> Metadata:
    """Metadata of the latest of a shift's reports, with a picture of all of them if it is asked for.

    Two datacenters store this 2,880 times a day: mind what you add.
    """
    latest, latency, counts = reports[-1], reports[-1].latency, growth.state.counts
    numbers: Metadata = {
        "joined": counts.of("joined"),
        "pending": counts.of("pending"),
        "joined_per_second": round(latest.joined_per_second, 2),
        "backlog_bytes": growth.primary.unread_bytes + growth.foreign.unread_bytes,
    }
    if said is not None:
        times = {"complete_up_to": said.complete_up_to_us, "mostly_complete_up_to": said.mostly_up_to_us}
        numbers |= {name: timestamp(time_us) for name, time_us in times.items() if time_us is not None}
        numbers["came_late"] = said.came_late
    if growth.lag_seconds is not None:
        numbers["lag_seconds"] = round(growth.lag_seconds, 3)
    if latency is not None:
        numbers |= {f"latency_{name}": round(seconds, 3) for name, seconds in asdict(latency).items()}
    metadata = {
        "says": says(datacenter, latest, growth),
        "equation": MetadataValue.md(equation(counts)),
        **of_datacenter(datacenter, numbers),
    }
    if with_picture and said is not None:
        metadata["complete"] = f"{datacenter} is {said.sentence()}"
    if with_picture:
        pictures = {"latency": latency_plot(reports), "shares": shares_plot(reports)}
        metadata |= {name: MetadataValue.md(one) for name, one in pictures.items() if one is not None}
    return metadata


def union_metadata(found: Watermark) -> Metadata:
    """Up to which event times the union of the datacenters' rows is complete."""
    times = {"complete_up_to": found.complete_up_to, "mostly_complete_up_to": found.mostly_up_to}
    return {
        f"union_{name}": MetadataValue.timestamp(time) for name, time in times.items() if time is not None
    }


def says(datacenter: str, latest: ShiftReport, growth: Growth) -> str:
    """The shift's work since its last report, in a sentence."""
    unread_bytes = growth.primary.unread_bytes + growth.foreign.unread_bytes
    return (
        f"{datacenter} joined {counted(latest.joined, 'event')} in {counted(latest.batches, 'batch')} within"
        f" {latest.seconds:,.0f} s; {growth.state.counts.of('pending'):,} wait, {size(unread_bytes)} unread;"
        f" batch {growth.state.completed:,} of epoch {growth.state.epoch or 'none'}"
    )


def timestamp(time_us: int) -> MetadataValue:
    """A time of day as the UI shows and plots it."""
    return MetadataValue.timestamp(time_us / MICROSECONDS)


def equation(counts: Counts) -> str:
    """A Markdown table of the classes that there are: they add up to `foreign`."""
    header, foreign, *classes = equation_table({"records": counts.as_dict()})
    return markdown_table([header, foreign, *(row for row in classes if row[1] != "0")])
