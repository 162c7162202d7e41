"""Check at the start of a datacenter's dispatcher that its state belongs to its table (protocol A13).

A new epoch begins in this order, and a crash anywhere leaves what the next start ends: its number, in the
registry; the epochs before it, fenced and closed for ever; batch 0, in the table; its state, on the disk.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from photon.dispatcher.committing import furthest_side, last_completed, why_put_back
from photon.dispatcher.other_settings import refuse_other_ids, was_begun_otherwise, why_begun_anew
from photon.dispatcher.recovery.registry_watch import RegistryWatch, lake_is_ahead
from photon.dispatcher.recovery.rows_of_plans import rowless_unless_taken
from photon.dispatcher.refusals import check_datacenters, refuse_place_of_another
from photon.dispatcher.releasing import refuse_lacking_releases
from photon.dispatcher.shared_places import note_place, why_copy
from photon.dispatcher.work_folder import remove_work, settle_work
from photon.pipeline.file import Pipeline
from photon.pipeline.remembered import remembered_settings
from photon.process.clock import MICROSECONDS, Clock
from photon.process.faults import fault_point
from photon.process.machine import Machine
from photon.process.operating_system import private_folder
from photon.registry.entry import Epoch
from photon.registry.epochs import begin_epoch, end_epochs, is_live
from photon.registry.errors import OtherTable
from photon.registry.id_registry import IdRegistry
from photon.registry.known_tables import another_table
from photon.registry.register import Register
from photon.releases.foreign_commits import others_took_rows
from photon.state.database import STATE_FILE, StateUnavailable
from photon.state.dispatcher_state import DispatcherState
from photon.state.plan import Plan, PlanContent
from photon.storage.columns import TableName
from photon.storage.delta import LakeMismatch, LakeUnavailable
from photon.storage.joined_rows import CommittedRows
from photon.storage.sync import remove_abandoned
from photon.storage.tables import (
    FENCE_VERSION,
    CommitConflict,
    LastCommit,
    OutputTable,
    app_id,
    batch_of,
    fence_epoch,
)
from photon.storage.tokens import PlanKey, new_id

log = logging.getLogger(__name__)

SET_ASIDE_FILE = f"{Path(STATE_FILE).stem}-set-aside.sqlite"
# A start sets the old state aside while nobody reads it. Status and sensors read it for milliseconds.
READERS_SECONDS, READERS_PAUSE_SECONDS = 20.0, 0.05


def why_new_epoch(
    epoch: str,
    completed: LastCommit,
    open_plan: LastCommit | None,
    table: LastCommit,
    live: bool,
    closed: int = 0,
    side: int = 0,
) -> str | None:
    """Why a new epoch must begin: the state is a restored copy, or its epoch is over. None: it need not.

    The table may be one batch ahead, by the open plan: that batch is committed and not completed (A6); or by
    others, who passed it over (A25). One of another plan was committed by another copy of the state (A15).
    What the epoch has `closed` in the registry was in the table: a table that lacks it was put back together
    with the state (L10). `side`: how far side tables are.
    """
    if not live:
        return f"epoch {epoch} is over, as the registry says"
    if why := why_put_back(epoch, completed, table, closed, side):
        return f"{why}: the lake was put back"
    if table.may_be(completed) or table.passes_over(completed):
        return None
    if open_plan is not None and open_plan.batch == completed.batch + 1 and table.may_be(open_plan):
        return None
    return (
        f"the state is at batch {_named(open_plan or completed)}, "
        f"the table at batch {_named(table)} of epoch {epoch}: "
        "the state is not the one that wrote the table last"
    )


def _named(commit: LastCommit) -> str:
    return f"{commit.batch} (plan {commit.plan_id})" if commit.plan_id else str(commit.batch)


@dataclass
class Started:
    """A checked state, and why it is a new one where an earlier one can't go on."""

    state: DispatcherState
    watch: RegistryWatch
    new_epoch_because: str | None = None


