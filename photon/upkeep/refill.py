"""Put the ids of all rows back into a registry that is older than the lakes, or new (protocol B19).

the register: a refill has begun, every epoch is over  -> no epoch begins, no token wins any more (B18)
every table: its epochs fenced                         -> no batch is committed any more (E1)
every row: its id for its own token                    -> what holds it without a row is released
the register: the refill has ended                     -> each datacenter begins a new epoch (A13)

Killed in between, joins stay refused until it has run to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from photon.dispatcher.refusing import refuse_place_of_another
from photon.errors import UserError
from photon.faults import fault_point
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.file import Pipeline
from photon.recovery.doubled import note_doubled
from photon.recovery.lacking import refuse_lacking
from photon.recovery.registry_watch import claims_of_rows
from photon.registry.consensus.register import (
    Register,
    live_epochs,
    retired_datacenters,
    with_refill_begun,
    with_refill_ended,
)
from photon.registry.interface import (
    Claim,
    CommitOutcome,
    Joined,
    Lost,
    Outcomes,
    Released,
    TooOld,
    Unknown,
    Won,
)
from photon.registry.quorum.proposer import QuorumRegistry
from photon.shift.lease import lease_status_of
from photon.state.database import STATE_FILE
from photon.state.view import open_view
from photon.storage.delta import LakeUnavailable
from photon.storage.joined_rows import CommittedRows
from photon.storage.tables import CommitConflict, OutputTable, app_id
from photon.tokens import Token, new_id

PAGE_ROWS = 10_000  # looked at together: bounds memory
DOUBLES_TOLD = 10  # of --json too


class NotRefilled(UserError):
    """The registry can't be refilled so; the message says why, and what to do."""


@dataclass
class Refilled:
    """The result of a refill; with `dry_run`, the result that one would have."""

    rows: int = 0
    put_back: int = 0  # ids that were lacking
    too_old: int = 0  # rows below the boundary, whose ids the registry need not have
    released: int = 0  # ids that were held by a token without a row, and have their row's now
    doubles: list[str] = field(default_factory=list)  # ids whose holder has a row too: their event has two
    began: bool = False  # whether anything had to be changed

    def as_dict(self) -> dict[str, object]:
        """All of it, by name."""
        return {
            "rows": self.rows,
            "put_back": self.put_back,
            "released": self.released,
            "too_old": self.too_old,
            "doubles": self.doubles[:DOUBLES_TOLD],
            "doubles_count": len(self.doubles),
            "new_epochs": self.began,
        }


def refill(
    pipeline: Pipeline,
    registry: QuorumRegistry,
    dry_run: bool = False,
    page_rows: int = PAGE_ROWS,
    say: Callable[[str], None] = lambda text: None,
) -> Refilled:
    """Put back what the registry lacks. May be killed and run again; nothing changes if it lacks nothing.

    NotRefilled, PlaceTaken, RegistryMismatch, LakeUnavailable, RegistryUnavailable.
    """
    register = registry.register.read()
    refuse_lacking(pipeline, register)
    tables = _tables(pipeline, register)
    _refuse_beside_joins(pipeline)
    work = _Refill(pipeline, registry, tables, page_rows, say)
    found = work.look()
    is_known = {record.datacenter for record in register.epochs.values()}.issuperset(tables)
    lacks = found.put_back or found.released or registry.marks.put_back(live_epochs(register.epochs))
    is_whole = is_known and not (lacks or register.is_refilling)
    if dry_run or is_whole:
        found.began = not is_whole
    else:
        found = work.run(register)
    if not dry_run:
        _note_doubled(pipeline, work.doubled)
    return found


def _note_doubled(pipeline: Pipeline, doubled: Mapping[str, str]) -> None:
    """Have the status of each datacenter whose state is here tell of its second rows."""
    for name, place in pipeline.datacenters.items():
        own = {token: id_ for token, id_ in doubled.items() if Token.parse(token).plan.datacenter == name}
        if own and place.state.is_dir():
            with suppress(OSError):  # the command says it too
                note_doubled(place.state, own)


