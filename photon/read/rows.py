"""Rows of tables as datasets of pyarrow's, with the time up to which they are complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from photon.pipeline.sections import Datacenter
from photon.process.clock import MICROSECONDS
from photon.releases.datasets import datasets_of
from photon.releases.reading import OpenRelease
from photon.releases.release import Release
from photon.state.completeness.estimate import Completeness
from photon.storage.columns import TABLE_COLUMNS, TableName, text
from photon.storage.delta import lake_errors
from photon.storage.tables import OutputTable


@dataclass(frozen=True)
class Watermark:
    """Up to which event time joined rows are complete.

    Each datacenter has a copy of all logs, and says so of what had come into its copy. So the latest of these
    times is the union's: what one of them knows to be decided is decided for all.
    """

    datacenters: Mapping[str, Completeness]  # datacenters that have said anything
    release: Release | None = None  # then it says so itself

    @property
    def complete_up_to(self) -> datetime | None:
        """Every record before it that had come is decided: none waits. None: nobody has read a time yet."""
        if self.release is not None:
            return _latest([self.release.complete_up_to_us])
        return _latest(each.complete_up_to_us for each in self.datacenters.values())

    @property
    def mostly_up_to(self) -> datetime | None:
        """The time before which at least `availability.of_events` of the pipeline file do not wait."""
        if self.release is not None:
            return _latest([self.release.mostly_up_to_us])
        return _latest(each.mostly_up_to_us for each in self.datacenters.values())

    @property
    def unmatched_up_to(self) -> datetime | None:
        """Each primary before it that had come is matched or unmatched; only a release says so."""
        return None if self.release is None else _latest([self.release.unmatched_up_to_us])


class Rows(ds.UnionDataset):
    """Rows of the datacenters' tables, of now or of a release: a dataset of pyarrow's.

    `watermark`: up to where these very rows are complete. `unchecked`: what nobody could say of them, and
    why; empty if the registry knows no other table and no retired datacenter.
    """

    def __init__(
        self, schema: pa.Schema, children: Sequence[ds.Dataset], watermark: Watermark, unchecked: str = ""
    ) -> None:
        super().__init__(schema, children)
        self.watermark, self.unchecked = watermark, unchecked

    @property
    def complete_up_to(self) -> datetime | None:
        """No record before it that had come lacks its row here. None: nobody has read a time yet."""
        return self.watermark.complete_up_to

    @property
    def release(self) -> Release | None:
        """The release that these rows are of; None: rows of now."""
        return self.watermark.release

    def filter(self, expression: ds.Expression) -> Rows:
        """The same rows without those that do not match: their watermark is the same."""
        found: Rows = super().filter(expression)
        found.watermark, found.unchecked = self.watermark, self.unchecked
        return found


def _latest(times_us: Iterable[int | None]) -> datetime | None:
    known = [time_us for time_us in times_us if time_us is not None]
    return datetime.fromtimestamp(max(known) / MICROSECONDS, UTC) if known else None


def rows_now(handles: Sequence[DeltaTable], table: TableName, watermark: Watermark, unchecked: str) -> Rows:
    """The rows of open tables; without any there are the columns of such a table."""
    if not handles:
        columns = TABLE_COLUMNS[table]
        return Rows(columns, [ds.dataset(columns.empty_table())], watermark, unchecked)
    schema = pa.unify_schemas([pa.schema(handle.schema().to_arrow()) for handle in handles])
    children = [handle.to_pyarrow_dataset(schema=schema) for handle in handles]
    return Rows(schema, children, watermark, unchecked)


def side_rows_now(places: Mapping[str, Datacenter], name: TableName) -> Rows:
    """The rows of a side table as they are now, of the datacenters that have it."""
    tables = (OutputTable(place.lake, name) for place in places.values())
    return rows_now([table.load() for table in tables if table.exists()], name, Watermark({}), "")


def rows_of(opened: OpenRelease, name: TableName, datacenter: str | None = None) -> Rows:
    """The rows of a release in one of its tables, of all datacenters or of one. LakeUnavailable."""
    watermark = Watermark({}, opened.release)
    tables = [each for each in opened.tables(name) if datacenter in (None, each.datacenter)]
    if not tables:
        return rows_now([], name, watermark, "")
    schema = pa.unify_schemas([each.schema for each in tables])
    with lake_errors(f"read release {opened.release.number}"):
        datasets, needed = datasets_of(tables, schema)
    rows = Rows(schema, datasets, watermark)
    return rows if needed is None else rows.filter(needed)


def ids_among(rows: Rows, ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """The event ids among these that have a joined row."""
    wanted = text("_event_id").isin(pc.unique(ids.drop_null()))
    return held(rows.filter(wanted), ["_event_id"])["_event_id"]


def held(rows: Rows, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows in memory. LakeUnavailable."""
    with lake_errors("read rows"):
        return rows.to_table(columns=columns)


def in_memory(found: pa.Table, like: Rows) -> Rows:
    """A table as rows, with the watermark of others."""
    return Rows(found.schema, [ds.dataset(found)], like.watermark, like.unchecked)
