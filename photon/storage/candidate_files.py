"""Files of candidate rows: on disk before anybody claims the first of their ids (protocol A14).

They lie in the folders of their days in `joined_events`, so that one whose claims all win is committed as it
is. A list in the table's own folder names them. Its name begins with the plan's, for whoever ends the plan:
so all of them are found, also those of runs that died, on whatever days their events are.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from itertools import count, takewhile

import pyarrow as pa
import pyarrow.parquet as pq

from photon.pipeline.location import Location
from photon.storage.columns import TableName, by_date
from photon.storage.delta import MAKE_WRITABLE, lake_errors
from photon.storage.output_files import OutputFile, day_folder, write_parquet
from photon.storage.store import ObjectStore, content, store_of
from photon.storage.store_errors import tells_of_damage
from photon.storage.tokens import PlanKey

log = logging.getLogger(__name__)

TABLE: TableName = "joined_events"
LIST_SUFFIX = ".json"  # ends the name of a run's list; the folder of a table has no other file of this kind


def write_candidates(lake: Location, plan: PlanKey, task: int, rows: pa.Table) -> list[OutputFile]:
    """Store the rows of a task, durably, under names that no earlier run has used. LakeUnavailable.

    A file for each date of their events, so that each may be committed as it is. The list comes first: a file
    that it names and that is not there was never written, and nothing of it was proposed.
    """
    folder, parts = lake / TABLE, by_date(rows)
    found = []
    with lake_errors(f"write candidate rows to {folder}", MAKE_WRITABLE):
        store = store_of(folder)
        name = _first_free(store, f"{prefix_of(plan)}{task}", [date for date, _ in parts])
        for date, part in parts:
            path = f"{day_folder(date)}{name}.parquet"
            size_bytes = write_parquet(folder, path, part)
            found.append(OutputFile(TABLE, path, size_bytes, part.num_rows, part.schema, date))
        store.sync()
    return found


def _first_free(store: ObjectStore, beginning: str, dates: Sequence[str | None]) -> str:
    """Take the first name that no earlier run has taken, by a list of the days of this run's files."""
    days = content(json.dumps(dates).encode())
    for attempt in count():
        try:
            store.create(f"{beginning}-{attempt}{LIST_SUFFIX}", days)
        except FileExistsError:
            continue
        return f"{beginning}-{attempt}"
    raise AssertionError("numbers do not end")


def candidate_files(lake: Location, plan: PlanKey) -> list[str]:
    """The names of all candidate files of a plan, and of their lists. LakeUnavailable."""
    store = store_of(lake / TABLE)
    with lake_errors(f"read the folder {lake / TABLE}"):
        return _with_their_files(store, sorted(store.names(prefix_of(plan))))


def own_candidate_files(lake: Location, plan: PlanKey, task: int) -> list[str]:
    """The files of one task alone, from runs that died, and their lists. It lists no folder.

    A run takes the first free name, and all of them stay until the plan is completed. LakeUnavailable.
    """
    store = store_of(lake / TABLE)
    names = (f"{prefix_of(plan)}{task}-{attempt}{LIST_SUFFIX}" for attempt in count())
    with lake_errors(f"look for candidate rows in {lake / TABLE}"):
        return _with_their_files(store, takewhile(lambda name: store.size_bytes(name) is not None, names))


def list_of(file: OutputFile) -> str:
    """The name of the list that names a candidate file."""
    return file.path.rpartition("/")[2].removesuffix(".parquet") + LIST_SUFFIX


def _with_their_files(store: ObjectStore, lists: Iterable[str]) -> list[str]:
    """Lists, each behind the files that it names and that are there."""
    found = []
    for name in lists:
        try:
            days = json.loads(store.read(name))
        except ValueError:  # a run died while it wrote the list, before its first file
            days = []
        paths = [f"{day_folder(day)}{name.removesuffix(LIST_SUFFIX)}.parquet" for day in days]
        found += [*(path for path in paths if store.size_bytes(path) is not None), name]
    return found


def read_candidates(
    lake: Location, names: Iterable[str], columns: Sequence[str] | None = None
) -> pa.Table | None:
    """The rows of these files, without those that can't be read; None without any.

    A file that was not written to its end can't be read, and nothing of it was proposed. LakeUnavailable
    where nobody knows whether it was.
    """
    parts: list[pa.Table] = []
    store = store_of(lake / TABLE)
    for name in (name for name in names if not name.endswith(LIST_SUFFIX)):
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