def _tables(pipeline: Pipeline, register: Register) -> dict[str, OutputTable]:
    """The tables whose rows count, by datacenter; each can be read. NotRefilled, PlaceTaken.

    A refill fences them, which would end the epochs of another pipeline.
    """
    found: dict[str, OutputTable] = {}
    for name, place in pipeline.datacenters.items():
        if name in retired_datacenters(register.epochs):
            continue  # its lake is gone, and its rows don't count
        table = OutputTable(place.lake, "joined_events")
        try:
            table_id = table.table_id() if table.exists() else None
            refuse_place_of_another(f"the table {table.folder}", table.pipeline(), pipeline, name)
        except LakeUnavailable as error:
            raise NotRefilled(
                f"the lake of datacenter {name} can't be read: {error}; then again: "
                f"photon registry refill {pipeline.typed}"
            ) from error
        known = {e.table_id for e in register.epochs.values() if e.datacenter == name}
        has_joined = bool(known) or (place.state / STATE_FILE).exists()
        if table_id is None:
            if has_joined:
                raise NotRefilled(
                    f"datacenter {name} has joined, and its table {table.folder} is not there: put its lake "
                    f"back, then again: photon registry refill {pipeline.typed}. If it is lost for good, "
                    f"before that: photon retire {pipeline.typed} {name} --lake-is-gone"
                )
            continue
        if known and table_id not in known:
            raise NotRefilled(
                f"the table {table.folder} is not the one that the registry knows of datacenter {name}: put "
                f"its lake back, then again: photon registry refill {pipeline.typed}"
            )
        found[name] = table
    return found


def _refuse_beside_joins(pipeline: Pipeline) -> None:
    for name, place in pipeline.datacenters.items():
        status = lease_status_of(place.state)
        if status.is_locked:
            process = (
                f"process {status.lease.process} on {status.lease.host}" if status.lease else "a process"
            )
            raise NotRefilled(
                f"datacenter {name} is run by {process}: stop it first (under Dagster, its sensor too), then "
                f"again: photon registry refill {pipeline.typed}"
            )


