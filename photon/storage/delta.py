"""Delta tables as delta-rs knows them: make one, open one, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import DeltaError

from photon.errors import UserError
from photon.pipeline.location import Location
from photon.storage.native_errors import is_refusal, reason_of
from photon.storage.store import store_of
from photon.storage.store_errors import StoreUnavailable

LOG_FOLDER = "_delta_log"
MAKE_WRITABLE = "make it writable, it is tried again"
_ENTRY = re.compile(r"\d{20}\.(json|checkpoint.*\.parquet)")
# Old entries of the log go by compaction: a look for them at each commit lists the whole log.
HOOKS = PostCommitHookProperties(cleanup_expired_logs=False)


class LakeUnavailable(UserError):
    """The table can't be read or written now (full, read-only, gone); the message names folder and reason."""


class LakeForbidden(LakeUnavailable):
    """The lake may be there, and does not let us in: credentials are missing, wrong, or lack a right."""


@contextmanager
def lake_errors(doing: str, remedy: str = "") -> Iterator[None]:
    """Raise what goes wrong while `doing` something with a table as LakeUnavailable, or LakeForbidden.

    `remedy`: what to do, but where a store does not answer: then there is nothing to do but wait.
    """
    try:
        yield
    except (OSError, DeltaError) as error:
        said = f"cannot {doing}: {reason_of(error)}"
        if remedy:
            said += f"; {'it is tried again' if isinstance(error, StoreUnavailable) else remedy}"
        if is_refusal(error):  # whose own words have the key's id and what was signed
            raise LakeForbidden(said) from None
        raise LakeUnavailable(said) from error


def is_table(folder: Location) -> bool:
    """Whether there is a Delta table. OSError.

    delta-rs's own look stops all threads of the process until the store answers, or for half a minute.
    """
    return any(_ENTRY.fullmatch(name) for name in store_of(folder / LOG_FOLDER).names())


def open_table(folder: Location) -> DeltaTable:
    """A handle on a table as it is now. DeltaError."""
    store = store_of(folder)
    return DeltaTable(store.url, storage_options=store.delta_options)


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
