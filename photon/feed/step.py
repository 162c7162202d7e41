"""A step from one kept release to the next, and why there may be none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from photon.process.errors import UserError
from photon.releases.release import Release

FedTable = Literal["joined", "unjoined", "unmatched"]  # the view whose rows are delivered
ChangeType = Literal["insert", "delete", "update_preimage", "update_postimage"]
# Before the columns of the rows: Photon's own, then the others by name. No day is there: it is the time's.
FEED_COLUMNS = pa.schema([("_release", pa.int64()), ("_change_type", pa.string())])


class FeedStopped(UserError):
    """The feed can't go on from its cursor; the message says what came, and what to do."""


class CursorTooOld(UserError):
    """The release behind a cursor is not kept any more."""


@dataclass(frozen=True)
class Step:
    """The rows that differ between a release and the one that was delivered before it.

    `after`: that one; None: all rows of the release are here, as inserts, and nothing was delivered before.
    `pages` gives the rows in order, each time the same ones. Their columns are `schema`; a later step may
    have more. `updates` counts pairs of a preimage and a postimage. `lakes_gone`: datacenters of which all
    rows are gone. Each has one row of type delete, null but for `_datacenter`: `deletes` leaves it out.
    """

    release: Release
    after: Release | None
    schema: pa.Schema
    pages: Callable[[], Iterator[pa.Table]]
    inserts: int
    deletes: int = 0
    updates: int = 0
    lakes_gone: tuple[str, ...] = ()

    @property
    def is_insert_only(self) -> bool:
        """Whether it takes nothing back that was delivered before."""
        return not (self.deletes or self.updates or self.lakes_gone)
