"""The queries of verification: from raw logs and tables to a class for each record.

Each function makes one DataFrame of others and runs nothing. Records are known by place (datacenter, file
number, offset), events by `event`, their identity. The program that runs the queries is `jobs.verification`.
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
from photon.verification.classes import Fact, class_table
from photon.verification.columns import COMPARED, DECIDED, FOREIGN_RECORDS, PRIMARY_RECORDS
from photon.verification.scope import Scope, TableAt
from photon.verification.tasks import (
    TaskScope,
    classify_records,
    compare_rows,
    read_foreign,
    read_primary,
)

PLACE = ["datacenter", "file", "offset"]
ROW = ["datacenter", "epoch", "batch", "occurrence", "event_id"]
OPEN, LOST = "open", "lost"  # beside the classes: to be decided; bytes that can't be read again
SIDE_FACTS: dict[TableName, Fact] = {
    "dead_letters": Fact.DEAD_LETTER,
    "unjoined": Fact.UNJOINED,
    "too_old": Fact.TOO_OLD,
}
TASKS_PER_CORE = 4  # so that one slow file does not hold up all others
NO_RECORD = Fact.BAD_LINE | Fact.SKIPPED | Fact.DEAD_LETTER  # what can't be the record of a row

BatchTask = Callable[[Iterable[pa.RecordBatch], TaskScope], Iterator[pa.RecordBatch]]


# -- raw logs


def foreign_records(session: SparkSession, scope: Scope, tasks: TaskScope) -> DataFrame:
    """Every foreign record of the windows (`FOREIGN_RECORDS`)."""
    return _read(session, scope, "foreign", scope.to_classify, read_foreign, FOREIGN_RECORDS, tasks)


def primary_records(session: SparkSession, scope: Scope, tasks: TaskScope) -> DataFrame:
    """Every primary record of the selected datacenters' windows (`PRIMARY_RECORDS`)."""
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


ROW_FIELDS = (
    "datacenter string, epoch string, batch long, occurrence string, event_id string, file int, offset long, "
    "primary_file int, primary_offset long, current boolean, complete boolean"
)


def rows_that_count(session: SparkSession, scope: Scope) -> DataFrame:
    """The rows of all datacenters, without those of retired epochs (`ROW_FIELDS`).

    `current`: of the epoch whose file numbers are those of the window; `complete`: and of a batch in it.
    """
    frames = [_rows_of(session, scope, name) for name in scope.windows]
    some = [frame for frame in frames if frame is not None]
    return _union(some) if some else session.createDataFrame([], ROW_FIELDS)


def _rows_of(
    session: SparkSession, scope: Scope, datacenter: str, with_values: bool = False
) -> DataFrame | None:
    """The rows of one datacenter; with `values`, a struct of what the adapter put into them."""
    table = scope.tables.get((datacenter, "joined_events"))
    if table is None:
        return None
    window = scope.windows[datacenter]
    current = F.col("_epoch") == F.lit(window.epoch or "")
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
            (current & (F.col("_batch") <= window.completed)).alias("complete"),
            *([F.struct(*values).alias("values")] if with_values else []),
        )
    )


