"""Compare the copies of the logs: by digests of what is new, and by ids in the hours that differ.

Spark does it, or this process where there is little to read (docs/adr/0068).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from photon.jobs.dialect import F, read_in_tasks, words_of
from photon.jobs.local.session import LocalSession
from photon.jobs.spark_errors import begun_again, told
from photon.jobs.verification import is_small
from photon.logs.ranges import PIECE_BYTES
from photon.pipeline.file import Pipeline
from photon.process.readable import counted
from photon.verification.log_copies.comparing import ComparedCopies, compare_copies
from photon.verification.log_copies.lacks import FileDigest, Hour, Lack
from photon.verification.log_copies.tasks import (
    DIGESTS,
    IDS,
    FilePart,
    digest_parts,
    digests_of,
    ids_of_parts,
)
from photon.verification.tasks import BATCH_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from photon.jobs.verification import SparkMaker

Read = Callable[[Iterable[FilePart], Pipeline], Iterator[pa.RecordBatch]]
FILE = ("datacenter", "side", "file")  # the columns that name a log file


def compare(
    pipeline: Pipeline,
    datacenters: Collection[str],
    now_us: int,
    keep: bool,
    progress: Callable[[str], None] = lambda text: None,
    session: SparkSession | LocalSession | SparkMaker | None = None,
) -> ComparedCopies:
    """Compare the copies of the logs (`compare_copies`). `session`: as for `verify`."""

    def compared() -> ComparedCopies:
        with Reading(pipeline, session, progress) as reading:
            return compare_copies(pipeline, datacenters, reading, now_us, keep)

    return begun_again(compared, progress)


class Reading:
    """Reads logs in the session that is given, or begins its own when it needs one, and ends that."""

    def __init__(
        self,
        pipeline: Pipeline,
        session: SparkSession | LocalSession | SparkMaker | None,
        progress: Callable[[str], None],
    ) -> None:
        self._pipeline, self._given, self._progress = pipeline, session, progress
        self._spark: SparkSession | None = None
        self._local = ExitStack()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self._local.close()
        if self._spark is not None:
            from photon.jobs.session import stop_session

            stop_session(self._spark)

    def _session_for(self, parts: Sequence[FilePart]) -> Any:
        """The session in which these parts are read."""
        if self._given is not None and not callable(self._given):
            return self._given
        if is_small(self._pipeline, sum(part.stretch.length_bytes for part in parts)):
            return self._local.enter_context(LocalSession({}, BATCH_ROWS))
        if callable(self._given):
            return self._given()
        if self._spark is None:
            from photon.jobs.session import session_for

            self._progress("starting Spark to compare the copies of the logs")
            self._spark = session_for(self._pipeline, f"photon verify {self._pipeline.name}")
        return self._spark

    def digests(self, parts: Sequence[FilePart]) -> tuple[list[tuple[str, FileDigest]], set[tuple[str, int]]]:
        """Digests, each with its datacenter, and the files with bytes that can't be read, by datacenter."""
        self._progress("digesting what is new in the copies of the logs")
        session = self._session_for(parts)
        with words_of(session), told({}, [] if isinstance(session, LocalSession) else [session]):
            read = self._read(session, parts, digest_parts, DIGESTS)
            sums = [F.sum(name).alias(name) for name in ("events", "low", "high")]
            places = [F.min("first_offset").alias("first_offset"), F.max("last_offset").alias("last_offset")]
            rows = read.groupBy(*FILE, "hour_us", "lost").agg(*sums, *places).collect()
        return digests_of(row.asDict() for row in rows)

    def lacks(
        self,
        parts: Sequence[FilePart],
        expected: Mapping[Hour, Collection[str]],
        paths: Mapping[tuple[str, int], str],
    ) -> tuple[list[Lack], set[tuple[str, int]]]:
        """Events that each datacenter lacks of the hours `expected` of it, and files that can't be read."""
        self._progress(
            f"comparing the events of {counted(len(expected), 'hour')} in which copies of the logs differ"
        )
        session = self._session_for(parts)
        with words_of(session), told({}, [] if isinstance(session, LocalSession) else [session]):
            read = self._read(session, parts, ids_of_parts, IDS).persist()
            try:
                unreadable = read.where("lost").select("datacenter", "file").distinct().collect()
                found = self._lacking(session, read, expected).collect()
            finally:
                read.unpersist()
        lacks = [self._lack(row, paths) for row in found]
        return lacks, {(row["datacenter"], row["file"]) for row in unreadable}

    def _lacking(self, session: Any, read: DataFrame, expected: Mapping[Hour, Collection[str]]) -> DataFrame:
        """The events that each datacenter lacks in each hour, by the file in which another one has them."""
        event = ["side", "hour_us", "event"]
        place = F.struct("datacenter", "file", "offset", "time_us")
        has = read.where("not lost").groupBy(*event)
        held = has.agg(F.collect_set("datacenter").alias("holders"), F.min(place).alias("at"))
        rows = [(side, hour_us, sorted(names)) for (side, hour_us), names in expected.items()]
        hours = session.createDataFrame(rows, "side string, hour_us long, wanted array<string>")
        short = F.explode(F.array_except("wanted", "holders")).alias("short")
        missing = held.join(F.broadcast(hours), ["side", "hour_us"]).select(*event, "at.*", short)
        at = F.struct("offset", "event")
        return missing.groupBy("short", "datacenter", "side", "hour_us", "file").agg(
            F.count("*").alias("events"),
            F.min(at).alias("first"),
            F.max(at).alias("last"),
            F.min("time_us").alias("first_us"),
            F.max("time_us").alias("last_us"),
        )

    @staticmethod
    def _lack(row: Row, paths: Mapping[tuple[str, int], str]) -> Lack:
        first, last = row["first"], row["last"]
        return Lack(
            short=row["short"],
            full=row["datacenter"],
            side=row["side"],
            hour_us=row["hour_us"],
            path=paths[row["datacenter"], row["file"]],
            events=row["events"],
            first_offset=first["offset"],
            last_offset=last["offset"],
            first_us=row["first_us"],
            last_us=row["last_us"],
            first_event=first["event"],
            last_event=last["event"],
        )

    def _read(self, session: Any, parts: Sequence[FilePart], read: Read, schema: pa.Schema) -> DataFrame:
        pipeline = self._pipeline
        pieces = [piece for part in parts for piece in _pieces(part, PIECE_BYTES)]
        lengths = [piece.stretch.length_bytes for piece in pieces]
        return read_in_tasks(session, pieces, lengths, lambda some: read(some, pipeline), schema)


def _pieces(part: FilePart, piece_bytes: int) -> Iterator[FilePart]:
    """Cut a part into pieces for tasks; a line belongs to the piece in which it begins."""
    stretch = part.stretch
    for start in range(stretch.start_bytes, stretch.end_bytes, piece_bytes):
        end = min(start + piece_bytes, stretch.end_bytes)
        yield replace(part, stretch=replace(stretch, start_bytes=start, end_bytes=end))
