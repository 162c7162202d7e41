"""The queries of verification: from raw logs and tables to a class for each record.

Each function makes one DataFrame of others and runs nothing. A record is known by its place (datacenter, file
number, offset), an event by its identity, `event`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from photon.adapters import ROW_COLUMNS
from photon.clock import microseconds
from photon.dispatcher.task_splitter import spread
from photon.logs.files import Side
from photon.logs.ranges import Stretch
from photon.state.waiting_list import WAITING_COLUMNS
from photon.storage.columns import TableName
from photon.verification.classes import Evidence, class_table
from photon.verification.scope import Scope, TableSnapshot
from photon.verification.tasks import (
    COMPARED,
    DECIDED,
    FOREIGN_RECORDS,
    PLACE,
    PRIMARY_RECORDS,
    RECORD,
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
# A primary's columns beside a foreign record, in the order in which one of several is preferred.
CANDIDATE = ["primary_time_us", "primary_path", "primary_offset", "primary_file", "primary_raw"]
TASKS_PER_CORE = 4  # so that one slow file does not hold up all others
NEVER_JOINED = Evidence.BAD_LINE | Evidence.SKIPPED | Evidence.DEAD_LETTER

ReadTask = Callable[[Iterable[tuple[str, Stretch]], TaskScope], Iterator[pa.RecordBatch]]
BatchTask = Callable[[Iterable[pa.RecordBatch], TaskScope], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Queries:
    """The queries of one verification that need its scope."""

    session: SparkSession
    scope: Scope
    tasks: TaskScope

    def foreign_records(self) -> DataFrame:
        """Every foreign record that was read (`FOREIGN_RECORDS`)."""
        return self._read("foreign", self.scope.to_classify, read_foreign, FOREIGN_RECORDS)

    def primary_records(self) -> DataFrame:
        """Every primary record that the selected datacenters have read (`PRIMARY_RECORDS`)."""
        return self._read("primary", self.scope.selected, read_primary, PRIMARY_RECORDS)

    def _read(self, side: Side, datacenters: Sequence[str], read: ReadTask, schema: pa.Schema) -> DataFrame:
        items = [(name, stretch) for name in datacenters for stretch in self.scope.stretches(name, side)]
        context, tasks = self.session.sparkContext, self.tasks
        groups = spread([s.length_bytes for _, s in items], context.defaultParallelism * TASKS_PER_CORE)
        pickled = [(pickle.dumps([items[i] for i in group]),) for group in groups]
        parallel = context.parallelize(pickled, max(1, len(pickled)))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for packed in batch.column(0).to_pylist():
                    yield from read(pickle.loads(packed), tasks)

        stretches = self.session.createDataFrame(parallel, "stretches binary")
        return stretches.mapInArrow(run, from_arrow_schema(schema))

    def _apply(self, frame: DataFrame, task: BatchTask, schema: pa.Schema) -> DataFrame:
        tasks = self.tasks  # not `self`, which has the session
        return frame.mapInArrow(lambda batches: task(batches, tasks), from_arrow_schema(schema))

    def valid_rows(self, records: DataFrame) -> DataFrame:
        """The rows of all datacenters that were not given up as lost, with `event`."""
        return self._with_event(_union([self._rows_of(name) for name in self.scope.read_offsets]), records)

    def _rows_of(self, datacenter: str, with_values: bool = False) -> DataFrame:
        """The rows of one datacenter; with `values`, a struct of what the adapter put into them.

        `current`: of the epoch that numbers files as today; `complete`: also of a batch that is completed.
        """
        table, read = self.scope.tables[datacenter, "joined_events"], self.scope.read_offsets[datacenter]
        current = F.col("_epoch") == F.lit(read.epoch or "")
        names = [name for name in table.schema.names if name not in ROW_COLUMNS.names]
        values = [F.col(_quoted(name)) for name in names] or [F.lit(None).cast("string").alias("none")]
        return (
            self._table(table)
            .where(F.lit(datacenter not in self.scope.retired))
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

    def _side_tables(self) -> Iterator[tuple[str, Evidence, DataFrame]]:
        """Each table of records without a row, with its datacenter and what it is evidence of."""
        for datacenter in self.scope.read_offsets:
            for name, evidence in SIDE_TABLES.items():
                frame = self._table(self.scope.tables[datacenter, name])
                if name == "dead_letters":
                    frame = frame.where("side = 'foreign'")
                epoch = F.lit(self.scope.read_offsets[datacenter].epoch or "")
                yield datacenter, evidence, frame.withColumn("current", F.col("_epoch") == epoch)

    def _table(self, table: TableSnapshot) -> DataFrame:
        if table.files is None:
            reader = self.session.read.format("delta").option("versionAsOf", str(table.version))
            return reader.load(str(table.folder))
        # delta-rs has read the table's log already; Spark needs seconds for that in a new JVM.
        schema = from_arrow_schema(table.schema)
        if not table.files:
            return self.session.createDataFrame([], schema)
        return self.session.read.schema(schema).parquet(*table.files)

    def _with_event(self, rows: DataFrame, records: DataFrame) -> DataFrame:
        """Rows with the identity of their events, which may have their record's time.

        A row whose record is not at its place is taken for the first event of its id.
        """
        if not self.scope.pipeline.foreign.time_in_id:
            return rows.withColumn("event", F.col("event_id"))
        known = records.where(F.col("event").isNotNull())
        by_place = known.select(*PLACE, "event_id", "event", F.lit(True).alias("current"))
        first = known.groupBy("event_id").agg(F.min_by("event", "time_us").alias("first_event"))
        joined = rows.join(by_place, [*PLACE, "event_id", "current"], "left").join(first, "event_id", "left")
        event = F.coalesce("event", "first_event", F.concat(F.lit("unknown:"), F.col("event_id")))
        return joined.withColumn("event", event).drop("first_event")

    def classified(self, records: DataFrame, rows: DataFrame) -> DataFrame:
        """Records with all evidence and their `class`; raw bytes only where their primary is needed."""
        holders = rows.groupBy("event").agg(F.collect_set("datacenter").alias("holders"))
        found = records.join(self._by_place(rows), PLACE, "left").join(holders, "event", "left")
        evidence = F.col("evidence").bitwiseOR(F.coalesce("side_evidence", F.lit(0)))
        is_row = (F.col("row_event_id") == F.col("event_id")) & ~_has(evidence, Evidence.BAD_LINE)
        here = F.coalesce(F.array_contains("holders", F.col("datacenter")), F.lit(False))
        elsewhere = F.size(F.array_remove("holders", F.col("datacenter"))) > 0
        conditions = {Evidence.JOINED: is_row, Evidence.ROW_HERE: here, Evidence.ROW_ELSEWHERE: elsewhere}
        for some, condition in conditions.items():
            evidence = evidence.bitwiseOR(F.when(condition, int(some)).otherwise(0))
        found = found.withColumn("evidence", evidence).drop("side_evidence", "row_event_id", "holders")
        if self.scope.has_earlier_epochs:
            found = self._with_earlier_epochs(found, rows)
        classes = F.array(*(F.lit(outcome or UNDECIDED) for outcome in class_table()))
        outcome = F.when(F.col("lost_path").isNotNull(), LOST).otherwise(
            F.element_at(classes, F.col("evidence") + 1)
        )
        found = found.withColumn("class", outcome)
        return found.withColumn("raw", F.when(F.col("class").isin(*NEEDS_PRIMARY), F.col("raw")))

    def _by_place(self, rows: DataFrame) -> DataFrame:
        """What tables and dispatchers say of single places: evidence, and the event of the row made of it."""
        none = F.lit(None).cast("string")
        frames = [rows.where("current").select(*PLACE, F.lit(0).alias("side_evidence"), "event_id")]
        for datacenter in self.scope.read_offsets:
            bits = F.when(F.col("given_up"), int(Evidence.GIVEN_UP)).otherwise(int(Evidence.PENDING))
            frames.append(self._waiting(datacenter).select(F.lit(datacenter), "file", "offset", bits, none))
        for datacenter, evidence, table in self._side_tables():
            place = _place_of("_occurrence", "file", "offset")
            current = table.where("current")
            frames.append(current.select(F.lit(datacenter), *place, F.lit(int(evidence)), none))
        evidence_bits = F.bit_or("side_evidence").cast("int").alias("side_evidence")
        return _union(frames).groupBy(*PLACE).agg(evidence_bits, F.max("event_id").alias("row_event_id"))

    def _waiting(self, datacenter: str) -> DataFrame:
        return self.session.createDataFrame(
            self.scope.read_offsets[datacenter].waiting, from_arrow_schema(WAITING_COLUMNS)
        )

    def _with_earlier_epochs(self, found: DataFrame, rows: DataFrame) -> DataFrame:
        """Add evidence from epochs that numbered files otherwise: by event instead of by place.

        The first record of a row's event counts as the joined one, as it does for the dispatcher.
        """
        side = [
            table.where(~F.col("current"))
            .where(F.col("event_id").isNotNull())
            .select(F.lit(datacenter).alias("datacenter"), "event_id", F.lit(int(evidence)).alias("earlier"))
            for datacenter, evidence, table in self._side_tables()
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

    def decided_records(self, records: DataFrame, primaries: DataFrame) -> DataFrame:
        """Undecided records with their class, and unjoinable ones that could be joined (`DECIDED`)."""
        asked = records.where(F.col("datacenter").isin(list(self.scope.selected)))
        asked = asked.where(F.col("class").isin("unjoinable", UNDECIDED))
        window = self.scope.pipeline.retry.lookup_window
        outside = F.lit(False)
        if window is not None:
            outside = F.abs(F.col("primary_time_us") - F.col("around_us")) > microseconds(window)
        rank = F.struct(outside.alias("outside"), *CANDIDATE)
        first = F.min(F.when(F.col("primary_file").isNotNull(), rank)).alias("first")
        kept = [*RECORD, "raw", "class"]
        with_first_primary = (
            asked.join(_candidates(primaries), ["datacenter", "key"], "left")
            .groupBy(*PLACE)
            .agg(first, *(F.first(name).alias(name) for name in kept))
            .join(self._waiting_events(records), "event_id", "left")
            .withColumn("primary_file", F.col("first.primary_file"))
            .withColumn("primary_raw", F.col("first.primary_raw"))
            .withColumn("waits", F.coalesce("waits", F.lit(False)))
            .withColumn("undecided", F.col("class") == UNDECIDED)
        )
        return self._apply(with_first_primary.select(*TO_CLASSIFY), classify_records, DECIDED)

    def _waiting_events(self, records: DataFrame) -> DataFrame:
        """Ids that any datacenter's dispatcher has not finished with."""
        frames = [records.where("class = 'pending'").select("event_id")]
        for datacenter in self.scope.read_offsets:
            frames.append(self._waiting(datacenter).where("not given_up").select("event_id"))
        return _union(frames).distinct().withColumn("waits", F.lit(True))

    def compared_rows(self, records: DataFrame, primaries: DataFrame) -> DataFrame:
        """Rows of the selected datacenters whose event can be read again, with a verdict (`COMPARED`).

        Rows of earlier epochs number files otherwise: they are right if a join with any primary of their key
        gives the same.
        """
        candidates, frames = _candidates(primaries), []
        at_place = ["datacenter", "key", "primary_file", "primary_offset"]
        for datacenter in self.scope.selected:
            rows = self._rows_of(datacenter, with_values=True)
            mine = records.where(F.col("datacenter") == datacenter)
            originals = mine.select(*PLACE, "event_id", "key", "raw")
            pairs = rows.where("complete").join(originals, [*PLACE, "event_id"])
            pairs = pairs.join(candidates, at_place, "left").select(*TO_COMPARE)
            if self.scope.has_earlier_epochs:
                earlier = self._with_event(rows.where("not current"), records)
                earlier = earlier.drop("file", "offset", "primary_file", "primary_offset")
                first = mine.where("class = 'joined'").select("datacenter", "file", "event", "key", "raw")
                by_event = earlier.join(first, ["datacenter", "event"])
                by_event = by_event.join(candidates, ["datacenter", "key"], "left").select(*TO_COMPARE)
                pairs = pairs.unionByName(by_event)
            verdicts = self._apply(pairs, compare_rows, COMPARED)
            if self.scope.has_earlier_epochs:
                best = F.min_by(F.struct("primary_file", "verdict", "detail"), F.col("verdict") != "same")
                verdicts = verdicts.groupBy(*ROW).agg(best.alias("best")).select(*ROW, "best.*")
            frames.append(verdicts)
        return _union(frames)


def wanted_primaries(primaries: DataFrame, records: DataFrame) -> DataFrame:
    """The primaries that such records name, and bytes that can't be read again."""
    needed = records.where(F.col("class").isin(*NEEDS_PRIMARY))
    keys = needed.select("datacenter", "key").distinct().withColumn("wanted", F.lit(True))
    return primaries.join(keys, ["datacenter", "key"], "left").where("wanted or lost_path is not null")


def _place_of(occurrence: str, file: str, offset: str) -> list[Column]:
    parts = F.split(F.col(occurrence), ":")
    return [parts[0].cast("int").alias(file), parts[1].cast("long").alias(offset)]


def _has(evidence: Column, some: Evidence) -> Column:
    return evidence.bitwiseAND(F.lit(int(some))) != 0


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)


def _candidates(primaries: DataFrame) -> DataFrame:
    columns = [F.col(name.removeprefix("primary_")).alias(name) for name in CANDIDATE]
    return primaries.where("lost_path is null").select("datacenter", "key", *columns)


def _quoted(name: str) -> str:
    """A column's name for Spark, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"