def _table(session: SparkSession, table: TableAt) -> DataFrame:
    if table.files is None:
        reader = session.read.format("delta").option("versionAsOf", table.version)
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
    """Rows with the identity of their events: with their record's time, where that belongs to it.

    A row whose record can't be found by its place is taken for the first event of its id.
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
    """Records with their facts and `class`; raw bytes only where they are needed further on."""
    facts = F.col("facts").bitwiseOR(F.coalesce("side_facts", F.lit(0)))
    is_row = (F.col("row_event_id") == F.col("event_id")) & ~_has(facts, Fact.BAD_LINE)
    own = F.coalesce(F.array_contains("holders", F.col("datacenter")), F.lit(False))
    elsewhere = F.size(F.array_remove("holders", F.col("datacenter"))) > 0
    facts = facts.bitwiseOR(_bit(is_row, Fact.JOINED))
    facts = facts.bitwiseOR(_bit(own, Fact.ROW_HERE)).bitwiseOR(_bit(elsewhere, Fact.ROW_ELSEWHERE))
    found = (
        records.join(_marks(session, scope, rows), PLACE, "left")
        .join(_holders(rows), "event", "left")
        .withColumn("facts", facts)
    )
    if scope.has_earlier_epochs:
        found = _with_earlier_epochs(session, scope, found, rows)
    classes = F.array(*(F.lit(outcome or OPEN) for outcome in class_table()))
    outcome = F.when(F.col("lost_path").isNotNull(), LOST).otherwise(
        F.element_at(classes, F.col("facts") + 1)
    )
    needed = F.col("class").isin("joined", "unjoinable", OPEN)
    return (
        found.withColumn("class", outcome)
        .withColumn("raw", F.when(needed, F.col("raw")))
        .drop("side_facts", "row_event_id", "holders")
    )


def _marks(session: SparkSession, scope: Scope, rows: DataFrame) -> DataFrame:
    """What tables and dispatchers say of single places: the facts, and whose row is of it."""
    none = F.lit(None).cast("string")
    marks = [rows.where("current").select(*PLACE, F.lit(0).alias("side_facts"), "event_id")]
    for datacenter, window in scope.windows.items():
        waiting = session.createDataFrame(window.waiting, from_arrow_schema(WAITING_COLUMNS))
        bits = F.when(F.col("given_up"), int(Fact.GIVEN_UP)).otherwise(int(Fact.PENDING))
        marks.append(waiting.select(F.lit(datacenter), "file", "offset", bits, none))
        for name, fact in SIDE_FACTS.items():
            side = _side_table(session, scope, datacenter, name)
            if side is not None:
                current = side.where(F.col("_epoch") == F.lit(window.epoch or ""))
                place = _place_of("_occurrence", "file", "offset")
                marks.append(current.select(F.lit(datacenter), *place, F.lit(int(fact)), none))
    grouped = _union(marks).groupBy(*PLACE)
    return grouped.agg(
        F.bit_or("side_facts").cast("int").alias("side_facts"), F.max("event_id").alias("row_event_id")
    )


def _side_table(session: SparkSession, scope: Scope, datacenter: str, name: TableName) -> DataFrame | None:
    table = scope.tables.get((datacenter, name))
    if table is None:
        return None
    frame = _table(session, table)
    return frame.where("side = 'foreign'") if name == "dead_letters" else frame


def _holders(rows: DataFrame) -> DataFrame:
    return rows.groupBy("event").agg(F.collect_set("datacenter").alias("holders"))


def _with_earlier_epochs(session: SparkSession, scope: Scope, found: DataFrame, rows: DataFrame) -> DataFrame:
    """Facts from epochs that numbered files otherwise: by event instead of by place.

    Of a row the first record of its event counts as the joined one, as the dispatcher counts it.
    """
    side = [
        table.where(F.col("_epoch") != F.lit(scope.windows[datacenter].epoch or ""))
        .where(F.col("event_id").isNotNull())
        .select(F.lit(datacenter).alias("datacenter"), "event_id", F.lit(int(fact)).alias("earlier_facts"))
        for datacenter in scope.windows
        for name, fact in SIDE_FACTS.items()
        if (table := _side_table(session, scope, datacenter, name)) is not None
    ]
    if side:
        earlier = _union(side).groupBy("datacenter", "event_id")
        facts = earlier.agg(F.bit_or("earlier_facts").cast("int").alias("earlier_facts"))
        # Only of records of which nothing newer is known: what was recorded then may have been joined since.
        both = F.when(F.col("facts") == 0, F.coalesce("earlier_facts", F.lit(0))).otherwise(F.col("facts"))
        found = found.join(facts, ["datacenter", "event_id"], "left").withColumn("facts", both)
        found = found.drop("earlier_facts")
    only_earlier = rows.groupBy("datacenter", "event").agg(F.max("current").alias("current"))
    only_earlier = only_earlier.where("not current").drop("current")
    can_be = found.where(~_has(F.col("facts"), NO_RECORD)).select(*PLACE, "event")
    first = (
        can_be.join(only_earlier, ["datacenter", "event"])
        .groupBy("datacenter", "event")
        .agg(F.min(F.struct("file", "offset")).alias("at"))
        .select("datacenter", "at.file", "at.offset", F.lit(int(Fact.JOINED)).alias("first_fact"))
    )
    joined = F.col("facts").bitwiseOR(F.coalesce("first_fact", F.lit(0)))
    return found.join(first, PLACE, "left").withColumn("facts", joined).drop("first_fact")


def _has(facts: Column, wanted: Fact) -> Column:
    return facts.bitwiseAND(F.lit(int(wanted))) != 0


def _bit(condition: Column, fact: Fact) -> Column:
    return F.when(condition, int(fact)).otherwise(0)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)


# -- primaries and what depends on them


def wanted_primaries(primaries: DataFrame, records: DataFrame) -> DataFrame:
    """Primary records that a joined, unjoinable or open record names, and what can't be read again."""
    needed = records.where(F.col("class").isin("joined", "unjoinable", OPEN))
    keys = needed.select("datacenter", "key").distinct().withColumn("wanted", F.lit(True))
    return primaries.join(keys, ["datacenter", "key"], "left").where("wanted or lost_path is not null")


