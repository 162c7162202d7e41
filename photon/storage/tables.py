"""The Delta tables of one datacenter: how rows become visible, exactly once (protocol A3, A4, A10, A12).

Tasks write Parquet files that nobody sees (`write_rows`). The dispatcher commits the files that successful
tasks name, together with (app id, batch).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError

from photon.pipeline.location import Location
from photon.process.faults import fault_point
from photon.storage.archived_log import commits
from photon.storage.columns import PARTITIONS, TABLE_COLUMNS, TableName, text
from photon.storage.data_files import DataFiles, rows_of
from photon.storage.delta import (
    APP_METADATA,
    BATCH_METADATA,
    PLAN_METADATA,
    LakeUnavailable,
    commit_files,
    create_table,
    lake_errors,
    partitions_of,
)
from photon.storage.followed_table import CHECKPOINT_COMMITS, PIPELINE, FollowedTable
from photon.storage.output_files import OutputFile, add_action, stats_columns, write_rows
from photon.storage.own_columns import columns_to_add, stored_elsewhere
from photon.storage.store import store_of
from photon.storage.tokens import PASSED_PLAN, Occurrence, PlanKey, Token

log = logging.getLogger(__name__)

# How the table answers for a token. "no row": none will come; "undecided": its batch is not yet committed.
RowStatus = Literal["row", "no row", "undecided"]

# Commits of one app id are numbered by batch. A fence is beyond every batch there can be, by the last one: so
# it says how far the app came.
FENCE_VERSION = 2**53
FENCE_TRIES = 5
FENCED_TABLES: tuple[TableName, ...] = (
    "dead_letters",
    "unjoined",
    "too_old",
    "left_out",
    "unmatched",
    "joined_events",
)
# Who returns from a silence finds nothing in them of a batch that others passed over meanwhile (A25).
RAISED_TABLES: tuple[TableName, ...] = ("dead_letters", "unjoined", "too_old")
BATCH_COLUMNS = pa.schema([("_batch", pa.int64()), ("_plan", pa.string()), ("_occurrence", pa.string())])


class CommitConflict(Exception):
    """Somebody else committed under the same app id. The table knows whether this commit took place."""


@dataclass(frozen=True)
class LastCommit:
    """The last batch of an app, and the plan that committed it.

    No plan: before the first batch, or at a fence. `passed`: so many batches up to it were passed over (A25).
    """

    batch: int
    plan_id: str | None = None
    passed: int = 0

    def may_be(self, other: LastCommit) -> bool:
        """Whether both may be one and the same commit (protocol A15)."""
        known = {plan_id for plan_id in (self.plan_id, other.plan_id) if plan_id is not None}
        return (self.batch, self.passed) == (other.batch, other.passed) and len(known) <= 1

    def passes_over(self, before: LastCommit) -> bool:
        """Whether others have passed over the batch that comes after `before`."""
        return (self.batch, self.passed) == (before.batch + 1, before.passed + 1)


NOT_BEGUN = LastCommit(-1)  # an epoch commits its batch 0 as it begins: the table lacks even that


def app_id(datacenter: str, epoch: str, table: TableName = "joined_events") -> str:
    """The name under which an epoch commits to a table."""
    return f"photon:{datacenter}:{epoch}:{table}"


def batch_of(version: int) -> int:
    """The last batch of an app that is at this version, fenced or not."""
    return version - FENCE_VERSION if version >= FENCE_VERSION else version


def passed_app(app: str) -> str:
    """The name under which an epoch's joined rows count the batches that were passed over."""
    return f"{app.rpartition(':')[0]}:{PASSED_PLAN}"


def fence_epoch(lake: Location, datacenter: str, epoch: str) -> None:
    """Have a datacenter's tables take no commit of the epoch any more: the joined rows last (E1, R6).

    CommitConflict, LakeUnavailable.
    """
    for name in FENCED_TABLES:
        table = OutputTable(lake, name)
        if table.exists():
            table.fence(app_id(datacenter, epoch, name))


