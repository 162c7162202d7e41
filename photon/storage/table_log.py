"""The log of a Delta table: a checkpoint of now, and no entries that nobody needs any more.

What a table is can be read from its newest checkpoint and the entries behind it. Each commit lists the whole
log, so old entries cost all of them. They go into an archive (`archived_log`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

import pyarrow.parquet as pq

from photon.pipeline.location import Location
from photon.process.faults import fault_point
from photon.storage.archived_log import ArchivedLog
from photon.storage.delta import LOG_FOLDER, lake_errors, open_table
from photon.storage.store import ObjectStore, store_of

MOST_REMOVED = 1_000  # in one request, and in one bundle of the archive
_ENTRY = re.compile(r"(\d{20})\.(json|checkpoint\.parquet|checkpoint\.[0-9a-f.-]+\.(parquet|json))")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
LAST_CHECKPOINT = "_last_checkpoint"


def checkpoint(folder: Location) -> int:
    """Write down what the table in `folder` is now, on disk; the version. LakeUnavailable."""
    with lake_errors(f"write a checkpoint of {folder}"):
        handle = open_table(folder)
        handle.create_checkpoint()
        # On disk before any entry goes that it stands for.
        log = store_of(folder / LOG_FOLDER)
        log.sync(f"{handle.version():020d}.checkpoint.parquet", LAST_CHECKPOINT, "")
    fault_point("compact.after_checkpoint")
    return handle.version()


def commits_in_log(folder: Location, most: int) -> int:
    """How many commits a table's log has, counted up to `most`; 0 without a table. OSError."""
    names = store_of(folder / LOG_FOLDER).names()
    return sum(1 for _ in islice((name for name in names if name.endswith(".json")), most))


def clean(folder: Location, before_us: int) -> int:
    """Archive what is older than the newest checkpoint that was written before a time; how many files.

    That version and all later ones can be read as before, and so can what was opened since that time: it
    began with this checkpoint, or a newer one. Nothing goes if another process does the same just now.
    LakeUnavailable.
    """
    log = store_of(folder / LOG_FOLDER)
    with lake_errors(f"remove old entries of the log of {folder}"):
        kept, old = _newest_and_older(log, before_us)
        if kept is None:
            return 0
        log.sync(kept, LAST_CHECKPOINT, "")  # a dispatcher may have written it, and did not
        # The oldest first: what is left after a crash has no gap.
        archive = ArchivedLog(folder)
        for start in range(0, len(old), MOST_REMOVED):
            some = old[start : start + MOST_REMOVED]
            try:
                archive.add([int(name[:20]) for name in some if name.endswith(".json") and len(name) == 25])
            except FileNotFoundError:
                return start
            fault_point("compact.after_archived")
            log.remove(*some)
            fault_point("compact.after_removed")
    return len(old)


def would_clean(folder: Location, before_us: int) -> int:
    """How many files `clean` would archive now. LakeUnavailable."""
    with lake_errors(f"read the log of {folder}"):
        return len(_newest_and_older(store_of(folder / LOG_FOLDER), before_us)[1])


def _newest_and_older(log: ObjectStore, before_us: int) -> tuple[str | None, list[str]]:
    """The newest checkpoint that was written before a time, and all that is older than it."""
    names = sorted(name for name in log.names() if _ENTRY.fullmatch(name))
    kept = _newest_before(log, [name for name in names if _CHECKPOINT.fullmatch(name)], before_us)
    if kept is None or not _is_whole(log, kept):
        return None, []
    return kept, [name for name in names if name[:20] < kept[:20]]


def _newest_before(log: ObjectStore, checkpoints: Sequence[str], before_us: int) -> str | None:
    """The newest of these that was written before a time."""
    first, end = 0, len(checkpoints)
    while first < end:
        middle = (first + end) // 2
        if log.changed_us(checkpoints[middle]) < before_us:
            first = middle + 1
        else:
            end = middle
    return checkpoints[first - 1] if first else None


def _is_whole(log: ObjectStore, checkpoint: str) -> bool:
    try:
        with log.open(checkpoint) as source:
            return int(pq.read_metadata(source).num_rows) > 0
    except (OSError, ValueError):  # pyarrow: cut short
        return False
