"""Verification as a program: every foreign record classified from raw logs and tables.

Makes a report of what the queries bring: counts, and a few examples of what is wrong. Records stay in the
engine that runs the queries: Spark, or this process where there is little to read (docs/adr/0068).
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jobs.cluster import is_cluster
from jobs.damaged_files import naming_damaged_files
from jobs.dialect import F, union_of, words_of
from jobs.local.session import LocalSession
from jobs.verification_kept import KeptResults, settled_records
from jobs.verification_queries import LOST, UNDECIDED, Queries, wanted_primaries
from jobs.verification_reach import (
    Unreadable,
    how_far_verified,
    not_looked_for,
    read_files,
    unreadable,
    with_kept_times,
)
from photon.pipeline.file import Pipeline
from photon.registry.interface import RegistryUnavailable
from photon.verification import case_pages
from photon.verification.classes import Evidence, undecided_evidence
from photon.verification.days import Window
from photon.verification.report import Case, Example, Finding, FindingKind, VerificationReport
from photon.verification.scope import MOST_FILES_NAMED, Scope, open_scope
from photon.verification.spool import Spool
from photon.verification.tasks import BATCH_ROWS, PLACE, ROW, TaskScope

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    SparkMaker = Callable[[], SparkSession]

Progress = Callable[[str], None]
PLAN_CHARACTERS = 10_000
MISSING: tuple[FindingKind, ...] = ("missing", "missing_and_cleared")  # of one class


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

    `session`: instead of one of its own; or what makes one, or has it already, when it is needed. It is not
    if there is no more to read than `verification.without_spark`: then this process does it.
    Reads what is new since results were kept, and says the same as a verification of all. `keep`: keep the
    results, for the next one. `anew`: read all. `window`: report only events of these times,
    and keep nothing. `pages`: write down what recovery looks at, where that is more than a report holds.
    RegistryMissing, RegistryMismatch, RegistryUnavailable, LakeUnavailable: then nothing is known.
    """
    scope = open_scope(pipeline, datacenters, anew)
    if not scope.selected:
        return VerificationReport({}, rows=0, retired=scope.left_out)
    with _session_of(scope, session, progress) as own, words_of(own):
        verification = Verification(own, scope, progress, pages)
        try:
            return verification.report(keep, window)
        finally:
            verification.close()


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
        # What an adapter prints is not the report.
        with LocalSession(lakes, BATCH_ROWS) as local, redirect_stdout(sys.stderr):
            yield local
        return
    from jobs.session import reach_lakes, session_for, stop_session

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
        # Beyond 32 files Spark looks for them in a job with a task for each, though they are named already.
        own.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", str(MOST_FILES_NAMED))
        with naming_damaged_files(lakes):
            yield own
    finally:
        if given is None:
            stop_session(base)


def is_small(pipeline: Pipeline, size_bytes: int | None) -> bool:
    """Whether so much is read in this process; None: nobody knows how much it is."""
    on_cluster = pipeline.spark.master is not None and is_cluster(pipeline.spark.master)
    return not on_cluster and size_bytes is not None and size_bytes <= pipeline.verification.local_bytes


@dataclass(frozen=True)
class Found:
    """What the queries have brought."""

    records: DataFrame
    rows: DataFrame  # of their events
    decided: DataFrame
    verdicts: DataFrame
    settled: DataFrame  # records that were not looked at
    all_rows: DataFrame
    unreadable: Unreadable
    window: Window | None = None  # None: of all times

    def within(self, window: Window) -> Found:
        """What belongs to the events of a window, by the times of records and rows.

        A row whose time was altered belongs to two windows: its record's, and that of which it says it is.
        """

        def inside(frame: DataFrame, column: str = "time_us") -> DataFrame:
            return frame.where(_is_in(window, column))

        records = inside(self.records)
        its_record = records.select(*PLACE, "event_id", F.lit(True).alias("has_record"))
        rows = self.rows.join(its_record, [*PLACE, "event_id"], "left")
        rows = rows.where(F.coalesce("has_record", _is_in(window, "time_us"))).drop("has_record")
        return Found(
            records,
            rows,
            inside(self.decided),
            self.verdicts.join(rows.select(*ROW), ROW, "left_semi"),
            inside(self.settled, "hour_us"),
            inside(self.all_rows),
            self.unreadable,
            window,
        )

    def compared(self) -> Counter[str]:
        """How many of `all_rows` were compared, by datacenter."""
        verdicts = self.verdicts
        return _by_datacenter(verdicts.where(_is_in(self.window, "row_time_us")) if self.window else verdicts)

    def classes(self) -> Counter[tuple[str, str]]:
        """How many of the records that were looked at are in each class, by datacenter and class."""
        counts = _counts(self.records.where(~F.col("class").isin(LOST, UNDECIDED)), "class")
        was_undecided = F.col("evidence").isin(undecided_evidence())
        outcome = F.when(F.col("outcome").isin(*MISSING), "missing").otherwise(F.col("outcome"))
        return counts + _counts(self.decided.where(was_undecided).withColumn("outcome", outcome), "outcome")


