"""Verification as a Spark program: every foreign record classified from raw logs and tables.

Runs the queries of `jobs.verification_queries` and makes a report of what comes back: counts, and a few
examples of what is wrong. Records stay in Spark. What facts mean is decided in `photon.verification.classes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs.session import build_session, stop_session
from jobs.verification_queries import (
    LOST,
    OPEN,
    PLACE,
    classified,
    compared,
    decided_records,
    foreign_records,
    primary_records,
    rows_that_count,
    wanted_primaries,
    with_event,
)
from photon.logs.files import Side
from photon.pipeline.file import Pipeline
from photon.registry.interface import RegistryUnavailable
from photon.verification.classes import Fact, open_facts, verified_until_us
from photon.verification.report import (
    DatacenterReport,
    Example,
    Finding,
    FindingKind,
    Unverified,
    VerificationReport,
)
from photon.verification.scope import MOST_FILES_NAMED, Scope, open_scope
from photon.verification.tasks import BATCH_ROWS, TaskScope
from photon.verification.verified_files import newly_verified_offsets, summarize_unreadable

Progress = Callable[[str], None]

# Files that can't be read again from some byte on, by datacenter and number.
Unreadable = dict[tuple[str, int], Unverified]

WITHOUT_PRIMARIES = "without some primary logs, records that were filtered may be counted as unjoinable"
MISSING: tuple[FindingKind, ...] = ("missing", "missing_and_cleared")  # of one class


def verify(
    pipeline: Pipeline,
    datacenters: Sequence[str],
    progress: Progress = lambda text: None,
    session: SparkSession | None = None,
) -> VerificationReport:
    """Verify the windows of `datacenters` against the tables of all; in a session of its own, if need be.

    RegistryMissing, RegistryMismatch, RegistryUnavailable, LakeUnavailable: then nothing is known.
    """
    scope = open_scope(pipeline, datacenters)
    progress("starting Spark")
    base = session or build_session(f"photon verify {pipeline.name}")
    own = base.newSession()  # so that these settings stay with these queries
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    # Compiling the queries took 34 s of 94 s on a small pipeline; on a large one Python's parsing dominates.
    own.conf.set("spark.sql.codegen.wholeStage", "false")
    # Beyond 32 files Spark looks for them in a job with a task for each, though they are named already.
    own.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", str(MOST_FILES_NAMED))
    verification = Verification(own, scope, progress)
    try:
        return verification.report()
    finally:
        verification.forget()
        if session is None:
            stop_session(base)


@dataclass(frozen=True)
class FirstUndecided:
    """Of a foreign file's records without a final class: where the first begins, when the earliest was."""

    offset_bytes: int
    event_us: int | None