def start(
    pipeline: Pipeline,
    datacenter: str,
    registry: IdRegistry,
    tables: Mapping[TableName, OutputTable],
    machine: Machine,
) -> Started:
    """Open the datacenter's state, if table and registry agree with it; else begin a new epoch.

    Raises RetiredDatacenter, LakeMismatch, RegistryMismatch, PlaceTaken, and what is unavailable.
    """
    register, table = registry.read_register(), tables["joined_events"]
    check_datacenters(pipeline, datacenter, register)
    refuse_place_of_another(f"the table {table.folder}", table.pipeline(), pipeline, datacenter)
    _check_lake(pipeline, datacenter, register, table)
    watch = RegistryWatch(pipeline, datacenter, registry, table, machine)
    watch.check()  # the lake is not ahead of the registry unnoticed (A23, L10)
    refuse_lacking_releases(pipeline, registry, watch.lakes)
    table.create(pipeline.name, datacenter)
    folder = pipeline.datacenters[datacenter].state
    state = DispatcherState(folder) if (folder / STATE_FILE).exists() else None
    try:
        if state is not None:
            refuse_place_of_another(f"the state {folder}", state.meta("pipeline"), pipeline, datacenter)
            refuse_other_ids(state.settings, folder, pipeline)
            remove_abandoned(folder)
        epoch, because = _judge_state(state, tables, datacenter, registry)
        anew = why_begun_anew(state, pipeline) if state is not None and epoch is not None else None
        reads_all = bool(anew) or was_begun_otherwise(folder / SET_ASIDE_FILE, pipeline)
        because = because or anew
        has_run = state is not None and (state.completed > state.passed or state.follows_an_epoch)
        if state is not None and because is None:
            _plan_what_was_passed(state, table, datacenter)
            settle_work(state, pipeline.datacenters[datacenter])
            if (copied := why_copy(state, pipeline)) is not None:
                log.warning("%s", copied)
            note_place(state, pipeline)
            return Started(state, watch)
    except BaseException:
        if state is not None:
            state.close()  # a new epoch can't set aside what this process has open
        raise
    if state is not None:
        state.close()
    begun = _NewEpoch(pipeline, datacenter, registry, table, machine.clock)
    # First starts that failed may leave epochs that read nothing: count this one as first.
    follows = has_run or begun.has_run_before(register)
    state = begun.begin(_number_of(epoch), follows=follows, reads_all=reads_all)
    return Started(state, watch, because if follows or epoch is not None else None)


def _judge_state(
    state: DispatcherState | None,
    tables: Mapping[TableName, OutputTable],
    datacenter: str,
    registry: IdRegistry,
) -> tuple[str | None, str | None]:
    """The epoch of the state, and why a new one must begin. LakeUnavailable."""
    name = state.epoch if state is not None else None
    if state is None or name is None:
        return name, "there is no state"
    epoch = Epoch(datacenter, _number_of(name))
    live = epoch.number > 0 and is_live(registry, epoch)
    closed, side = registry.view.closed_through(epoch), furthest_side(tables.values(), datacenter, name)
    committed = tables["joined_events"].last_commit(app_id(datacenter, name))
    return name, why_new_epoch(name, *_state_commits(state), committed, live, closed, side)


def _plan_what_was_passed(state: DispatcherState, table: OutputTable, datacenter: str) -> None:
    """Store a plan without work for a batch that was passed over and has none: it takes it (A25)."""
    epoch = state.epoch or ""
    if not state.has_open_plan and table.version_of(app_id(datacenter, epoch)) > state.completed:
        state.store_plan(Plan(PlanKey(datacenter, epoch, state.completed + 1, new_id()), PlanContent(), ()))


def _number_of(epoch: str | None) -> int:
    """The number of an epoch by its name in states and tables; 0: it has none."""
    return int(epoch) if epoch is not None and epoch.isdecimal() else 0


def _state_commits(state: DispatcherState) -> tuple[LastCommit, LastCommit | None]:
    """The commits that the state expects in the table: its last completed batch, and its open plan's."""
    plan = state.open_plan()
    open_plan = LastCommit(plan.key.batch, plan.key.plan_id, state.passed) if plan else None
    return last_completed(state), open_plan


def _check_lake(pipeline: Pipeline, datacenter: str, register: Register, table: OutputTable) -> None:
    """Refuse a lake that the registry does not know, before anything is made in it."""
    known = register.tables.get(datacenter)
    table_id = table.table_id() if table.exists() else None
    if known is None and table_id is not None and table.load().version() > 0:
        raise lake_is_ahead(
            pipeline,
            f"the table {table.folder} has been written, and it knows nothing of datacenter {datacenter}",
        )
    if known is not None and known != table_id:
        raise _other_lake(pipeline, datacenter, table, table_id, known)


def _other_lake(
    pipeline: Pipeline, datacenter: str, table: OutputTable, table_id: str | None, known: str
) -> LakeMismatch:
    return LakeMismatch(another_table(table.folder, table_id, datacenter, known, pipeline.file))


