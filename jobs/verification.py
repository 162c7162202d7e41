"""Verification as a Spark program: every foreign record classified from raw logs and tables.

Makes a report of what the queries bring: counts, and a few examples of what is wrong. Records stay in Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from jobs.session import build_session, stop_session
from jobs.verification_queries import LOST, UNDECIDED, Queries, wanted_primaries
from photon.logs.files import Side
from photon.pipeline.file import Pipeline
from photon.registry.interface import RegistryUnavailable
from photon.verification.classes import Evidence, undecided_evidence, verified_until_us
from photon.verification.report import (
    MOST_CASES,
    Case,
    DatacenterReport,
    Example,
    Finding,
    FindingKind,
    Unverified,
    VerificationReport,
)
from photon.verification.scope import MOST_FILES_NAMED, Scope, open_scope
from photon.verification.stored_reports import newly_verified_offsets, summarize_unreadable
from photon.verification.tasks import BATCH_ROWS, PLACE, TaskScope

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
    """Verify what `datacenters` have read against the tables of all. `session`: instead of one of its own.

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
        verification.unpersist()
        if session is None:
            stop_session(base)


class Verification:
    """One verification under way. Results of queries that others need are persisted until `unpersist`."""

    def __init__(self, session: SparkSession, scope: Scope, progress: Progress) -> None:
        self._session = session
        self._scope = scope
        self._progress = progress
        self._persisted: list[DataFrame] = []
        self._findings: dict[str, list[Finding]] = {n: scope.findings(n) for n in scope.selected}

    def unpersist(self) -> None:
        for frame in self._persisted:
            frame.unpersist()

    def report(self) -> VerificationReport:
        scope, queries = self._scope, Queries(self._session, self._scope, _task_scope(self._scope))
        time_in_id = scope.pipeline.foreign.time_in_id
        self._progress("reading the foreign logs and classifying their records")
        read = queries.foreign_records()
        if time_in_id:
            read = self._persist(read)
        rows = self._persist(queries.valid_rows(read))
        records = self._persist(queries.classified(read, rows))
        unreadable = _not_looked_for(scope) | _unreadable(records, "foreign")

        self._progress("looking for the primary events of what is joined, unjoinable or undecided")
        primaries = self._persist(wanted_primaries(queries.primary_records(), records))
        unreadable |= _unreadable(primaries, "primary")

        self._progress("deciding on records that no table has")
        decided = self._persist(queries.decided_records(records, primaries))
        self._find_decided(decided)

        self._progress("comparing rows with joins made now")
        verdicts = self._persist(queries.compared_rows(records, primaries))
        not_compared = self._find_differences(verdicts, unreadable)
        self._find_rows_without_event(records, rows, unreadable)
        self._find_duplicate_rows(rows)
        if time_in_id:
            self._find_same_ids(records)

        classes = _counts(records.where(~F.col("class").isin(LOST, UNDECIDED)), "class")
        was_undecided = F.col("evidence").isin(undecided_evidence())
        outcome = F.when(F.col("outcome").isin(*MISSING), "missing").otherwise(F.col("outcome"))
        classes += _counts(decided.where(was_undecided).withColumn("outcome", outcome), "outcome")
        row_counts, compared = _by_datacenter(rows), _by_datacenter(verdicts)
        read_files = _read_files(records, decided)
        reports = {}
        for name in scope.selected:
            mine = {number: file for (where, number), file in unreadable.items() if where == name}
            files = [row for row in read_files if row["datacenter"] == name]
            reports[name] = replace(
                _how_far_verified(scope, name, files, mine),
                classes={outcome: n for (where, outcome), n in classes.items() if where == name},
                findings=tuple(self._findings[name]),
                rows=row_counts[name],
                rows_not_compared=max(0, row_counts[name] - compared[name]) + not_compared[name],
            )
        return VerificationReport(reports, rows=row_counts.total())

    def _persist(self, frame: DataFrame) -> DataFrame:
        # On disk too: records may be more than memory.
        self._persisted.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    # -- findings

    def _find(self, kind: FindingKind, cases: DataFrame, to_recover: bool = False) -> None:
        """Report cases: rows with datacenter, event_id, where, detail; those `to_recover` one by one."""
        most = self._scope.pipeline.verification.examples
        for datacenter, count in _by_datacenter(cases).items():
            if datacenter in self._findings:
                some = cases.where(F.col("datacenter") == datacenter).orderBy("event_id", "where")
                found = some.limit(MOST_CASES if to_recover else most).collect()
                examples = (Example(one["event_id"], one["where"], one["detail"]) for one in found[:most])
                every = tuple(_case(one) for one in found) if to_recover else ()
                self._findings[datacenter].append(Finding(kind, count, tuple(examples), every))

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
        cases = verdicts.where(F.col("verdict") != "same").where(~can_not)
        self._find("different_values", cases.select("datacenter", "event_id", _row_place(), "detail"))
        return _by_datacenter(verdicts.where(can_not))

    def _find_rows_without_event(self, records: DataFrame, rows: DataFrame, unreadable: Unreadable) -> None:
        """Report rows whose event is not at their place in the raw logs, where that place can be read."""
        expected = rows.where("complete").where(F.col("datacenter").isin(list(self._scope.selected)))
        expected = expected.join(self._files(unreadable), ["datacenter", "file"], "left_anti")
        present = records.where(F.col("event_id").isNotNull()).select(*PLACE, "event_id")
        without = expected.join(present, [*PLACE, "event_id"], "left_anti")
        detail = F.lit("no record of this id begins there").alias("detail")
        self._find("row_without_event", without.select("datacenter", "event_id", _row_place(), detail))

    def _files(self, unreadable: Unreadable) -> DataFrame:
        """As a table to join: where logs are deleted after a while there may be many thousands."""
        return F.broadcast(self._session.createDataFrame(sorted(unreadable), "datacenter string, file int"))

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
    )


