"""Reports of a running shift to Dagster: an observation a minute, and a materialization each fifth time.

The page of an asset shows its latest materialization. So each of these is complete: it has the columns, the
row count and the picture, which are too large for every minute. Each report has the numbers of plots.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from dagster import AssetExecutionContext, AssetMaterialization, AssetObservation, MetadataValue

from photon.assets.pictures import shares_plot
from photon.assets.runs import Metadata, markdown_table
from photon.assets.series import numbers_of_others, of_datacenter
from photon.assets.side_tables import joined_now, rows_now
from photon.dispatcher.retrying import BatchReport
from photon.dispatcher.shift.growth import Growth, growth_of
from photon.dispatcher.shift.misconfigured import signs_of_misconfiguration
from photon.dispatcher.shift.people import ASK_SECONDS, asked_in_time
from photon.dispatcher.shift.report import ShiftLog, ShiftReport
from photon.dispatcher.shift.run import ShiftResult
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Shift
from photon.process.clock import MICROSECONDS, Clock, SystemClock, in_utc
from photon.process.errors import UserError
from photon.process.pace import size, span
from photon.process.readable import counted
from photon.read import Watermark, newest_watermark
from photon.resources.environment import ServedPipeline
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import last_said
from photon.state.database import StateUnavailable
from photon.state.outcomes import Counts
from photon.storage.columns import TableName
from photon.verification.report import equation_table

# Complete are the first report, the second, which may have a picture, each fifth after that, and the last. A
# complete report is three times as large as another.
COMPLETE_EVERY, FIRST_PICTURE = 5, 2
# A plot up to days shows no second: so the report says a longer delay, as of old logs, in words.
MOST_PLOTTED_SECONDS = 3_600.0
NEEDS_YOU = "needs_you"
REPORT_SECONDS = 60.0  # a shift waits so long between two reports, each of which is a row of Dagster's
# Which count tells how many records a side table has. Complete reports materialize those that grew.
COUNT_OF_TABLE: Mapping[TableName, str] = {
    "dead_letters": "dead_letters",
    "unjoined": "unjoinable",
    "too_old": "too_old",
    "conflicting": "conflicting",
}
# Records with another one's id and other content, and rows in doubt because of such: reported if above 0.
OF_OTHER_CONTENT = ("conflicting", "ambiguous", "reused_primaries")

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
        self._reports = 0
        self._rows: int | None = None  # of the table, at the last complete report
        self._reported: dict[TableName, int] = {}  # the records of each side table
        self._is_warned = False  # the run's log has the signs of a wrong pipeline file

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
            is_complete = self._reports == 1 or self._reports % COMPLETE_EVERY == FIRST_PICTURE
            with self._tolerating_errors():
                metadata = self._metadata(is_complete)
                self.materialize(metadata) if is_complete else self._observe(metadata)

    def materialize(self, metadata: Metadata) -> None:
        """Store a materialization while the run goes on."""
        key = self._served.asset_key("joined_events")
        self._context.log_event(AssetMaterialization(key, partition=self._datacenter, metadata=metadata))

    def _observe(self, metadata: Metadata) -> None:
        key = self._served.asset_key("joined_events")
        self._context.log_event(AssetObservation(key, partition=self._datacenter, metadata=metadata))

    def last_metadata(self, result: ShiftResult) -> Metadata:
        metadata: Metadata = {}
        with self._tolerating_errors():
            metadata = self._metadata(is_complete=True)
        return {**metadata, "ended": result.ended}

    @contextmanager
    def _tolerating_errors(self) -> Iterator[None]:
        """Log errors: a storage of Dagster's that is busy or full must not end a shift."""
        try:
            yield
        except Exception:
            log.exception("datacenter %s: a report of its shift could not be stored", self._datacenter)

    def _metadata(self, is_complete: bool) -> Metadata:
        now_us = self._clock.now_us()
        self._shift.report(now_us)
        growth = growth_of(self._pipeline, self._datacenter, now_us)
        if growth.state_unreadable:  # its counts would be shown as 0
            raise StateUnavailable(growth.state_unreadable)
        lake = self._pipeline.datacenters[self._datacenter].lake
        metadata = shift_metadata(self._datacenter, self._shift.reports, growth, last_said(lake), is_complete)
        if is_complete:
            self._materialize_side_tables(growth.state.counts)
            metadata |= self._table() | self._union() | self._signs_of_misconfiguration(growth.state.counts)
        if self._rows is not None:
            metadata |= of_datacenter(self._datacenter, {"rows": self._rows})
        return with_row_count(self._numbers_of_others("joined_events", now_us) | metadata)

    def _numbers_of_others(self, asset: str, now_us: int) -> Metadata:
        key, served = self._served.asset_key(asset), self._served.datacenters
        return numbers_of_others(self._context.instance, key, served, self._datacenter, now_us)

    def _table(self) -> Metadata:
        """The columns and the place of the table; its rows are remembered for the reports to come."""
        found = joined_now(self._pipeline, self._datacenter)
        if found is None:
            return {}
        self._rows, metadata = found
        return metadata

    def _union(self) -> Metadata:
        """How complete the rows of all datacenters are together; nothing where one of them can't be asked."""
        try:
            found = asked_in_time(self._pipeline, lambda: newest_watermark(self._pipeline), ASK_SECONDS)
        except (UserError, OSError):
            return {}
        return union_metadata(found)

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
                    **self._numbers_of_others(table, self._clock.now_us()),
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
    is_complete: bool,
) -> Metadata:
    """Metadata of the latest of a shift's reports, with a picture of all of them if it is complete.

    Two datacenters store this 2,880 times a day: mind what you add.
    """
    latest, latency, counts = reports[-1], reports[-1].latency, growth.state.counts
    numbers: Metadata = {
        "joined": counts.of("joined"),
        "pending": counts.of("pending"),
        "joined_per_second": round(latest.joined_per_second, 2),
        "unread_files": said.unread if said is not None else 0,
        "backlog_bytes": growth.primary.unread_bytes + growth.foreign.unread_bytes,
    }
    numbers |= {name: count for name in OF_OTHER_CONTENT if (count := counts.as_dict()[name])}
    if said is not None:
        times = {"complete_up_to": said.complete_up_to_us, "mostly_complete_up_to": said.mostly_up_to_us}
        numbers |= {name: timestamp(time_us) for name, time_us in times.items() if time_us is not None}
        numbers["came_late"] = said.came_late
    if growth.lag_seconds is not None:
        numbers["lag_seconds"] = round(growth.lag_seconds, 3)
    if latency is not None:
        numbers |= {f"latency_{name}": plotted(seconds) for name, seconds in asdict(latency).items()}
    metadata = {
        "says": says(datacenter, latest, growth),
        "equation": MetadataValue.md(equation(counts)),
        **of_datacenter(datacenter, numbers),
    }
    if is_complete and said is not None:
        metadata["complete"] = f"{datacenter} is {said.sentence()}"
    if is_complete and (picture := shares_plot(reports)) is not None:
        metadata["shares"] = MetadataValue.md(picture)
    return metadata


def plotted(seconds: float) -> float | str:
    """A delay as a number, which Dagster plots; in words if it would flatten all others."""
    if seconds <= MOST_PLOTTED_SECONDS:
        return round(seconds, 3)
    return f"{span(seconds)}, as old as the logs were: no point of the plot"


def with_row_count(metadata: Metadata) -> Metadata:
    """Add the sum of the rows of all datacenters whose rows are known."""
    rows = [value for name, value in metadata.items() if name.endswith("_rows") and isinstance(value, int)]
    return {**metadata, "dagster/row_count": sum(rows)} if rows else metadata


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
    """A moment as the UI shows and plots it."""
    return MetadataValue.timestamp(time_us / MICROSECONDS)


def equation(counts: Counts) -> str:
    """A Markdown table of the classes that there are: they add up to `foreign`."""
    header, foreign, *classes = equation_table({"records": counts.as_dict()})
    return markdown_table([header, foreign, *(row for row in classes if row[1] != "0")])
