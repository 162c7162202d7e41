"""Steps from one kept release to the next, proved by counting before a row is given out (G1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import pyarrow as pa

from photon.feed.comparing import has_news, is_again, is_plain, runs, why_stopped
from photon.feed.kept import following, is_next, resync
from photon.feed.new_rows import PAGE_ROWS, NewRows, RowPlaces, columns_of, in_feed, pages_of
from photon.feed.rebuilt_rows import LakeGone, RebuiltRows
from photon.feed.side_rows import VIEWS, side_changes
from photon.feed.step import FEED_COLUMNS, FedTable, FeedStopped, Step
from photon.pipeline.file import Pipeline
from photon.process.clock import Clock
from photon.process.readable import counted
from photon.releases.finding import ReleaseUnreadable
from photon.releases.reading import OpenRelease
from photon.releases.release import NOTHING, Release, covers
from photon.storage.tables import OutputTable

Page = NewRows | RebuiltRows | LakeGone


def steps(
    pipeline: Pipeline,
    after: Release,
    clock: Clock,
    up_to: int | None = None,
    *,
    table: FedTable = "joined",
    opened: dict[str, OutputTable] | None = None,
    inserts_only: bool = False,
) -> Iterator[Step]:
    """The steps behind a release: one for each kept release, or for those up to a number.

    A release that a refill made anew is none: it has what an older one had. `opened`: tables stay open here
    between calls. `inserts_only`: rows that leave do not matter, and nothing stops the steps.
    ReleaseUnreadable, CursorTooOld; FeedStopped behind all that can be given.
    """
    feed = _Feed(pipeline, clock, table, {} if opened is None else opened, up_to, inserts_only)
    while wanted := feed.releases_behind(after):
        try:
            for before, run in runs(after, wanted):
                for step in feed.steps_of(before, run):
                    yield step
                    after = step.release
        except ReleaseUnreadable as error:
            later = feed.release_without(error.datacenter, after)
            if later is None:
                raise
            yield from feed.steps_of(after, [later])
            after = later


def snapshot(pipeline: Pipeline, release: Release, table: FedTable = "joined") -> Step:
    """All rows of a release as inserts, counted as readers do (R9). ReleaseUnreadable."""
    if table != "joined":
        return side_changes(table, OpenRelease(pipeline, release), None).step()
    [step] = _Changed(OpenRelease(pipeline, release), None).steps([release])
    return step


def nothing_of(release: Release, table: FedTable = "joined") -> Step:
    """A step without rows: behind it a feed begins that is to have no row of the release."""
    return Step(release, None, least_columns(table), lambda: iter(()), 0)


def least_columns(table: FedTable) -> pa.Schema:
    """The columns that each step of a table has."""
    columns = columns_of([]) if table == "joined" else VIEWS[table].columns
    return pa.schema([*FEED_COLUMNS, *columns])


@dataclass(frozen=True)
class _Feed:
    """One way through the releases of a pipeline."""

    pipeline: Pipeline
    clock: Clock
    table: FedTable
    opened: dict[str, OutputTable]
    up_to: int | None
    inserts_only: bool

    def releases_behind(self, after: Release) -> list[Release]:
        """The next ones that are steps: not those that have only a new number.

        Where rows that leave do not matter, one that has fewer than were delivered is passed over.
        """
        wanted: list[Release] = []
        last = after
        for one in following(self.pipeline, after, self.clock.now_us(), self.inserts_only):
            is_behind = self.inserts_only and why_stopped(last, one) and not covers(one.cut, last.cut)
            if (self.up_to is None or one.number <= self.up_to) and not (is_behind or is_again(last, one)):
                wanted.append(one)
                last = one
        return wanted

    def release_without(self, name: str, after: Release) -> Release | None:
        """The release that calls the lake of a datacenter gone: its rows would go there, whatever is read.

        Where rows that leave do not matter, also one that says what became of them. FeedStopped if it comes
        before, and nobody can tell.
        """
        last, is_told = after, False
        while found := following(self.pipeline, last, self.clock.now_us(), self.inserts_only):
            for one in found:
                if self.up_to is not None and one.number > self.up_to:
                    return None
                if (why := why_stopped(last, one)) and not self.inserts_only:
                    raise _stopped(self.pipeline, after, one, why)
                is_told = is_told or bool(why) or name in one.lakes_gone
                # An older lake has fewer rows at first: what is joined anew comes behind these.
                if is_told and (name in one.lakes_gone or covers(one.cut, after.cut)):
                    return one
                last = one
        return None

    def steps_of(self, before: Release, run: Sequence[Release]) -> Iterator[Step]:
        """The steps of releases that are read together."""
        if self.table != "joined":
            yield from self._side_steps(before, run)
            return
        opened = OpenRelease(self.pipeline, run[-1], self.opened)
        why = why_stopped(before, run[0])
        if why and not self.inserts_only:
            raise _stopped(self.pipeline, before, run[0], why)
        if why or (self.inserts_only and not is_next(before.number, run[0])):
            yield _Changed(opened, before, inserts_only=True).by_pages()
        elif is_plain(before, run[0]):
            yield from _Changed(opened, before).steps(run)
        else:
            yield _Changed(opened, before).by_pages()

    def _side_steps(self, before: Release, run: Sequence[Release]) -> Iterator[Step]:
        for release in run:
            if why := why_stopped(before, release, self.table):
                raise _stopped(self.pipeline, before, release, why)
            opened = OpenRelease(self.pipeline, release, self.opened)
            yield side_changes(self.table, opened, before).step()
            before = release


def _stopped(pipeline: Pipeline, before: Release | None, release: Release, why: str) -> FeedStopped:
    delivered = "" if before is None else f" than were delivered up to {before.number}"
    what = f"release {release.number} shows other rows{delivered}: {why}; which ones nobody can tell"
    return FeedStopped(f"{what}; {resync(pipeline)}")


class _Changed:
    """The changes of a release, or of several in a row; lakes without news are not looked at.

    `inserts_only`: new rows alone, though others have left.
    """

    def __init__(self, opened: OpenRelease, before: Release | None, *, inserts_only: bool = False) -> None:
        self._opened, self._before, self._inserts_only = opened, before, inserts_only
        self._new: dict[str, NewRows] = {}
        self._rebuilt: dict[str, RebuiltRows] = {}
        columns: list[pa.Schema] = []
        old = {} if before is None else before.parts
        for name, part in opened.release.parts.items():
            x = old.get(name)
            if x is not None and not has_news(x, part):
                continue
            files = opened.joined_files(name, None if inserts_only else x)
            place = NOTHING if x is None else x.place
            self._new[name] = NewRows(files.store, files.now, place, part.place)
            if x is not None and x.rebuilt != part.rebuilt and not inserts_only:
                self._rebuilt[name] = RebuiltRows.of(files, place)
            columns.append(files.columns)
        self._gone = tuple(sorted(old.keys() - opened.release.parts.keys()))
        self._columns = columns_of(columns)
        self._schema = pa.schema([*FEED_COLUMNS, *self._columns])

    def steps(self, run: Sequence[Release]) -> Iterator[Step]:
        """A step for each of some plain releases: in memory, if they are small."""
        new_rows = run[-1].rows - (0 if self._before is None else self._before.rows)
        if len(run) == 1 and new_rows > PAGE_ROWS:
            yield self.by_pages()
            return
        rows: dict[str, pa.Table] = {}
        for name, new in self._new.items():
            with self._opened.reading(name):
                rows[name] = new.all(self._columns)
        places = {name: RowPlaces(table) for name, table in rows.items()}
        before, given = self._before, dict.fromkeys(rows, 0)
        for release in run:
            page = [self._schema.empty_table()]
            for name in sorted(rows.keys() & release.parts.keys()):
                first, end = given[name], places[name].rows_up_to(release.parts[name].place)
                self._check(before, release, name, end - first)
                page.append(in_feed(rows[name].slice(first, end - first), release.number, "insert"))
                given[name] = end
            together = pa.concat_tables(page)
            yield Step(release, before, self._schema, partial(iter, [together]), together.num_rows)
            before = release

    def by_pages(self) -> Step:
        """The step of the only release; of its rows a page at a time is in memory."""
        release, pages = self._opened.release, list[tuple[str, Page]]()
        counts: Counter[str] = Counter()
        for name, new in self._new.items():
            with self._opened.reading(name):
                again = [*self._rebuilt[name].pages()] if name in self._rebuilt else []
                found = Counter(change for page in again for change in self._types_of(page))
                by_place = new.by_place()
            found["insert"] += sum(by_place.values())
            self._check(self._before, release, name, found["insert"] - found["delete"])
            counts += found
            pages += [(name, page) for page in again]
            pages += [(name, new.within(*ends)) for ends in pages_of(by_place, new.after)]
        pages += [(name, LakeGone(name)) for name in self._gone]
        pages.sort(key=itemgetter(0))
        read = partial(self._read, pages)
        updates = counts["update_preimage"]
        return Step(
            release, self._before, self._schema, read, counts["insert"], counts["delete"], updates, self._gone
        )

    def _types_of(self, page: Page) -> list[str]:
        types: list[str] = page.changes(self._columns, self._opened.release.number)[
            "_change_type"
        ].to_pylist()
        return types

    def _read(self, pages: Sequence[tuple[str, Page]]) -> Iterator[pa.Table]:
        for name, page in pages:
            with self._opened.reading(name):
                rows = page.changes(self._columns, self._opened.release.number)
            yield rows

    def _check(self, before: Release | None, release: Release, name: str, found: int) -> None:
        """Refuse rows that do not add up: the release is unreadable, or nobody can tell what changed (G1)."""
        expected = _said(before, release, name)
        if found != expected or self._inserts_only:
            OpenRelease(self._opened.pipeline, release).table(name, "joined_events")
        if found != expected and not self._inserts_only:
            why = f"of datacenter {name} it says {counted(expected, 'new row')}, and {found:,} are there"
            raise _stopped(self._opened.pipeline, before, release, why)


def _said(before: Release | None, release: Release, name: str) -> int:
    """How many rows of a datacenter a release says that it has more than the one before."""
    parts = [None if one is None else one.parts.get(name) for one in (release, before)]
    new, old = (0 if part is None else part.rows for part in parts)
    return new - old