def _case(row: Row) -> Case:
    return Case(row["event_id"], row["where"], row["evidence"], row["holder"], row["token"])


def _row_place() -> Column:
    return F.concat(F.lit("row of batch "), "batch", F.lit(", occurrence "), "occurrence").alias("where")


def _counts(frame: DataFrame, column: str) -> Counter[tuple[str, str]]:
    """How many rows there are, by datacenter and the value of a column."""
    counted = frame.groupBy("datacenter", column).count().collect()
    return Counter({(row["datacenter"], row[column]): row["count"] for row in counted})


def _by_datacenter(frame: DataFrame) -> Counter[str]:
    """How many rows there are, by datacenter."""
    counted = frame.groupBy("datacenter").count().collect()
    return Counter({row["datacenter"]: row["count"] for row in counted})


# -- how far it reaches


def _unreadable(records: DataFrame, side: Side) -> Unreadable:
    lost = records.where("lost_path is not null")
    by_file = lost.groupBy("datacenter", "file", F.col("lost_path").alias("path"))
    files = by_file.agg(F.sum("lost_bytes").alias("bytes"), F.first("lost_reason").alias("reason"))
    return {
        (row["datacenter"], row["file"]): Unverified(row["path"], side, row["bytes"], row["reason"])
        for row in files.orderBy("datacenter", "path").collect()
    }


def _not_looked_for(scope: Scope) -> Unreadable:
    return {
        (name, one.file.number): Unverified(one.file.path, "foreign", one.read_bytes, one.state)
        for name in scope.to_classify
        for one in scope.gone_and_verified(name)
    }


def _read_files(records: DataFrame, decided: DataFrame) -> list[Row]:
    """For each foreign file: the latest event, and the first and the earliest pending record, if any."""
    file = ["datacenter", "file"]
    columns = [*PLACE, "event_us"]
    pending = records.where("class = 'pending'").select(*columns)
    pending = pending.union(decided.where("outcome = 'pending'").select(*columns))
    first = pending.groupBy(*file).agg(
        F.min("offset").alias("first_undecided"), F.min("event_us").alias("pending_us")
    )
    latest = records.groupBy(*file).agg(F.max("event_us").alias("latest_us"))
    return latest.join(first, file, "left").collect()


def _how_far_verified(
    scope: Scope, name: str, files: Sequence[Row], unreadable: Mapping[int, Unverified]
) -> DatacenterReport:
    """The part of a datacenter's report that says how much of its logs was verified."""
    read, verified = scope.read_offsets[name], scope.verified[name]
    latest = {row["file"]: row["latest_us"] for row in files if row["latest_us"] is not None}
    undecided = {row["file"]: row["first_undecided"] for row in files if row["first_undecided"] is not None}
    # What waits is known even where its log is gone.
    times = [read.earliest_waiting_us, *(row["pending_us"] for row in files)]
    pending_us = min((time_us for time_us in times if time_us is not None), default=None)
    unverified, verified_earlier = summarize_unreadable(unreadable, read.files, verified)
    notes = scope.notes(name)
    if any(file.side == "primary" for file in unreadable.values()):
        notes.append(WITHOUT_PRIMARIES)
    return DatacenterReport(
        unverified=unverified,
        verified_earlier=verified_earlier,
        notes=tuple(notes),
        verified_until_us=verified_until_us(latest, scope.unread(name), pending_us),
        epoch=read.epoch,
        state_is_unreadable=read.is_unreadable,
        completed=read.completed,
        newly_verified_offsets=newly_verified_offsets(read.of("foreign"), undecided, unreadable, verified),
    )
