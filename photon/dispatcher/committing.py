"""Put batches into the tables, and ask the tables what they have of a batch (protocol A3, A4, A6, A12, A15).

Nothing is claimed or closed here: `claiming_rounds` and `closing_batches` do that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from photon.dispatcher.completion import Results
from photon.process.faults import fault_point
from photon.state.lifecycle import Event
from photon.state.outcomes import OutcomeClass
from photon.state.plan import Plan
from photon.storage.columns import TableName
from photon.storage.output_files import OutputFile
from photon.storage.tables import (
    FENCE_VERSION,
    NOT_BEGUN,
    CommitConflict,
    LastCommit,
    OutputTable,
    app_id,
    fence_epoch,
)
from photon.storage.tokens import Occurrence

SIDE_TABLES: dict[TableName, OutcomeClass] = {
    "dead_letters": "dead_letters",
    "unjoined": "unjoinable",
    "too_old": "too_old",
}
LEFT_OUT: TableName = "left_out"  # no class goes by it, so a row that comes again counts for nothing


@dataclass(frozen=True)
class Committing:
    """Commits batches of one epoch to the tables of its datacenter. LakeUnavailable."""

    tables: Mapping[TableName, OutputTable]
    datacenter: str
    epoch: str

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
        batch = plan.key.batch
        self._joined.commit(files, self._app, batch, batch - 1, plan.key.plan_id, has_begun=True)

    def ask_table(self, plan: Plan) -> tuple[Event, str]:
        """Whether the table has the batch, after a commit that did not return (A6, A15), or is another's."""
        for table in self.tables.values():
            table.writable()  # else its tasks would run again, only to wait before the same commit (E9)
        last, own = self._joined.last_commit(self._app), plan.key
        if last.batch > own.batch:
            return Event.BY_ANOTHER, (
                f"the table of datacenter {self.datacenter} is at batch {last.batch}, beyond this process's "
                f"{own.batch}: another process runs it, or this epoch was fenced; this one ends"
            )
        if last.batch < own.batch - 1:
            found = "knows nothing" if last == NOT_BEGUN else f"is at batch {last.batch}"
            return Event.BY_ANOTHER, (
                f"the lake was put back: the table of datacenter {self.datacenter} {found} of epoch "
                f"{self.epoch}, and this process has committed batch {own.batch - 1}; "
                "nothing more is committed in this epoch"
            )
        if last.batch < own.batch:
            return self._ends_as_half_fenced() or (Event.NOT_COMMITTED, "")
        if not last.may_be(LastCommit(own.batch, own.plan_id)):
            return Event.BY_ANOTHER, (
                f"batch {own.batch} of datacenter {self.datacenter} was committed by plan {last.plan_id}, "
                f"not by this process's {own.plan_id}: another copy of its state is in use; "
                "this one ends, and begins a new epoch if it is started again"
            )
        self._joined.sync()  # the process that committed may have been killed right after (A18)
        return Event.HAS_COMMITTED, ""

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

    def is_at_its_end(self, completed: int) -> bool:
        """Whether this epoch commits nothing more: others fenced it (E1), or its lake was put back (A13)."""
        version, has_begun = self._joined.version_of(self._app), self._joined.knows(self._app)
        return version >= FENCE_VERSION or version < completed or not has_begun

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
