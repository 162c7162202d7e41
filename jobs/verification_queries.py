"""The queries of verification: from raw logs and tables to a class for each record.

Each function makes one DataFrame of others and runs nothing. A record is known by its place (datacenter, file
number, offset), an event by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING

import pyarrow as pa

from photon.adapters import ROW_COLUMNS
from photon.jobs.dialect import F, parquet, read_in_tasks, schema_of, union_of
from photon.logs.files import ByteRange, Side
from photon.logs.ranges import PIECE_BYTES
from photon.process.clock import microseconds
from photon.state.waiting.waiting_view import WAITING_COLUMNS
from photon.storage.columns import TableName
from photon.verification.classes import Evidence, class_table
from photon.verification.reading import (
    ReadStretches,
    read_foreign,
    read_places,
    read_primary,
    read_primary_keys,
)
from photon.verification.scope import Mended, Scope, TableSnapshot
from photon.verification.spool import Spool
from photon.verification.tasks import (
    COMPARED,
    DECIDED,
    FOREIGN_RECORDS,
    LISTED_ROWS,
    PLACE,
    PRIMARY_KEYS,
    PRIMARY_RECORDS,
    RECORD,
    ROW,
    TO_CLASSIFY,
    TO_COMPARE,
    TO_READ,
    TaskScope,
    classify_records,
    compare_rows,
    listed_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

UNDECIDED, LOST = "undecided", "lost"  # beside the classes; lost: bytes that can't be read again
NEEDS_PRIMARY = ("joined", "unjoinable", UNDECIDED)
SIDE_TABLES: dict[TableName, Evidence] = {
    "dead_letters": Evidence.DEAD_LETTER,
    "unjoined": Evidence.UNJOINED,
    "too_old": Evidence.TOO_OLD,
}
# A primary's columns beside a foreign record, in the order in which one of several is preferred.
CANDIDATE = [
    "primary_time_us", "primary_digest", "primary_path", "primary_offset", "primary_file", "primary_raw",
]  # fmt: skip
MOST_ROWS_SENT = 2**16  # to Spark, which holds them in its driver's memory
NEVER_JOINED = Evidence.BAD_LINE | Evidence.SKIPPED | Evidence.DEAD_LETTER

BatchTask = Callable[[Iterable[pa.RecordBatch], TaskScope], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Queries:
    """The queries of one verification that need its scope."""

    session: SparkSession  # or one of this process, which does the same
    scope: Scope
    tasks: TaskScope
    spool: Spool  # holds rows that are too many to be sent

    def foreign_records(self) -> DataFrame:
        """Every foreign record in what is read as a whole (`FOREIGN_RECORDS`)."""
        return self._read("foreign", self.scope.selected, read_foreign, FOREIGN_RECORDS)

    def primary_keys(self) -> DataFrame:
        """Where the primary records are that the selected datacenters have read (`PRIMARY_KEYS`)."""
        return self._read("primary", self.scope.selected, read_primary_keys, PRIMARY_KEYS)

    def _read(
        self, side: Side, datacenters: Sequence[str], read: ReadStretches, schema: pa.Schema
    ) -> DataFrame:
        items = [(name, stretch) for name in datacenters for stretch in self.scope.stretches(name, side)]
        lengths, tasks = [stretch.length_bytes for _, stretch in items], self.tasks  # not `self`
        return read_in_tasks(self.session, items, lengths, lambda some: read(some, tasks), schema)

    def records_at(self, places: DataFrame) -> DataFrame:
        """The foreign records at these places (`FOREIGN_RECORDS`)."""
        return self._at(places, read_foreign, FOREIGN_RECORDS)

    def primaries_at(self, places: DataFrame) -> DataFrame:
        """The primary records at these places (`PRIMARY_RECORDS`)."""
        return self._at(places, read_primary, PRIMARY_RECORDS)

    def _at(self, places: DataFrame, read: ReadStretches, schema: pa.Schema) -> DataFrame:
        """A task reads the places in a piece of a file; in all of a compressed one, which has no middle."""
        compressed = [where for where, tracked in self.tasks.files.items() if tracked.file.compressed]
        packed = self.session.createDataFrame(sorted(compressed), "datacenter string, file int")
        packed = F.broadcast(packed.withColumn("packed", F.lit(True)))
        piece = F.floor(F.col("offset") / PIECE_BYTES)
        piece = F.when(F.col("packed").isNull(), piece).otherwise(0)
        pieces = places.join(packed, ["datacenter", "file"], "left").withColumn("piece", piece)
        together = pieces.repartition("datacenter", "file", "piece").sortWithinPartitions(*PLACE)
        return self._apply(together.select(*TO_READ.names), partial(read_places, read=read), schema)

    def _apply(self, frame: DataFrame, task: BatchTask, schema: pa.Schema) -> DataFrame:
        tasks = self.tasks  # not `self`, which has the session
        return frame.mapInArrow(lambda batches: task(batches, tasks), schema_of(schema))

    def all_rows(self) -> DataFrame:
        """The rows of all datacenters that were not given up as lost."""
        return union_of([self._rows_of(name) for name in self.scope.read_offsets])

    def ids_in(self, table: TableSnapshot, files: Sequence[str]) -> DataFrame:
        """Where these files of a table have rows: event id, epoch and occurrence."""
        event_id = "_event_id" if "_event_id" in table.schema.names else "event_id"
        names = [event_id, "_epoch", "_occurrence"]
        schema = pa.schema([table.schema.field(name) for name in names])
        found = parquet(self.session, files, schema)
        return found.select(F.col(event_id).alias("event_id"), "_epoch", "_occurrence")

    def rows_put_back(self, rows: DataFrame) -> DataFrame:
        """The rows of events whose rows a person has acknowledged as taken (protocol E13)."""
        named = rows.where("event_id is not null").select(*LISTED_ROWS.names)
        return self._apply(named, listed_rows, LISTED_ROWS)

    def _rows_of(self, datacenter: str, with_values: bool = False) -> DataFrame:
        """The rows of one datacenter; with all that is compared (`_values`).

        `current`: of the epoch that numbers files as today; `complete`: also of a batch that is completed.
        """
        table, read = self.scope.tables[datacenter, "joined_events"], self.scope.read_offsets[datacenter]
        current = F.col("_epoch") == F.lit(read.epoch or "")
        return (
            self.table(table)
            .where(F.lit(datacenter not in self.scope.retired))
            .select(
                F.lit(datacenter).alias("datacenter"),
                F.col("_epoch").alias("epoch"),
                F.col("_batch").alias("batch"),
                F.col("_occurrence").alias("occurrence"),
                F.col("_event_id").alias("event_id"),
                F.unix_micros("_event_time").alias("time_us"),
                *place_of("_occurrence", "file", "offset"),
                *_primary_place(),
                current.alias("current"),
                (current & (F.col("_batch") <= read.completed)).alias("complete"),
                *(_values(table.schema) if with_values else []),
            )
        )

    def _side_tables(self) -> Iterator[tuple[str, Evidence, DataFrame]]:
        """Each table of records without a row, with its datacenter and what it is evidence of."""
        for datacenter in self.scope.read_offsets:
            for name, evidence in SIDE_TABLES.items():
                frame = self.table(self.scope.tables[datacenter, name])
                if name == "dead_letters":
                    frame = self._in_force(datacenter, frame.where("side = 'foreign'"))
                epoch = F.lit(self.scope.read_offsets[datacenter].epoch or "")
                yield datacenter, evidence, frame.withColumn("current", F.col("_epoch") == epoch)

    def _in_force(self, datacenter: str, letters: DataFrame) -> DataFrame:
        """Dead letters without those that were looked at again since (docs/adr/0047)."""
        mended = self.scope.mended.get(datacenter, Mended()).all
        rows = [(each.epoch, str(each.occurrence), each.batch) for each in mended]
        if not rows:
            return letters
        again = self.session.createDataFrame(rows, "_epoch string, _occurrence string, taken_up long")
        known = letters.join(F.broadcast(again), ["_epoch", "_occurrence"], "left")
        return known.where("taken_up is null or _batch > taken_up").drop("taken_up")

    def table(self, table: TableSnapshot) -> DataFrame:
        """The rows of a table as it was when the scope was opened."""
        if table.files is None:
            reader = self.session.read.format("delta").option("versionAsOf", str(table.version))
            return reader.load(str(table.folder))
        # delta-rs has read the table's log already; Spark needs seconds for that in a new JVM.
        return parquet(self.session, table.files, table.schema)

    def classified(self, records: DataFrame, rows: DataFrame) -> DataFrame:
        """Records with all evidence and their `class`; raw bytes only where their primary is needed."""
        holders = rows.groupBy("event_id").agg(F.collect_set("datacenter").alias("holders"))
        found = records.join(self._by_place(rows), PLACE, "left").join(holders, "event_id", "left")
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
        outcome = F.when(F.col("lost_path").isNotNull(), LOST).otherwise(class_by(F.col("evidence")))
        found = found.withColumn("class", outcome)
        needed = F.col("class").isin(*NEEDS_PRIMARY)
        if self.scope.has_earlier_epochs:
            # A row may have been made of any record of its event, such as one that is a duplicate today.
            earlier = rows.where("not current").select("datacenter", "event_id").distinct()
            found = found.join(
                earlier.withColumn("made_earlier", F.lit(True)), ["datacenter", "event_id"], "left"
            )
            needed |= F.coalesce("made_earlier", F.lit(False))
        return found.withColumn("raw", F.when(needed, F.col("raw"))).drop("made_earlier")

    def _by_place(self, rows: DataFrame) -> DataFrame:
        """Evidence of tables and dispatchers on single places, and the event of the row made of each."""
        none = F.lit(None).cast("string")
        frames = [rows.where("current").select(*PLACE, F.lit(0).alias("side_evidence"), "event_id")]
        for datacenter in self.scope.read_offsets:
            bits = F.when(F.col("given_up"), int(Evidence.GIVEN_UP)).otherwise(int(Evidence.PENDING))
            frames.append(self.waiting(datacenter).select(F.lit(datacenter), "file", "offset", bits, none))
        for datacenter, evidence, table in self._side_tables():
            place = place_of("_occurrence", "file", "offset")
            current = table.where("current")
            frames.append(current.select(F.lit(datacenter), *place, F.lit(int(evidence)), none))
        evidence_bits = F.bit_or("side_evidence").cast("int").alias("side_evidence")
        return union_of(frames).groupBy(*PLACE).agg(evidence_bits, F.max("event_id").alias("row_event_id"))

    def waiting(self, datacenter: str) -> DataFrame:
        waiting = self.scope.read_offsets[datacenter].waiting
        if waiting.num_rows <= MOST_ROWS_SENT:
            return self.session.createDataFrame(waiting, schema_of(WAITING_COLUMNS))
        return parquet(self.session, [self.spool.path_of(datacenter, waiting)], WAITING_COLUMNS)

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
        by_event = union_of(side).groupBy("datacenter", "event_id").agg(F.bit_or("earlier").alias("earlier"))
        # Only of records without newer evidence: what was recorded then may have been joined since.
        is_unknown = F.col("evidence") == 0
        earlier = F.when(is_unknown, F.coalesce("earlier", F.lit(0))).otherwise(F.col("evidence")).cast("int")
        found = found.join(by_event, ["datacenter", "event_id"], "left").withColumn("evidence", earlier)
        only_earlier = rows.groupBy("datacenter", "event_id").agg(F.max("current").alias("current"))
        can_be_joined = found.where(~_has(F.col("evidence"), NEVER_JOINED)).select(*PLACE, "event_id")
        first = (
            can_be_joined.join(only_earlier.where("not current"), ["datacenter", "event_id"])
            .groupBy("datacenter", "event_id")
            .agg(F.min(F.struct("file", "offset")).alias("at"))
            .select("datacenter", "at.file", "at.offset", F.lit(int(Evidence.JOINED)).alias("first"))
        )
        evidence = F.col("evidence").bitwiseOR(F.coalesce("first", F.lit(0)))
        return found.join(first, PLACE, "left").withColumn("evidence", evidence).drop("earlier", "first")

    def decided_records(self, records: DataFrame, primaries: DataFrame) -> DataFrame:
        """Undecided records with their class, and unjoinable ones that could be joined (`DECIDED`)."""
        asked = records.where(F.col("datacenter").isin(list(self.scope.selected)))
        asked = asked.where(F.col("class").isin("unjoinable", UNDECIDED))
        is_behind, distance_us = _nearness("primary_time_us")
        rank = F.struct(is_behind.alias("is_behind"), distance_us.alias("distance_us"), *CANDIDATE)
        first = F.min(F.when(self._is_eligible(), rank)).alias("first")
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
        classify = partial(classify_records, view=self.scope.view)
        return self._apply(with_first_primary.select(*TO_CLASSIFY), classify, DECIDED)

    def _is_eligible(self) -> Column:
        """Whether a candidate is there, and lies in the window where one is set (protocol F14)."""
        is_eligible = F.col("primary_file").isNotNull()
        if (window := self.scope.pipeline.retry.lookup_window) is not None:
            is_eligible &= _nearness("primary_time_us")[1] <= microseconds(window)
        return is_eligible

    def ambiguous_rows(self, records: DataFrame, primaries: DataFrame) -> DataFrame:
        """Rows of the selected datacenters for whose event a nearer primary of other content is eligible."""
        candidates, by_key = _candidates(primaries), ["datacenter", "key"]
        least, most = F.min("primary_digest").alias("least"), F.max("primary_digest").alias("most")
        several = candidates.groupBy(*by_key).agg(least, most).where("least != most").select(*by_key)
        candidates = candidates.join(several, by_key)
        named_at = [F.col(each).alias(f"named_{each}") for each in ("primary_time_us", "primary_digest")]
        at_place = [*by_key, "primary_file", "primary_offset"]
        named, others = candidates.select(*at_place, *named_at), candidates.drop("primary_offset")
        frames = []
        for datacenter in self.scope.selected:
            rows = self._rows_of(datacenter).where("complete").withColumnRenamed("time_us", "row_time_us")
            of_record = records.select(*PLACE, "event_id", "key", "around_us")
            rows = rows.join(of_record, [*PLACE, "event_id"]).join(named, at_place)
            rows = rows.drop("primary_file", "primary_offset").join(others, by_key)
            found = rows.where(self._is_eligible() & _is_nearer())
            time = F.first("row_time_us").alias("row_time_us")
            best = F.min("primary_path").alias("primary_path")
            frames.append(found.groupBy(*ROW).agg(time, best))
        return union_of(frames)

    def _waiting_events(self, records: DataFrame) -> DataFrame:
        """Ids that the dispatcher of any datacenter has not finished with, where it will ever run again."""
        acting = [name for name in self.scope.read_offsets if name not in self.scope.never_acting]
        pending = records.where("class = 'pending'").where(F.col("datacenter").isin(acting))
        frames = [pending.select("event_id")]
        for datacenter in acting:
            frames.append(self.waiting(datacenter).where("not given_up").select("event_id"))
        return union_of(frames).distinct().withColumn("waits", F.lit(True))

    def compared_rows(self, records: DataFrame, primaries: DataFrame) -> DataFrame:
        """Rows of the selected datacenters whose event can be read again, with a verdict (`COMPARED`).

        Rows of earlier epochs number files otherwise. Each is compared with the records of its event at its
        offset, and any primary of their key. Is none at this offset, it is compared with all of its event;
        if it is equal to none, its own record is gone, and nobody can tell.
        """
        candidates, frames = _candidates(primaries), []
        at_place = ["datacenter", "key", "primary_file", "primary_offset"]
        for datacenter in self.scope.selected:
            rows = self._rows_of(datacenter, with_values=True).withColumnRenamed("time_us", "row_time_us")
            mine = records.where(F.col("datacenter") == datacenter)
            originals = mine.select(*PLACE, "event_id", "time_us", "key", "raw")
            pairs = rows.where("complete").join(originals, [*PLACE, "event_id"])
            pairs = pairs.withColumn("is_own", F.lit(True))
            pairs = pairs.join(candidates, at_place, "left").select(*TO_COMPARE)
            if self.scope.has_earlier_epochs:
                earlier = rows.where("not current").drop("file", "primary_file", "primary_offset")
                earlier = earlier.withColumnRenamed("offset", "row_offset")
                of_event = mine.where("raw is not null").select(*PLACE, "event_id", "time_us", "key", "raw")
                of_event = self._with_mended_before(datacenter, of_event)
                is_own = F.col("offset") == F.col("row_offset")
                by_event = earlier.join(of_event, ["datacenter", "event_id"]).withColumn("is_own", is_own)
                by_event = by_event.join(candidates, ["datacenter", "key"], "left").select(*TO_COMPARE)
                pairs = pairs.unionByName(by_event)
            verdicts = self._apply(pairs, compare_rows, COMPARED)
            if self.scope.has_earlier_epochs:
                verdicts = _best_of_each_row(verdicts)
            frames.append(verdicts)
        return union_of(frames)

    def _with_mended_before(self, datacenter: str, records: DataFrame) -> DataFrame:
        """Add records with the mended lines that rows of earlier epochs were made of (docs/adr/0047)."""
        letters = self.scope.mended.get(datacenter, Mended()).of_earlier_epochs
        rows = [(each.event_id, each.raw) for each in letters if each.raw is not None]
        lines = self.session.createDataFrame(rows, "event_id string, raw binary")
        mended = records.drop("raw").join(F.broadcast(lines), "event_id")
        mended = mended.withColumn("time_us", F.lit(None).cast("long")).select(*records.columns)
        return records.unionByName(mended)


def _nearness(time_us: str) -> tuple[Column, Column]:
    """Whether a primary lies behind the expected time, and how far off: the nearest before joins (F14)."""
    return F.col(time_us) > F.col("around_us"), F.abs(F.col(time_us) - F.col("around_us"))


def _is_nearer() -> Column:
    """Whether a candidate of other content comes before the primary that the row names (F14)."""
    behind, distance_us = _nearness("primary_time_us")
    named_behind, named_distance_us = _nearness("named_primary_time_us")
    digest, named_digest = F.col("primary_digest"), F.col("named_primary_digest")
    on_one_side = behind == named_behind
    is_closer = (distance_us < named_distance_us) & (digest != named_digest)
    is_closer |= (distance_us == named_distance_us) & (digest < named_digest)
    return (~behind & named_behind & (digest != named_digest)) | (on_one_side & is_closer)


def class_by(evidence: Column) -> Column:
    """The class that evidence alone tells, or `UNDECIDED`."""
    classes = F.array(*(F.lit(outcome or UNDECIDED) for outcome in class_table()))
    return F.element_at(classes, evidence + 1)


def wanted_primaries(primaries: DataFrame, records: DataFrame) -> DataFrame:
    """The primaries that records with raw bytes name, and bytes that can't be read again."""
    needed = records.where("raw is not null")
    keys = needed.select("datacenter", "key").distinct().withColumn("wanted", F.lit(True))
    return primaries.join(keys, ["datacenter", "key"], "left").where("wanted or lost_path is not null")