@dataclass
class _Refill:
    """One run over all tables."""

    pipeline: Pipeline
    registry: QuorumRegistry
    tables: dict[str, OutputTable]
    page_rows: int
    say: Callable[[str], None]
    fenced: set[tuple[str, str]] = field(default_factory=set)
    doubled: dict[str, str] = field(default_factory=dict)  # second rows: ids by token

    def look(self) -> Refilled:
        """Find what the registry lacks now. Nothing is changed."""
        found = Refilled()
        for claims in self._claims(found, "looked at"):
            outcomes = self.registry.lookup_surely([claim.key for claim in claims])
            found.too_old += sum(isinstance(outcome, TooOld) for outcome in outcomes)
            others = _held_otherwise(claims, outcomes)
            found.put_back += sum(not isinstance(outcome, Joined | TooOld) for outcome in outcomes)
            doubles = self._with_rows([token for _, token in others], fences=False)
            found.released += sum(token not in doubles for _, token in others)
            self._note_doubles(found, others, doubles)
        return found

    def run(self, register: Register) -> Refilled:
        """Put it back."""
        epochs = {
            name: dict.fromkeys(self._epochs_of(name, register), table.table_id())
            for name, table in self.tables.items()
        }
        now_us = self.registry.clock.now_us()
        register = self.registry.register.change(lambda now: with_refill_begun(now, epochs, now_us))
        fault_point("refill.after_begun")
        known = {(record.datacenter, name) for name, record in register.epochs.items()}
        for datacenter, epoch in sorted(known | {(dc, name) for dc in epochs for name in epochs[dc]}):
            if datacenter in self.tables:
                self._fence(datacenter, epoch)
        fault_point("refill.after_fence")
        done = Refilled(began=True)
        for claims in self._claims(done, "in the registry"):
            self._put_back(claims, done)
            fault_point("refill.after_page")
        fault_point("refill.before_end")
        self.registry.register.change(with_refill_ended)
        return done

    def _epochs_of(self, datacenter: str, register: Register) -> set[str]:
        """The epochs that may have committed to a table, or are about to; some name where there is none."""
        found = set(CommittedRows(self.tables[datacenter]).epochs())
        found |= {name for name, e in register.epochs.items() if e.datacenter == datacenter}
        with open_view(self.pipeline.datacenters[datacenter].state) as state:
            if state is not None and state.epoch is not None:
                found.add(state.epoch)
        return found or {new_id()}

    def _claims(self, done: Refilled, what: str) -> Iterator[list[Claim]]:
        """Those of all rows, page by page; the tables are read when each has its turn."""
        for datacenter, table in self.tables.items():
            for page in CommittedRows(table).all_pages(self.page_rows):
                yield claims_of_rows(page, datacenter, self.pipeline.foreign)
                done.rows += page.num_rows
                self.say(f"{done.rows:,} rows {what}")

    def _put_back(self, claims: Sequence[Claim], done: Refilled) -> None:
        """RegistryUnavailable."""
        before = self.registry.lookup_surely([claim.key for claim in claims])
        held = np.array([isinstance(outcome, Joined) for outcome in before], bool)
        outcomes = self._commit(claims)
        done.too_old += int(outcomes.are(TooOld).sum())
        done.put_back += int((outcomes.are(Won) & ~held).sum())
        others = _held_otherwise(claims, outcomes)
        doubles = self._with_rows([token for _, token in others])
        free = [(claim, token) for claim, token in others if token not in doubles]
        if free:
            released = self.registry.release([Claim(claim.key, token) for claim, token in free])
            _refuse_unknown(released)
            again = self._commit([claim for claim, _ in free])
            done.released += int(again.are(Won).sum())
            others += _held_otherwise([claim for claim, _ in free], again)
            doubles |= self._with_rows([token for _, token in others])
        self._note_doubles(done, others, doubles)
        gone = (claim for claim, one in zip(claims, outcomes, strict=True) if isinstance(one, Released))
        done.doubles += [f"{claim.key.id}: its row's token {claim.token} was released" for claim in gone]

    def _commit(self, claims: Sequence[Claim]) -> Outcomes[CommitOutcome]:
        outcomes = self.registry.put_back(claims)
        _refuse_unknown(outcomes)
        return outcomes

    def _with_rows(self, tokens: Sequence[str], fences: bool = True) -> set[str]:
        """Those that have a row in a table that counts, and of which none may come."""
        retired = retired_datacenters(self.registry.register.read().epochs) if tokens else ()
        elsewhere = {*retired, *self.pipeline.datacenters}
        # Nobody can say it of a datacenter that the pipeline file lacks: its rows may count.
        found = {token for token in tokens if Token.parse(token).plan.datacenter not in elsewhere}
        for datacenter, table in self.tables.items():
            own = [token for token in map(Token.parse, tokens) if token.plan.datacenter == datacenter]
            for epoch in {token.plan.epoch for token in own} if fences else ():
                self._fence(datacenter, epoch)
            found |= {str(token) for token, status in table.row_status_of(own).items() if status == "row"}
        return found

    def _fence(self, datacenter: str, epoch: str) -> None:
        """NotRefilled, LakeUnavailable."""
        if (datacenter, epoch) in self.fenced:
            return
        try:
            self.tables[datacenter].fence(app_id(datacenter, epoch))
        except CommitConflict as error:
            raise NotRefilled(
                f"the table of datacenter {datacenter} was just written: {error}; stop who writes it, then "
                f"again: photon registry refill {self.pipeline.typed}"
            ) from error
        self.fenced.add((datacenter, epoch))

    def _note_doubles(self, found: Refilled, others: Sequence[tuple[Claim, str]], doubles: set[str]) -> None:
        self.doubled |= {claim.token: claim.key.id for claim, token in others if token in doubles}
        found.doubles += [
            f"{claim.key.id}: the row of {claim.token}, and that of {token}, which holds the id"
            for claim, token in others
            if token in doubles
        ]


def _held_otherwise(claims: Sequence[Claim], outcomes: Sequence[object]) -> list[tuple[Claim, str]]:
    """The claims whose id another token holds, and that token. A cleared id has its row, and no token."""
    return [
        (claim, one.holder.token)
        for claim, one in zip(claims, outcomes, strict=True)
        if isinstance(one, Joined | Lost) and one.holder.token not in (None, claim.token)
    ]


def _refuse_unknown(outcomes: Sequence[object]) -> None:
    unknown = [outcome for outcome in outcomes if isinstance(outcome, Unknown)]
    if unknown:
        raise RegistryUnavailable(
            f"{len(unknown):,} ids are not put back yet: {unknown[0].reason}; run it again"
        )
