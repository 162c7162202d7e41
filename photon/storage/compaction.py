"""Many small data files of a table become few, with the same rows in the same order (docs/adr/0054).

A file is rewritten with others of its epoch, next to each other in the order of batches: so the bounds of
`_epoch` and `_batch` go on telling where a batch has its rows (protocol A6). Nobody's rows change
(`dataChange` is false). A row is rewritten a few times, and not at each pass: a file joins later ones only
once these are as large as it is, together.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import BinaryIO

import pyarrow.parquet as pq

from photon.process.errors import UserError
from photon.process.faults import fault_point
from photon.process.in_time import behind_others
from photon.storage.columns import PARTITIONS
from photon.storage.data_files import DataFile, pages_of_rows
from photon.storage.delta import lake_errors
from photon.storage.output_files import OutputFile, day_folder
from photon.storage.replacing import FilesGone, PlannedReplacement, replace_files
from photon.storage.tables import OutputTable

GROUP_ROWS = 20_000  # a row group is in memory at once, and read together where one batch is looked for
MOST_FILES = 5_000  # that one commit replaces
FILE_BYTES = 64 * 2**20  # small files become one of about this size; on S3 one is written from memory
LEAST_FILES = 8  # neighbours that are worth a commit: each is 3 us more for every later batch
SMALL_BYTES = 2**16  # a file of a live batch; to rewrite it costs what it costs to open it
GROUP_METADATA = "photon.compaction"


@dataclass(frozen=True)
class Group:
    """Files of one epoch, and of one date where the table is partitioned, that become one."""

    epoch: str
    date: date | None
    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows or 0 for file in self.files)


def groups_of(
    files: Iterable[DataFile],
    last_batches: Mapping[str, int],
    file_bytes: int = FILE_BYTES,
    least_files: int = LEAST_FILES,
) -> list[Group]:
    """The files to be rewritten, in groups of about `file_bytes` and of at least so many files. Pure.

    `last_batches`: of each epoch the last batch that it committed. Files of that one stay: its plan may be
    open. Files of several epochs, and such as the log tells nothing of, stay too.
    """
    alike: dict[tuple[str, date | None], list[DataFile]] = {}
    for file in files:
        if file.epoch is not None and _is_closed(file, last_batches):
            alike.setdefault((file.epoch, file.date), []).append(file)
    found = []
    for (epoch, day), some in sorted(alike.items(), key=lambda item: (item[0][0], str(item[0][1]))):
        some.sort(key=lambda file: (file.first_batch or 0, file.path), reverse=True)
        runs = [run for run in _runs(some, file_bytes) if len(run) >= least_files]
        found += [Group(epoch, day, tuple(reversed(run))) for run in reversed(runs)]
    return found


def _is_closed(file: DataFile, last_batches: Mapping[str, int]) -> bool:
    last_batch = last_batches.get(file.epoch or "", 0)
    return file.rows is not None and file.last_batch is not None and file.last_batch < last_batch


def _runs(files: Sequence[DataFile], file_bytes: int) -> list[list[DataFile]]:
    """Neighbours, up to so many bytes together, from the last one back; `files`: the last one first.

    A large file stays, and ends a run: ranges don't overlap. So does one that is larger than all later ones
    of the run, since they would have it rewritten at each pass.
    """
    runs: list[list[DataFile]] = [[]]
    size_bytes = 0
    for file in files:
        is_large = file.size_bytes >= file_bytes / 2
        is_larger = file.size_bytes > max(size_bytes, SMALL_BYTES)
        is_full = size_bytes + file.size_bytes > file_bytes or len(runs[-1]) == MOST_FILES
        if is_large or (is_larger and runs[-1]) or is_full:
            runs.append([])
            size_bytes = 0
        if not is_large:
            runs[-1].append(file)
            size_bytes += file.size_bytes
    return runs


class RowsDiffer(UserError):
    """Files do not have as many rows as the table's log says: nothing was replaced."""


def compact(table: OutputTable, group: Group, app: str) -> OutputFile | None:
    """Put one file in the place of a group's, in one commit beside the dispatcher's (protocol E3).

    The file is written behind others. The commit is not: on a busy machine an append would always come first.
    None if somebody else has replaced one of them: they stay for the next time. LakeUnavailable, NotReplaced,
    CommitConflict, RowsDiffer.
    """
    number = table.version_of(app) + 1
    file = behind_others(partial(_rewrite, table, group))
    fault_point("compact.after_write")
    gone, says = frozenset(each.path for each in group.files), {GROUP_METADATA: group.epoch}
    try:
        replace_files(table, PlannedReplacement(gone, [file], app, number, says, changes_rows=False))
    except FilesGone:
        table.store.remove(file.path)
        return None
    fault_point("compact.after_commit")
    return file


def _rewrite(table: OutputTable, group: Group) -> OutputFile:
    schema, rows = table.schema(), 0

    def write(sink: BinaryIO) -> None:
        nonlocal rows
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for page in pages_of_rows(table.store, group.files, schema, None, GROUP_ROWS):
                writer.write_table(page, row_group_size=GROUP_ROWS)
                rows += page.num_rows

    folder = day_folder(group.date) if table.name in PARTITIONS else ""
    path = f"{folder}compacted-{group.files[0].first_batch}-{uuid.uuid4().hex}.parquet"
    with lake_errors(f"rewrite {len(group.files)} files of {table.folder}"):
        size_bytes = table.store.create(path, write)
    if rows != group.rows:
        table.store.remove(path)
        raise RowsDiffer(
            f"{table.folder}: {group.rows} rows expected in {len(group.files)} files, found {rows}"
        )
    day = None if group.date is None else group.date.isoformat()
    return OutputFile(table.name, path, size_bytes, rows, schema, day)
