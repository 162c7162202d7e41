"""Put batches into the tables, and ask the tables what they have of a batch (protocol A3 to A15, A25).

Nothing is claimed or closed here: `claiming_rounds` and `closing_batches` do that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from photon.dispatcher.completion import Results
from photon.process.faults import fault_point
from photon.state.dispatcher_state import DispatcherState
from photon.state.lifecycle import Event
from photon.state.outcomes import OutcomeClass
from photon.state.plan import Plan
from photon.storage.columns import TableName
from photon.storage.output_files import OutputFile
from photon.storage.tables import (
    FENCE_VERSION,
    NOT_BEGUN,
    RAISED_TABLES,
    CommitConflict,
    LastCommit,
    OutputTable,
    app_id,
    fence_epoch,
    raise_side_tables,
)
from photon.storage.tokens import Occurrence

SIDE_TABLES: dict[TableName, OutcomeClass] = {
    "dead_letters": "dead_letters",
    "unjoined": "unjoinable",
    "too_old": "too_old",
}
LEFT_OUT: TableName = "left_out"  # no class goes by it, so a row that comes again counts for nothing


def last_completed(state: DispatcherState) -> LastCommit:
    """The commit of the last batch that the state has completed, as the table has to have it."""
    return LastCommit(state.completed, state.meta("completed_plan"), state.passed)


def furthest_side(tables: Iterable[OutputTable], datacenter: str, epoch: str) -> int:
    """The greatest batch of an epoch in side tables, or beyond which one is. LakeUnavailable."""
    sides = (table for table in tables if table.name in RAISED_TABLES and table.exists())
    return max((table.version_of(app_id(datacenter, epoch, table.name)) for table in sides), default=0)


def why_put_back(epoch: str, completed: LastCommit, table: LastCommit, closed: int = 0, side: int = 0) -> str:
    """How the table shows that it is an older copy than the state knew; empty: it does not (A13, A25).

    What the ledgers call `closed` was in the table. A `side` table, read before, is raised beyond a batch
    only once the table has it.
    """
    if table == NOT_BEGUN:
        return f"the table knows nothing of epoch {epoch}, which had begun there"
    at, had = f"the table is at batch {table.batch} of epoch {epoch}", max(completed.batch, closed)
    if table.batch < had:
        return f"{at}, and has had batch {had}"
    if side > completed.batch + 1 > table.batch:
        return f"{at}, and a side table is beyond batch {completed.batch + 1}"
    if not 0 <= table.passed - completed.passed <= table.batch - completed.batch:
        return f"{at}, and counts {table.passed} that were passed over; the state knows of {completed.passed}"
    return ""


@dataclass(frozen=True)
class Committing:
    """Commits batches of one epoch to the tables of its datacenter. LakeUnavailable.

    `closed`: the last batch of the epoch that a ledger calls closed, as far as they were read.
    """

    tables: Mapping[TableName, OutputTable]
    datacenter: str
    epoch: str
    state: DispatcherState
    closed: Callable[[], int]

    @property
    def _joined(self) -> OutputTable:
        return self.tables["joined_events"]

    @property
    def _app(self) -> str:
        return app_id(self.datacenter, self.epoch)

    def commit_batch(self, plan: Plan, results: Results) -> None:
        """Make a batch visible: side tables first, the joined rows last and always (A4, A12).

        Nothing comes into the side tables of a batch that another copy of the state has committed: releases
        may show it. CommitConflict, SchemaConflict.
        """
        side_files = {name: results.files(name) for name in (*SIDE_TABLES, LEFT_OUT)}
        earlier = [(origin.batch, origin.plan_id) for origin in plan.content.lineage.origins]
        # The commit of the joined rows asks it anyway: a batch without side rows is not to ask twice.
        if any(side_files.values()) and self._joined.version_of(self._app) >= plan.key.batch:
            raise CommitConflict(f"{self._joined.folder} has batch {plan.key.batch}, of another plan")
        for name, files in side_files.items():
            if files:
                self.tables[name].commit_missing(files, self.datacenter, plan.key, earlier)
            fault_point(f"side_tables.after_{name}")
        fault_point("commit.before_main")
        self._commit_rows(plan, results.files("joined_events"))
        fault_point("commit.after_main")

    def commit_empty(self, plan: Plan) -> None:
        """Commit a batch that is abandoned (A11). CommitConflict."""
        self._commit_rows(plan, [])

    def _commit_rows(self, plan: Plan, files: Sequence[OutputFile]) -> None:
        batch, passed = plan.key.batch, self.state.passed
        if self.closed() >= batch:
            raise CommitConflict(f"others have closed batch {batch}")
        self._joined.commit(files, self._app, batch, batch - 1, plan.key.plan_id, passed=passed)

    def ask_table(self, plan: Plan) -> tuple[Event, str]:
        """Whether the table has the batch, after a commit that did not return (A6, A15), or is another's."""
        for table in self.tables.values():
            table.writable()  # else its tasks would run again, only to wait before the same commit (E9)
        side = furthest_side(self.tables.values(), self.datacenter, self.epoch)
        last, own = self._joined.last_commit(self._app), plan.key
        completed = last_completed(self.state)
        if last.batch > own.batch:
            return Event.BY_ANOTHER, (
                f"the table of datacenter {self.datacenter} is at batch {last.batch}, beyond this process's "
                f"{own.batch}: another process runs it, or this epoch was fenced; this one ends"
            )
        if last.batch < own.batch and (ended := self._ends_as_half_fenced()) is not None:
            return ended
        if why := why_put_back(self.epoch, completed, last, self.closed(), side):
            return Event.BY_ANOTHER, (
                f"datacenter {self.datacenter}: the lake was put back: {why}; nothing more is committed in "
                "this epoch"
            )
        if last.batch < own.batch:
            return Event.NOT_COMMITTED, ""
        is_passed = last.passes_over(completed)
        if not is_passed and not last.may_be(LastCommit(own.batch, own.plan_id, completed.passed)):
            return Event.BY_ANOTHER, (
                f"batch {own.batch} of datacenter {self.datacenter} was committed by plan {last.plan_id}, "
                f"not by this process's {own.plan_id}: another copy of its state is in use; "
                "this one ends, and begins a new epoch if it is started again"
            )
        self._joined.sync()  # the process that committed may have been killed right after (A18)
        return Event.PASSED_OVER if is_passed else Event.HAS_COMMITTED, ""

    def raise_side_tables(self, batch: int) -> None:
        """Have nothing more come into the side tables of a batch (A25). CommitConflict."""
        raise_side_tables(self._joined.folder.parent, self.datacenter, self.epoch, batch)

    def _ends_as_half_fenced(self) -> tuple[Event, str] | None:
        """End the epoch if others have fenced a side table of it, and not yet its joined rows (E1).

        They may have died between. No batch with side rows gets through any more.
        """
        fenced = [name for name, table in self.tables.items() if self._is_fenced(name, table)]
        if not fenced:
            return None
        try:
            fence_epoch(self._joined.folder.parent, self.datacenter, self.epoch)
        except CommitConflict:  # somebody else commits just now: the next try sees what
            return None
        return Event.BY_ANOTHER, (
            f"others began to end epoch {self.epoch} of datacenter {self.datacenter}: its table {fenced[0]} "
            "takes no commit of it any more, so it is ended here"
        )

    def _is_fenced(self, name: TableName, table: OutputTable) -> bool:
        app = app_id(self.datacenter, self.epoch, name)
        return table.exists() and table.version_of(app) >= FENCE_VERSION

    def is_at_its_end(self) -> bool:
        """Whether this epoch commits nothing more: others fenced it (E1), or its lake was put back (A13)."""
        side = furthest_side(self.tables.values(), self.datacenter, self.epoch)
        table, completed = self._joined.reached(self._app), last_completed(self.state)
        is_fenced = table.batch >= FENCE_VERSION
        return is_fenced or bool(why_put_back(self.epoch, completed, table, self.closed(), side))

    def already_recorded(self, plan: Plan, ran_before: bool) -> dict[Occurrence, OutcomeClass]:
        """The records that earlier runs of this work put into the tables, with their classes (A12)."""
        already_recorded: dict[Occurrence, OutcomeClass] = {}
        origins = plan.content.lineage.origins
        for origin in origins:
            rows = self._joined.occurrences_of(self.epoch, origin.batch, origin.plan_id)
            already_recorded.update(dict.fromkeys(rows, "joined"))
        for name, outcome in SIDE_TABLES.items():
            for each in (*origins, *([plan.as_origin] if ran_before else [])):
                occurrences = self.tables[name].occurrences_of(self.epoch, each.batch, each.plan_id)
                already_recorded.update(dict.fromkeys(occurrences, outcome))
        return already_recorded
