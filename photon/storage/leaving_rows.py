"""Rows that leave a table of reports, because nobody asks for them any more (protocol D14).

A `Rule` says which stay. Files that have others give way to files without them, in one commit for exactly
the version that was read: whoever has appended since then wins, and the next pass tries again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from photon.pipeline.location import Location
from photon.storage.delta import HOOKS, columns_in_files, open_table
from photon.storage.output_files import read_parquet
from photon.storage.store import store_of

LEAST_SHARE = 0.1  # of a table's rows: for fewer, no file is written anew

Bools = npt.NDArray[np.bool_]
AddedRows = Callable[[Location, pa.Table], AddAction]  # writes rows to a file; the entry that adds it


@dataclass(frozen=True)
class Rule:
    """Which rows of a table stay: `stays` is asked with these columns of all rows."""

    columns: Sequence[str]
    stays: Callable[[pa.Table], Bools]


def let_rows_leave(table: DeltaTable, folder: Location, rule: Rule, added: AddedRows) -> int:
    """Take the rows out that do not stay, if they are many enough; how many. OSError, DeltaError.

    0 also where nobody knows whether this commit or another one came first.
    """
    files = pa.table(table.get_add_actions())
    paths, sizes = files["path"].to_pylist(), files["size_bytes"].to_pylist()
    schema = columns_in_files(table)
    wanted = pa.schema([schema.field(name) for name in rule.columns])
    asked = [read_parquet(folder, [path], wanted) for path in paths]
    if not asked:
        return 0
    stays = rule.stays(pa.concat_tables(asked))
    leaving = int(np.count_nonzero(~stays))
    if leaving < max(1.0, LEAST_SHARE * len(stays)):
        return 0
    actions: list[AddAction | RemoveAction] = []
    ends = np.cumsum([each.num_rows for each in asked])
    for path, size_bytes, stay in zip(paths, sizes, np.split(stays, ends[:-1]), strict=True):
        if not stay.all():
            actions.append(RemoveAction(path, True, int(time.time() * 1_000), size_bytes, {}))
        if stay.any() and not stay.all():
            actions.append(added(folder, read_parquet(folder, [path], schema).filter(pa.array(stay))))
    try:
        _commit(table, actions)
    except CommitFailedError:
        # Also if the answer to this very commit was lost, and the library has tried it again: look first.
        there = pa.table(open_table(folder).get_add_actions())["path"].to_pylist()
        new = {each.path for each in actions if isinstance(each, AddAction)}
        store_of(folder).remove(*new.difference(there))
        return 0
    return leaving


def _commit(table: DeltaTable, actions: list[AddAction | RemoveAction]) -> None:
    once = CommitProperties(max_commit_retries=0)
    table.create_write_transaction(
        actions, "append", table.schema(), commit_properties=once, post_commithook_properties=HOOKS
    )
