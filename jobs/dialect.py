"""The words of queries, for the engine that runs them: `F.col("key")` is Spark's, or that of `jobs/local`.

Queries are written once, as for PySpark, with `F` from here. An engine is chosen for a block of code, and
whoever chooses none has Spark. PySpark is imported only where Spark is used.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from photon.dispatcher.task_splitter import spread
from photon.jobs.local.frames import LocalFrame
from photon.jobs.local.functions import LocalFunctions
from photon.jobs.local.session import LocalSession, write_file
from photon.jobs.spark_errors import NOT_DAMAGED, away, words_in
from photon.pipeline.location import Location
from photon.storage.delta import LakeUnavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

# Spark takes a path with one of these for a pattern.
_GLOB_CHARACTERS = re.compile(r"[*?\[\]{}\\]")

__all__ = ["F", "as_itself", "parquet", "read_in_tasks", "schema_of", "union_of", "words_of", "write_parquet"]

TASKS_PER_CORE = 4  # so that one slow file does not hold up all others

_is_local: ContextVar[bool] = ContextVar("is_local", default=False)


class _Functions:
    """`pyspark.sql.functions`, or those of this process."""

    def __getattr__(self, name: str) -> Any:
        if _is_local.get():
            return getattr(LocalFunctions, name)
        from pyspark.sql import functions

        return getattr(functions, name)


if not TYPE_CHECKING:
    F = _Functions()


@contextmanager
def words_of(session: object) -> Iterator[None]:
    """Have `F` speak the language of a session."""
    before = _is_local.set(isinstance(session, LocalSession))
    try:
        yield
    finally:
        _is_local.reset(before)


def schema_of(schema: pa.Schema) -> Any:
    """A schema of Arrow as the engine takes it."""
    if _is_local.get():
        return schema
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all; columns by their positions, under the names of the first."""
    return reduce(lambda one, other: one.unionAll(other), frames)


def as_itself(path: str) -> str:
    """A path as Spark has to be given it: brackets and braces in it would be a pattern."""
    return _GLOB_CHARACTERS.sub(r"\\\g<0>", path)


def parquet(session: Any, files: Sequence[str], schema: pa.Schema | str) -> DataFrame:
    """The rows of Parquet files, of which there may be none. LakeUnavailable in this process."""
    if isinstance(session, LocalSession):
        return cast("DataFrame", session.parquet(files, schema))
    of = schema if isinstance(schema, str) else schema_of(schema)
    named = map(as_itself, files)
    found = session.read.schema(of).parquet(*named) if files else session.createDataFrame([], of)
    return cast("DataFrame", found)


def write_parquet(frame: object, folder: Location, name: str) -> None:
    """Write the rows of a frame as Parquet files in `folder / name`. LakeUnavailable."""
    if isinstance(frame, LocalFrame):
        write_file(frame, folder, name)
        return
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        cast("DataFrame", frame).write.parquet(str(folder / name))
    except (Py4JError, PySparkException) as error:
        if why := away(words_in(error)):
            raise LakeUnavailable(f"cannot write to {folder}: {why}; {NOT_DAMAGED}") from error
        said = str(error).partition("\n")[0]
        raise LakeUnavailable(f"cannot write to {folder}, which must be writable: {said}") from error


def read_in_tasks(
    session: Any,
    items: Sequence[Any],
    lengths: list[int],
    read: Callable[[Sequence[Any]], Iterable[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """A frame of what `read` finds in items: tasks share them by their lengths, or this process reads all."""
    if isinstance(session, LocalSession):
        return cast("DataFrame", session.of_batches(read(items), schema))
    context = session.sparkContext
    groups = spread(lengths, context.defaultParallelism * TASKS_PER_CORE)
    pickled = [(pickle.dumps([items[i] for i in group]),) for group in groups]
    parallel = context.parallelize(pickled, max(1, len(pickled)))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                yield from read(pickle.loads(packed))

    frame = session.createDataFrame(parallel, "items binary")
    return cast("DataFrame", frame.mapInArrow(run, schema_of(schema)))
