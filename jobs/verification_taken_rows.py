"""An event without its row counts once: one of its records is missing, or acknowledged as joined.

The others are what they are beside the row, such as duplicates. `photon.verification.classes` decides on each
record by itself, and knows nothing of the others of its event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from photon.jobs.dialect import F
from photon.jobs.verification_queries import class_by
from photon.verification.classes import Evidence, undecided_evidence
from photon.verification.tasks import DECIDED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HERE, ELSEWHERE = int(Evidence.ROW_HERE), int(Evidence.ROW_ELSEWHERE)


def with_one_of_each_event(decided: DataFrame) -> DataFrame:
    """Have one of the decided records (`DECIDED`, computed) stand for each event without its row.

    It is the first of those that join now, for recovery looks at it alone. In another datacenter than the one
    that joined an acknowledged event, all its records are joined elsewhere.
    """
    by_event = ["datacenter", "event_id"]
    is_here = F.col("holder").isNull() | (F.col("holder") == F.col("datacenter"))
    row = F.when(is_here, HERE).otherwise(ELSEWHERE)
    rank = F.struct((~F.col("does_join")).alias("fails"), "file", "offset")
    without_row = decided.where("outcome in ('missing', 'joined')").withColumn("row", row)
    firsts = without_row.groupBy(*by_event).agg(F.min(rank).alias("first"), F.min("row").alias("row"))
    is_first = (F.col("file") == F.col("first.file")) & (F.col("offset") == F.col("first.offset"))
    is_beside = F.col("evidence").isin(undecided_evidence()) & ~is_first
    is_beside |= (F.col("outcome") == "joined") & (F.col("row") == ELSEWHERE)
    beside = class_by(F.col("evidence").bitwiseOR(F.col("row")))
    outcome = F.when(F.coalesce(is_beside, F.lit(False)), beside).otherwise(F.col("outcome"))
    found = decided.join(firsts, by_event, "left").withColumn("outcome", outcome)
    return found.select(*DECIDED.names)
