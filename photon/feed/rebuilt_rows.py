"""Rows that rebuilds have made again or taken away: those of the files that went, beside those that came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from photon.feed.new_rows import NewRows, in_feed, in_order, pages_of
from photon.feed.step import ChangeType
from photon.releases.reading import JoinedFiles
from photon.releases.release import NOTHING, Place
from photon.storage.columns import differs

# Rebuilds keep these, or take the row for another one.
_IDENTITY = ("_epoch", "_batch", "_plan", "_occurrence", "_event_id")


@dataclass(frozen=True)
class RebuiltRows:
    """The rows up to a place, of files that went and of those that came."""

    gone: NewRows
    came: NewRows

    @classmethod
    def of(cls, files: JoinedFiles, up_to: Place) -> RebuiltRows:
        """Compare these files. A compaction between leaves equal rows on both sides, which are no changes."""
        then, now = ({file.path: file for file in some} for some in (files.then, files.now))
        gone = tuple(file for path, file in then.items() if path not in now)
        came = tuple(file for path, file in now.items() if path not in then)
        return cls(*(NewRows(files.store, some, NOTHING, up_to) for some in (gone, came)))

    def pages(self) -> Iterator[RebuiltRows]:
        """The same rows in ranges of whole batches. OSError."""
        rows = Counter(self.gone.by_place()) + Counter(self.came.by_place())
        for ends in pages_of({place: rows[place] for place in sorted(rows)}, NOTHING):
            yield replace(self, gone=self.gone.within(*ends), came=self.came.within(*ends))

    def changes(self, columns: pa.Schema, release: int) -> pa.Table:
        """The changes between the two, as a page of a step. OSError."""
        return changes_between(self.gone.all(columns), self.came.all(columns), release)


def changes_between(gone: pa.Table, came: pa.Table, release: int) -> pa.Table:
    """Pair rows by their tokens: a row that is equal in both has not changed."""
    gone_keys, came_keys = _keys(gone), _keys(came)
    at = pc.index_in(gone_keys, value_set=came_keys)
    before, after = gone.filter(pc.is_valid(at)), came.take(at.drop_null())
    has_changed = pa.array(differs(before, after))
    found: dict[ChangeType, pa.Table] = {
        "delete": gone.filter(pc.is_null(at)),
        "insert": came.filter(pc.invert(pc.is_in(came_keys, value_set=gone_keys))),
        "update_preimage": before.filter(has_changed),
        "update_postimage": after.filter(has_changed),
    }
    rows = pa.concat_tables(in_feed(table, release, change) for change, table in found.items())
    is_new = pc.is_in(rows["_change_type"], value_set=pa.array(["insert", "update_postimage"]))
    return in_order(rows, is_new.cast(pa.int64()))


def _keys(rows: pa.Table) -> pa.Array:
    texts = [rows[name].cast(pa.string()) for name in _IDENTITY]
    keys = pc.binary_join_element_wise(*texts, "\n", null_handling="replace")
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys


@dataclass(frozen=True)
class LakeGone:
    """All rows of a datacenter that was retired without its lake."""

    datacenter: str

    def changes(self, columns: pa.Schema, release: int) -> pa.Table:
        """The one change that says so, as a page of a step."""
        return in_feed(pa.Table.from_pylist([{"_datacenter": self.datacenter}], columns), release, "delete")