class Verification:
    """One verification under way. Results of queries that others need are kept until `close`."""

    def __init__(self, session: Any, scope: Scope, progress: Progress, pages: bool) -> None:
        self._session = session
        self._pages = pages
        self._scope = scope
        self._progress = progress
        self._persisted: list[DataFrame] = []
        on_cluster = not isinstance(session, LocalSession) and is_cluster(str(session.sparkContext.master))
        self._spool = Spool(scope.pipeline, in_lakes=on_cluster)
        # In this process all is in memory.
        levels = (None, None) if isinstance(session, LocalSession) else _levels(on_cluster)
        self._on_disk: Any = levels[0]
        self._level: Any = levels[1]
        self._findings: dict[str, list[Finding]] = {n: scope.findings(n) for n in scope.selected}
        self._known: DataFrame | None = None  # findings that were told before
        self._in_question: list[DataFrame] = []  # cases, and events of which nobody can tell

    def close(self) -> None:
        for frame in self._persisted:
            frame.unpersist()
        self._spool.close()

    def report(self, keep: bool = False, window: Window | None = None) -> VerificationReport:
        """What was found, of the events of a window if there is one; `keep`: keep what is settled."""
        scope, queries = self._scope, self._queries()
        kept = KeptResults(queries, self._computed)
        if scope.can_be_kept:
            self._known = kept.known_findings()
        found = self._classify(kept, queries)
        told = found if window is None else found.within(window)
        self._find_decided(told.decided)
        not_compared = self._find_differences(told.verdicts, found.unreadable)
        self._find_rows_without_event(found.records, told.rows, found.unreadable)
        self._find_duplicate_rows(found.rows, told.rows)
        if scope.pipeline.foreign.time_in_id:
            self._find_same_ids(told.records)

        settled_before = _counts(told.settled, "class")
        classes = settled_before + told.classes()
        row_counts, compared = _by_datacenter(told.all_rows), told.compared()
        read_now = _by_datacenter(found.records.where("lost_path is null"))
        files = with_kept_times(scope, read_files(found.records, found.decided))
        reports = {}
        for name in scope.selected:
            mine = {number: file for (where, number), file in found.unreadable.items() if where == name}
            not_seen = row_counts[name] - compared[name] - settled_before[name, "joined"]
            reports[name] = replace(
                how_far_verified(scope, name, files[name], mine),
                classes={outcome: n for (where, outcome), n in classes.items() if where == name},
                findings=tuple(self._findings[name]),
                rows=row_counts[name],
                records_read=read_now[name],
                rows_not_compared=max(0, not_seen) + not_compared[name],
            )
        if keep and scope.can_be_kept and window is None:
            self._progress("keeping what is settled")
            in_question = self._computed(union_of(self._in_question))
            settled = settled_records(found.records, found.decided, found.verdicts, in_question)
            kept.store(self._computed(settled), in_question, reports, files, set(found.unreadable))
        return VerificationReport(reports, rows=row_counts.total(), retired=scope.left_out)

    def _queries(self) -> Queries:
        return Queries(self._session, self._scope, _task_scope(self._scope), self._spool)

    def _classify(self, kept: KeptResults, queries: Queries) -> Found:
        self._progress("reading the foreign logs and classifying their records")
        new = kept.what_is_new()
        read = self._persist(new.records) if self._scope.pipeline.foreign.time_in_id else new.records
        rows = self._persist(queries.with_event(new.rows, read))
        records = self._persist(queries.classified(read, rows))
        gone = not_looked_for(self._scope) | unreadable(records, "foreign")
        self._progress("looking for the primary events of what is joined, unjoinable or undecided")
        primaries = self._persist(wanted_primaries(kept.primaries_of(records), records))
        gone |= unreadable(primaries, "primary")
        self._progress("deciding on records that no table has")
        decided = self._persist(queries.decided_records(records, primaries))
        self._progress("comparing rows with joins made now")
        verdicts = self._persist(queries.compared_rows(records, primaries))
        return Found(records, rows, decided, verdicts, new.settled, queries.all_rows(), gone)

    def _persist(self, frame: DataFrame) -> DataFrame:
        # On disk too: records may be more than memory.
        self._persisted.append(frame.persist(self._on_disk))
        return frame

    def _computed(self, frame: DataFrame) -> DataFrame:
        """The rows themselves in place of the query: nested ones would have plans of gigabytes."""
        return frame.localCheckpoint(storageLevel=self._level)

    # -- findings

    def _find(self, kind: FindingKind, cases: DataFrame, to_recover: bool = False) -> None:
        """Report cases: rows with datacenter, event_id, where, detail; those `to_recover` one by one."""
        most = self._scope.pipeline.verification.examples
        cases = self._with_what_is_known(kind, cases.withColumn("kind", F.lit(kind)))
        self._in_question.append(cases.select("datacenter", "kind", "event_id", "known_us"))
        acting = F.col("datacenter")
        if to_recover:
            of_others = F.col("holder").isNotNull() & ~F.col("holder").isin(list(self._scope.never_acting))
            acting = F.when(of_others, F.col("holder")).otherwise(acting)
        counts: dict[str, list[Row]] = defaultdict(list)
        new = F.count_if(F.col("known_us").isNull()).alias("new")
        grouped = cases.groupBy("datacenter", acting.alias("acting"))
        for row in grouped.agg(F.count("*").alias("cases"), new).collect():
            counts[row["datacenter"]].append(row)
        for datacenter, rows in counts.items():
            if datacenter in self._findings:
                some = cases.where(F.col("datacenter") == datacenter)
                some = some.orderBy(F.col("known_us").desc_nulls_first(), "event_id", "where")
                count = sum(row["cases"] for row in rows)
                in_pages = self._pages and to_recover and count > case_pages.MOST_CASES
                found = some.limit(case_pages.MOST_CASES if to_recover and not in_pages else most).collect()
                examples = (
                    Example(one["event_id"], one["where"], one["detail"], one["known_us"])
                    for one in found[:most]
                )
                every = tuple(_case(one) for one in found) if to_recover else ()
                pages: tuple[str, ...] = ()
                if in_pages:
                    streamed = (_case(one) for one in some.toLocalIterator())
                    every, pages = case_pages.store_pages(self._scope.pipeline, datacenter, streamed)
                finding = Finding(
                    kind,
                    count,
                    tuple(examples),
                    every,
                    pages,
                    new=sum(row["new"] for row in rows) if self._known is not None else None,
                    acting={row["acting"]: row["cases"] for row in rows},
                )
                self._findings[datacenter].append(finding)

    def _with_what_is_known(self, kind: FindingKind, cases: DataFrame) -> DataFrame:
        """Cases with `known_us`: when a recorded verification told them first."""
        if self._known is None:
            return cases.withColumn("known_us", F.lit(None).cast("long"))
        known = self._known.where(F.col("kind") == kind).select("datacenter", "event", "known_us")
        cases = cases.withColumn("event", F.xxhash64("event_id"))
        return cases.join(known, ["datacenter", "event"], "left").drop("event")

    def _find_decided(self, decided: DataFrame) -> None:
        """Report missing and joinable records. RegistryUnavailable if some might be too old, or held."""
        unavailable = decided.where("outcome = 'unavailable'").select("detail").first()
        if unavailable is not None:
            raise RegistryUnavailable(unavailable["detail"])
        where = F.format_string("%d:%d", "file", "offset").alias("where")
        held = ("holder", "token")
        cases = decided.select("datacenter", "event_id", where, "detail", "outcome", "evidence", *held)
        for kind in MISSING:
            self._find(kind, cases.where(F.col("outcome") == kind), to_recover=True)
        joinable = cases.where("outcome = 'joinable'")
        given_up = F.col("evidence").bitwiseAND(F.lit(int(Evidence.GIVEN_UP))) != 0
        self._find("unjoinable_but_joinable_when_complete", joinable.where(given_up), True)
        self._find("unjoinable_but_joinable", joinable.where(~given_up), True)

    def _find_differences(self, verdicts: DataFrame, unreadable: Unreadable) -> Counter[str]:
        """Report rows that differ. Returns how many could not be compared, because their primary is gone."""
        gone = self._files(unreadable).select(
            "datacenter", F.col("file").alias("primary_file"), F.lit(True).alias("gone")
        )
        verdicts = verdicts.join(gone, ["datacenter", "primary_file"], "left")
        can_not = (F.col("verdict") == "no primary") & (F.col("primary_file").isNull() | F.col("gone"))
        can_not = F.coalesce(can_not, F.lit(False))
        nobody = [F.lit(None).cast("string"), "event_id", F.lit(None).cast("long")]
        self._in_question.append(verdicts.where(can_not).select("datacenter", *nobody))
        cases = verdicts.where(F.col("verdict") != "same").where(~can_not)
        where = _row_place("row_time_us")
        self._find("different_values", cases.select("datacenter", "event_id", where, "detail"))
        return _by_datacenter(verdicts.where(can_not))

    def _find_rows_without_event(self, records: DataFrame, rows: DataFrame, unreadable: Unreadable) -> None:
        """Report rows whose event is not at their place in the raw logs, where that place can be read."""
        expected = rows.where("complete").where(F.col("datacenter").isin(list(self._scope.selected)))
        expected = expected.join(self._files(unreadable), ["datacenter", "file"], "left_anti")
        present = records.where(F.col("event_id").isNotNull()).select(*PLACE, "event_id")
        without = expected.join(present, [*PLACE, "event_id"], "left_anti")
        detail = F.lit("no record of this id begins there").alias("detail")
        cases = without.select("datacenter", "event_id", _row_place("time_us"), detail)
        self._find("row_without_event", cases)

    def _files(self, unreadable: Unreadable) -> DataFrame:
        """As a table to join: where logs are deleted after a while there may be many thousands."""
        return F.broadcast(self._session.createDataFrame(sorted(unreadable), "datacenter string, file int"))

    def _find_duplicate_rows(self, rows: DataFrame, told: DataFrame) -> None:
        """Report events of `told` with several rows, each in the first selected datacenter that has one."""
        mine = F.col("datacenter").isin(list(self._scope.selected))
        place = F.concat("datacenter", F.lit(": "), _row_place("time_us"))
        of_told = rows if told is rows else rows.join(told.select("event").distinct(), "event", "left_semi")
        grouped = of_told.groupBy("event").agg(
            F.count("*").alias("rows"),
            F.min(F.when(mine, F.col("datacenter"))).alias("datacenter"),
            F.first("event_id").alias("event_id"),
            F.concat_ws("; ", F.sort_array(F.collect_list(place))).alias("where"),
        )
        detail = F.concat("rows", F.lit(" rows")).alias("detail")
        cases = grouped.where("rows > 1").select("datacenter", "event_id", "where", detail)
        self._find("duplicate_rows", cases.where(F.col("datacenter").isNotNull()))

    def _find_same_ids(self, records: DataFrame) -> None:
        known = records.where(F.col("event_id").isNotNull())
        events = F.count_distinct("event")
        times = F.concat_ws(", ", F.sort_array(F.collect_set(F.col("time_us").cast("string"))))
        grouped = known.groupBy("datacenter", "event_id").agg(events.alias("events"), times.alias("times"))
        detail = F.concat(F.lit("times in microseconds: "), "times").alias("detail")
        where = F.lit("raw logs").alias("where")
        cases = grouped.where("events > 1").select("datacenter", "event_id", where, detail)
        self._find("same_id_two_times", cases)


