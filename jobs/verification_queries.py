"""The queries of verification: from raw logs and tables to a class for each record.

Each function makes one DataFrame of others and runs nothing. A record is known by its place (datacenter, file
number, offset), an event by its identity, `event`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from photon.clock import microseconds
from photon.dispatcher.state_view import WAITING_COLUMNS
from photon.dispatcher.task_splitter import spread
from photon.logs.files import Side
from photon.logs.ranges import Stretch
from photon.storage.columns import ROW_COLUMNS, TableName
from photon.verification.classes import Evidence, class_table
from photon.verification.scope import Scope, TableSnapshot
from photon.verification.tasks import (
    COMPARED,
    DECIDED,
    FOREIGN_RECORDS,
    PLACE,
    PRIMARY_RECORDS,
    RECORD_TO_CLASSIFY,
    ROW,
    TO_CLASSIFY,
    TO_COMPARE,
    TaskScope,
    classify_records,
    compare_rows,
    read_foreign,
    read_primary,
)

UNDECIDED, LOST = "undecided", "lost"  # beside the classes; lost: bytes that can't be read again
NEEDS_PRIMARY = ("joined", "unjoinable", UNDECIDED)
SIDE_TABLES: dict[TableName, Evidence] = {
    "dead_letters": Evidence.DEAD_LETTER,
    "unjoined": Evidence.UNJOINED,
    "too_old": Evidence.TOO_OLD,
}
TASKS_PER_CORE = 4  # so that one slow file does not hold up all others
NEVER_JOINED = Evidence.BAD_LINE | Evidence.SKIPPED | Evidence.DEAD_LETTER

BatchTask = Callable[[Iterable[pa.RecordBatch], TaskScope], Iterator[pa.RecordBatch]]


# -- raw logs


def foreign_records(session: SparkSession, scope: Scope, tasks: TaskScope) -> DataFrame:
    """Every foreign record that was read (`FOREIGN_RECORDS`)."""
    return _read(session, scope, "foreign", scope.to_classify, read_foreign, FOREIGN_RECORDS, tasks)


def primary_records(session: SparkSession, scope: Scope, tasks: TaskScope) -> DataFrame:
    """Every primary record that the selected datacenters have read (`PRIMARY_RECORDS`)."""
    return _read(session, scope, "primary", scope.selected, read_primary, PRIMARY_RECORDS, tasks)


def _read(
    session: SparkSession,
    scope: Scope,
    side: Side,
    datacenters: Sequence[str],
    read: Callable[[Iterable[tuple[str, Stretch]], TaskScope], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    tasks: TaskScope,
) -> DataFrame:
    items = [(name, stretch) for name in datacenters for stretch in scope.stretches(name, side)]
    context = session.sparkContext
    groups = spread([s.length_bytes for _, s in items], context.defaultParallelism * TASKS_PER_CORE)
    pickled = [(pickle.dumps([items[i] for i in group]),) for group in groups]
    stretches = session.createDataFrame(
        context.parallelize(pickled, max(1, len(pickled))), "stretches binary"
    )

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                yield from read(pickle.loads(packed), tasks)

    return stretches.mapInArrow(run, from_arrow_schema(schema))


def _apply(frame: DataFrame, task: BatchTask, schema: pa.Schema, tasks: TaskScope) -> DataFrame:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches, tasks)

    return frame.mapInArrow(run, from_arrow_schema(schema))


# -- tables


def valid_rows(session: SparkSession, scope: Scope) -> DataFrame:
    """The rows of all datacenters, without those of retired epochs."""
    return _union([_rows_of(session, scope, name) for name in scope.read_offsets])


def _rows_of(session: SparkSession, scope: Scope, datacenter: str, with_values: bool = False) -> DataFrame:
    """The rows of one datacenter; with `values`, a struct of what the adapter put into them.

    `current`: of the epoch that numbers files as today; `complete`: also of a batch that is completed.
    """
    table, read = scope.tables[datacenter, "joined_events"], scope.read_offsets[datacenter]
    current = F.col("_epoch") == F.lit(read.epoch or "")
    names = [name for name in table.schema.names if name not in ROW_COLUMNS.names]
    values = [F.col(f"`{name}`") for name in names] or [F.lit(None).cast("string").alias("none")]
    return (
        _table(session, table)
        .where(~F.col("_epoch").isin(scope.retired))
        .select(
            F.lit(datacenter).alias("datacenter"),
            F.col("_epoch").alias("epoch"),
            F.col("_batch").alias("batch"),
            F.col("_occurrence").alias("occurrence"),
            F.col("_event_id").alias("event_id"),
            *_place_of("_occurrence", "file", "offset"),
            *_place_of("_primary_occurrence", "primary_file", "primary_offset"),
            current.alias("current"),
            (current & (F.col("_batch") <= read.completed)).alias("complete"),
            *([F.struct(*values).alias("values")] if with_values else []),
        )
    )


def _side_tables(session: SparkSession, scope: Scope) -> Iterator[tuple[str, Evidence, DataFrame]]:
    """Each table of records without a row, with its datacenter and what it is evidence of."""
    for datacenter in scope.read_offsets:
        for name, evidence in SIDE_TABLES.items():
            frame = _table(session, scope.tables[datacenter, name])
            if name == "dead_letters":
                frame = frame.where("side = 'foreign'")
            epoch = F.lit(scope.read_offsets[datacenter].epoch or "")
            yield datacenter, evidence, frame.withColumn("current", F.col("_epoch") == epoch)


def _table(session: SparkSession, table: TableSnapshot) -> DataFrame:
    if table.files is None:
        reader = session.read.format("delta").option("versionAsOf", str(table.version))
        return reader.load(str(table.folder))
    # delta-rs has read the table's log already; Spark needs seconds for that in a new JVM.
    schema = from_arrow_schema(table.schema)
    if not table.files:
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(*table.files)


def _place_of(occurrence: str, file: str, offset: str) -> list[Column]:
    parts = F.split(F.col(occurrence), ":")
    return [parts[0].cast("int").alias(file), parts[1].cast("long").alias(offset)]


def with_event(rows: DataFrame, records: DataFrame, time_in_id: bool) -> DataFrame:
    """Rows with the identity of their events, which may have their record's time.

    A row whose record is not at its place is taken for the first event of its id.
    """
    if not time_in_id:
        return rows.withColumn("event", F.col("event_id"))
    known = records.where(F.col("event").isNotNull())
    by_place = known.select(*PLACE, "event_id", "event", F.lit(True).alias("current"))
    first = known.groupBy("event_id").agg(F.min_by("event", "time_us").alias("first_event"))
    joined = rows.join(by_place, [*PLACE, "event_id", "current"], "left").join(first, "event_id", "left")
    event = F.coalesce("event", "first_event", F.concat(F.lit("unknown:"), F.col("event_id")))
    return joined.withColumn("event", event).drop("first_event")


# -- classes


def classified(session: SparkSession, scope: Scope, records: DataFrame, rows: DataFrame) -> DataFrame:
    """Records with all evidence and their `class`; raw bytes only where their primary is needed."""
    holders = rows.groupBy("event").agg(F.collect_set("datacenter").alias("holders"))
    found = records.join(_by_place(session, scope, rows), PLACE, "left").join(holders, "event", "left")
    evidence = F.col("evidence").bitwiseOR(F.coalesce("side_evidence", F.lit(0)))
    is_row = (F.col("row_event_id") == F.col("event_id")) & ~_has(evidence, Evidence.BAD_LINE)
    here = F.coalesce(F.array_contains("holders", F.col("datacenter")), F.lit(False))
    elsewhere = F.size(F.array_remove("holders", F.col("datacenter"))) > 0
    for condition, some in (
        (is_row, Evidence.JOINED),
        (here, Evidence.ROW_HERE),
        (elsewhere, Evidence.ROW_ELSEWHERE),
    ):
        evidence = evidence.bitwiseOR(F.when(condition, int(some)).otherwise(0))
    found = found.withColumn("evidence", evidence).drop("side_evidence", "row_event_id", "holders")
    if scope.has_earlier_epochs:
        found = _with_earlier_epochs(session, scope, found, rows)
    classes = F.array(*(F.lit(outcome or UNDECIDED) for outcome in class_table()))
    outcome = F.when(F.col("lost_path").isNotNull(), LOST).otherwise(
        F.element_at(classes, F.col("evidence") + 1)
    )
    found = found.withColumn("class", outcome)
    return found.withColumn("raw", F.when(F.col("class").isin(*NEEDS_PRIMARY), F.col("raw")))


def _by_place(session: SparkSession, scope: Scope, rows: DataFrame) -> DataFrame:
    """What tables and dispatchers say of single places: evidence, and the event of the row made of it."""
    none = F.lit(None).cast("string")
    frames = [rows.where("current").select(*PLACE, F.lit(0).alias("side_evidence"), "event_id")]
    for datacenter in scope.read_offsets:
        bits = F.when(F.col("given_up"), int(Evidence.GIVEN_UP)).otherwise(int(Evidence.PENDING))
        waiting = _waiting(session, scope, datacenter)
        frames.append(waiting.select(F.lit(datacenter), "file", "offset", bits, none))
    for datacenter, evidence, table in _side_tables(session, scope):
        place = _place_of("_occurrence", "file", "offset")
        current = table.where("current")
        frames.append(current.select(F.lit(datacenter), *place, F.lit(int(evidence)), none))
    return (
        _union(frames)
        .groupBy(*PLACE)
        .agg(
            F.bit_or("side_evidence").cast("int").alias("side_evidence"),
            F.max("event_id").alias("row_event_id"),
        )
    )


def _waiting(session: SparkSession, scope: Scope, datacenter: str) -> DataFrame:
    return session.createDataFrame(scope.read_offsets[datacenter].waiting, from_arrow_schema(WAITING_COLUMNS))


def _with_earlier_epochs(session: SparkSession, scope: Scope, found: DataFrame, rows: DataFrame) -> DataFrame:
    """Add evidence from epochs that numbered files otherwise: by event instead of by place.

    The first record of a row's event counts as the joined one, as it does for the dispatcher.
    """
    side = [
        table.where(~F.col("current"))
        .where(F.col("event_id").isNotNull())
        .select(F.lit(datacenter).alias("datacenter"), "event_id", F.lit(int(evidence)).alias("earlier"))
        for datacenter, evidence, table in _side_tables(session, scope)
    ]
    by_event = _union(side).groupBy("datacenter", "event_id").agg(F.bit_or("earlier").alias("earlier"))
    # Only of records without newer evidence: what was recorded then may have been joined since.
    is_unknown = F.col("evidence") == 0
    earlier = F.when(is_unknown, F.coalesce("earlier", F.lit(0))).otherwise(F.col("evidence")).cast("int")
    found = found.join(by_event, ["datacenter", "event_id"], "left").withColumn("evidence", earlier)
    only_earlier = rows.groupBy("datacenter", "event").agg(F.max("current").alias("current"))
    can_be_joined = found.where(~_has(F.col("evidence"), NEVER_JOINED)).select(*PLACE, "event")
    first = (
        can_be_joined.join(only_earlier.where("not current"), ["datacenter", "event"])
        .groupBy("datacenter", "event")
        .agg(F.min(F.struct("file", "offset")).alias("at"))
        .select("datacenter", "at.file", "at.offset", F.lit(int(Evidence.JOINED)).alias("first"))
    )
    evidence = F.col("evidence").bitwiseOR(F.coalesce("first", F.lit(0)))
    return found.join(first, PLACE, "left").withColumn("evidence", evidence).drop("earlier", "first")


def _has(evidence: Column, some: Evidence) -> Column:
    return evidence.bitwiseAND(F.lit(int(some))) != 0


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)


# -- primaries and what depends on them


def wanted_primaries(primaries: DataFrame, records: DataFrame) -> DataFrame:
    """The primary records that records in need of one name, and what can't be read again."""
    needed = records.where(F.col("class").isin(*NEEDS_PRIMARY))
    keys = needed.select("datacenter", "key").distinct().withColumn("wanted", F.lit(True))
    return primaries.join(keys, ["datacenter", "key"], "left").where("wanted or lost_path is not null")


