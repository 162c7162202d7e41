"""Read what was joined: the union of the tables of all datacenters that were not given up as lost (E2).

Either the rows of now, or those of a *release*, which are the same whoever reads them and when. Also up to
which event time they are complete. A table that the registry knows, or a release, and that is not there is an
error (E10): rows would be missing without a word.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import pyarrow as pa

from photon.feed.kept import release_behind
from photon.feed.step import FedTable
from photon.feed.steps import least_columns, steps
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.sections import Datacenter
from photon.process.clock import SystemClock
from photon.process.errors import FormatTooNew, WrongUsage
from photon.read.counting import ask, opened_tables, without
from photon.read.rows import Rows, Watermark, held, ids_among, in_memory, rows_now, rows_of, side_rows_now
from photon.registry.opening import read_register
from photon.releases.finding import Wanted, find_release, kept_releases
from photon.releases.reading import OpenRelease, open_release
from photon.releases.release import Release
from photon.releases.views import dead_letters_of, unjoined_of
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import DOCUMENT, published
from photon.storage.columns import text
from photon.storage.delta import LakeUnavailable, lake_errors
from photon.storage.mended_letters import MENDED_LETTERS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = [
    "Changes",
    "Rows",
    "Watermark",
    "add_duckdb_views",
    "changes",
    "dead_letters",
    "duckdb",
    "duckdb_of",
    "joined",
    "joined_tables",
    "newest_watermark",
    "releases",
    "unjoined",
    "unmatched",
    "watermark",
]

log = logging.getLogger(__name__)


# The promise of the rows that `joined` gave last, by pipeline file: a later promise may be beyond them.
_of_last_rows: dict[Path, Watermark] = {}


def joined(
    pipeline: Pipeline | str | Path,
    retired: Collection[str] | None = None,
    *,
    release: int | Literal["latest"] | None = None,
    as_of: datetime | None = None,
) -> Rows:
    """The joined rows of all datacenters, now: `.to_table(columns=..., filter=...)` reads them.

    `release`: those of a release, by its number or the newest one; `as_of`: of the newest one that was made
    by then. They need no registry. Raises ReleaseUnreadable, NoRelease, PipelineError.

    The columns are Photon's own (`ROW_COLUMNS`), then the adapter's. A column that a datacenter's table does
    not have yet is null in its rows. `retired`: datacenters to leave out, and the registry is not asked; None
    asks it, leaves out every row of a datacenter that was given up as lost, and misses no table. If it does
    not answer, or is not there, all tables of the pipeline file have to be, and `unchecked` says so.
    Raises LakeUnavailable, UnsupportedTable, PipelineError, and without `retired` also LakeMismatch and
    RegistryMismatch; pyarrow.ArrowTypeError if the tables disagree on a column's type.
    """
    pipeline = _loaded(pipeline)
    if (wanted := _wanted(release, as_of)) is not None:
        return rows_of(open_release(pipeline, wanted), "joined_events")
    asked = ask(pipeline) if retired is None else without(pipeline, retired)
    # Before any table: what is said to be complete is in the versions that are opened after it.
    watermark = _promised(asked.places)
    handles = opened_tables(pipeline, asked, needs_all=retired is None).values()
    _of_last_rows[pipeline.file] = watermark
    return rows_now(list(handles), "joined_events", watermark, asked.unchecked)


def unjoined(
    pipeline: Pipeline | str | Path,
    *,
    release: int | Literal["latest"] | None = None,
    as_of: datetime | None = None,
) -> Rows:
    """The foreign events that were given up, each once, and none that has a joined row. In memory.

    The first row of each by event time; two datacenters may both have given it up. Raises as `joined`.
    """
    pipeline = _loaded(pipeline)
    if (wanted := _wanted(release, as_of)) is not None:
        opened = open_release(pipeline, wanted)
        found, others = rows_of(opened, "unjoined"), rows_of(opened, "joined_events")
    else:
        found = side_rows_now(ask(pipeline).places, "unjoined")
        others = joined(pipeline)  # opened later: what is joined meanwhile is left out
    rows = held(found)
    return in_memory(unjoined_of(rows, ids_among(others, rows["event_id"])), others)


def unmatched(
    pipeline: Pipeline | str | Path,
    *,
    release: int | Literal["latest"] | None = None,
    as_of: datetime | None = None,
) -> Rows:
    """The primary events of a release that nothing was joined with, the newest release's if none is named.

    Rows whose primary a joined row of the release names are withdrawn: only their ids are in memory.
    `watermark.unmatched_up_to` says how far the rows go. Raises ReleaseUnreadable, NoRelease, PipelineError.
    """
    from photon.releases.sql import withdrawn_ids

    wanted = _wanted(release, as_of)
    opened = open_release(_loaded(pipeline), "latest" if wanted is None else wanted)
    with lake_errors(f"read release {opened.release.number}"):
        withdrawn = withdrawn_ids(opened)
    rows = rows_of(opened, "unmatched")
    return rows.filter(~text("primary_id").isin(withdrawn)) if len(withdrawn) else rows


def dead_letters(
    pipeline: Pipeline | str | Path,
    datacenter: str,
    *,
    release: int | Literal["latest"] | None = None,
    as_of: datetime | None = None,
) -> Rows:
    """The lines of one datacenter's logs that could not be used, and were not looked at again. In memory.

    The newest letter of each event, or of each place in a log, without events that have a joined row.
    Raises as `joined`.
    """
    pipeline = _loaded(pipeline)
    if datacenter not in pipeline.datacenters:
        known = ", ".join(pipeline.datacenters)
        raise WrongUsage(f"{pipeline.file} has no datacenter {datacenter!r}; expected one of {known}")
    if (wanted := _wanted(release, as_of)) is not None:
        opened = open_release(pipeline, wanted)
        found, others = rows_of(opened, "dead_letters", datacenter), rows_of(opened, "joined_events")
        mended = opened.mended(datacenter)
    else:
        found = side_rows_now({datacenter: pipeline.datacenters[datacenter]}, "dead_letters")
        with MENDED_LETTERS.reading(pipeline, datacenter) as again:
            mended = MENDED_LETTERS.columns.empty_table() if again is None else again.to_table()
        others = joined(pipeline)
    rows = held(found)
    return in_memory(dead_letters_of(rows, mended, ids_among(others, rows["event_id"])), others)


def releases(pipeline: Pipeline | str | Path) -> list[Release]:
    """The releases that can be read, the oldest first, each with what it shows first (`notes`).

    LakeUnavailable if no lake answers.
    """
    return kept_releases(_loaded(pipeline))


@dataclass(frozen=True)
class Changes:
    """The rows that differ between two releases, step by step; nothing is read before they are asked for."""

    pipeline: Pipeline
    after: Release
    up_to: Release
    table: FedTable = "joined"

    def pages(self) -> Iterator[pa.Table]:
        """The rows in order, with `_release` and `_change_type`; later pages may have more columns.

        Each release is proved before its first row. FeedStopped behind all that can be given, CursorTooOld,
        ReleaseUnreadable.
        """
        for step in steps(self.pipeline, self.after, SystemClock(), self.up_to.number, table=self.table):
            yield from step.pages()

    def to_table(self) -> pa.Table:
        """All of them in memory."""
        empty = least_columns(self.table).empty_table()
        return pa.concat_tables([empty, *self.pages()], promote_options="default")


def changes(
    pipeline: Pipeline | str | Path,
    *,
    after: int | Release,
    up_to: int | Literal["latest"] = "latest",
    table: FedTable = "joined",
) -> Changes:
    """The rows that each kept release behind `after` shows and the one before it did not, and the reverse.

    `after`: a number, or a release that was kept when you read it: then only the next one has to be kept.
    CursorTooOld, NoRelease, ReleaseUnreadable, PipelineError.
    """
    pipeline = _loaded(pipeline)
    if table not in get_args(FedTable):
        raise WrongUsage(f"table={table!r}: expected one of {', '.join(get_args(FedTable))}")
    if not isinstance(after, Release) and type(after) is not int:
        raise WrongUsage(f"after={after!r}: expected the number of a release, or a release")
    wanted = _wanted(up_to, None)
    newest = find_release(pipeline, "latest" if wanted is None else wanted)
    first = after if isinstance(after, Release) else release_behind(pipeline, after)
    if first.number > newest.number:
        raise WrongUsage(f"after={first.number}, up_to={newest.number}: expected an older release before")
    return Changes(pipeline, first, newest, table)


def duckdb(
    pipeline: Pipeline | str | Path,
    release: int | Literal["latest"] | None = None,
    *,
    as_of: datetime | None = None,
) -> DuckDBPyConnection:
    """A connection of DuckDB with the views of one release, which `photon sql` has too.

    It reads no other file, and writes none: `register` gives it tables of your own. A view that you drop or
    replace is so in this connection alone. Raises as `joined`, of each view: a query may read any.
    """
    wanted = _wanted(release, as_of)
    return duckdb_of(open_release(_loaded(pipeline), "latest" if wanted is None else wanted))


def duckdb_of(opened: OpenRelease, may_write: Iterable[Path] = ()) -> DuckDBPyConnection:
    """The same of a release that is open; a COPY may write these files."""
    from photon.releases.sql import connect  # only who asks in SQL waits for DuckDB

    return connect(opened, lambda: kept_releases(opened.pipeline), may_write)


def add_duckdb_views(connection: DuckDBPyConnection, opened: OpenRelease) -> None:
    """Make the same views in a connection of your own, which reads and writes as before."""
    from photon.releases.sql import add_views

    add_views(connection, opened, lambda: kept_releases(opened.pipeline))


def joined_tables(pipeline: Pipeline | str | Path) -> dict[str, str]:
    """The tables whose rows `joined` reads, by datacenter, for engines that read Delta tables themselves.

    Their union has each row once, and no row of a datacenter that was given up as lost. Raises as `joined`.
    """
    pipeline = _loaded(pipeline)
    asked = ask(pipeline)
    found = opened_tables(pipeline, asked, needs_all=True)
    return {name: str(asked.places[name].lake / "joined_events") for name in found}


def watermark(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> Watermark:
    """Up to which event time the rows that `joined` gave last in this process are complete: they don't grow.

    Before the first call of `joined`, as `newest_watermark`, and raises the same.
    """
    pipeline = _loaded(pipeline)
    known = _of_last_rows.get(pipeline.file)
    if known is None:
        return newest_watermark(pipeline, retired)
    gone = set(retired or ())
    return Watermark({name: said for name, said in known.datacenters.items() if name not in gone})


def newest_watermark(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> Watermark:
    """Up to which event time rows are complete that are read after this call, as the datacenters say now.

    At most some seconds old while a shift runs. `retired`: datacenters to leave out; None asks the registry.
    LakeUnavailable, PipelineError, FormatTooNew, and without `retired` what is wrong with the registry.
    """
    pipeline = _loaded(pipeline)
    places = pipeline.datacenters
    gone = set(read_register(pipeline).lakes_gone if retired is None else retired)
    return Watermark(
        {name: said for name, place in places.items() if name not in gone and (said := _said(place))}
    )


def _said(place: Datacenter) -> Completeness | None:
    """Return the last statement of a datacenter; None: there is none. LakeUnavailable, FormatTooNew."""
    try:
        found = published(place.lake)
    except (OSError, ValueError, KeyError) as error:
        what = f"read {place.lake / DOCUMENT}, which a shift writes"
        raise LakeUnavailable(f"cannot {what}: {error}") from error
    return None if found is None else found[0]


def _promised(places: Mapping[str, Datacenter]) -> Watermark:
    """Return the promise for rows that are read next. A statement that can't be read promises nothing."""
    said: dict[str, Completeness] = {}
    for name, place in places.items():
        try:
            if (found := _said(place)) is not None:
                said[name] = found
        except (LakeUnavailable, FormatTooNew) as error:
            log.warning("nothing is known of how complete the rows of datacenter %s are: %s", name, error)
    return Watermark(said)


# -- datasets


def _wanted(release: int | Literal["latest"] | None, as_of: datetime | None) -> Wanted | None:
    if release is not None and as_of is not None:
        raise WrongUsage("release and as_of: expected one of them")
    # Another text would be taken for the newest one, and a report would not be the same the next day.
    if release is not None and release != "latest" and type(release) is not int:
        raise WrongUsage(f"release={release!r}: expected a number, or 'latest'")
    if as_of is not None and not isinstance(as_of, datetime):
        raise WrongUsage(f"as_of={as_of!r}: expected a datetime; without a zone it is in UTC")
    return as_of if release is None else release


def _loaded(pipeline: Pipeline | str | Path) -> Pipeline:
    return pipeline if isinstance(pipeline, Pipeline) else load_pipeline(pipeline)
