"""Rebuild the rows of some days: read pages of files, have them made again, commit what takes their place.

A page is read from one snapshot, and replaced in one commit under an app id of its own (protocol E3). The
plan says how much there is to read. Only the tasks can tell which rows differ: so a dry run is the same
run, under the same lock, whose tasks write nothing. A page whose files were replaced meanwhile is planned
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from photon.dispatcher.reading_again import SecondReading
from photon.event_store.interface import index_folder
from photon.event_store.logs import Index
from photon.join.adapting import fingerprint
from photon.logs.files import TrackedFile
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, SystemClock, in_iso
from photon.process.errors import UserError
from photon.process.faults import fault_point
from photon.process.pace import pace
from photon.process.readable import counted
from photon.state.points import mark
from photon.state.view import open_view
from photon.storage.columns import with_own_columns
from photon.storage.delta import lake_errors
from photon.storage.output_files import OutputFile
from photon.storage.own_columns import SchemaConflict
from photon.storage.replaced_files import rebuild_app
from photon.storage.replacing import FilesGone, NotReplaced, PlannedReplacement, data_files, replace_files
from photon.storage.store import ObjectStore
from photon.storage.table_features import is_append_only
from photon.storage.tables import CommitConflict, OutputTable
from photon.upkeep.backfill.messages import MOST_EXAMPLES, TABLE, Remade, RemakeContext, RowTally, UnmadeRow
from photon.upkeep.backfill.plan import CompetingRow, RemakePiece, TableFile, pages_of, pieces_of
from photon.upkeep.backfill.progress import BackfillProgress, PageNote, only_one
from photon.upkeep.backfill.removed_rows import record_removed
from photon.upkeep.backfill.rows_in_doubt import second_rows_by_file
from photon.upkeep.backfill.yielding import yield_to_joins
from photon.upkeep.plans import Say, silent
from photon.verification.days import Window

# One free core makes so many rows of two lines of 500 bytes, at 36 us of CPU a row with or without another
# adapter (`make bench-backfill`). A plan's estimate uses it.
ROWS_A_SECOND = 27_000
FILE_SECONDS = 0.008  # to find, open and replace a file on one core: 800 took 6 s more than one
PAGE_ROWS = 1_000_000  # about so many rows are one commit: half a minute of work is done again if it fails
PIECE_ROWS = 100_000  # rows of one task, which holds them and their records in memory
WORKERS = 1  # tasks at once: a rebuild comes after live joins, on the same cores
MOST_PAGE_TRIES = 5  # somebody else replaced files of the page, or its new columns did not fit
RUN_METADATA = "photon.rebuild"

log = logging.getLogger(__name__)


class CannotRebuild(UserError):
    """The rows can't be rebuilt; the message says why and what to do."""


class Program(Protocol):
    """Run the tasks of a rebuild."""

    def remake(self, pieces: Sequence[RemakePiece], context: RemakeContext) -> list[Remade]:
        """`remaking.remake` of each piece."""
        ...

    def competing_rows(self, pipeline: Pipeline, files: Mapping[str, Sequence[str]]) -> list[CompetingRow]:
        """All rows of events with several rows in these files, by datacenter."""
        ...


@dataclass(frozen=True)
class RebuildPlan:
    """The work that a rebuild is about to do."""

    datacenter: str
    window: Window
    files: int  # with rows of these days
    rows: int  # in these files
    bytes: int
    pages: int  # each is one commit at most
    second_rows: int  # rows that go for another row of their event
    estimated_seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "window": [in_iso(us, "seconds") for us in _ends(self.window)]}


@dataclass(frozen=True)
class Rebuilt:
    """The work that a rebuild has done, or would do. `tally` counts rows in its window."""

    plan: RebuildPlan
    tally: RowTally
    commits: int
    examples: Sequence[UnmadeRow]
    seconds: float
    went_on: bool  # with a run that had been killed

    def as_dict(self) -> dict[str, Any]:
        values = {name: value for name, value in asdict(self).items() if name != "plan"}
        return {"plan": self.plan.as_dict(), **values}


