"""Files of a table that give way to others in one commit, while its dispatcher appends (protocol E3).

delta-rs takes removes beside adds in one transaction. Its check of conflicts lets pass what removes a file
that a compaction has removed since, or that the table never had: both would double rows. So a commit is for
one version only, on a handle that still has every file, and is tried again on the next one.

An append of the dispatcher is no conflict by itself, but takes the version. So the actions are made once, and
between two tries only the entries that came since are read: the time in which an append may come first does
not grow with the table. A try follows at once on the append that beat the one before, since the next append
is never further away.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from photon.process.errors import UserError
from photon.process.faults import fault_point
from photon.storage.archived_log import removed_by
from photon.storage.data_files import DataFiles
from photon.storage.delta import (
    APP_METADATA,
    HOOKS,
    NUMBER_METADATA,
    lake_errors,
    log_entry,
    partitions_of,
)
from photon.storage.output_files import OutputFile, add_action, partition_values
from photon.storage.replaced_files import LIST_METADATA, ReplacedFiles
from photon.storage.tables import CommitConflict, OutputTable

# Each takes some milliseconds. Beside appends each 20 ms, on two cores at a load of 13, the first or second
# try wins; so many are lost in a row only where this process has no processor.
MOST_TRIES = 1_000
Actions = list[AddAction | RemoveAction]


class FilesGone(Exception):
    """Somebody else has replaced some of the files since they were read."""


class NotReplaced(UserError):
    """A replacement could not be committed; the message says why and what to do."""


def data_files(handle: DeltaTable) -> dict[str, int]:
    """The data files of a table's version, with their sizes."""
    files = pa.table(handle.get_add_actions())
    return dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))


@dataclass(frozen=True)
class PlannedReplacement:
    """Files that take the place of the files `gone`, as number `number` of `app`.

    `changes_rows`: not if they have the same rows, and whoever looks for changes is to find none.
    """

    gone: frozenset[str]
    files: Sequence[OutputFile]
    app: str
    number: int
    says: Mapping[str, str]
    changes_rows: bool = True

    def actions(self, table: OutputTable, handle: DeltaTable) -> Actions:
        """All that is committed, for a version that has the files. FilesGone, LakeUnavailable."""
        with table.reading():
            there = [file for file in DataFiles(handle).all() if file.path in self.gone]
        if missing := self.gone - {file.path for file in there}:
            raise FilesGone(sorted(missing))
        # Were what a compaction removes to stay in checkpoints for a week, they would have two million of
        # these, and each takes a microsecond. The archive of the log tells when it left.
        removed_ms = int(time.time() * 1000) if self.changes_rows else 0
        partitions = partitions_of(handle)
        removes = [
            RemoveAction(
                file.path,
                self.changes_rows,
                removed_ms,
                file.size_bytes,
                partition_values(file.date, partitions),
            )
            for file in there
        ]
        with lake_errors(f"replace files of {table.folder}"):
            adds = [add_action(table.folder, file, partitions, self.changes_rows) for file in self.files]
        return [*removes, *adds]

    def is_in(self, handle: DeltaTable) -> bool:
        """Whether a version is that of an earlier try, whose answer was lost."""
        there = data_files(handle)
        return all(file.path in there for file in self.files) and there.keys().isdisjoint(self.gone)


def replace_files(table: OutputTable, wanted: PlannedReplacement) -> None:
    """Commit a replacement, all or nothing, and on disk.

    If rows change, a list of these files is in the lake before the commit, which names it: older releases
    need it.
    FilesGone if the table has not all of the files any more; NotReplaced if somebody else commits as its app;
    SchemaConflict or CommitConflict if new columns do not fit. LakeUnavailable: then nobody knows whether it
    was committed.
    """
    table.sync()  # the last commit of a dispatcher that died comes before this
    if wanted.changes_rows:
        wanted = replace(wanted, says={**wanted.says, LIST_METADATA: _listed(table, wanted)})
        fault_point("rebuild.after_listed")
    _replace(table, wanted)
    table.sync()


def _listed(table: OutputTable, wanted: PlannedReplacement) -> str:
    """Store the list of a replacement; its name. LakeUnavailable."""
    went = [file for file in DataFiles(table.load()).all() if file.path in wanted.gone]
    with lake_errors(f"store the list of files that a rebuild of {table.folder} replaces"):
        lists = ReplacedFiles(table.folder.parent)
        return lists.add(wanted.number, went, [file.path for file in wanted.files])


def _replace(table: OutputTable, wanted: PlannedReplacement) -> None:
    actions: Actions = []
    looked_at = -1  # the version
    for _ in range(MOST_TRIES):
        handle = table.with_columns_of(wanted.files)
        version = table.version_in(handle, wanted.app)
        if version >= wanted.number:
            if wanted.is_in(handle):
                return
            raise NotReplaced(
                f"{table.folder} is at replacement {version} of {wanted.app}, which must be below "
                f"{wanted.number}: another backfill or compaction of this table runs; wait for its end"
            )
        is_known = 0 <= looked_at < handle.version()  # else it is another table than it was, put back
        if not is_known or not wanted.gone.isdisjoint(_removed(table, looked_at, handle.version())):
            actions = wanted.actions(table, handle)
        looked_at = handle.version()
        try:
            return _commit(table, handle, wanted, actions)
        except CommitConflict:
            continue
    raise NotReplaced(
        f"{table.folder}: {MOST_TRIES:,} commits met others in a row; start it again: it goes on"
    )


def _removed(table: OutputTable, after: int, version: int) -> set[str]:
    """The files that commits behind a version have removed, up to another one. LakeUnavailable."""
    with lake_errors(f"read the log of {table.folder}"):
        entries = (table.store.read(log_entry(number)) for number in range(after + 1, version + 1))
        return {path for entry in entries for path in removed_by(entry)}


def _commit(table: OutputTable, handle: DeltaTable, wanted: PlannedReplacement, actions: Actions) -> None:
    metadata = {APP_METADATA: wanted.app, NUMBER_METADATA: str(wanted.number), **wanted.says}
    with lake_errors(f"replace files of {table.folder}"):
        fault_point("lake.before_commit", table.folder)
        try:
            handle.create_write_transaction(
                actions,
                mode="append",
                schema=handle.schema(),
                partition_by=partitions_of(handle) or None,
                commit_properties=CommitProperties(
                    custom_metadata=metadata,
                    max_commit_retries=0,
                    app_transactions=[Transaction(wanted.app, wanted.number)],
                ),
                post_commithook_properties=HOOKS,
            )
        except CommitFailedError as error:
            raise CommitConflict(
                f"{table.folder}: replacement {wanted.number} of {wanted.app}: {error}"
            ) from error
