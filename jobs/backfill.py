"""Backfill with Spark: a rebuild's tasks, its search for events with several rows, a fill's verification.

Rows stay in the tasks. What takes their place is committed by `photon.upkeep.backfill`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from photon.jobs.dialect import as_itself
from photon.jobs.session import is_alive, local_master, reach_lakes, session_for, stop_session
from photon.jobs.spark_errors import begun_again, told
from photon.jobs.verification import verify
from photon.pipeline.file import Pipeline
from photon.process.operating_system import come_after_others
from photon.registry.errors import RetiredDatacenter
from photon.releases.at_once import release_at_end
from photon.upkeep.backfill.fill import Filled, fill_until_whole, plan_fill
from photon.upkeep.backfill.messages import TABLE, Remade, RemakeContext
from photon.upkeep.backfill.plan import CompetingRow, RemakePiece
from photon.upkeep.backfill.rebuild import WORKERS, Rebuild, RebuildPlan, Rebuilt
from photon.upkeep.backfill.remaking import remake
from photon.upkeep.plans import carry_out
from photon.verification.days import Window
from photon.verification.report import DatacenterReport
from photon.verification.scope import MOST_FILES_NAMED

if TYPE_CHECKING:
    from photon.jobs.verification import SparkMaker

MOST_COMPETING = 100_000  # one rebuild takes so many rows of events that have several; the next takes others
_COLUMNS = StructType(
    [
        StructField("_event_id", StringType()),
        StructField("_event_time", TimestampType()),
        StructField("_epoch", StringType()),
        StructField("_batch", LongType()),
        StructField("_plan", StringType()),
        StructField("_occurrence", StringType()),
    ]
)


def rebuild(
    pipeline: Pipeline,
    datacenter: str,
    window: Window,
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda text: None,
    on_plan: Callable[[RebuildPlan], None] = lambda plan: None,
    session: SparkSession | None = None,
) -> Rebuilt:
    """Rebuild rows with Spark. `session`: instead of one of its own, which yields to other processes."""

    def rebuilt() -> Rebuilt:
        with _session(pipeline, progress, session) as spark:
            program = SparkProgram(spark())
            plan = partial(Rebuild, pipeline, datacenter, window, program, progress, on_plan)
            return carry_out(plan, dry_run, progress)

    done = begun_again(rebuilt, progress)
    if not dry_run:
        release_at_end(pipeline, datacenter)
    return done


def fill(
    pipeline: Pipeline,
    datacenter: str,
    window: Window,
    dry_run: bool = False,
    wait: bool = False,
    progress: Callable[[str], None] = lambda text: None,
    session: SparkSession | SparkMaker | None = None,
) -> Filled:
    """Have what a window lacks joined by its dispatcher. `session`: as for `verify`."""
    with _session(pipeline, progress, session) as spark:

        def classify() -> DatacenterReport:
            report = verify(pipeline, [datacenter], progress, spark, window=window)
            if datacenter in report.retired:
                raise RetiredDatacenter(
                    f"datacenter {datacenter} is retired: it never joins again: nothing is filled in there. "
                    f"photon recover {pipeline.typed} has the others join what was its"
                )
            return report.datacenters[datacenter]

        plan = partial(plan_fill, pipeline, datacenter, classify, progress)
        if wait and not dry_run:
            return fill_until_whole(pipeline, plan, progress)
        return carry_out(plan, dry_run, progress)


@contextmanager
def _session(
    pipeline: Pipeline, progress: Callable[[str], None], given: SparkSession | SparkMaker | None
) -> Iterator[SparkMaker]:
    """A maker of the session at its first use, which has it from then on; it stops its own one at the end."""
    own: list[SparkSession] = []
    used: list[SparkSession] = []
    lakes = {name: place.lake for name, place in pipeline.datacenters.items()}

    def session() -> SparkSession:
        if given is not None:
            found = given() if callable(given) else given
        else:
            if not own or not is_alive(own[-1]):
                progress("starting Spark")
                own.append(session_for(pipeline, f"photon backfill {pipeline.name}", master))
            found = own[-1]
        used.append(found)
        reach_lakes(found, pipeline)
        return found

    master = behind_others() if given is None else None
    try:
        with told(lakes, used):
            yield session
    finally:
        for each in own:
            stop_session(each)


def behind_others() -> str:
    """Have this process yield to others, with all that it starts; the master of its session."""
    come_after_others()
    return local_master(WORKERS)


class SparkProgram:
    """Runs the tasks of a rebuild on Spark."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def remake(self, pieces: Sequence[RemakePiece], context: RemakeContext) -> list[Remade]:
        """Make pieces again, a task for each."""
        parallel = self._session.sparkContext.parallelize(pieces, len(pieces))
        return list(parallel.map(lambda piece: remake(piece, context)).collect())

    def competing_rows(self, pipeline: Pipeline, files: Mapping[str, Sequence[str]]) -> list[CompetingRow]:
        """All rows of events with several rows in these files, by datacenter."""
        own = self._session.newSession()
        own.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", str(MOST_FILES_NAMED))
        frames = [_rows_of(own, pipeline, name, paths) for name, paths in files.items() if paths]
        if not frames:
            return []
        rows = reduce(DataFrame.unionAll, frames).where("_event_id is not null and _event_time is not null")
        several = rows.groupBy("_event_id").count().where("count > 1").drop("count")
        found = rows.join(several, "_event_id").orderBy("_event_id").limit(MOST_COMPETING)
        # A table knows a file by its path; one that others wrote may lie in the folder of a partition.
        known = {(name, path.rpartition("/")[2]): path for name, paths in files.items() for path in paths}
        return [
            CompetingRow(
                row["_event_id"],
                row["datacenter"],
                known[row["datacenter"], unquote(urlparse(row["path"]).path).rpartition("/")[2]],
                row["row"],
                row["_epoch"],
                row["_batch"],
                row["_plan"],
                row["_occurrence"],
            )
            for row in found.collect()
        ]


def _rows_of(session: SparkSession, pipeline: Pipeline, datacenter: str, paths: Sequence[str]) -> DataFrame:
    folder = pipeline.datacenters[datacenter].lake / TABLE
    named = (as_itself(str(folder / path)) for path in paths)
    frame = session.read.schema(_COLUMNS).parquet(*named)
    return frame.select(
        *_COLUMNS.fieldNames(),
        F.lit(datacenter).alias("datacenter"),
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.row_index").alias("row"),
    )
