"""Meanings of Spark's errors: the data file that is damaged, the store that does not answer, no executor.

Spark's own error has it all within the stacks of its tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote

from photon.jobs.cluster import is_cluster
from photon.join.messages import NoExecutor
from photon.pipeline.location import Location
from photon.process.errors import UserError
from photon.storage.damaged_files import damaged
from photon.storage.delta import LakeUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    Say = Callable[[str], None]

T = TypeVar("T")
NOT_DAMAGED = "nothing is damaged: run it again once that answers"
MOST_BEGINNINGS = 5  # of a program under which all executors die: they may die of it
_UNREAD = re.compile(r"\[FAILED_READ_FILE[^]]*\] Encountered error while reading file (\S+)\.\s")
# Texts of Java and of Photon's tasks on a store or disk that does not answer, or lets nobody in.
_AWAY = re.compile(
    r"(?:StoreUnavailable|\bPermissionError|(?:org\.apache\.hadoop\.(?:fs\.s3a|net)|software\.amazon\.awssdk"
    r"|java\.net)\.[\w.$]*Exception|AccessDeniedException): (.+)"
    r"|(\S+ \((?:Permission denied|Stale file handle|Transport endpoint is not connected)\))"
)
# The executors that had kept rows in memory are gone.
_ROWS_WENT = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"


class ExecutorsLost(UserError):
    """A program's executors were all lost each time that it was begun."""


def words_in(error: BaseException) -> str:
    """All that an error of Spark says, with the stack that PySpark may leave out."""
    return f"{error}\n{getattr(error, '_stackTrace', '')}"


def away(said: str) -> str:
    """Why a store does not answer, by what is said first of it in an error of Spark; empty: it may answer."""
    found = [one[0] or one[1] for one in _AWAY.findall(said)]
    return str(found[0]).strip() if found else ""


@contextmanager
def told(lakes: Mapping[str, Location], sessions: Sequence[SparkSession]) -> Iterator[None]:
    """Raise LakeUnavailable or NoExecutor where an error of Spark means one.

    `lakes`: by datacenter. `sessions`: the one in use, if there is one when the error is raised. Without
    executors it is ended, as what they held is gone with them.
    """
    try:
        yield
    except Exception as error:
        if not sessions:
            raise
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        of_spark = Py4JError | PySparkException | EOFError
        found = next((each for each in (error, error.__cause__) if isinstance(each, of_spark)), None)
        if found is None:
            raise
        if (none := _without_executors(sessions[-1], words_in(found))) is not None:
            raise none from error
        if found is error and (unread := _unread(words_in(found), lakes)) is not None:
            raise unread from error
        raise


def _without_executors(session: SparkSession, said: str) -> NoExecutor | None:
    from photon.jobs.executors import has_none, lacking, refuse_absent

    master = str(session.sparkContext.master)
    if not is_cluster(master) or not (_ROWS_WENT in said or has_none(session)):
        return None
    with suppress(Exception):  # whatever ails it: another one takes its place
        session.stop()
    try:
        refuse_absent(master)
    except NoExecutor as absent:
        return absent
    return lacking(master)


def _unread(said: str, lakes: Mapping[str, Location]) -> LakeUnavailable | None:
    found, why = _UNREAD.search(said), away(said)
    uri = unquote(found[1]) if found is not None else ""
    of_file = {name: lake for name, lake in lakes.items() if f"{lake}/" in uri}
    if not of_file:
        return LakeUnavailable(f"cannot read what Spark is to read: {why}; {NOT_DAMAGED}") if why else None
    name, lake = max(of_file.items(), key=lambda one: len(str(one[1])))  # one may lie below another
    file = lake / uri.partition(f"{lake}/")[2]
    if why:
        return LakeUnavailable(f"cannot read {file} of datacenter {name}: {why}; {NOT_DAMAGED}")
    return damaged(name, file, "can't be read as Parquet")


def begun_again(work: Callable[[], T], say: Say) -> T:
    """Do work that may be begun again, until it is done on executors that live. ExecutorsLost."""
    for _ in range(MOST_BEGINNINGS):
        try:
            return work()
        except NoExecutor as error:
            last = error
            say(f"waits: {error}, from its beginning")
    raise ExecutorsLost(
        f"all executors were lost {MOST_BEGINNINGS} times, the last time so: {last}; look what ended them, "
        "such as a lack of memory"
    ) from last