@dataclass
class Rebuild:
    """One rebuild of the rows of a window in one datacenter."""

    pipeline: Pipeline
    datacenter: str
    window: Window
    program: Program
    say: Say = silent
    on_plan: Callable[[RebuildPlan], None] = lambda plan: None
    clock: Clock = field(default_factory=SystemClock)
    page_rows: int = PAGE_ROWS
    piece_rows: int = PIECE_ROWS

    @property
    def expected(self) -> Rebuilt:
        """The result that applying it would have, by tasks that write nothing. Raises as `apply`."""
        return self._run(writes=False)

    def apply(self, say: Say | None = None) -> Rebuilt:
        """Do it, all of it or up to an error; started again it goes on. One process at a time.

        CannotRebuild, BackfillRunning, NotReplaced, LakeUnavailable, StateUnavailable, RegistryUnavailable.
        """
        self.say = say or self.say
        done, days = self._run(writes=True), list(self.window.days())
        says = f"{counted(done.tally.replaced, 'row')} of {days[0]} to {days[-1]} replaced"
        mark(self.pipeline, [self.datacenter], "rebuild", says)
        return done

    def _run(self, writes: bool) -> Rebuilt:
        self._writes = writes
        began_us = self.clock.elapsed_us()
        self._table = OutputTable(self.pipeline.datacenters[self.datacenter].lake, TABLE)
        self._app = rebuild_app(self.datacenter)
        self._check()
        with only_one(self.pipeline.datacenters[self.datacenter].state, self.datacenter) as folder:
            committed = self._table.version_of(self._app)
            made_by = fingerprint(self.pipeline)
            progress = BackfillProgress.open(folder, self.window, made_by, committed, self._writes)
            plan, pages, second_rows = self._plan(progress)
            self.on_plan(plan)
            self._examples: list[UnmadeRow] = []
            self._commits = 0
            tally = self._pages(pages, second_rows, progress)
            if self._writes:
                fault_point("rebuild.before_end")
                progress.end()
        seconds = (self.clock.elapsed_us() - began_us) / MICROSECONDS
        examples = self._examples[:MOST_EXAMPLES]
        return Rebuilt(plan, tally, self._commits, examples, seconds, progress.went_on)

    def _check(self) -> None:
        if not self._table.exists():
            raise CannotRebuild(
                f"{self._table.folder}: there is no table, so nothing is to be rebuilt; join first"
            )
        handle = self._table.writable()
        if is_append_only(handle):
            raise CannotRebuild(
                f"{self._table.folder} takes no row back (delta.appendOnly), so that none can be made again; "
                f"in Spark SQL: ALTER TABLE delta.`{self._table.folder}` "
                "SET TBLPROPERTIES ('delta.appendOnly' = 'false')"
            )

    # -- the plan

    def _plan(
        self, progress: BackfillProgress
    ) -> tuple[RebuildPlan, list[list[TableFile]], dict[str, list[int]]]:
        self.say("looking for files with rows of these days")
        files = files_in(self._table, self.window)
        self.say("looking for events with more than one row")
        second_rows = self._second_rows(files)
        # A file that this run has written is not read again, unless one of its rows has to go.
        left = [file for file in files if self._is_left(file.path, progress) or file.path in second_rows]
        pages = pages_of(left, self.page_rows)
        rows, workers = rows_in([left]), WORKERS
        plan = RebuildPlan(
            self.datacenter,
            self.window,
            files=len(left),
            rows=rows,
            bytes=sum(file.size_bytes for file in left),
            pages=len(pages),
            second_rows=sum(map(len, second_rows.values())),
            estimated_seconds=round((rows / ROWS_A_SECOND + len(left) * FILE_SECONDS) / workers, 1),
        )
        return plan, pages, second_rows

    def _is_left(self, path: str, progress: BackfillProgress) -> bool:
        return path not in progress.done and f"rebuild-{progress.run}-" not in path

    def _second_rows(self, files: Sequence[TableFile]) -> dict[str, list[int]]:
        """Rows of this datacenter's files that go, because another row has their event."""
        paths = {self.datacenter: [file.path for file in files]}
        for name, place in self.pipeline.datacenters.items():
            other = OutputTable(place.lake, TABLE)
            if name != self.datacenter and other.exists():
                paths[name] = [file.path for file in files_in(other, self.window)]
        competing = self.program.competing_rows(self.pipeline, paths)
        return second_rows_by_file(self.pipeline, self.datacenter, competing)

    # -- the pages

    def _pages(
        self, pages: list[list[TableFile]], second_rows: Mapping[str, list[int]], progress: BackfillProgress
    ) -> RowTally:
        tally, tries, done = progress.tally, 0, 0
        began_us = self.clock.elapsed_us()
        while pages:
            page = pages.pop(0)
            yield_to_joins(self.pipeline, self.datacenter, self.say, self.clock)
            took_seconds = (self.clock.elapsed_us() - began_us) / MICROSECONDS
            far = pace(done, done + rows_in([page, *pages]), took_seconds, "{:,} rows".format)
            self.say(f"makes rows again: {far}; {counted(len(pages) + 1, 'page')} to go")
            try:
                tally += self._page(page, second_rows, progress)
                tries, done = 0, done + rows_in([page])
            except (FilesGone, SchemaConflict, CommitConflict) as error:
                tries += 1
                if tries == MOST_PAGE_TRIES:
                    raise NotReplaced(
                        f"{self._table.folder}: somebody else rewrites the files that are rebuilt ({error}); "
                        "stop that, and start the backfill again: it goes on"
                    ) from error
                log.info("%s: another snapshot, for %s", self._table.folder, error)
                _, pages, second_rows = self._plan(progress)
        return tally

    def _page(
        self, page: Sequence[TableFile], second_rows: Mapping[str, list[int]], progress: BackfillProgress
    ) -> RowTally:
        pieces = pieces_of(page, self.piece_rows, second_rows)
        handle = self._table.load()
        if not {file.path for file in page} <= data_files(handle).keys():
            raise FilesGone([file.path for file in page])
        made = self._remake(pieces, progress.run)
        tally = sum((one.tally for one in made), RowTally())
        self._examples += [example for one in made for example in one.examples]
        if self._writes:
            fault_point("rebuild.after_tasks")
            self._commit(page, pieces, made, tally, progress)
        return tally

    def _remake(self, pieces: Sequence[RemakePiece], run: str) -> list[Remade]:
        epoch, files, index = _known_files(self.pipeline.datacenters[self.datacenter].state)
        context = RemakeContext(
            self.pipeline,
            self.datacenter,
            run,
            self.window,
            epoch,
            files,
            index,
            with_own_columns(self._table.schema()),
            version=self._table.load().version(),
            at_us=self.clock.now_us(),
            writes=self._writes,
            piece_rows=self.piece_rows,
            mended=SecondReading(self.pipeline, self.datacenter, epoch).mended(),
        )
        return self.program.remake(pieces, context)

    def _commit(
        self,
        page: Sequence[TableFile],
        pieces: Sequence[RemakePiece],
        made: Sequence[Remade],
        tally: RowTally,
        progress: BackfillProgress,
    ) -> None:
        touched = {path for one in made for path in one.touched}
        files = tuple(file.path for file in page)
        number = self._table.version_of(self._app) + 1
        outputs, spare = outputs_of(pieces, made, touched)
        for output in spare:
            self._table.store.remove(output.path)
        if not touched:
            progress.note(PageNote(None, files, tally))
            return
        lake = self._table.folder.parent
        progress.note(PageNote(number, files, tally))
        fault_point("rebuild.after_note")
        record_removed(lake, self.datacenter, [file for one in made for file in one.removed])
        fault_point("rebuild.after_removed")
        try:
            replace_files(
                self._table,
                PlannedReplacement(
                    frozenset(touched), outputs, self._app, number, {RUN_METADATA: progress.run}
                ),
            )
        except SchemaConflict:
            self._settle_columns(outputs)
            progress.pages.pop()
            raise
        except (FilesGone, CommitConflict):
            progress.pages.pop()
            raise
        self._commits += 1
        fault_point("rebuild.after_commit")

    def _settle_columns(self, outputs: Sequence[OutputFile]) -> None:
        """Give the table the new columns of the first file: values that don't fit them fail alone then."""
        self._table.with_columns_of(outputs[:1])


