"""Files of a table that give way to others in one commit, while its dispatcher appends (protocol E3).

delta-rs takes removes beside adds in one transaction. Its check of conflicts lets pass what removes a file
that a compaction has removed since, or that the table never had: both would double rows. So a commit is for
one version only, on a handle that still has every file, and is tried again on the next one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from photon.errors import UserError
from photon.process.faults import fault_point
from photon.storage.data_files import DataFiles
from photon.storage.delta import HOOKS, lake_errors, partitions_of
from photon.storage.output_files import OutputFile, add_action, partition_values
from photon.storage.replaced_files import LIST_METADATA, ReplacedFiles
from photon.storage.tables import APP_METADATA, CommitConflict, OutputTable

MOST_TRIES = 100  # to commit once: appends come between some times a second, and each takes milliseconds
TRY_PAUSE_SECONDS = 0.02  # times a random number up to the number of the try, at most ten
NUMBER_METADATA = "photon.replacement"


class FilesGone(Exception):
    """Somebody else has replaced some of the files since they were read."""


class NotReplaced(UserError):
    """A replacement could not be committed; the message says why and what to do."""


def data_files(handle: DeltaTable) -> dict[str, int]:
    """The data files of a table's version, with their sizes."""
    files = pa.table(handle.get_add_actions())
    return dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))


def replace_files(
    table: OutputTable,
    gone: Collection[str],
    files: Sequence[OutputFile],
    app: str,
    number: int,
    says: Mapping[str, str],
    sleep: Callable[[float], None] = time.sleep,
    changes_rows: bool = True,
) -> None:
    """Put `files` in the place of the files `gone`, as number `number` of `app`, all or nothing, and on disk.

    `changes_rows`: not if they have the same rows, and whoever looks for changes is to find none. If rows
    change, a list of these files is in the lake before the commit, which names it: older releases need it.
    FilesGone if the table has not all of them any more; NotReplaced if somebody else commits as `app`;
    SchemaConflict or CommitConflict if new columns do not fit. LakeUnavailable: then nobody knows whether it
    was committed.
    """
    table.sync()  # the last commit of a dispatcher that died comes before this
    if changes_rows:
        says = {**says, LIST_METADATA: _listed(table, set(gone), files, number)}
        fault_point("rebuild.after_listed")
    for attempt in range(1, MOST_TRIES + 1):
        handle = table.with_columns_of(files)
        version = table.version_in(handle, app)
        there = data_files(handle)
        if version >= number:
            if all(file.path in there for file in files) and there.keys().isdisjoint(gone):
                break  # an earlier try, whose answer was lost
            raise NotReplaced(
                f"{table.folder} is at replacement {version} of {app}, which must be below {number}: another "
                "backfill or compaction of this table runs; wait for its end"
            )
        if not there.keys() >= set(gone):
            raise FilesGone(sorted(set(gone) - there.keys()))
        try:
            _commit(table, handle, set(gone), files, app, number, says, changes_rows)
            break
        except CommitConflict:
            sleep(TRY_PAUSE_SECONDS * random.uniform(0, min(attempt, 10)))
    else:
        raise NotReplaced(
            f"{table.folder}: {MOST_TRIES} commits met others in a row; start it again: it goes on"
        )
    table.sync()


def _listed(table: OutputTable, gone: Collection[str], files: Sequence[OutputFile], number: int) -> str:
    """Store the list of a replacement; its name. LakeUnavailable."""
    went = [file for file in DataFiles(table.load()).all() if file.path in gone]
    with lake_errors(f"store the list of files that a rebuild of {table.folder} replaces"):
        return ReplacedFiles(table.folder.parent).add(number, went, [file.path for file in files])


def _commit(
    table: OutputTable,
    handle: DeltaTable,
    gone: Collection[str],
    files: Sequence[OutputFile],
    app: str,
    number: int,
    says: Mapping[str, str],
    changes_rows: bool,
) -> None:
    # Were what a compaction removes to stay in checkpoints for a week, they would have two million of these,
    # and each takes a microsecond. The archive of the log tells when it left.
    removed_ms = int(time.time() * 1000) if changes_rows else 0
    with lake_errors(f"replace files of {table.folder}"):
        partitions = partitions_of(handle)
        adds = [add_action(table.folder, file, partitions, changes_rows) for file in files]
        removes = [
            RemoveAction(
                file.path, changes_rows, removed_ms, file.size_bytes, partition_values(file.date, partitions)
            )
            for file in DataFiles(handle).all()
            if file.path in gone
        ]
        try:
            handle.create_write_transaction(
                [*removes, *adds],
                mode="append",
                schema=handle.schema(),
                partition_by=partitions or None,
                commit_properties=CommitProperties(
                    custom_metadata={APP_METADATA: app, NUMBER_METADATA: str(number), **says},
                    max_commit_retries=0,
                    app_transactions=[Transaction(app, number)],
                ),
                post_commithook_properties=HOOKS,
            )
        except CommitFailedError as error:
            raise CommitConflict(f"{table.folder}: replacement {number} of {app}: {error}") from error