def _best_of_each_row(verdicts: DataFrame) -> DataFrame:
    """The verdict on each row: that of its own record, or of any that gives the same."""
    differs = F.col("verdict") != "same"
    best = F.min_by(
        F.struct("is_own", "primary_file", "verdict", "detail"), F.struct(~F.col("is_own"), differs)
    )
    time = F.first("row_time_us").alias("row_time_us")
    found = verdicts.groupBy(*ROW).agg(best.alias("best"), time).select(*ROW, "row_time_us", "best.*")
    is_gone = ~F.col("is_own") & (F.col("verdict") != "same")
    found = found.withColumn("primary_file", F.when(~is_gone, F.col("primary_file")))
    return found.withColumn("verdict", F.when(is_gone, F.lit("no primary")).otherwise(F.col("verdict")))


def place_of(occurrence: str, file: str, offset: str) -> list[Column]:
    """The file number and the offset in a column of occurrences, under these names; null if it has none."""
    parts = (F.split_part(F.col(occurrence), F.lit(":"), F.lit(number)) for number in (1, 2))
    number, at = parts
    return [number.try_cast("int").alias(file), at.try_cast("long").alias(offset)]


def _primary_place() -> list[Column]:
    """Where a row has its primary event; at no place (-1) if it names none."""
    names = ("primary_file", "primary_offset")
    places = zip(place_of("_primary_occurrence", *names), names, strict=True)
    return [F.coalesce(place, F.lit(-1)).alias(name) for place, name in places]


