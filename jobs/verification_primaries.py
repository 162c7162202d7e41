"""The identity of primaries: each id in the owner's primary logs is matched, unmatched, open, or missing.

By hashes of ids, as kept results have them. What nothing says of an id, and the last run had to look at, is
missing; only these lines are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from photon.jobs.dialect import F, union_of
from photon.jobs.verification_queries import Queries, place_of
from photon.verification.unmatched_scope import PRIMARY_TERMS, UnmatchedScope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Compute = Callable[["DataFrame"], "DataFrame"]


@dataclass(frozen=True)
class PrimaryIdentity:
    """How many ids are in each term, and lines that are no record; and the cases of each finding."""

    counts: dict[str, int]
    missing: DataFrame
    twice: DataFrame
    without_primary: DataFrame


def primary_identity(
    queries: Queries,
    scope: UnmatchedScope,
    places: DataFrame,
    unreadable: Collection[tuple[str, int]],
    computed: Compute,
) -> PrimaryIdentity:
    """The identity of the owner's primaries. `places`: of all primary records, by hashes of their ids.

    A place without a hash is a line that is no record. `unreadable`: files by datacenter and number.
    """
    mine = computed(places.where(F.col("datacenter") == scope.owner))
    written = computed(_unmatched_rows(queries))
    found = computed(_by_term(mine, scope, queries, written))
    counts = dict.fromkeys(PRIMARY_TERMS, 0)
    counts |= {row["term"]: row["count"] for row in found.groupBy("term").count().collect()}
    lines = mine.where("key is null").select(F.count("*").alias("lines")).collect()[0]["lines"]
    return PrimaryIdentity(
        {"primaries": sum(counts.values()), **counts, "dead_letter_lines": lines},
        _missing(found, queries, scope.owner),
        _twice(written, scope.owner),
        _without_primary(written, mine, queries, scope.owner, unreadable),
    )


def _by_term(mine: DataFrame, scope: UnmatchedScope, queries: Queries, written: DataFrame) -> DataFrame:
    """Each id's hash with its term, and the place of a record that the last run had to look at."""
    looked_at = queries.session.createDataFrame(sorted(scope.positions.items()), "file int, end long")
    is_due = (F.col("offset") < F.col("end")) & (F.col("time_us") < scope.up_to_us)
    if scope.since_us is not None:
        is_due &= F.col("time_us") >= scope.since_us
    records = mine.where("key is not null").join(F.broadcast(looked_at), "file", "left")
    at = F.min(F.when(is_due, F.struct("file", "offset"))).alias("at")
    found = records.groupBy("key").agg(at)
    for name, keys in (("is_matched", _named_by_rows(queries)), ("is_written", written.select("key"))):
        found = found.join(keys.distinct().withColumn(name, F.lit(True)), "key", "left")
    term = F.when(F.col("is_matched"), "matched").when(F.col("is_written"), "unmatched")
    term = term.when(F.col("at").isNotNull(), "missing").otherwise("open")
    return found.withColumn("term", term)


def _named_by_rows(queries: Queries) -> DataFrame:
    """The hashes of the primaries that joined rows name, of all datacenters whose rows count."""
    frames = [queries.session.createDataFrame([], "key long")]
    for name in queries.scope.read_offsets:
        table = queries.scope.tables[name, "joined_events"]
        if name not in queries.scope.retired and "_primary_id" in table.schema.names:
            ids = queries.table(table).where("_primary_id is not null")
            frames.append(ids.select(F.xxhash64("_primary_id").alias("key")))
    return union_of(frames)


def _unmatched_rows(queries: Queries) -> DataFrame:
    """The rows of `unmatched` of all datacenters whose rows count."""
    scope, places = queries.scope, place_of("_occurrence", "file", "offset")
    frames = [
        queries.table(table)
        .where("primary_id is not null")
        .select(
            F.lit(name).alias("datacenter"),
            F.col("_epoch").alias("epoch"),
            F.concat(F.lit("run "), "_batch", F.lit(", occurrence "), "_occurrence").alias("where"),
            "primary_id",
            F.xxhash64("primary_id").alias("key"),
            *places,
        )
        for (name, table_name), table in scope.tables.items()
        if table_name == "unmatched" and name not in scope.retired
    ]
    return union_of(frames)


def _missing(found: DataFrame, queries: Queries, owner: str) -> DataFrame:
    """The ids that no row names, of which the last run has looked at a record."""
    places = found.where("term = 'missing'").select(F.lit(owner).alias("datacenter"), "at.file", "at.offset")
    there = queries.primaries_at(places).where("lost_path is null")
    where = F.concat("path", F.lit(" at byte "), "offset").alias("where")
    detail = F.lit("it is due, no joined row names it, and it has no row in unmatched").alias("detail")
    return there.select("datacenter", F.col("key").alias("event_id"), where, detail)


def _twice(written: DataFrame, owner: str) -> DataFrame:
    """The primaries with several rows, in whatever lakes."""
    place = F.concat("datacenter", F.lit(": "), "where")
    grouped = written.groupBy("primary_id").agg(
        F.count("*").alias("rows"), F.concat_ws("; ", F.sort_array(F.collect_list(place))).alias("where")
    )
    detail = F.concat("rows", F.lit(" rows")).alias("detail")
    owned, event_id = F.lit(owner).alias("datacenter"), F.col("primary_id").alias("event_id")
    return grouped.where("rows > 1").select(owned, event_id, "where", detail)


def _without_primary(
    written: DataFrame,
    mine: DataFrame,
    queries: Queries,
    owner: str,
    unreadable: Collection[tuple[str, int]],
) -> DataFrame:
    """Rows of the owner's epoch at whose place its log, which can be read there, has no record of the id."""
    read = queries.scope.read_offsets[owner]
    ends = [
        (one.file.number, one.offset_bytes)
        for one in read.of("primary")
        if one.state == "open" and (owner, one.file.number) not in unreadable
    ]
    files = queries.session.createDataFrame(sorted(ends), "file int, end long")
    rows = written.where(F.col("datacenter") == owner).where(F.col("epoch") == F.lit(read.epoch or ""))
    rows = rows.join(F.broadcast(files), "file").where(F.col("offset") < F.col("end"))
    without = rows.join(mine.select("file", "offset", "key"), ["file", "offset", "key"], "left_anti")
    detail = F.lit("no record of this id begins there").alias("detail")
    return without.select("datacenter", F.col("primary_id").alias("event_id"), "where", detail)
