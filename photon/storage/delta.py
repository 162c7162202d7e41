"""Delta tables as delta-rs knows them: make one, open one, and what its errors mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction

from photon.pipeline.location import Location
from photon.process.errors import UserError
from photon.storage.s3_credentials import refused
from photon.storage.store import ObjectStore, store_of
from photon.storage.store_errors import (
    TRIED_AGAIN,
    StoreUnavailable,
    code_of,
    disk_remedy,
    is_refusal,
    reason_of,
    tells_of_damage,
)
from photon.storage.table_features import (
    Expected,
    TableDescription,
    Unkept,
    describe,
    sentences,
    unkept,
)

LOG_FOLDER = "_delta_log"
# A commit of Photon says who made it, and its batch and plan, or the number of a replacement.
APP_METADATA, BATCH_METADATA, PLAN_METADATA = "photon.app", "photon.batch", "photon.plan"
NUMBER_METADATA = "photon.replacement"
MAKE_WRITABLE = f"make it writable, {TRIED_AGAIN}"
_ENTRY = re.compile(r"\d{20}\.(json|checkpoint.*\.parquet)")
# How delta-rs refuses to open a table.
_UNSUPPORTED = re.compile(
    r"Feature '(?P<feature>[^']+)' is not supported|Unsupported minimum reader version (?P<reader>\d+)"
    r"|catalog-managed table"
)
MOST_LOOKED_BACK = 100  # commits, for the last version without a feature: others go on committing
# Old entries of the log go by compaction: a look for them at each commit lists the whole log.
HOOKS = PostCommitHookProperties(cleanup_expired_logs=False)


class LakeUnavailable(UserError):
    """The table can't be read or written now (full, read-only, gone); the message names folder and reason."""


class LakeDamaged(LakeUnavailable):
    """The lake gave an answer: the table, or a part of it, is not there or can't ever be read."""


class LakeForbidden(LakeUnavailable):
    """The lake may be there, and does not let us in: credentials are missing, wrong, or lack a right."""


class LakeMismatch(UserError):
    """The lake is not the one that the registry knows of a datacenter (protocol B9)."""


class UnsupportedTable(LakeUnavailable):
    """Somebody gave the table a feature that Photon can't keep (protocol E9); `remedy` is what to type."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(f"{why}: {remedy}")
        self.why, self.remedy = why, remedy


@contextmanager
def lake_errors(doing: str, remedy: str = "") -> Iterator[None]:
    """Raise what goes wrong while `doing` something with a table as LakeUnavailable, or a kind of it.

    `remedy`: what to do, but where a store does not answer: then there is nothing to do but wait.
    """
    try:
        yield
    except (OSError, DeltaError) as error:
        # An object's own error tells of a refusal in its own words already.
        is_refused = is_refusal(error) and not isinstance(error, PermissionError)
        said = f"cannot {doing}: {reason_of(error, refused(code_of(error)) if is_refused else '')}"
        if found := disk_remedy(error):
            said += f"; {found}"
        elif remedy:
            said += f"; {TRIED_AGAIN if isinstance(error, StoreUnavailable) else remedy}"
        if is_refusal(error):  # the store's own words have the key's id and what was signed
            raise LakeForbidden(said) from None
        raise (LakeDamaged if tells_of_damage(error) else LakeUnavailable)(said) from error


def is_table(folder: Location) -> bool:
    """Whether there is a Delta table. OSError.

    delta-rs's own look stops all threads of the process until the store answers, or for half a minute.
    """
    return any(_ENTRY.fullmatch(name) for name in store_of(folder / LOG_FOLDER).names())


def open_table(folder: Location) -> DeltaTable:
    """A handle on a table as it is now, which can be read. DeltaError, UnsupportedTable."""
    store = store_of(folder)
    try:
        handle = _Table(store.url, storage_options=store.delta_options)
        handle.store = store
    except DeltaError as error:
        if (said := _UNSUPPORTED.search(str(error))) is None:
            raise
        raise _unsupported(folder, [_unknown(said)], None, unkept) from None
    check_readable(handle, folder)
    return handle


class StoredFiles(DeltaStorageHandler):
    """Data files on S3, read as other objects are: with the keys of each moment, and the store's errors."""

    def __init__(self, store: ObjectStore, sizes_bytes: dict[str, int]) -> None:
        super().__init__(store.url, store.delta_options, sizes_bytes)
        self._store = store

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._store.open(path)

    open_input_stream = open_input_file