def decided_records(
    session: SparkSession, scope: Scope, records: DataFrame, primaries: DataFrame, tasks: TaskScope
) -> DataFrame:
    """Open records with their class, and unjoinable ones that could be joined (`DECIDED`)."""
    asked = records.where(F.col("datacenter").isin(list(scope.selected)))
    asked = asked.where(F.col("class").isin("unjoinable", OPEN))
    candidate = primaries.where("lost_path is null").select(
        "datacenter",
        "key",
        F.col("time_us").alias("primary_us"),
        "path",
        F.col("offset").alias("primary_offset"),
        F.col("file").alias("primary_file"),
        F.col("raw").alias("primary_raw"),
    )
    window_us = microseconds(scope.pipeline.retry.lookup_window)
    outside = F.abs(F.col("primary_us") - F.col("around_us")) > window_us
    rank = F.struct(
        outside.alias("outside"), "primary_us", "path", "primary_offset", "primary_file", "primary_raw"
    )
    first = F.min(F.when(F.col("primary_file").isNotNull(), rank)).alias("first")
    own = ["event_id", "time_us", "event_us", "facts", "raw"]
    chosen = (
        asked.join(candidate, ["datacenter", "key"], "left")
        .groupBy(*PLACE)
        .agg(first, *(F.first(name).alias(name) for name in [*own, "class"]))
        .join(_waiting_events(session, scope, records), "event_id", "left")
        .select(
            *PLACE,
            *own,
            F.col("first.primary_file").alias("primary_file"),
            F.col("first.primary_raw").alias("primary_raw"),
            F.coalesce("waits", F.lit(False)).alias("waits"),
            (F.col("class") == OPEN).alias("open"),
        )
    )
    return _apply(chosen, classify_records, DECIDED, tasks)


def _waiting_events(session: SparkSession, scope: Scope, records: DataFrame) -> DataFrame:
    """Ids that any datacenter's dispatcher still has to deal with."""
    frames = [records.where("class = 'pending'").select("event_id")]
    for window in scope.windows.values():
        waiting = session.createDataFrame(window.waiting, from_arrow_schema(WAITING_COLUMNS))
        frames.append(waiting.where("not given_up").select("event_id"))
    return _union(frames).distinct().withColumn("waits", F.lit(True))


def compared(
    session: SparkSession,
    scope: Scope,
    records: DataFrame,
    primaries: DataFrame,
    tasks: TaskScope,
) -> DataFrame:
    """Rows of the selected datacenters whose event can be read again, with a verdict (`COMPARED`).

    Rows of earlier epochs name files by other numbers: they are equal to a join with any of the
    primaries of their key.
    """
    frames = []
    for datacenter in scope.selected:
        rows = _rows_of(session, scope, datacenter, with_values=True)
        if rows is None:
            continue
        mine = records.where(F.col("datacenter") == datacenter)
        columns = [*PLACE, "event_id", "key", "raw"]
        at_place = rows.where("complete").join(mine.select(*columns), [*PLACE, "event_id"])
        pairs = _with_primary(at_place, primaries, at_place=True)
        if scope.has_earlier_epochs:
            earlier = with_event(rows.where("not current"), records, scope.pipeline.foreign.time_in_id)
            first = mine.where("class = 'joined'").select("datacenter", "file", "event", "key", "raw")
            by_event = earlier.drop("file", "offset").join(first, ["datacenter", "event"])
            pairs = pairs.unionByName(_with_primary(by_event, primaries, at_place=False))
        verdicts = _apply(pairs, compare_rows, COMPARED, tasks)
        if scope.has_earlier_epochs:
            best = F.min_by(F.struct("primary_file", "verdict", "detail"), F.col("verdict") != "same")
            verdicts = verdicts.groupBy(*ROW).agg(best.alias("best")).select(*ROW, "best.*")
        frames.append(verdicts)
    return _union(frames) if frames else session.createDataFrame([], from_arrow_schema(COMPARED))


def _with_primary(pairs: DataFrame, primaries: DataFrame, at_place: bool) -> DataFrame:
    """Pairs with the primary at the row's place, or, of earlier epochs, with each one of their key."""
    place = {"primary_file": F.col("file"), "primary_offset": F.col("offset")}
    candidates = primaries.where("lost_path is null").select(
        "datacenter",
        "key",
        *(column.alias(name) for name, column in place.items()),
        F.col("raw").alias("primary_raw"),
    )
    if not at_place:
        pairs = pairs.drop(*place)
    joined = pairs.join(candidates, ["datacenter", "key", *(place if at_place else [])], "left")
    return joined.select(*ROW, "file", "raw", "primary_file", "primary_raw", "values")