@dataclass(frozen=True)
class _NewEpoch:
    """Begins an epoch: see the module."""

    pipeline: Pipeline
    datacenter: str
    registry: IdRegistry
    table: OutputTable
    clock: Clock

    def has_run_before(self, register: Register) -> bool:
        """Whether an epoch before has committed a batch. LakeUnavailable.

        A fence alone is no run: first starts that failed leave one. Nor are batches that others passed over.
        """
        numbers = range(register.epochs.get(self.datacenter, 0), 0, -1)
        commits = (self.table.reached(self._app(number)) for number in numbers)
        has_run = any(batch_of(last.batch) > last.passed for last in commits)
        return has_run or bool(CommittedRows(self.table).epochs())

    def begin(self, before: int, follows: bool, reads_all: bool) -> DispatcherState:
        """The state of a new epoch; `before`: the epoch of the state that was here, 0 if none was.

        LakeMismatch, LakeUnavailable, RegistryUnavailable, StateUnavailable.
        """
        epoch = self._numbered(before)
        fault_point("start.after_number")
        with _conflicts_are_waited_for(self.table):
            for number in range(1, epoch.number):
                # Also where the registry calls it over: a lake that was put back has no fence.
                if self.table.version_of(self._app(number)) < FENCE_VERSION:
                    self._fence(Epoch(self.datacenter, number))
            others_took = partial(others_took_rows, self.pipeline, self.datacenter, self.table)
            snapshot = partial(rowless_unless_taken, self.table, others_took)
            end_epochs(self.registry, self.datacenter, epoch.number - 1, self._fence, snapshot)
            fault_point("start.after_close")
            self.table.commit([], self._app(epoch.number), 0, exactly_after=0)
        fault_point("start.after_batch_0")
        for number in range(before or max(1, epoch.number - 1), epoch.number):
            remove_work(self.pipeline.datacenters[self.datacenter], str(number))
        return self._stored(str(epoch.number), follows, reads_all)

    def _numbered(self, before: int) -> Epoch:
        """The number of the new epoch: above all that registry and table know (L4). LakeMismatch."""
        epochs = CommittedRows(self.table).epochs()
        known = max([before, *map(_number_of, epochs)])
        while True:
            epoch = self._handed_out(known)
            if not self.table.knows(self._app(epoch.number)):
                return epoch
            known = epoch.number  # a register that was put back hands it out again

    def _handed_out(self, known: int) -> Epoch:
        """A number of this very table: another lake may have come first since the register was read."""
        table_id = self.table.table_id()
        try:
            return begin_epoch(self.registry, self.datacenter, known, table_id)
        except OtherTable as error:
            raise _other_lake(self.pipeline, self.datacenter, self.table, table_id, error.known) from error

    def _app(self, number: int) -> str:
        return app_id(self.datacenter, str(number))

    def _fence(self, epoch: Epoch) -> None:
        fence_epoch(self.table.folder.parent, epoch.datacenter, str(epoch.number))

    def _stored(self, epoch: str, follows: bool, reads_all: bool) -> DispatcherState:
        """The state, on the disk. `reads_all`: also where it would read from now."""
        place, pipeline = self.pipeline.datacenters[self.datacenter], self.pipeline
        private_folder(place.state)
        _rename_old_state(place.state, self.clock)
        state = DispatcherState(place.state)
        skips_backlog = follows and pipeline.new_epoch_reads_from == "now" and not reads_all
        work, settings = place.work_of(epoch), remembered_settings(pipeline)
        now_us = self.clock.now_us()
        state.begin_epoch(
            pipeline.name, self.datacenter, epoch, now_us, follows, work, skips_backlog, settings
        )
        note_place(state, pipeline)
        return state


@contextmanager
def _conflicts_are_waited_for(table: OutputTable) -> Iterator[None]:
    """Have the start tried again where somebody else commits to the table, such as a survivor that fences."""
    try:
        yield
    except CommitConflict as error:
        raise LakeUnavailable(f"others commit to the table {table.folder}: {error}") from error


def _rename_old_state(folder: Path, clock: Clock) -> None:
    """Keep the database of an earlier epoch under another name. StateUnavailable.

    Whoever reads it for a moment, such as a sensor or a page, is waited for.
    """
    path = folder / STATE_FILE
    if not path.exists():
        return
    until_us = clock.elapsed_us() + round(READERS_SECONDS * MICROSECONDS)
    with closing(sqlite3.connect(path)) as db:
        while True:
            try:
                db.execute("PRAGMA journal_mode=DELETE")
                break
            except sqlite3.OperationalError as error:
                if clock.elapsed_us() >= until_us:
                    raise StateUnavailable(
                        f"cannot set the old state {path} aside: {error}: somebody reads it, or writes "
                        "there; end that, and the next start tries again"
                    ) from error
            clock.sleep(READERS_PAUSE_SECONDS)
    path.rename(folder / SET_ASIDE_FILE)
