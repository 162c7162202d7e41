"""Files of candidate rows: on disk before anybody claims the first of their ids (protocol A14).

They lie in the folder of `joined_events`, so that one whose claims all win is committed as it is. Their names
begin with the plan's, so that whoever ends the plan finds all of them, also those of runs that died.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, takewhile

import pyarrow as pa
import pyarrow.parquet as pq

from photon.pipeline.location import Location
from photon.storage.columns import TableName, by_date
from photon.storage.delta import MAKE_WRITABLE, lake_errors
from photon.storage.output_files import OutputFile, write_parquet
from photon.storage.store import store_of
from photon.storage.store_errors import tells_of_damage
from photon.tokens import PlanKey

log = logging.getLogger(__name__)

TABLE: TableName = "joined_events"


def write_candidates(lake: Location, plan: PlanKey, task: int, rows: pa.Table) -> list[OutputFile]:
    """Store the rows of a task, durably, under names that no earlier run has used. LakeUnavailable.

    A file for each date of their events, so that each may be committed as it is.
    """
    folder = lake / TABLE
    with lake_errors(f"write candidate rows to {folder}", MAKE_WRITABLE):
        names = (f"{prefix_of(plan)}{task}-{attempt}.parquet" for attempt in count())
        found = [_write_first_free(folder, names, part, date) for date, part in by_date(rows)]
        store_of(folder).sync()
    return found


def _write_first_free(folder: Location, names: Iterator[str], rows: pa.Table, date: str | None) -> OutputFile:
    for name in names:
        try:
            size_bytes = write_parquet(folder, name, rows)
        except FileExistsError:
            continue
        return OutputFile(TABLE, name, size_bytes, rows.num_rows, rows.schema, date)
    raise AssertionError("numbers do not end")


def candidate_files(lake: Location, plan: PlanKey, most_tasks: int) -> list[str]:
    """The names of all candidate files of a plan, of so many tasks at most. LakeUnavailable.

    A folder on this machine is not listed: it may have a week of files, and each name costs a look.
    """
    store = store_of(lake / TABLE)
    with lake_errors(f"read the folder {lake / TABLE}"):
        if store.lists_by_prefix:
            return sorted(store.names(prefix_of(plan)))
        return sorted(name for task in range(most_tasks) for name in own_candidate_files(lake, plan, task))


def own_candidate_files(lake: Location, plan: PlanKey, task: int) -> list[str]:
    """The files of one task alone, from runs that died. It looks at names in turn, and lists no folder.

    A run takes the first free name, and all of them stay until the plan is completed. LakeUnavailable.
    """
    store = store_of(lake / TABLE)
    names = (f"{prefix_of(plan)}{task}-{attempt}.parquet" for attempt in count())
    with lake_errors(f"look for candidate rows in {lake / TABLE}"):
        return list(takewhile(lambda name: store.size_bytes(name) is not None, names))


def read_candidates(
    lake: Location, names: Iterable[str], columns: Sequence[str] | None = None
) -> pa.Table | None:
    """The rows of these files, without those that can't be read; None without any.

    A file that was not written to its end can't be read, and nothing of it was proposed. LakeUnavailable
    where nobody knows whether it was.
    """
    parts: list[pa.Table] = []
    store = store_of(lake / TABLE)
    for name in names:
        try:
            parts.append(pq.read_table(store.open(name), columns=columns and list(columns)))
        except (OSError, pa.ArrowInvalid) as error:
            if isinstance(error, OSError) and not tells_of_damage(error):
                with lake_errors(f"read candidate rows from {lake / TABLE}"):
                    raise
            log.warning("no candidate rows are read from %s: %s", lake / TABLE / name, error)
    return pa.concat_tables(parts, promote_options="default") if parts else None


def prefix_of(plan: PlanKey) -> str:
    """With what the names of a plan's candidate files begin."""
    return f"batch-{plan.batch}-{plan.plan_id}-"