def _candidates(primaries: DataFrame) -> DataFrame:
    return primaries.where("lost_path is null").select(
        "datacenter",
        "key",
        F.col("time_us").alias("primary_us"),
        "path",
        F.col("offset").alias("primary_offset"),
        F.col("file").alias("primary_file"),
        F.col("raw").alias("primary_raw"),
    )


def decided_records(
    session: SparkSession, scope: Scope, records: DataFrame, primaries: DataFrame, tasks: TaskScope
) -> DataFrame:
    """Undecided records with their class, and unjoinable ones that could be joined (`DECIDED`)."""
    asked = records.where(F.col("datacenter").isin(list(scope.selected)))
    asked = asked.where(F.col("class").isin("unjoinable", UNDECIDED))
    window_us = microseconds(scope.pipeline.retry.lookup_window)
    outside = F.abs(F.col("primary_us") - F.col("around_us")) > window_us
    rank = F.struct(
        outside.alias("outside"), "primary_us", "path", "primary_offset", "primary_file", "primary_raw"
    )
    first = F.min(F.when(F.col("primary_file").isNotNull(), rank)).alias("first")
    kept = [*RECORD_TO_CLASSIFY, "raw", "class"]
    with_first_primary = (
        asked.join(_candidates(primaries), ["datacenter", "key"], "left")
        .groupBy(*PLACE)
        .agg(first, *(F.first(name).alias(name) for name in kept))
        .join(_waiting_events(session, scope, records), "event_id", "left")
        .withColumn("primary_file", F.col("first.primary_file"))
        .withColumn("primary_raw", F.col("first.primary_raw"))
        .withColumn("waits", F.coalesce("waits", F.lit(False)))
        .withColumn("undecided", F.col("class") == UNDECIDED)
    )
    return _apply(with_first_primary.select(*TO_CLASSIFY), classify_records, DECIDED, tasks)