def raise_side_tables(lake: Location, datacenter: str, epoch: str, batch: int) -> None:
    """Have side tables take nothing more of an epoch's batch, on disk. CommitConflict, LakeUnavailable."""
    for name in RAISED_TABLES:
        table = OutputTable(lake, name)
        if table.exists():
            table.raise_above(app_id(datacenter, epoch, name), batch)


class OutputTable(FollowedTable):
    """One Delta table of one datacenter, as its dispatcher writes it."""

    def create(self, pipeline: str, datacenter: str) -> None:
        """Make the table if it is not there, with Photon's own columns; the others come with the rows.

        One that is there has to be writable, before any row waits for it.
        """
        if self.exists():
            with lake_errors(f"open {self.folder}"):
                self.writable()
            return
        # delta-rs would take bounds of any other column, which are not there, for null, and leave out every
        # file when rows are filtered by it. So this list does not grow in a table that has files already.
        properties = {
            "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
            "delta.dataSkippingStatsColumns": ",".join(stats_columns(self.name)),
        }
        with lake_errors(f"make the table {self.folder}"):
            description = f"{PIPELINE}{pipeline}, datacenter {datacenter}"
            columns, by = TABLE_COLUMNS[self.name], PARTITIONS.get(self.name, ())
            parts = [pa.field(name, pa.date32()) for name in by]
            create_table(self.folder, pa.schema([*columns, *parts]), description, properties, by)
            store_of(self.folder.parent).sync()
        self.sync()

    def last_commit(self, app: str) -> LastCommit:
        """The last batch that `app` committed, with its plan; `NOT_BEGUN` before it. LakeUnavailable."""
        handle = self.load()
        last = self._reached(handle, app)
        if last == NOT_BEGUN:
            return last
        with self.reading():
            # Nearly always the newest. Upkeep may have made many since, which a bundle has together.
            for commit in commits(self.folder, handle.version()) if last.batch else ():
                if (commit.get(APP_METADATA), commit.get(BATCH_METADATA)) == (app, str(last.batch)):
                    return replace(last, plan_id=commit.get(PLAN_METADATA))
        # The log may have lost its entry: then its rows name the plan. Without rows nobody can take them.
        plans = set(self._rows_of_batches(handle, app.split(":")[2], [last.batch])["_plan"].to_pylist())
        return replace(last, plan_id=plans.pop() if len(plans) == 1 else None)

    def reached(self, app: str) -> LastCommit:
        """As `last_commit`, without its plan. LakeUnavailable."""
        return self._reached(self.load(), app)

    def _reached(self, handle: DeltaTable, app: str) -> LastCommit:
        if not self._is_known(handle, app):
            return NOT_BEGUN
        passed = self.version_in(handle, passed_app(app))
        return LastCommit(self.version_in(handle, app), passed=passed)

    def commit(
        self,
        files: Sequence[OutputFile],
        app: str,
        batch: int,
        exactly_after: int | None,
        plan_id: str | None = None,
        passed: int | None = None,
    ) -> None:
        """Make the rows of `files` visible, as batch `batch` of `app`, all or nothing, and on disk (A18).

        The commit names its plan (A15). With `exactly_after` the app's version must be exactly that (A3),
        else below `batch`. CommitConflict if it is not, or somebody else commits at the same time.
        `passed`: the app must have begun, as an epoch has with batch 0, and so many of its batches be passed
        over (A25), unless its lake was put back.
        LakeUnavailable if the table can't be reached: then nobody knows whether the commit took place.
        """
        handle = self.with_columns_of(files)
        version = self.version_in(handle, app)
        if version != exactly_after if exactly_after is not None else version >= batch:
            raise CommitConflict(f"{self.folder} is at batch {version} of {app}, which must be below {batch}")
        if passed is not None and not self._is_known(handle, app):
            raise CommitConflict(f"{self.folder} knows nothing of {app}: it was put back")
        if passed is not None and self._reached(handle, app).passed != passed:
            raise CommitConflict(f"{self.folder} has not {passed} batches of {app} that were passed over")
        self._write(handle, files, app, batch, plan_id)

    def pass_over(self, app: str, batch: int) -> None:
        """Commit a batch without rows for a process that is silent, right behind its last one; count it.

        CommitConflict, LakeUnavailable.
        """
        handle = self.writable()
        last = self._reached(handle, app)
        if last.batch != batch - 1:
            raise CommitConflict(f"{self.folder} is at batch {last.batch} of {app}, and not before {batch}")
        count = Transaction(passed_app(app), last.passed + 1)
        self._write(handle, [], app, batch, PASSED_PLAN, count)

    def commit_missing(
        self,
        files: Sequence[OutputFile],
        datacenter: str,
        plan: PlanKey,
        earlier: Iterable[tuple[int, str]] = (),
    ) -> None:
        """Make the rows of `files` visible that nobody has put into this side table yet (A12).

        Neither the plan nor the `earlier` ones of its work, by batch and id. Rows are compared on the very
        handle that commits. CommitConflict, LakeUnavailable.
        """
        app, handle = app_id(datacenter, plan.epoch, self.name), self.with_columns_of(files)
        version = self.version_in(handle, app)
        if version > plan.batch:
            raise CommitConflict(f"{self.folder} is at batch {version} of {app}, beyond {plan.batch}")
        there = {
            occurrence
            for batch, plan_id in ((plan.batch, plan.plan_id), *earlier)
            if batch <= version
            for occurrence in self._occurrences_at(handle, plan.epoch, batch, plan_id)
        }
        if there:
            files = [kept for file in files if (kept := self._without(file, there)) is not None]
        if files:
            self._write(handle, files, app, plan.batch, plan.plan_id)

    def _without(self, file: OutputFile, occurrences: Collection[Occurrence]) -> OutputFile | None:
        """A file of the other rows; None without any."""
        with self.reading():
            rows = pq.read_table(self.store.open(file.path))
        known = pa.array([str(occurrence) for occurrence in occurrences], pa.string())
        rest = rows.filter(pc.invert(pc.is_in(rows["_occurrence"], value_set=known)))
        if rest.num_rows == rows.num_rows:
            return file
        batch = rows["_batch"][0].as_py()
        return write_rows(self.folder.parent, self.name, batch, rest) if rest.num_rows else None

    def _write(
        self,
        handle: DeltaTable,
        files: Sequence[OutputFile],
        app: str,
        batch: int,
        plan_id: str | None,
        *counts: Transaction,
    ) -> None:
        with lake_errors(f"commit batch {batch} to {self.folder}"):
            says = {APP_METADATA: app, BATCH_METADATA: str(batch)}
            if plan_id is not None:
                says[PLAN_METADATA] = plan_id
            commit = CommitProperties(
                custom_metadata=says, app_transactions=[Transaction(app, batch), *counts]
            )
            fault_point("lake.before_commit", self.folder)
            added = [add_action(self.folder, file, partitions_of(handle)) for file in files]
            try:
                commit_files(handle, added, commit)
            except CommitFailedError as error:
                raise CommitConflict(f"{self.folder}: batch {batch} of {app}: {error}") from error
            fault_point("lake.after_commit", self.folder)
        self.sync()

    def fence(self, app: str) -> None:
        """Raise the version of `app` beyond all batches, so that it never commits again (protocol E1).

        CommitConflict, LakeUnavailable.
        """
        self._raise(app, FENCE_VERSION, lambda version: FENCE_VERSION + version)

    def raise_above(self, app: str, batch: int) -> None:
        """Have this side table take nothing more of a batch (A25). CommitConflict, LakeUnavailable."""
        self._raise(app, batch + 1, lambda version: batch + 1)

    def _raise(self, app: str, least: int, raised: Callable[[int], int]) -> None:
        """Raise the version of `app` to `least` or more. Others may do so at the same moment.

        CommitConflict if the app commits each time; LakeUnavailable.
        """
        for tries_left in reversed(range(FENCE_TRIES)):
            handle = self.writable()
            version = self.version_in(handle, app)
            if version >= least:
                return self.sync()  # who wrote it may have been killed right after
            try:
                return self._write(handle, [], app, raised(version), None)
            except CommitConflict:
                if not tries_left:
                    raise

    def row_status_of(self, tokens: Collection[Token]) -> dict[Token, RowStatus]:
        """How the table, at one snapshot, answers for tokens of this datacenter (protocol A8, E1).

        A row of another plan is none of the token's (A15).
        Reads four columns of the files whose statistics admit the tokens' batches.
        """
        if not tokens:
            return {}
        handle = self.load()
        by_epoch: dict[str, list[Token]] = defaultdict(list)
        for token in tokens:
            by_epoch[token.plan.epoch].append(token)
        found: dict[Token, RowStatus] = {}
        for epoch, group in by_epoch.items():
            rows = self._rows_of_batches(handle, epoch, {token.plan.batch for token in group})
            names = ("_batch", "_plan", "_occurrence")
            present = set(zip(*(rows[name].to_pylist() for name in names), strict=True))
            with self.reading():
                version = self.end.version_of(app_id(group[0].plan.datacenter, epoch), handle) or 0
            for token in group:
                plan, occurrence = token.plan, str(token.occurrence)
                if (plan.batch, plan.plan_id, occurrence) in present:
                    found[token] = "row"
                else:
                    found[token] = "no row" if version >= token.plan.batch else "undecided"
        return found

    def occurrences_of(self, epoch: str, batch: int, plan_id: str | None) -> list[Occurrence]:
        """The occurrences of the rows that one plan committed; of whichever plan where it is not known."""
        return self._occurrences_at(self.load(), epoch, batch, plan_id)

    def occurrences_of_epoch(self, epoch: str, among: Iterable[Occurrence]) -> list[Occurrence]:
        """Find which of these occurrences have rows of an epoch; no others come into memory."""
        places = pa.array([str(one) for one in among], pa.string())
        wanted = (text("_epoch") == epoch) & text("_occurrence").isin(places)
        with self.reading():
            rows = self.load().to_pyarrow_dataset().to_table(columns=["_occurrence"], filter=wanted)
        return [Occurrence.parse(text) for text in rows["_occurrence"].to_pylist()]

    def _occurrences_at(
        self, handle: DeltaTable, epoch: str, batch: int, plan_id: str | None
    ) -> list[Occurrence]:
        rows = self._rows_of_batches(handle, epoch, [batch])
        names = zip(rows["_plan"].to_pylist(), rows["_occurrence"].to_pylist(), strict=True)
        return [Occurrence.parse(text) for name, text in names if plan_id in (None, name)]

    def _rows_of_batches(self, handle: DeltaTable, epoch: str, batches: Collection[int]) -> pa.Table:
        wanted = (text("_epoch") == epoch) & ds.field("_batch").isin(sorted(batches))
        with self.reading():
            return rows_of(self.store, DataFiles(handle).of_epoch(epoch, batches), BATCH_COLUMNS, wanted)

    def with_columns_of(self, files: Iterable[OutputFile]) -> DeltaTable:
        """The table with all columns that the files have. SchemaConflict if types differ.

        CommitConflict if files spell a new column differently: they are to be written again with the one
        spelling that the table has then.
        """
        handle = self.writable()
        new, respelled = columns_to_add(self.schema(), (file.schema for file in files), self.folder)
        with lake_errors(f"add columns to {self.folder}"):
            try:
                if new:
                    handle.alter.add_columns(list(Schema.from_arrow(pa.schema(new)).fields))
                    for sentence in stored_elsewhere(new):
                        log.info("%s", sentence)
            except CommitFailedError as error:
                raise CommitConflict(f"{self.folder}: adding columns: {error}") from error
        if respelled:
            raise CommitConflict(f"{self.folder}: the column {respelled}")
        return self.load() if new else handle


def refuse_moved_lake(lake: Location) -> None:
    """Refuse to write beside joined rows that are missing, in the lake of a join at work. LakeUnavailable.

    Somebody has moved the lake away. Whoever puts it back would find a folder in its place.
    """
    if not OutputTable(lake, "joined_events").exists():
        raise LakeUnavailable(f"{lake} has no joined rows: was it moved away?")
