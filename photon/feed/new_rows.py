"""The rows of one datacenter between two places (epoch and batch), in order: at once, or page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from photon.adapters import ROW_COLUMNS
from photon.feed.step import FEED_COLUMNS, ChangeType
from photon.releases.files import condition_between, shares_between
from photon.releases.release import Place
from photon.storage.data_files import DataFile, pages_of_rows
from photon.storage.own_columns import columns_of_people
from photon.storage.store import ObjectStore

PAGE_ROWS = 100_000  # in memory at once; a batch that has more is a page of its own
_PLACES = pa.schema([ROW_COLUMNS.field(name) for name in ("_epoch", "_batch")])


@dataclass(frozen=True)
class NewRows:
    """The rows of some files behind one place and up to another; `wanted`: only rows that match it."""

    store: ObjectStore
    files: tuple[DataFile, ...]
    after: Place
    up_to: Place
    wanted: ds.Expression | None = None

    def all(self, columns: pa.Schema) -> pa.Table:
        """All these rows, in order. OSError."""
        return in_order(pa.concat_tables([columns.empty_table(), *self.pages(columns)]))

    def changes(self, columns: pa.Schema, release: int) -> pa.Table:
        """All these rows as a page of a step: inserts. OSError."""
        return in_feed(self.all(columns), release, "insert")

    def by_place(self) -> dict[Place, int]:
        """How many rows each batch has, in order. Rows without one come first in the next epoch. OSError."""
        found: dict[Place, int] = {}
        for page in self.pages(_PLACES):
            for row in page.group_by(_PLACES.names).aggregate([([], "count_all")]).to_pylist():
                epoch, batch = int(row["_epoch"]), row["_batch"]
                place = Place(epoch + 1, 0) if batch is None else Place(epoch, batch)
                found[place] = found.get(place, 0) + row["count_all"]
        return {place: found[place] for place in sorted(found)}

    def within(self, after: Place, up_to: Place) -> NewRows:
        """Those of these rows that lie between two closer places."""
        return replace(self, after=after, up_to=up_to)

    def pages(self, columns: pa.Schema) -> Iterator[pa.Table]:
        """All these rows in no order, some at a time. OSError."""
        whole, partial = shares_between(self.files, self.after, self.up_to)
        yield from pages_of_rows(self.store, whole, columns, self.wanted, PAGE_ROWS)
        wanted = condition_between(self.after, self.up_to)
        if self.wanted is not None:
            wanted &= self.wanted
        yield from pages_of_rows(self.store, partial, columns, wanted, PAGE_ROWS)


def pages_of(by_place: dict[Place, int], after: Place) -> Iterator[tuple[Place, Place]]:
    """Pages of whole batches: the place that each page begins behind, and the one that it ends at."""
    count, last = 0, after
    for place, rows in by_place.items():
        if count and count + rows > PAGE_ROWS:
            yield after, last
            after, count = last, 0
        count, last = count + rows, place
    if count:
        yield after, last


def columns_of(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of rows in the feed: Photon's own, then the others by name, without those of people.

    ArrowTypeError if tables disagree on a type.
    """
    return columns_with(ROW_COLUMNS, [ROW_COLUMNS, *map(_columns_to_feed, schemas)])


def columns_with(first: pa.Schema, schemas: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of all these schemas: those of `first`, then the others by name. ArrowTypeError."""
    found = pa.unify_schemas(list(schemas))
    others = sorted(set(found.names) - set(first.names))
    return pa.schema([*first, *(found.field(name) for name in others)])


def _columns_to_feed(schema: pa.Schema) -> pa.Schema:
    left_out = {*columns_of_people(schema, made=()), *ROW_COLUMNS.names}
    return pa.schema([pa.field(field.name, field.type) for field in schema if field.name not in left_out])


def in_order(rows: pa.Table, last: pa.Array | None = None) -> pa.Table:
    """Sort rows by epoch, batch and occurrence, all as numbers; rows of one token by `last`."""
    places = pc.split_pattern(rows["_occurrence"], ":")
    keys = {
        "epoch": rows["_epoch"].cast(pa.int64()),
        "batch": rows["_batch"],
        "file": pc.list_element(places, 0).cast(pa.int64()),
        "offset": pc.list_element(places, 1).cast(pa.int64()),
        "last": pa.nulls(rows.num_rows, pa.int64()) if last is None else last,
    }
    return rows.take(pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys]))


class RowPlaces:
    """The places of rows that are in order; a row without a batch lies behind its epoch's batches."""

    def __init__(self, rows: pa.Table) -> None:
        self._epochs: npt.NDArray[np.int64] = rows["_epoch"].cast(pa.int64()).to_numpy()
        self._batches: npt.NDArray[np.int64] = pc.fill_null(rows["_batch"], 2**62).to_numpy()

    def rows_up_to(self, place: Place) -> int:
        """How many of the rows lie up to a place."""
        is_in_last = (self._epochs == place.epoch) & (self._batches <= place.batch)
        return int(np.count_nonzero((self._epochs < place.epoch) | is_in_last))


def in_feed(rows: pa.Table, release: int, change: ChangeType) -> pa.Table:
    """Rows with a step's columns ahead of theirs: the release's number and the kind of change."""
    columns = [
        pa.repeat(pa.scalar(release, pa.int64()), rows.num_rows),
        pa.repeat(pa.scalar(change, pa.string()), rows.num_rows),
    ]
    return pa.table([*columns, *rows.columns], schema=pa.schema([*FEED_COLUMNS, *rows.schema]))
