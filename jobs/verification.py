"""Verification as a program: every foreign record classified from raw logs and tables.

Makes a report of what the queries bring: counts, and a few examples of what is wrong. Records stay in the
engine that runs the queries: Spark, or this process where there is little to read (docs/adr/0068).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from photon.jobs.cluster import is_cluster
from photon.jobs.dialect import F, union_of, words_of
from photon.jobs.local.session import LocalSession
from photon.jobs.spark_errors import begun_again, told
from photon.jobs.stage_progress import reporting_stages
from photon.jobs.verification_findings import Findings, by_datacenter
from photon.jobs.verification_kept import KeptResults, settled_records
from photon.jobs.verification_primaries import primary_identity
from photon.jobs.verification_queries import LOST, UNDECIDED, Queries, wanted_primaries
from photon.jobs.verification_reach import (
    Unreadable,
    how_far_verified,
    not_looked_for,
    read_files,
    unreadable,
    with_kept_times,
)
from photon.jobs.verification_side_rows import primary_lines_without_rows
from photon.jobs.verification_taken_rows import with_one_of_each_event
from photon.pipeline.file import Pipeline
from photon.releases import copies
from photon.releases.release import CleanVerification
from photon.upkeep.recovery import Recovered, RecoveryPlan
from photon.verification.classes import undecided_evidence
from photon.verification.days import Window
from photon.verification.report import WITHOUT_ROWS, VerificationReport
from photon.verification.scope import MOST_FILES_NAMED, Scope, open_scope
from photon.verification.spool import Spool
from photon.verification.tasks import BATCH_ROWS, PLACE, ROW, TaskScope

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    SparkMaker = Callable[[], SparkSession]


Progress = Callable[[str], None]
# Up to so many bytes of logs, tables and kept results are verified in this process, by DuckDB. That takes
# less than the 15 s in which Spark begins.
WITHOUT_SPARK_BYTES = 64 * 2**20
PLAN_CHARACTERS = 10_000
SHARE_BYTES, LEAST_SHARES = 2**26, 4  # of logs, tables and kept results in a task; Spark joins small ones


def verify(
    pipeline: Pipeline,
    datacenters: Sequence[str],
    progress: Progress = lambda text: None,
    session: SparkSession | LocalSession | SparkMaker | None = None,
    *,
    keep: bool = False,
    anew: bool = False,
    window: Window | None = None,
    pages: bool = False,
) -> VerificationReport:
    """Verify what `datacenters` have read against the tables of all.

    `session`: the one to use, or a function that returns it, called when it is needed; None: it begins and
    ends its own. With None or a function, this process verifies up to `WITHOUT_SPARK_BYTES` by itself.
    Reads what is new since results were kept, and says the same as a verification of all. `keep`: keep the
    results, for the next one. `anew`: read all. `window`: report only events of these times,
    and keep nothing. `pages`: write down what recovery looks at, where that is more than a report holds.
    RegistryMissing, RegistryMismatch, RegistryUnavailable, LakeUnavailable: then nothing is known.
    """
    awaited = copies.awaited(pipeline, datacenters) if window is None else {}
    scope = open_scope(pipeline, datacenters, anew)
    if not scope.selected:
        return VerificationReport({}, rows=0, retired=scope.left_out)

    def reported() -> VerificationReport:
        with _session_of(scope, session, progress) as own, words_of(own), _reporting(own, progress) as say:
            verification = VerificationRun(own, scope, say, pages)
            try:
                return verification.report(keep, window)
            finally:
                verification.close()

    report = begun_again(reported, progress)
    of = {name: replace(one, release=awaited.get(name)) for name, one in report.datacenters.items()}
    report = replace(report, datacenters=of)
    _tell_releases(pipeline, report)
    return report


def recover_now(pipeline: Pipeline, progress: Progress) -> dict[str, Recovered]:
    """Verify all datacenters, and order what was found to be looked at again. Raises as both do."""
    reports = reports_for_recovery(pipeline, list(pipeline.datacenters), progress)
    return RecoveryPlan(pipeline, reports).apply()


def reports_for_recovery(
    pipeline: Pipeline, datacenters: Sequence[str], progress: Progress, window: Window | None = None
) -> dict[str, dict[str, Any]]:
    """Verify these datacenters; their reports, with all that recovery looks at, in a window if there is one.

    Raises as `verify`.
    """
    report = verify(pipeline, datacenters, progress, pages=True, window=window)
    return {name: one.as_dict() for name, one in report.datacenters.items()}


def _tell_releases(pipeline: Pipeline, report: VerificationReport) -> None:
    """Have releases count a datacenter's statements again, none of whose events lacks its row (R4).

    Where nothing at all is wrong, what others did to its tables is over (E11).
    """
    for name, one in report.datacenters.items():
        if one.release is None or one.epoch is None or one.state_is_unreadable:
            continue
        if not any(finding.kind in WITHOUT_ROWS for finding in one.findings):
            clean = -1 if one.violations or one.unverified else one.release
            with suppress(OSError):  # a lake that takes nothing: the next verification tells it
                lake = pipeline.datacenters[name].lake
                copies.note_verified(lake, CleanVerification(one.release, clean=clean))


@contextmanager
def _reporting(session: Any, progress: Progress) -> Iterator[Progress]:
    """Say a step; on Spark, where it may take long, also how far it is."""
    if isinstance(session, LocalSession):
        yield progress
        return
    with reporting_stages(session, progress) as say:
        yield say


@contextmanager
def _session_of(
    scope: Scope, session: SparkSession | LocalSession | SparkMaker | None, progress: Progress
) -> Iterator[Any]:
    """The session in which the queries run: the one that is given, this process, or a Spark of its own."""
    pipeline = scope.pipeline
    lakes = {name: place.lake for name, place in pipeline.datacenters.items()}
    if isinstance(session, LocalSession):
        yield session
        return
    if (session is None or callable(session)) and is_small(pipeline, scope.size_bytes):
        # An adapter may print, and the report goes to the same place.
        with LocalSession(lakes, BATCH_ROWS) as local, redirect_stdout(sys.stderr):
            yield local
        return
    from photon.jobs.session import reach_lakes, session_for, stop_session

    progress("starting Spark")
    given = session() if callable(session) else session
    base = given or session_for(pipeline, f"photon verify {pipeline.name}")
    try:
        reach_lakes(base, pipeline)
        own = base.newSession()  # so that these settings stay with these queries
        own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
        # Compiling the queries took 34 s of 94 s on a small pipeline; on a large one Python's parsing
        # dominates.
        own.conf.set("spark.sql.codegen.wholeStage", "false")
        # Spark writes each plan out as text, with those of all persisted frames in it.
        own.conf.set("spark.sql.maxPlanStringLength", str(PLAN_CHARACTERS))
        # A task holds a share of the records and sorts it, beside those of the other cores.
        shares = -(-(scope.size_bytes or 0) // SHARE_BYTES)
        own.conf.set("spark.sql.shuffle.partitions", str(max(LEAST_SHARES, shares)))
        # Beyond 32 files Spark looks for them in a job with a task for each, though they are named already.
        own.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", str(MOST_FILES_NAMED))
        with told(lakes, [base]):
            yield own
    finally:
        if given is None:
            stop_session(base)


def is_small(pipeline: Pipeline, size_bytes: int | None) -> bool:
    """Whether so much is read in this process; None: nobody knows how much it is."""
    on_cluster = pipeline.spark.master is not None and is_cluster(pipeline.spark.master)
    return not on_cluster and size_bytes is not None and size_bytes <= WITHOUT_SPARK_BYTES


@dataclass(frozen=True)
class QueryResults:
    """The results of the queries."""

    records: DataFrame
    rows: DataFrame  # rows of those records' events
    decided: DataFrame
    verdicts: DataFrame
    ambiguous: DataFrame
    settled: DataFrame  # records that were not looked at
    all_rows: DataFrame
    unreadable: Unreadable
    window: Window | None = None  # None: of all times

    def within(self, window: Window) -> QueryResults:
        """The results for events of a window, by the times of records and rows.

        A row whose time was altered belongs to two windows: its record's, and that of which it says it is.
        """

        def inside(frame: DataFrame, column: str = "time_us") -> DataFrame:
            return frame.where(_is_in(window, column))

        records = inside(self.records)
        its_record = records.select(*PLACE, "event_id", F.lit(True).alias("has_record"))
        rows = self.rows.join(its_record, [*PLACE, "event_id"], "left")
        rows = rows.where(F.coalesce("has_record", _is_in(window, "time_us"))).drop("has_record")
        return QueryResults(
            records,
            rows,
            inside(self.decided),
            self.verdicts.join(rows.select(*ROW), ROW, "left_semi"),
            self.ambiguous.join(rows.select(*ROW), ROW, "left_semi"),
            inside(self.settled, "hour_us"),
            inside(self.all_rows),
            self.unreadable,
            window,
        )

    def compared(self) -> Counter[str]:
        """How many of `all_rows` were compared, by datacenter."""
        verdicts = self.verdicts
        return by_datacenter(verdicts.where(_is_in(self.window, "row_time_us")) if self.window else verdicts)

    def classes(self) -> Counter[tuple[str, str]]:
        """How many of the records that were looked at are in each class, by datacenter and class."""
        counts = _counts(self.records.where(~F.col("class").isin(LOST, UNDECIDED)), "class")
        was_undecided = F.col("evidence").isin(undecided_evidence())
        return counts + _counts(self.decided.where(was_undecided), "outcome")


class VerificationRun:
    """One verification under way. Results of queries that others need are kept until `close`."""

    def __init__(self, session: Any, scope: Scope, progress: Progress, pages: bool) -> None:
        self._session = session
        self._pages = pages
        self._scope = scope
        self._progress = progress
        on_cluster = not isinstance(session, LocalSession) and is_cluster(str(session.sparkContext.master))
        self._spool = Spool(scope.pipeline, in_lakes=on_cluster)
        if not isinstance(session, LocalSession):
            view = self._spool.with_runs_in_files(scope.view, scope.selected[0])
            self._scope = replace(scope, view=view)
        # In this process all is in memory.
        self._level: Any = None if isinstance(session, LocalSession) else _level(on_cluster)

    def close(self) -> None:
        self._spool.close()

    def report(self, keep: bool = False, window: Window | None = None) -> VerificationReport:
        """The report on the events, of a window if there is one; `keep`: keep what is settled."""
        scope, queries = self._scope, self._queries()
        kept = KeptResults(queries, self._computed)
        findings = Findings(self._session, scope, self._pages, kept.known_findings())
        found = self._classify(kept, queries)
        told = found if window is None else found.within(window)
        findings.find_decided(told.decided)
        not_compared = findings.find_differences(told.verdicts, found.unreadable)
        findings.find_ambiguous(told.ambiguous)
        findings.find_rows_without_event(found.records, told.rows, found.unreadable)
        findings.find_duplicate_rows(found.rows, told.rows)
        if scope.taken is not None:
            findings.find_rows_put_back(queries.rows_put_back(told.rows))
        # A line that is no record has no time: it is in no window.
        lines = kept.primaries() if window is None else kept.primaries().limit(0)
        of_primaries = primary_lines_without_rows(queries, lines)
        findings.find_side_rows(told.records, told.decided, of_primaries, found.unreadable)
        primaries = {} if window is not None else self._primaries(kept, queries, findings, found)

        settled_before = _counts(told.settled, "class")
        classes = settled_before + told.classes()
        row_counts, compared = by_datacenter(told.all_rows), told.compared()
        read_now = by_datacenter(found.records.where("lost_path is null"))
        files = with_kept_times(scope, read_files(found.records, found.decided))
        reports = {}
        for name in scope.selected:
            mine = {number: file for (where, number), file in found.unreadable.items() if where == name}
            not_seen = row_counts[name] - compared[name] - settled_before[name, "joined"]
            reports[name] = replace(
                how_far_verified(scope, name, files[name], mine),
                classes={outcome: n for (where, outcome), n in classes.items() if where == name},
                findings=tuple(findings.of[name]),
                rows=row_counts[name],
                records_read=read_now[name],
                rows_not_compared=max(0, not_seen) + not_compared[name],
                primaries=primaries.get(name, {}),
            )
        if keep and window is None:
            self._progress("keeping what is settled")
            in_question = self._computed(union_of(findings.in_question))
            settled = settled_records(found.records, found.decided, found.verdicts, in_question)
            kept.store(self._computed(settled), in_question, reports, files, set(found.unreadable))
        return VerificationReport(reports, rows=row_counts.total(), retired=scope.left_out)

    def _primaries(
        self, kept: KeptResults, queries: Queries, findings: Findings, found: QueryResults
    ) -> dict[str, dict[str, int]]:
        """The identity of primaries, where their owner is verified."""
        of = self._scope.unmatched
        if of is None or of.owner not in self._scope.selected:
            return {}
        self._progress("looking for primary events that nothing was joined with")
        identity = primary_identity(queries, of, kept.primaries(), found.unreadable.keys(), self._computed)
        findings.find_of_primaries(identity)
        return {of.owner: identity.counts}

    def _queries(self) -> Queries:
        return Queries(self._session, self._scope, _task_scope(self._scope), self._spool)

    def _classify(self, kept: KeptResults, queries: Queries) -> QueryResults:
        self._progress("reading the foreign logs and classifying their records")
        new = kept.what_is_new()
        rows = self._computed(new.rows)
        records = self._computed(queries.classified(new.records, rows))
        gone = not_looked_for(self._scope) | unreadable(records, "foreign")
        self._progress("looking for the primary events of what is joined, unjoinable or undecided")
        primaries = self._computed(wanted_primaries(kept.primaries_of(records), records))
        gone |= unreadable(primaries, "primary")
        self._progress("deciding on records that no table has")
        decided = self._computed(queries.decided_records(records, primaries))
        decided = self._computed(with_one_of_each_event(decided))
        self._progress("comparing rows with joins made now")
        verdicts = self._computed(queries.compared_rows(records, primaries))
        ambiguous = queries.ambiguous_rows(records, primaries)
        return QueryResults(
            records, rows, decided, verdicts, ambiguous, new.settled, queries.all_rows(), gone
        )

    def _computed(self, frame: DataFrame) -> DataFrame:
        """The rows themselves in place of the query: nested ones would have plans of gigabytes."""
        return frame.localCheckpoint(storageLevel=self._level)


def _level(on_cluster: bool) -> Any:
    """How Spark holds rows that it can't compute again."""
    from pyspark import StorageLevel

    # Not in memory: rows of millions of records fill a heap of 1 GB, which is what they are sorted in too.
    # Another machine has a copy, in case that one goes.
    return StorageLevel.DISK_ONLY_2 if on_cluster else StorageLevel.DISK_ONLY


def _task_scope(scope: Scope) -> TaskScope:
    offsets = scope.read_offsets.items()
    return TaskScope(
        pipeline=scope.pipeline,
        headers={
            (name, n): tracked.file.header for name, read in offsets for n, tracked in read.files.items()
        },
        row_schemas={name: scope.tables[name, "joined_events"].schema for name, _ in offsets},
        requeued={name: read.requeued for name, read in offsets},
        mended=scope.mended_lines,
        files={(name, n): tracked for name, read in offsets for n, tracked in read.files.items()},
        taken=scope.taken,
    )


def _is_in(window: Window, time_us: str) -> Column:
    return (F.col(time_us) >= window.start_us) & (F.col(time_us) < window.end_us)


def _counts(frame: DataFrame, column: str) -> Counter[tuple[str, str]]:
    """How many rows there are, by datacenter and the value of a column."""
    counted = frame.groupBy("datacenter", column).count().collect()
    return Counter({(row["datacenter"], row[column]): row["count"] for row in counted})