def _levels(on_cluster: bool) -> tuple[Any, Any]:
    """How Spark holds rows: those that it can compute again, and those that it can't."""
    from pyspark import StorageLevel

    # What was computed on a machine that goes is not computed again: another one has it too.
    return StorageLevel.MEMORY_AND_DISK, (
        StorageLevel.MEMORY_AND_DISK_2 if on_cluster else StorageLevel.MEMORY_AND_DISK
    )


def _task_scope(scope: Scope) -> TaskScope:
    offsets = scope.read_offsets.items()
    return TaskScope(
        pipeline=scope.pipeline,
        address=scope.address,
        epochs=scope.epochs,
        headers={
            (name, n): tracked.file.header for name, read in offsets for n, tracked in read.files.items()
        },
        row_schemas={name: scope.tables[name, "joined_events"].schema for name, _ in offsets},
        requeued={name: read.requeued for name, read in offsets},
        mended=scope.mended_lines,
        files={(name, n): tracked for name, read in offsets for n, tracked in read.files.items()},
    )


def _is_in(window: Window, time_us: str) -> Column:
    return (F.col(time_us) >= window.start_us) & (F.col(time_us) < window.end_us)


def _case(row: Row) -> Case:
    return Case(row["event_id"], row["where"], row["evidence"], row["holder"], row["token"])


def _row_place(time_us: str) -> Column:
    """Where a row is; with the day that it says it is of, by which a rebuild finds it."""
    day = F.coalesce(F.date_format(F.timestamp_micros(time_us), "yyyy-MM-dd"), F.lit("no day"))
    parts = (F.lit("row of "), day, F.lit(", batch "), "batch", F.lit(", occurrence "))
    return F.concat(*parts, F.coalesce("occurrence", F.lit("none"))).alias("where")


def _counts(frame: DataFrame, column: str) -> Counter[tuple[str, str]]:
    """How many rows there are, by datacenter and the value of a column."""
    counted = frame.groupBy("datacenter", column).count().collect()
    return Counter({(row["datacenter"], row[column]): row["count"] for row in counted})


def _by_datacenter(frame: DataFrame) -> Counter[str]:
    """How many rows there are, by datacenter."""
    counted = frame.groupBy("datacenter").count().collect()
    return Counter({row["datacenter"]: row["count"] for row in counted})
