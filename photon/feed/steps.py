"""Steps from one kept release to the next, proved by counting before a row is given out (G1)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from photon.feed.comparing import has_news, is_again, is_plain, runs, why_stopped
from photon.feed.kept import following, resync
from photon.feed.new_rows import PAGE_ROWS, NewRows, Places, columns_of, in_feed, pages_of
from photon.feed.step import FEED_COLUMNS, FeedStopped, Step
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.releases.reading import OpenRelease
from photon.releases.release import NOTHING, Release


def steps(pipeline: Pipeline, after: Release, clock: Clock, up_to: int | None = None) -> Iterator[Step]:
    """The steps behind a release: one for each kept release, or for those up to a number.

    A release that a refill made anew is none: it has what an older one had. ReleaseUnreadable, CursorTooOld;
    FeedStopped behind all that can be given.
    """
    while True:
        found = [one for one in following(pipeline, after, clock.now_us()) if not is_again(after, one)]
        wanted = [one for one in found if up_to is None or one.number <= up_to]
        for before, run in runs(after, wanted):
            yield from _steps_of(pipeline, before, run)
        if not wanted or wanted != found:
            return
        after = wanted[-1]


def snapshot(pipeline: Pipeline, release: Release) -> Step:
    """All rows of a release as inserts, counted as readers do (R9). ReleaseUnreadable."""
    [step] = _steps_of(pipeline, None, [release])
    return step


def nothing_of(release: Release) -> Step:
    """A step without rows: behind it a feed begins that is to have no row of the release."""
    schema = pa.schema([*FEED_COLUMNS, *columns_of([])])
    return Step(release, None, schema, lambda: iter(()), 0)


def _steps_of(pipeline: Pipeline, before: Release | None, run: Sequence[Release]) -> Iterator[Step]:
    """The steps of releases that are read together; `before`: None for all rows of one release."""
    if before is not None and (why := why_stopped(before, run[0])):
        raise _stopped(pipeline, before, run[0], why)
    if before is not None and not is_plain(before, run[0]):
        raise _stopped(pipeline, before, run[0], "; ".join(map(str, run[0].notes)))
    new = _NewRows(OpenRelease(pipeline, run[-1]), before)
    rows = new.in_memory() if new.expected_rows <= PAGE_ROWS else None
    if rows is not None:
        yield from new.one_by_one(rows, run)
    elif len(run) == 1:
        yield new.by_pages()
    else:  # one of them has more rows than it says; those before it can be told
        befores: list[Release | None] = [before, *run]
        for last, one in zip(befores, run, strict=False):
            yield from _steps_of(pipeline, last, [one])


def _stopped(pipeline: Pipeline, before: Release | None, release: Release, why: str) -> FeedStopped:
    delivered = "" if before is None else f" than were delivered up to {before.number}"
    what = f"release {release.number} shows other rows{delivered}: {why}; which ones nobody can tell"
    return FeedStopped(f"{what}; {resync(pipeline)}")


class _NewRows:
    """The new rows of one release or of several in a row. Lakes without any are not looked at."""

    def __init__(self, opened: OpenRelease, before: Release | None) -> None:
        self._opened, self._before = opened, before
        self._rows: dict[str, NewRows] = {}
        columns: list[pa.Schema] = []
        old = {} if before is None else before.parts
        for name, part in sorted(opened.release.parts.items()):
            if name not in old or has_news(old[name], part):
                files = opened.joined_files(name)
                place = old[name].place if name in old else NOTHING
                self._rows[name] = NewRows(files.store, files.now, place, part.place)
                columns.append(files.columns)
        self._columns = columns_of(columns)
        self._schema = pa.schema([*FEED_COLUMNS, *self._columns])

    @property
    def expected_rows(self) -> int:
        """How many there are, if the releases say so rightly."""
        return sum(_said(self._before, self._opened.release, name) for name in self._rows)

    def in_memory(self) -> dict[str, pa.Table] | None:
        """All of them by datacenter, in order; None if there are many more than the releases say."""
        found: dict[str, pa.Table] = {}
        for name, new in self._rows.items():
            most = _said(self._before, self._opened.release, name) + PAGE_ROWS
            with self._opened.reading(name):
                rows = new.all(self._columns, most)
            if rows is None:
                return None
            found[name] = rows
        return found

    def one_by_one(self, rows: Mapping[str, pa.Table], run: Sequence[Release]) -> Iterator[Step]:
        """A step for each release, of rows in memory."""
        places = {name: Places(table) for name, table in rows.items()}
        before, given = self._before, dict.fromkeys(rows, 0)
        for release in run:
            page = [self._schema.empty_table()]
            for name in sorted(rows.keys() & release.parts.keys()):
                first, end = given[name], places[name].rows_up_to(release.parts[name].place)
                self._count(before, release, name, end - first)
                page.append(in_feed(rows[name].slice(first, end - first), release.number, "insert"))
                given[name] = end
            yield self._step(before, release, partial(iter, [pa.concat_tables(page)]))
            before = release

    def by_pages(self) -> Step:
        """The step of the only release, of which a page at a time is in memory."""
        release, pages = self._opened.release, list[tuple[str, NewRows]]()
        for name, new in self._rows.items():
            with self._opened.reading(name):
                by_place = new.by_place()
            self._count(self._before, release, name, sum(by_place.values()))
            pages += [(name, new.within(*ends)) for ends in pages_of(by_place, new.after)]
        return self._step(self._before, release, partial(self._read, pages))

    def _read(self, pages: Sequence[tuple[str, NewRows]]) -> Iterator[pa.Table]:
        for name, new in pages:
            with self._opened.reading(name):
                rows = new.all(self._columns, sys.maxsize)
            if rows is not None:
                yield in_feed(rows, self._opened.release.number, "insert")

    def _step(
        self, before: Release | None, release: Release, pages: Callable[[], Iterator[pa.Table]]
    ) -> Step:
        inserts = sum(_said(before, release, name) for name in release.parts)
        return Step(release, before, self._schema, pages, inserts)

    def _count(self, before: Release | None, release: Release, name: str, found: int) -> None:
        """Refuse rows that do not add up: the release is unreadable, or which rows are new can't be told."""
        expected = _said(before, release, name)
        if found != expected:
            OpenRelease(self._opened.pipeline, release).table(name, "joined_events")
            why = f"of datacenter {name} it says {expected:,} new rows, and {found:,} are there"
            raise _stopped(self._opened.pipeline, before, release, why)


def _said(before: Release | None, release: Release, name: str) -> int:
    """How many rows of a datacenter a release says that it has more than the one before."""
    parts = [None if one is None else one.parts.get(name) for one in (release, before)]
    new, old = (0 if part is None else part.rows for part in parts)
    return new - old