def rows_in(pages: Iterable[Iterable[TableFile]]) -> int:
    """The rows of all files of some pages."""
    return sum(file.rows for page in pages for file in page)


def outputs_of(
    pieces: Sequence[RemakePiece], made: Sequence[Remade], touched: Collection[str]
) -> tuple[list[OutputFile], list[OutputFile]]:
    """The files that take the place of the touched ones, and those that take nobody's place.

    Of a part of a file its task writes all rows, for another part may be touched.
    """
    outputs: list[OutputFile] = []
    spare: list[OutputFile] = []
    for piece, one in zip(pieces, made, strict=True):
        is_spare = bool(piece.partial) and piece.parts[0].path not in touched
        (spare if is_spare else outputs).extend(one.outputs)
    return outputs, spare


def _known_files(state: Path) -> tuple[str, dict[int, TrackedFile], Index]:
    """The epoch of a datacenter, its log files as far as rows may be of them (also of an open plan), and its
    index of primary events.
    """
    with open_view(state) as view:
        if view is None:
            return "", {}, Index(state, ())
        files, plan = dict(view.files()), view.open_plan()
        for planned in (*plan.content.primary, *plan.content.foreign) if plan is not None else ():
            number, end = planned.file_number, planned.end_bytes
            if number in files and files[number].offset_bytes < end:
                files[number] = replace(files[number], offset_bytes=end)
        return (
            view.epoch or "",
            files,
            Index(index_folder(view.work), tuple(one.name for one in view.segments())),
        )


def files_in(table: OutputTable, window: Window) -> list[TableFile]:
    """The files that may have rows of events in a window, as their Parquet footers say. LakeUnavailable."""
    with lake_errors(f"read the files of {table.folder}"):
        found = data_files(table.load())
        read = [_file_in(table.store, path, size_bytes, window) for path, size_bytes in found.items()]
    return [file for file in read if file is not None]


def _file_in(store: ObjectStore, path: str, size_bytes: int, window: Window) -> TableFile | None:
    metadata = pq.read_metadata(store.open(path))
    names = metadata.schema.names
    if "_event_time" not in names:
        return None
    column, groups = (
        names.index("_event_time"),
        [metadata.row_group(g) for g in range(metadata.num_row_groups)],
    )
    for group in groups:
        stats = group.column(column).statistics
        # A row without a time is of any day.
        is_known = stats is not None and stats.has_min_max and not stats.null_count
        if not is_known or (_us(stats.min) < window.end_us and _us(stats.max) >= window.start_us):
            break
    else:
        return None
    return TableFile(path, size_bytes, tuple(group.num_rows for group in groups))


def _us(moment: Any) -> int:
    return int(pa.scalar(moment, pa.timestamp("us", "UTC")).value)


def _ends(window: Window) -> tuple[int, int]:
    return window.start_us, window.end_us
