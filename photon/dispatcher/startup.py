"""Check at the start of a datacenter's dispatcher that its state belongs to its table (protocol A13)."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from photon.clock import Clock
from photon.dispatcher.other_settings import refuse_other_ids, was_begun_otherwise, why_begun_anew
from photon.dispatcher.refusing import refuse_place_of_another
from photon.dispatcher.shared_places import note_place, why_copy
from photon.dispatcher.work_folder import remove_work, settle_work
from photon.errors import UserError
from photon.ledger.errors import RegistryMismatch, RetiredDatacenter
from photon.pipeline.file import Pipeline
from photon.pipeline.remembered import remembered_settings
from photon.recovery.lacking import refuse_lacking
from photon.recovery.registry_watch import RegistryWatch, lake_is_ahead
from photon.registry.consensus.register import EpochRecord, Register
from photon.registry.quorum.proposer import QuorumRegistry
from photon.registry.quorum.register_store import RegisterStore
from photon.state.database import STATE_FILE, StateUnavailable
from photon.state.dispatcher_state import DispatcherState
from photon.storage.delta import LakeMismatch
from photon.storage.tables import LastCommit, OutputTable, app_id
from photon.tokens import new_id

log = logging.getLogger(__name__)

SET_ASIDE_FILE = f"{Path(STATE_FILE).stem}-set-aside.sqlite"


class OnHold(UserError):
    """A person has stopped this datacenter until it is resumed."""


def why_new_epoch(
    epoch: str,
    completed: LastCommit,
    open_plan: LastCommit | None,
    table: LastCommit,
    live: bool,
    published: int = 0,
) -> str | None:
    """Why a new epoch must begin: the state is a restored copy, or its epoch was revoked. None: it need not.

    The table may be one batch ahead, by the open plan: that batch is committed and not completed (A6).
    A batch of another plan was committed by another copy of the state (A15). What the epoch has `published`
    in the registry was in the table: a table that lacks it was put back together with the state (A23).
    """
    if not live:
        return f"epoch {epoch} is not live in the registry"
    if published > table.batch:
        return (
            f"the table is at batch {table.batch} of epoch {epoch}, and has had batch {published}: "
            "lake and state were put back"
        )
    if table.may_be(completed):
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
    """A checked state; why it is a new one, where an earlier one can't go on."""

    state: DispatcherState
    new_epoch_because: str | None = None


def start(
    pipeline: Pipeline,
    datacenter: str,
    registry: QuorumRegistry,
    table: OutputTable,
    clock: Clock,
    watch: RegistryWatch,
) -> Started:
    """Open the datacenter's state, if table and registry agree with it; else begin a new epoch.

    Raises RetiredDatacenter, LakeMismatch, RegistryMismatch, PlaceTaken, and what is unavailable.
    """
    register = registry.register
    known = register.read()
    check_datacenters(pipeline, datacenter, known)
    own_epochs = {name: e for name, e in known.epochs.items() if e.datacenter == datacenter}
    refuse_place_of_another(f"the table {table.folder}", table.pipeline(), pipeline, datacenter)
    _check_lake(pipeline, datacenter, own_epochs, table)
    if table.exists():
        watch.check()
    table.create(pipeline.name, datacenter)
    folder = pipeline.datacenters[datacenter].state
    state = DispatcherState(folder) if (folder / STATE_FILE).exists() else None
    try:
        if state is not None:
            refuse_place_of_another(f"the state {folder}", state.meta("pipeline"), pipeline, datacenter)
            refuse_other_ids(state.settings, folder, pipeline)
        epoch, because = _judge_state(state, own_epochs, table, datacenter, registry)
        anew = why_begun_anew(state, pipeline) if state is not None and epoch is not None else None
        reads_all = bool(anew) or was_begun_otherwise(folder / SET_ASIDE_FILE, pipeline)
        because = because or anew
    except BaseException:
        if state is not None:
            state.close()  # a new epoch can't set aside what this process has open
        raise
    if state is not None:
        if because is None:
            try:
                settle_work(state, pipeline.datacenters[datacenter])
                if (copied := why_copy(state, pipeline)) is not None:
                    log.warning("%s", copied)
                note_place(state, pipeline)
            except BaseException:
                state.close()
                raise
            return Started(state)
        state.close()
    # A crash during the first start may leave an epoch that read nothing: count this one as first.
    ran_before = epoch is not None or any(table.version_of(app_id(datacenter, name)) for name in own_epochs)
    for name in {*own_epochs, *([epoch] if epoch else [])}:
        table.fence(app_id(datacenter, name))
        if name in own_epochs:
            register.revoke_epoch(name, clock.now_us())
        remove_work(pipeline.datacenters[datacenter], name)
    started = _begin_epoch(
        pipeline, datacenter, register, table.table_id(), clock, follows=ran_before, reads_all=reads_all
    )
    started.new_epoch_because = because if ran_before else None
    return started


