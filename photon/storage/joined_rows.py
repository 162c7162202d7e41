"""Joined rows read back, by the batches that committed them or by their events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.dataset as ds

from photon.adapters import ROW_COLUMNS
from photon.storage.columns import text
from photon.storage.data_files import DataFile, DataFiles, pages_of_rows, rows_of
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import OutputTable

ROWS_AT_ONCE = 100_000  # bounds memory where the ids of all rows are read
REGISTERED_AS = ("_epoch", "_batch", "_plan", "_occurrence", "_event_id", "_event_time")
# These columns tell that a row is a hold's (protocol A9), and which record it is of.
CLAIMED_AS = ("_batch", "_plan", "_event_id", "_occurrence")
CLAIMED_COLUMNS = pa.schema([ROW_COLUMNS.field(name) for name in CLAIMED_AS])
REGISTERED_COLUMNS = pa.schema([ROW_COLUMNS.field(name) for name in REGISTERED_AS])


class CommittedRows:
    """The committed rows of a table at one version."""

    def __init__(self, table: OutputTable, behind: tuple[str, int] | None = None) -> None:
        """LakeUnavailable if the table can't be read, or lacks the batch of an app that it is `behind`."""
        self._table = table
        with table.reading():
            handle = table.load()
            self._files = DataFiles(handle)
        if behind is not None and table.version_in(handle, behind[0]) < behind[1]:
            raise LakeUnavailable(f"{table.folder} lacks batch {behind[1]} of {behind[0]}: was it put back?")

    def of_batches(
        self, epoch: str, batches: Collection[int], ids: Collection[str] | None = None
    ) -> pa.Table:
        """The rows of these batches, of these events or of all, with the columns `CLAIMED_AS`."""
        wanted = (text("_epoch") == epoch) & ds.field("_batch").isin(sorted(batches))
        if ids is not None:
            wanted &= text("_event_id").isin(list(ids))
        files = self._files.of_epoch(epoch, batches)
        with self._table.reading():
            return rows_of(self._table.store, files, CLAIMED_COLUMNS, wanted)

    def pages(self, epoch: str, batches: range, page_rows: int) -> Iterator[pa.Table]:
        """The rows of these batches, with the columns `REGISTERED_AS`, at most `page_rows` at a time.

        A page has the rows of many small files.
        """
        batch = ds.field("_batch")
        wanted = (text("_epoch") == epoch) & (batch >= batches.start) & (batch < batches.stop)
        yield from self._pages(self._files.of_epoch(epoch, batches), wanted, page_rows)

    def epochs(self) -> list[str]:
        """The epochs that have rows, sorted."""
        return self._files.epochs()

    def newest(self, epoch: str, most_batches: int) -> Iterator[pa.Table]:
        """The rows of an epoch's newest batches, a table each, with the columns `REGISTERED_AS`.

        Of batches that were compacted together only the last one.
        """
        files = self._files.of_epoch(epoch)
        last_batches = sorted(
            {file.last_batch for file in files if file.last_batch is not None and file.rows}
        )
        for batch in reversed(last_batches[-most_batches:]):
            wanted = (text("_epoch") == epoch) & (ds.field("_batch") == batch)
            with self._table.reading():
                yield rows_of(
                    self._table.store, self._files.of_epoch(epoch, [batch]), REGISTERED_COLUMNS, wanted
                )

    def all_pages(self, page_rows: int) -> Iterator[pa.Table]:
        """All rows, with the columns `REGISTERED_AS`, at most `page_rows` at a time."""
        with self._table.reading():
            yield from pages_of_rows(
                self._table.store, self._files.all(), REGISTERED_COLUMNS, None, page_rows
            )

    def of_events(self, ids: Collection[str]) -> Iterator[pa.Table]:
        """All rows with one of these event ids, with the columns `REGISTERED_AS`."""
        yield from self._pages(self._files.all(), text("_event_id").isin(list(ids)), ROWS_AT_ONCE)

    def _pages(self, files: Iterable[DataFile], wanted: ds.Expression, page_rows: int) -> Iterator[pa.Table]:
        with self._table.reading():
            # One file after the other, so that memory is bounded by a page and not by the table.
            yield from pages_of_rows(self._table.store, files, REGISTERED_COLUMNS, wanted, page_rows)


def epochs_of_rows(table: OutputTable, ids: Collection[str]) -> dict[str, frozenset[str]]:
    """The events among these that have rows, by id, with the rows' epochs. Reads the ids of all rows."""
    found: dict[str, frozenset[str]] = {}
    for rows in CommittedRows(table).of_events(ids) if ids else ():
        of_rows = zip(rows["_event_id"].to_pylist(), rows["_epoch"].to_pylist(), strict=True)
        for event_id, epoch in of_rows:
            found[event_id] = found.get(event_id, frozenset()) | {epoch}
    return found
