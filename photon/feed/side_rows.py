"""The changes of a side table's view: a row that is shown first, and one that a joined row takes back.

A view has the rows of a side table but for those that joined rows take back (`photon.releases.views`).
What two releases show differs where side rows or joined rows came, and only rows of their keys are read.
Whether a key has a joined row nobody knows without a look at the ids of all joined rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import ROW_COLUMNS
from photon.feed.kept import resync
from photon.feed.new_rows import NewRows, columns_with, in_feed
from photon.feed.step import ChangeType, FedTable, FeedStopped, Step
from photon.process.readable import counted
from photon.releases.files import condition
from photon.releases.reading import OpenRelease
from photon.releases.release import NOTHING, Part, Place, Release
from photon.releases.views import unjoined_of
from photon.storage.columns import TABLE_COLUMNS, TableName, text
from photon.storage.store import store_of

KEY = ("_datacenter", "_epoch", "_batch", "_plan", "_occurrence")  # of rows of any table


@dataclass(frozen=True)
class SideView:
    """A view of a side table: `shown` picks of its rows, by the keys that have a joined row."""

    table: TableName
    key: str
    joined_key: str  # the column of joined rows that takes rows back
    shown: Callable[[pa.Table, pa.ChunkedArray], pa.Table]
    is_one_row: bool  # of each key: another one takes its place

    @property
    def columns(self) -> pa.Schema:
        """The columns that all of its rows have."""
        return TABLE_COLUMNS[self.table]


def _unmatched_of(rows: pa.Table, matched: pa.ChunkedArray) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows["primary_id"], value_set=matched.combine_chunks())))


VIEWS: Mapping[FedTable, SideView] = MappingProxyType(
    {
        "unjoined": SideView("unjoined", "event_id", "_event_id", unjoined_of, is_one_row=True),
        "unmatched": SideView("unmatched", "primary_id", "_primary_id", _unmatched_of, is_one_row=False),
    }
)


class SideChanges:
    """The rows of a view that are new or gone since the release before; without `before` all are new."""

    def __init__(self, view: SideView, opened: OpenRelease, before: Release | None) -> None:
        """Open the tables. ReleaseUnreadable; FeedStopped: a lake is gone, whose events nobody can tell."""
        self._view, self._opened, self._before = view, opened, before
        self._old: Mapping[str, Part] = {} if before is None else before.parts
        parts = opened.release.parts
        if gone := sorted(self._old.keys() - parts.keys()):
            why = (
                f"the lake of datacenter {gone[0]} is gone, and which events were shown of it nobody can tell"
            )
            raise self._stopped(why)
        self._files = {name: opened.joined_files(name, self._old.get(name)) for name in parts}
        self._is_plain = before is not None and all(
            parts[name].rebuilt == part.rebuilt for name, part in self._old.items()
        )
        self._side: dict[str, NewRows] = {}
        columns = [view.columns]
        for name in parts:
            if (side := opened.table(name, view.table)) is not None:
                files = (*side.whole, *side.partial)
                self._side[name] = NewRows(store_of(side.folder), files, NOTHING, side.place)
                columns.append(side.schema)
                if side.place < self._side_before(name):
                    raise self._stopped(f"rows of the table {view.table} of datacenter {name} have left")
        self._columns = columns_with(view.columns, columns)

    def step(self) -> Step:
        """The step, whose rows are in memory. ReleaseUnreadable."""
        view, release = self._view, self._opened.release
        keys = self._touched() if self._is_plain else None
        rows = self._side_rows(keys)
        ids_before, ids_after = self._joined_among(rows[view.key].unique())
        before = view.shown(self._shown_before(rows), ids_before)
        page = _changes(before, view.shown(rows, ids_after), view, release.number)
        counts = Counter(page["_change_type"].to_pylist())
        updates = counts["update_preimage"]
        read = partial(iter, [page])
        return Step(release, self._before, page.schema, read, counts["insert"], counts["delete"], updates)

    def _touched(self) -> pa.Array:
        """The keys of all rows that came."""
        view, found = self._view, [self._joined_keys()]
        for name, side in self._came().items():
            with self._opened.reading(name):
                found.append(_read(side, view.columns)[view.key])
        return _together(found)

    def _came(self) -> dict[str, NewRows]:
        """The side rows that the release before had not."""
        return {name: side.within(self._side_before(name), side.up_to) for name, side in self._side.items()}

    def _joined_keys(self) -> pa.Array:
        """The keys of joined rows that came, which are as many as the release says (G1)."""
        view, found = self._view, list[pa.ChunkedArray]()
        for name, part in self._opened.release.parts.items():
            after, files = self._place_before(name), self._files[name]
            with self._opened.reading(name):
                joined = _read(NewRows(files.store, files.now, after, part.place), _joined_columns(view))
            found.append(joined[view.joined_key])
            old = self._old.get(name)
            expected = part.rows - (0 if old is None else old.rows)
            if joined.num_rows != expected:
                self._opened.table(name, "joined_events")  # raises what readers are told
                new = counted(expected, "new row")
                says = f"release {self._opened.release.number} says {new} of datacenter {name}"
                remedy = resync(self._opened.pipeline)
                raise FeedStopped(f"{says}, and {joined.num_rows:,} are there; {remedy}")
        return _together(found)

    def _side_rows(self, keys: pa.Array | None) -> pa.Table:
        """The side rows of these keys, or all, up to the release."""
        found = [self._columns.empty_table()]
        wanted = None if keys is None else text(self._view.key).isin(keys)
        for name, side in self._side.items():
            with self._opened.reading(name):
                found.append(_read(replace(side, wanted=wanted), self._columns))
        return pa.concat_tables(found)

    def _shown_before(self, rows: pa.Table) -> pa.Table:
        """Those of the rows that the release before had."""
        found = [rows.slice(0, 0)]
        for name in self._old:
            of_it = (text("_datacenter") == name) & condition(self._side_before(name))
            found.append(rows.filter(of_it))
        return pa.concat_tables(found)

    def _joined_among(self, keys: pa.Array) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Which of these keys have a joined row: in the release before, and in this one."""
        view = self._view
        columns, wanted = _joined_columns(view), text(view.joined_key).isin(keys.drop_null())
        before, after = [columns.empty_table()], [columns.empty_table()]
        for name, part in self._opened.release.parts.items() if len(keys) else ():
            files, place, old = self._files[name], self._place_before(name), self._old.get(name)
            with self._opened.reading(name):
                now = _read(NewRows(files.store, files.now, NOTHING, part.place, wanted), columns)
                then = now.filter(condition(place))
                if old is not None and old.rebuilt != part.rebuilt:
                    then = _read(NewRows(files.store, files.then, NOTHING, place, wanted), columns)
            before.append(then)
            after.append(now)
            if not self._is_plain:
                self._opened.table(name, "joined_events")  # counts its rows
        return tuple(pa.concat_tables(some)[view.joined_key] for some in (before, after))

    def _place_before(self, name: str) -> Place:
        return self._old[name].place if name in self._old else NOTHING

    def _side_before(self, name: str) -> Place:
        """The last side rows of a datacenter that the release before showed."""
        old = self._old.get(name)
        if old is None or (self._view.table == "unmatched" and "unmatched" not in old.side_batches):
            return NOTHING
        return old.place_in(self._view.table)

    def _stopped(self, why: str) -> FeedStopped:
        return FeedStopped(f"release {self._opened.release.number}: {why}; {resync(self._opened.pipeline)}")