def _judge_state(
    state: DispatcherState | None,
    own_epochs: Mapping[str, EpochRecord],
    table: OutputTable,
    datacenter: str,
    registry: QuorumRegistry,
) -> tuple[str | None, str | None]:
    """The epoch of the state, and why a new one must begin. LakeUnavailable, RegistryUnavailable."""
    epoch = state.epoch if state is not None else None
    if state is None or epoch is None:
        return epoch, "there is no state"
    live = epoch in own_epochs and own_epochs[epoch].state == "live"
    commits, published = _state_commits(state), registry.marks.read([epoch])[epoch].batch
    committed = table.last_commit(app_id(datacenter, epoch))
    return epoch, why_new_epoch(epoch, *commits, committed, live, published)


def _state_commits(state: DispatcherState) -> tuple[LastCommit, LastCommit | None]:
    """What the state says of the table: its last completed batch, and its open plan's."""
    plan = state.open_plan()
    open_plan = LastCommit(plan.key.batch, plan.key.plan_id) if plan else None
    return LastCommit(state.completed, state.meta("completed_plan")), open_plan


def check_datacenters(pipeline: Pipeline, datacenter: str, register: Register) -> None:
    """Refuse to run a datacenter that people have stopped, or one beside others that the file lacks.

    RetiredDatacenter, OnHold, RegistryMismatch.
    """
    if datacenter in register.given_up:
        raise RetiredDatacenter(
            f"datacenter {datacenter} is retired in the registry: it was given up as lost; "
            "take it out of the pipeline file, or give it a new name"
        )
    if datacenter in register.on_hold:
        raise OnHold(
            f"datacenter {datacenter} is on hold; to let it run again: "
            f"photon resume {pipeline.typed} {datacenter}"
        )
    if register.is_refilling:
        raise RegistryMismatch(
            f"the ids of all rows are being put back into the registry of {pipeline.name}, or that was cut "
            f"short: let it end, or do it again: photon registry refill {pipeline.typed}"
        )
    refuse_lacking(pipeline, register)


def _check_lake(
    pipeline: Pipeline, datacenter: str, own_epochs: Mapping[str, EpochRecord], table: OutputTable
) -> None:
    """Refuse a lake that the registry does not know, before anything is made in it."""
    if any(record.state == "retired" for record in own_epochs.values()):
        raise RetiredDatacenter(
            f"datacenter {datacenter} is retired in the registry: it was given up as lost; "
            "take it out of the pipeline file, or give it a new name"
        )
    table_id = table.table_id() if table.exists() else None
    if not own_epochs and table_id is not None and table.load().version() > 0:
        raise lake_is_ahead(
            pipeline,
            f"the table {table.folder} has been written, and it knows nothing of datacenter {datacenter}",
        )
    for record in own_epochs.values():
        if record.table_id != table_id:
            found = f"(id {table_id}) is not the one" if table_id else "is gone: the one"
            raise LakeMismatch(
                f"the table {table.folder} {found} that the registry knows of datacenter {datacenter} "
                f"(id {record.table_id}): rows would be missing; put the lake folder back; or if this is "
                f"another pipeline, give it a name of its own ({pipeline.file})"
            )


def _begin_epoch(
    pipeline: Pipeline,
    datacenter: str,
    register: RegisterStore,
    table_id: str,
    clock: Clock,
    follows: bool,
    reads_all: bool,
) -> Started:
    """A new epoch: first in the registry, then on the disk. `reads_all`: also where it would read from now.

    A crash between leaves an epoch without a state, which the next start fences.
    """
    place, epoch = pipeline.datacenters[datacenter], new_id()
    folder = place.state
    register.add_epoch(epoch, datacenter, table_id, clock.now_us())
    folder.mkdir(parents=True, exist_ok=True)
    _rename_old_state(folder)
    state = DispatcherState(folder)
    skips_backlog = follows and pipeline.new_epoch_reads_from == "now" and not reads_all
    work, settings = place.work_of(epoch), remembered_settings(pipeline)
    state.begin_epoch(
        pipeline.name, datacenter, epoch, clock.now_us(), follows, work, skips_backlog, settings
    )
    note_place(state, pipeline)
    return Started(state)


def _rename_old_state(folder: Path) -> None:
    """Keep the database of an earlier epoch under another name. StateUnavailable."""
    path = folder / STATE_FILE
    if path.exists():
        with closing(sqlite3.connect(path)) as db:
            try:
                db.execute("PRAGMA journal_mode=DELETE")
            except sqlite3.OperationalError as error:
                raise StateUnavailable(
                    f"cannot set the old state {path} aside: {error}: somebody reads it; start again"
                ) from error
        path.rename(folder / SET_ASIDE_FILE)