def _waiting_events(session: SparkSession, scope: Scope, records: DataFrame) -> DataFrame:
    """Ids that any datacenter's dispatcher has not finished with."""
    frames = [records.where("class = 'pending'").select("event_id")]
    for datacenter in scope.read_offsets:
        frames.append(_waiting(session, scope, datacenter).where("not given_up").select("event_id"))
    return _union(frames).distinct().withColumn("waits", F.lit(True))


def compared_rows(
    session: SparkSession, scope: Scope, records: DataFrame, primaries: DataFrame, tasks: TaskScope
) -> DataFrame:
    """Rows of the selected datacenters whose event can be read again, with a verdict (`COMPARED`).

    Rows of earlier epochs number files otherwise: it is enough if a join with any primary of their key gives
    the same.
    """
    candidates, frames = _candidates(primaries), []
    at_place = ["datacenter", "key", "primary_file", "primary_offset"]
    for datacenter in scope.selected:
        rows = _rows_of(session, scope, datacenter, with_values=True)
        mine = records.where(F.col("datacenter") == datacenter)
        originals = mine.select(*PLACE, "event_id", "key", "raw")
        pairs = rows.where("complete").join(originals, [*PLACE, "event_id"])
        pairs = pairs.join(candidates, at_place, "left").select(*TO_COMPARE)
        if scope.has_earlier_epochs:
            earlier = with_event(rows.where("not current"), records, scope.pipeline.foreign.time_in_id)
            earlier = earlier.drop("file", "offset", "primary_file", "primary_offset")
            first = mine.where("class = 'joined'").select("datacenter", "file", "event", "key", "raw")
            by_event = earlier.join(first, ["datacenter", "event"])
            by_event = by_event.join(candidates, ["datacenter", "key"], "left").select(*TO_COMPARE)
            pairs = pairs.unionByName(by_event)
        verdicts = _apply(pairs, compare_rows, COMPARED, tasks)
        if scope.has_earlier_epochs:
            best = F.min_by(F.struct("primary_file", "verdict", "detail"), F.col("verdict") != "same")
            verdicts = verdicts.groupBy(*ROW).agg(best.alias("best")).select(*ROW, "best.*")
        frames.append(verdicts)
    return _union(frames)