class UnmatchedChanges(SideChanges):
    """The same of unmatched primaries: a run may write millions, so a page of its rows is in memory.

    A row never gives way to another one. It goes when its primary is joined, and comes back when that row
    goes; ids of such primaries are in memory.
    """

    def step(self) -> Step:
        """The step: what becomes of earlier rows, then those that came. ReleaseUnreadable."""
        came, withdrawn = self._came(), pa.array([], pa.string())
        if not self._is_plain or any(side.up_to > side.after for side in came.values()):
            withdrawn = _withdrawn(self._opened)
        page = self._of_earlier_rows(withdrawn)
        shown = ~text(self._view.key).isin(withdrawn)
        came = {name: replace(side, wanted=shown) for name, side in came.items()}
        counts = Counter(page["_change_type"].to_pylist())
        ids = pa.schema([self._columns.field(self._view.key)])
        counts["insert"] += sum(rows.num_rows for rows in self._pages(came, ids))
        read, release = partial(self._step_pages, page, came), self._opened.release
        return Step(release, self._before, page.schema, read, counts["insert"], counts["delete"])

    def _of_earlier_rows(self, withdrawn: pa.Array) -> pa.Table:
        """The rows that the release before had, and that are shown in one of both alone."""
        view, found = self._view, [self._columns.empty_table()]
        keys = self._joined_keys().drop_null() if self._is_plain else self._withdrawn_in_one(withdrawn)
        for name, side in self._side.items() if len(keys) else ():
            earlier = replace(side.within(NOTHING, self._side_before(name)), wanted=text(view.key).isin(keys))
            with self._opened.reading(name):
                found.append(_read(earlier, self._columns))
        rows = pa.concat_tables(found)
        before, after = (view.shown(rows, ids) for ids in self._joined_among(rows[view.key].unique()))
        return _changes(before, after, view, self._opened.release.number)

    def _withdrawn_in_one(self, withdrawn: pa.Array) -> pa.Array:
        """The keys that are withdrawn in this release, or in the one before, and not in the other one."""
        if self._before is None:
            return withdrawn.slice(0, 0)
        before = _withdrawn(OpenRelease(self._opened.pipeline, self._before, self._opened.opened))
        some = ((before, withdrawn), (withdrawn, before))
        return _together(one.filter(pc.invert(pc.is_in(one, value_set=other))) for one, other in some)

    def _step_pages(self, page: pa.Table, came: Mapping[str, NewRows]) -> Iterator[pa.Table]:
        yield page
        for rows in self._pages(came, self._columns):
            yield in_feed(rows, self._opened.release.number, "insert")

    def _pages(self, came: Mapping[str, NewRows], columns: pa.Schema) -> Iterator[pa.Table]:
        for name, side in came.items():
            with self._opened.reading(name):
                yield from side.pages(columns)


