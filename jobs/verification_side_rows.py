"""Records that a side table should have by their class, and does not have: somebody deleted their rows.

`conflicting` has examples alone, and `left_out` nothing of before a pipeline asked for unmatched primaries:
no class tells what should be in these.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from photon.jobs.dialect import F, union_of
from photon.jobs.verification_queries import UNDECIDED, Queries, place_of
from photon.state.outcomes import OutcomeClass
from photon.storage.columns import TableName
from photon.verification.classes import Evidence
from photon.verification.tasks import PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The table that has the records of each class, and the evidence of that.
TABLE_OF: dict[OutcomeClass, tuple[TableName, Evidence]] = {
    "dead_letters": ("dead_letters", Evidence.DEAD_LETTER),
    "unjoinable": ("unjoined", Evidence.UNJOINED),
    "too_old": ("too_old", Evidence.TOO_OLD),
}


def outcome_of(records: DataFrame, decided: DataFrame) -> DataFrame:
    """Records that can be read, with their `outcome`: their class, or what was decided of them."""
    found = records.where("lost_path is null").join(decided.select(*PLACE, "outcome"), PLACE, "left")
    outcome = F.when(F.col("class") == UNDECIDED, F.col("outcome")).otherwise(F.col("class"))
    return found.withColumn("outcome", outcome)


def lacks_row() -> Column:
    """Whether a record with its `outcome` is not in the side table of that class."""
    each = [
        (F.col("outcome") == outcome) & (F.col("evidence").bitwiseAND(F.lit(int(some))) == 0)
        for outcome, (_, some) in TABLE_OF.items()
    ]
    return F.coalesce(reduce(or_, each), F.lit(False))


def without_side_rows(
    records: DataFrame, decided: DataFrame, without_primaries: Collection[str]
) -> DataFrame:
    """The foreign records that no row of their side table is of, as cases of a finding.

    `without_primaries`: datacenters with primary logs that can't be read. There a record without any
    evidence may have had a primary, and have been filtered. Where another datacenter's row of an event went,
    a record has no class of its own until that one is joined again.
    """
    missing = decided.where("outcome = 'missing'").select("event_id").distinct()
    table = F.lit(None).cast("string")
    for outcome, (name, _) in TABLE_OF.items():
        table = F.when(F.col("outcome") == outcome, F.lit(name)).otherwise(table)
    found = outcome_of(records, decided).where(lacks_row()).withColumn("table", table)
    nobody_knows = F.col("datacenter").isin(list(without_primaries)) & (F.col("class") == UNDECIDED)
    found = found.join(missing, "event_id", "left_anti").where(~nobody_knows)
    return _cases(found, F.coalesce("event_id", F.lit("a dead letter")))  # its id counted for nothing


def primary_lines_without_rows(queries: Queries, lines: DataFrame) -> DataFrame:
    """The lines of primary logs that are no record, without a dead letter. `lines`: the places of all."""
    letters = [
        queries.table(queries.scope.tables[name, "dead_letters"])
        .where("side = 'primary'")
        .where(F.col("_epoch") == F.lit(queries.scope.read_offsets[name].epoch or ""))
        .select(F.lit(name).alias("datacenter"), *place_of("_occurrence", "file", "offset"))
        for name in queries.scope.selected
    ]
    found = lines.where("key is null").join(union_of(letters), PLACE, "left_anti")
    return _cases(found.withColumn("table", F.lit("dead_letters")), F.lit("a line of the primary log"))


def _cases(found: DataFrame, named: Column) -> DataFrame:
    where = F.format_string("%d:%d", "file", "offset").alias("where")
    detail = F.concat(F.lit("no row of "), "table", F.lit(" is of it")).alias("detail")
    return found.select("datacenter", named.alias("event_id"), where, detail)