class Verification:
    """One verification under way. What several queries need is kept until `forget`."""

    def __init__(self, session: SparkSession, scope: Scope, progress: Progress) -> None:
        self._session = session
        self._scope = scope
        self._progress = progress
        self._examples = scope.pipeline.verification.examples
        self._kept: list[DataFrame] = []
        self._findings: dict[str, list[Finding]] = {name: [] for name in scope.selected}

    def forget(self) -> None:
        """Free what was kept."""
        for frame in self._kept:
            frame.unpersist()

    def report(self) -> VerificationReport:
        """Run everything."""
        session, scope, tasks = self._session, self._scope, self._task_scope()
        time_in_id = scope.pipeline.foreign.time_in_id
        self._progress("reading the foreign logs and classifying their records")
        read = foreign_records(session, scope, tasks)
        if time_in_id:
            read = self._keep(read)
        rows = self._keep(with_event(rows_that_count(session, scope), read, time_in_id))
        records = self._keep(classified(session, scope, read, rows))
        classes = _counts(records.where(F.col("class") != LOST), "class")
        unreadable = _not_looked_for(scope) | _unreadable(records, "foreign")

        self._progress("looking for the primary events of what is joined, unjoinable or open")
        primaries = self._keep(wanted_primaries(primary_records(session, scope, tasks), records))
        unreadable |= _unreadable(primaries, "primary")

        self._progress("deciding on records that no table has")
        decided = self._keep(decided_records(session, scope, records, primaries, tasks))
        _require_registry(decided)
        was_open = F.col("facts").isin(open_facts())
        outcome = F.when(F.col("outcome").isin(*MISSING), "missing").otherwise(F.col("outcome"))
        classes += _counts(decided.where(was_open).withColumn("outcome", outcome), "outcome")
        self._find_undecided(decided)

        latest, undecided = self._latest(records), self._undecided(records, decided)

        self._progress("comparing rows with joins made afresh")
        verdicts = self._keep(compared(session, scope, records, primaries, tasks))
        not_compared = self._find_differences(verdicts, unreadable)
        self._find_rows_without_event(records, rows, unreadable)
        self._find_duplicate_rows(rows)
        if time_in_id:
            self._find_same_ids(records)
        by_datacenter = rows.groupBy("datacenter").count().collect()
        row_counts = Counter({row["datacenter"]: row["count"] for row in by_datacenter})
        rows_compared = _sums(_counts(verdicts, "verdict"))

        def of_datacenter(name: str) -> DatacenterReport:
            window, verified = scope.windows[name], scope.verified[name]
            mine = {number: file for (where, number), file in unreadable.items() if where == name}
            unverified, verified_earlier = summarize_unreadable(mine, window.files, verified)
            starts = {number: first.offset_bytes for number, first in undecided[name].items()}
            no_primaries = any(file.side == "primary" for file in mine.values())
            return DatacenterReport(
                classes={c: n for (where, c), n in classes.items() if where == name and c != OPEN},
                findings=tuple(self._findings[name]),
                unverified=unverified,
                verified_earlier=verified_earlier,
                rows=row_counts[name],
                rows_not_compared=max(0, row_counts[name] - rows_compared[name]) + not_compared[name],
                notes=(*scope.notes(name), *([WITHOUT_PRIMARIES] if no_primaries else [])),
                verified_until_us=self._verified_until_us(name, latest[name], undecided[name]),
                epoch=window.epoch,
                newly_verified_offsets=newly_verified_offsets(window.of("foreign"), starts, mine, verified),
            )

        reports = {name: of_datacenter(name) for name in scope.selected}
        return VerificationReport(reports, rows=row_counts.total())

    def _task_scope(self) -> TaskScope:
        scope = self._scope
        windows = scope.windows.items()
        tables = scope.tables.items()
        return TaskScope(
            pipeline=scope.pipeline,
            address=scope.address,
            epochs=scope.epochs,
            headers={(name, n): t.file.header for name, window in windows for n, t in window.files.items()},
            row_schemas={name: at.schema for (name, table), at in tables if table == "joined_events"},
            requeued={name: window.requeued for name, window in windows},
        )

    def _keep(self, frame: DataFrame) -> DataFrame:
        # On disk too: records may be more than memory.
        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    # -- how far it reaches

    def _latest(self, records: DataFrame) -> dict[str, dict[int, int]]:
        """The latest event time read from each foreign file, by datacenter and number."""
        by_file = records.where("event_us is not null").groupBy("datacenter", "file")
        latest: dict[str, dict[int, int]] = {name: {} for name in self._scope.windows}
        for row in by_file.agg(F.max("event_us").alias("latest_us")).collect():
            latest[row["datacenter"]][row["file"]] = row["latest_us"]
        return latest

    def _undecided(self, records: DataFrame, decided: DataFrame) -> dict[str, dict[int, FirstUndecided]]:
        """The foreign files that have records without a final class, by datacenter and number."""
        columns = [*PLACE, "event_us"]
        pending = records.where("class = 'pending'").select(*columns)
        pending = pending.union(decided.where("outcome = 'pending'").select(*columns))
        first = pending.groupBy("datacenter", "file").agg(
            F.min("offset").alias("first"), F.min("event_us").alias("earliest_us")
        )
        undecided: dict[str, dict[int, FirstUndecided]] = {name: {} for name in self._scope.windows}
        for row in first.collect():
            undecided[row["datacenter"]][row["file"]] = FirstUndecided(row["first"], row["earliest_us"])
        return undecided

    def _verified_until_us(
        self, name: str, latest: Mapping[int, int], undecided: Mapping[int, FirstUndecided]
    ) -> int | None:
        # What waits is known even where its log is gone.
        times = [self._scope.windows[name].earliest_waiting_us, *(one.event_us for one in undecided.values())]
        pending_us = min((time_us for time_us in times if time_us is not None), default=None)
        return verified_until_us(latest, self._scope.unread(name), pending_us)

    # -- findings

    def _find(self, kind: FindingKind, cases: DataFrame) -> None:
        """Report cases: rows with datacenter, event_id, where, detail."""
        for row in cases.groupBy("datacenter").count().collect():
            datacenter = row["datacenter"]
            if datacenter not in self._findings:
                continue
            some = cases.where(F.col("datacenter") == datacenter).orderBy("event_id", "where")
            examples = tuple(_example(case) for case in some.limit(self._examples).collect())
            self._findings[datacenter].append(Finding(kind, row["count"], examples))

    def _find_undecided(self, decided: DataFrame) -> None:
        where = F.format_string("%d:%d", "file", "offset").alias("where")
        cases = decided.select("datacenter", "event_id", where, "detail", "outcome", "facts")
        for kind in MISSING:
            self._find(kind, cases.where(F.col("outcome") == kind))
        joinable = cases.where("outcome = 'joinable'")
        given_up = F.col("facts").bitwiseAND(F.lit(int(Fact.GIVEN_UP))) != 0
        self._find("unjoinable_but_joinable_when_complete", joinable.where(given_up))
        self._find("unjoinable_but_joinable", joinable.where(~given_up))

    def _find_differences(self, verdicts: DataFrame, unreadable: Unreadable) -> Counter[str]:
        """Report rows that differ; how many could not be compared, because their primary is gone."""
        gone = (
            self._files(unreadable).withColumnRenamed("file", "primary_file").withColumn("gone", F.lit(True))
        )
        verdicts = verdicts.join(F.broadcast(gone), ["datacenter", "primary_file"], "left")
        can_not = (F.col("verdict") == "no primary") & (F.col("primary_file").isNull() | F.col("gone"))
        can_not = F.coalesce(can_not, F.lit(False))
        where = F.concat(F.lit("row of batch "), "batch", F.lit(", occurrence "), "occurrence").alias("where")
        cases = verdicts.where(F.col("verdict") != "same").where(~can_not)
        self._find("different_values", cases.select("datacenter", "event_id", where, "detail"))
        return _sums(_counts(verdicts.where(can_not), "verdict"))

    def _find_rows_without_event(self, records: DataFrame, rows: DataFrame, unreadable: Unreadable) -> None:
        """Report rows at whose place in the raw logs their event is not; where that place can be read."""
        expected = rows.where("complete").where(F.col("datacenter").isin(list(self._scope.selected)))
        expected = expected.join(F.broadcast(self._files(unreadable)), ["datacenter", "file"], "left_anti")
        present = records.where(F.col("event_id").isNotNull()).select(*PLACE, "event_id")
        without = expected.join(present, [*PLACE, "event_id"], "left_anti")
        where = F.concat(F.lit("row of batch "), "batch", F.lit(", occurrence "), "occurrence").alias("where")
        detail = F.lit("no record of this id begins there").alias("detail")
        self._find("row_without_event", without.select("datacenter", "event_id", where, detail))

    def _files(self, unreadable: Unreadable) -> DataFrame:
        """As a table: where logs are deleted after a while there may be many thousands."""
        return self._session.createDataFrame(sorted(unreadable), "datacenter string, file int")

    def _find_duplicate_rows(self, rows: DataFrame) -> None:
        """Report events with several rows, each in the first selected datacenter that has one."""
        mine = F.col("datacenter").isin(list(self._scope.selected))
        place = F.concat("datacenter", F.lit(" batch "), "batch", F.lit(" occurrence "), "occurrence")
        grouped = rows.groupBy("event").agg(
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


def _counts(frame: DataFrame, column: str) -> Counter[tuple[str, str]]:
    """How many rows there are, by datacenter and the value of a column."""
    counted = frame.groupBy("datacenter", column).count().collect()
    return Counter({(row["datacenter"], row[column]): row["count"] for row in counted})


def _sums(counts: Counter[tuple[str, str]]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for (datacenter, _), count in counts.items():
        sums[datacenter] += count
    return sums


def _unreadable(records: DataFrame, side: Side) -> Unreadable:
    """The files of which some bytes can't be read again."""
    lost = records.where("lost_path is not null")
    by_file = lost.groupBy("datacenter", "file", F.col("lost_path").alias("path"))
    files = by_file.agg(F.sum("lost_bytes").alias("bytes"), F.first("lost_reason").alias("reason"))
    return {
        (row["datacenter"], row["file"]): Unverified(row["path"], side, row["bytes"], row["reason"])
        for row in files.orderBy("datacenter", "path").collect()
    }


def _not_looked_for(scope: Scope) -> Unreadable:
    """Foreign files that went after they were verified."""
    return {
        (name, one.file.number): Unverified(one.file.path, "foreign", one.read_bytes, one.state)
        for name in scope.to_classify
        for one in scope.gone_for_good(name)
    }


def _require_registry(decided: DataFrame) -> None:
    """RegistryUnavailable if it did not answer for some: they might be too old, or held."""
    row = decided.where("outcome = 'unavailable'").select("detail").first()
    if row is not None:
        raise RegistryUnavailable(row["detail"])


def _example(case: Row) -> Example:
    return Example(case["event_id"], case["where"], case["detail"])