class _Table(DeltaTable):
    """A handle whose rows are read as long as it takes: its own keys may have ended by then."""

    store: ObjectStore

    def to_pyarrow_dataset(self, *given: Any, **named: Any) -> ds.Dataset:
        if self.store.delta_options is not None:
            files = pafs.PyFileSystem(StoredFiles(self.store, self._table.get_add_file_sizes()))
            named = {"filesystem": files} | {key: each for key, each in named.items() if each is not None}
        return super().to_pyarrow_dataset(*given, **named)


def _unknown(said: re.Match[str]) -> Unkept:
    if (reader := said["reader"]) is not None:
        return Unkept(f"reader version {reader} of Delta", hides_rows=True)
    return Unkept(f"the table feature {said['feature'] or 'catalogManaged'}", hides_rows=True)


def check_readable(handle: DeltaTable, folder: Location) -> None:
    """UnsupportedTable if who does not know the table's features would read other rows than it has."""
    if any(one.hides_rows for one in unkept(describe(handle, with_columns=False))):
        _refuse(folder, handle, lambda table: [one for one in unkept(table) if one.hides_rows])


def check_writable(handle: DeltaTable, folder: Location, expected: Expected) -> None:
    """UnsupportedTable if the table has a feature that Photon's commits would break. Reads nothing."""
    _refuse(folder, handle, lambda table: unkept(table, expected))


def _refuse(
    folder: Location, handle: DeltaTable, judge: Callable[[TableDescription], Sequence[Unkept]]
) -> None:
    if found := judge(describe(handle)):
        raise _unsupported(folder, found, handle.version(), judge)


def _unsupported(
    folder: Location,
    found: Sequence[Unkept],
    version: int | None,
    judge: Callable[[TableDescription], Sequence[Unkept]],
) -> UnsupportedTable:
    """The error that says what was found. Only now the log is read, for the version before it came."""
    try:
        before = _last_well(folder, version, judge)
    except (OSError, ValueError, DeltaError):
        before = None  # the sentence does without
    return UnsupportedTable(*sentences(folder, found, before))


def _last_well(
    folder: Location, version: int | None, judge: Callable[[TableDescription], Sequence[Unkept]]
) -> int | None:
    """The last version of a table, up to this one or the newest, that Photon keeps; None: nobody knows."""
    store = store_of(folder)
    if version is None:
        version = max(int(name[:20]) for name in store_of(folder / LOG_FOLDER).names() if _ENTRY.match(name))
    for number in range(version, max(0, version - MOST_LOOKED_BACK), -1):
        actions = map(json.loads, store.read(log_entry(number)).splitlines())
        if not any(action.keys() & {"protocol", "metaData"} for action in actions):
            continue
        try:
            earlier = DeltaTable(store.url, version=number - 1, storage_options=store.delta_options)
        except DeltaError as error:
            if _UNSUPPORTED.search(str(error)) is None:
                raise
            continue
        if not judge(describe(earlier)):
            return number - 1
    return None


def create_table(
    folder: Location,
    columns: pa.Schema,
    description: str,
    properties: dict[str, str],
    partition_by: Sequence[str] = (),
) -> None:
    """Make the table in `folder`, unless there is one."""
    store = store_of(folder)
    store.make()
    DeltaTable.create(
        store.url,
        storage_options=store.delta_options,
        schema=columns,
        mode="ignore",
        name=folder.name,
        description=description,
        configuration=properties,
        partition_by=list(partition_by),
        raise_if_key_not_exists=False,  # Photon has properties of its own
    )


def commit_files(handle: DeltaTable, files: Sequence[AddAction], commit: CommitProperties) -> None:
    """Commit files through the very handle that is given (protocol A3). DeltaError."""
    handle.create_write_transaction(
        [*files],
        mode="append",
        schema=handle.schema(),
        partition_by=partitions_of(handle) or None,
        commit_properties=commit,
        post_commithook_properties=HOOKS,
    )


def partitions_of(handle: DeltaTable) -> list[str]:
    """The columns by which a table is partitioned: they are in its log, and not in its files."""
    return list(handle.metadata().partition_columns)


def columns_in_files(handle: DeltaTable) -> pa.Schema:
    """The columns of a table's files, as Arrow types."""
    partitions, everything = partitions_of(handle), pa.schema(handle.schema().to_arrow())
    return pa.schema([field for field in everything if field.name not in partitions])


def log_entry(version: int) -> str:
    """The file of a commit in a table's folder."""
    return f"{LOG_FOLDER}/{version:020d}.json"