def _values(schema: pa.Schema) -> list[Column]:
    """Select a row's words of its primary (null in an older table), and a struct of the adapter's values."""
    nothing = F.lit(None)
    has_primary = {"_primary_id", "_primary_time"} <= set(schema.names)
    names = [name for name in schema.names if name not in ROW_COLUMNS.names]
    values = [F.col(_quoted(name)) for name in names] or [nothing.cast("string").alias("none")]
    return [
        (F.col("_primary_id") if has_primary else nothing.cast("string")).alias("row_primary_id"),
        (F.unix_micros("_primary_time") if has_primary else nothing.cast("long")).alias(
            "row_primary_time_us"
        ),
        F.struct(*values).alias("values"),
    ]


def in_ranges(ranges: Iterable[ByteRange]) -> Column:
    """Whether a record begins in any of these ranges."""
    offset = F.col("offset")
    each = [
        (F.col("file") == r.file_number) & (offset >= r.start_bytes) & (offset < r.end_bytes) for r in ranges
    ]
    return reduce(or_, each, F.lit(False))


def _has(evidence: Column, some: Evidence) -> Column:
    return evidence.bitwiseAND(F.lit(int(some))) != 0


def _candidates(primaries: DataFrame) -> DataFrame:
    columns = [F.col(name.removeprefix("primary_")).alias(name) for name in CANDIDATE]
    return primaries.where("lost_path is null").select("datacenter", "key", *columns)


def _quoted(name: str) -> str:
    """A column's name for Spark, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"