def side_changes(table: FedTable, opened: OpenRelease, before: Release | None) -> SideChanges:
    """The changes of a view of a side table. ReleaseUnreadable, FeedStopped."""
    kind = UnmatchedChanges if table == "unmatched" else SideChanges
    return kind(VIEWS[table], opened, before)


def _withdrawn(opened: OpenRelease) -> pa.Array:
    from photon.releases.sql import withdrawn_ids  # only who follows this view waits for DuckDB

    return withdrawn_ids(opened)


def _joined_columns(view: SideView) -> pa.Schema:
    return pa.schema([ROW_COLUMNS.field(name) for name in (view.joined_key, "_epoch", "_batch")])


def _together(keys: Iterable[pa.ChunkedArray | pa.Array]) -> pa.Array:
    """Each of these keys once."""
    chunks = [chunk for one in keys for chunk in (one.chunks if isinstance(one, pa.ChunkedArray) else [one])]
    return pa.chunked_array(chunks, pa.string()).unique()


def _read(rows: NewRows, columns: pa.Schema) -> pa.Table:
    return pa.concat_tables([columns.empty_table(), *rows.pages(columns)])


def _changes(before: pa.Table, after: pa.Table, view: SideView, release: int) -> pa.Table:
    """The page of a step: what is shown first, no more, or by another row of its key; in order of keys."""
    names_before, names_after = (_names_of(rows, view.key) for rows in (before, after))
    gone = before.filter(pc.invert(pc.is_in(names_before, value_set=names_after)))
    came = after.filter(pc.invert(pc.is_in(names_after, value_set=names_before)))
    keys_gone, keys_came = gone[view.key].combine_chunks(), came[view.key].combine_chunks()
    if not view.is_one_row:
        keys_came = keys_came.slice(0, 0)
    at = pc.index_in(keys_gone, value_set=keys_came)
    is_other = (
        pc.is_in(came[view.key], value_set=keys_gone) if view.is_one_row else pa.repeat(False, len(came))
    )
    found: dict[ChangeType, pa.Table] = {
        "delete": gone.filter(pc.is_null(at)),
        "insert": came.filter(pc.invert(is_other)),
        "update_preimage": gone.filter(pc.is_valid(at)),
        "update_postimage": came.take(at.drop_null()),
    }
    page = pa.concat_tables(in_feed(rows, release, change) for change, rows in found.items())
    is_new = pc.is_in(page["_change_type"], value_set=pa.array(["insert", "update_postimage"]))
    order = {"key": page[view.key], "is_new": is_new.cast(pa.int64()), "name": _names_of(page, view.key)}
    return page.take(pc.sort_indices(pa.table(order), [(name, "ascending") for name in order]))


def _names_of(rows: pa.Table, key: str) -> pa.Array:
    """A key for each row, which no other row has."""
    texts = [rows[name].cast(pa.string()) for name in (*KEY, key)]
    names = pc.binary_join_element_wise(*texts, "\n", null_handling="replace")
    return names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
