"""Notice a registry that is behind a lake: it was put back to an older copy of itself (protocol A23).

Ids are registered before their rows are committed, batch after batch. So a registry that lacks any id of a
row lacks those of the newest rows too, and a few lookups tell. Who finds that joins nothing: each row whose
id is lacking could be joined a second time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from photon.clock import MICROSECONDS, Clock
from photon.ledger.errors import RegistryMismatch, RegistryUnavailable
from photon.pipeline.event_key import event_key
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import ForeignLog
from photon.recovery.distant_lakes import DistantLakes
from photon.recovery.doubled import note_doubled
from photon.registry.consensus.marks import NO_MARK, Mark
from photon.registry.consensus.register import EpochRecord, Register, live_epochs, retired_datacenters
from photon.registry.interface import BeyondHorizon, Claim, Free, Joined, LookupOutcome
from photon.registry.operations.init import endpoints_of
from photon.registry.quorum.proposer import QuorumRegistry
from photon.storage.delta import LakeUnavailable
from photon.storage.joined_rows import CommittedRows, rows_in
from photon.storage.output_files import OutputFile
from photon.storage.tables import OutputTable
from photon.tokens import Occurrence, PlanKey, Token

log = logging.getLogger(__name__)

# Before a batch a process asks again whether the registry has its newest rows, unless it did so lately; and
# in any case before it commits rows, since a server can be stopped and started with other data in less.
CONFIRM_US = MICROSECONDS
# A batch whose tasks took so long may have met another registry than it began with: they ask it themselves.
LONG_US = 2 * MICROSECONDS
MOST_CONFIRMED = 8  # rows of each datacenter, in one request: the batch waits for it
# An idle process asks for people's decisions twice as often (`holders.HOLD_US`): one that has heard nothing
# for so long was stopped itself, and whatever was put back meanwhile, the tables of all tell.
SILENT_US = 10 * MICROSECONDS
# Looked up at once, some 2 ms. Of a batch with more rows every n-th: what a task registers in one call lies
# together in its file, so a registry that was copied in the middle of the batch lacks some of these.
MOST_ROWS = 1_000
# How far to go back where the newest rows prove nothing: below the boundary, or cleared.
MOST_BATCHES = 8


@dataclass(frozen=True, slots=True)
class Lacking:
    """A row whose id the registry does not have for it: another token holds it, or nobody (None)."""

    datacenter: str
    claim: Claim
    holder: str | None


def claims_of_rows(rows: pa.Table, datacenter: str, foreign: ForeignLog) -> list[Claim]:
    """With which tokens rows were registered.

    One without its event's time is left out where the id needs it: it can't be told from others of its id.
    """
    if foreign.time_in_id:
        rows = rows.filter(pc.is_valid(rows["_event_time"]))
    times_us = rows["_event_time"].cast(pa.int64()).to_pylist()
    names = ("_event_id", "_epoch", "_batch", "_plan", "_occurrence")
    ids, epochs, batches, plans, occurrences = (rows[name].to_pylist() for name in names)
    tokens = (
        PlanKey(datacenter, epoch, batch, plan or "").token(Occurrence.parse(occurrence))
        for epoch, batch, plan, occurrence in zip(epochs, batches, plans, occurrences, strict=True)
    )
    return [
        Claim(event_key(event_id, time_us, foreign), token)
        for event_id, time_us, token in zip(ids, times_us, tokens, strict=True)
    ]


def judge(datacenter: str, claim: Claim, outcome: LookupOutcome) -> Lacking | bool:
    """Judge a row by the registry's answer: lacking; True: it is the row's own; False: it proves nothing.

    An id below the boundary may be deleted. A cleared one says nothing of when it was registered. Nobody
    registers beyond the horizon, and a registry that has not been put back has it beyond all rows. A row is
    its holder's by its plan, not by its place: a person may have altered that, which verification tells.
    """
    match outcome:
        case Free() | BeyondHorizon():
            return Lacking(datacenter, claim, None)
        case Joined(holder) if holder.token is not None:
            if holder.token == claim.token:  # nearly always: a thousand rows are judged at once
                return True
            is_own = Token.parse(holder.token).plan == Token.parse(claim.token).plan
            return is_own or Lacking(datacenter, claim, holder.token)
    return False


def epochs_to_look_at(with_rows: Sequence[str], known: Mapping[str, EpochRecord]) -> list[str]:
    """Those of a table's epochs whose newest rows say all: one begins after the one before has ended.

    Those that the registry does not know, since it may be older than they are; and the last one that it does.
    """
    unknown = [name for name in with_rows if name not in known]
    order = sorted(
        (name for name in with_rows if name in known),
        key=lambda name: (known[name].since_us, known[name].state == "live"),
    )
    return [*unknown, *order[-1:]]


@dataclass
class RegistryWatch:
    """Compares a registry with the newest rows of all tables that can be read, for one datacenter's join.

    `table`: the datacenter's own. `asks_aside` False: for tests whose time is not the machine's.
    """

    pipeline: Pipeline
    datacenter: str
    registry: QuorumRegistry
    table: OutputTable
    clock: Clock
    asks_aside: bool = True
    _lakes: DistantLakes = field(init=False)
    _confirmed_us: int | None = None  # None: it was away since, and may be another one
    _heard_us: int = 0
    _marks: dict[str, Mark] = field(default_factory=dict)  # the greatest of each epoch that was seen
    _seen: dict[str, list[Claim]] = field(default_factory=dict)  # rows that it had, by datacenter
    _others: dict[str, OutputTable] = field(default_factory=dict)  # tables, which are read again and again
    _committed: Sequence[OutputFile] = ()  # since then, by this process

    def __post_init__(self) -> None:
        self._lakes = DistantLakes(self.pipeline.recovery.lake_timeout, self.asks_aside)

    def check(self) -> None:
        """Refuse a registry that lacks a newest row. RegistryMismatch; LakeUnavailable of the own table.

        A row may be gone by the time that the registry is asked, with its id: look at it again then.
        """
        register = self.registry.register.read()
        self._refuse_stores_put_back(register)
        found = [row for name in self._that_count(register) for row in self._lacking_of(name, register)]
        still = [row for row in found if self._still_lacks(row)]
        if still:
            raise self._mismatch(still[0])
        self._confirmed_us = self._heard_us = self.clock.elapsed_us()

    def heard(self, marks: Mapping[str, Mark]) -> None:
        """The registry has answered, with these marks. One that is smaller than it was has been put back."""
        if any(mark < self._marks.get(epoch, NO_MARK) for epoch, mark in marks.items()):
            self.doubt()
            self._marks.clear()
        self._marks.update(marks)
        self._heard_us = self.clock.elapsed_us()

    def confirm(self) -> None:
        """The same before ids are registered, by a few of the rows that were seen last, if it is due.

        RegistryMismatch, RegistryUnavailable, LakeUnavailable.
        """
        if self._confirmed_us is None or self.clock.elapsed_us() - self._confirmed_us >= CONFIRM_US:
            self._confirm()

    def confirm_wins(self, rows: Sequence[OutputFile]) -> None:
        """The same before rows are committed, and whether the registry still has what won for these.

        RegistryMismatch, LakeUnavailable; RegistryUnavailable: the batch is to be run again.
        """
        if self._confirmed_us is None or self.clock.elapsed_us() - self._confirmed_us >= LONG_US:
            self.check()
        self._confirm()
        self._refuse_lost_wins(rows)

    def _refuse_lost_wins(self, rows: Sequence[OutputFile]) -> None:
        """The last look before a commit: these ids are the newest of all, so a copy lacks them first.

        RegistryUnavailable.
        """
        claims = self._claims(_some(rows_in(self.table, rows), MOST_CONFIRMED), self.datacenter)
        outcomes = self.registry.lookup_surely([claim.key for claim in claims])
        if any(
            isinstance(judge(self.datacenter, *each), Lacking) for each in zip(claims, outcomes, strict=True)
        ):
            raise RegistryUnavailable(
                "the registry does not have what this batch has registered: a copy was put back since"
            )

    def _refuse_stores_put_back(self, register: Register) -> None:
        """A store that has forgotten what it had makes ids free that the newest rows say nothing of.

        They may have been registered while it was away. RegistryMismatch.
        """
        slots = self.registry.marks.put_back(live_epochs(register.epochs))
        if slots:
            raise store_was_put_back(self.pipeline, slots)

    def _confirm(self) -> None:
        now_us = self.clock.elapsed_us()
        if self._confirmed_us is None or now_us - self._heard_us > SILENT_US:
            self.check()
            return
        if self.registry.endpoints.n > 1:
            self._refuse_stores_put_back(self.registry.register.read())
        seen = [(name, claim) for name, claims in self._seen.items() for claim in claims]
        newest: list[Claim] = []
        if self._committed:
            rows = rows_in(self.table, self._committed)
            newest = self._claims(_some(rows, MOST_CONFIRMED), self.datacenter)
            seen += [(self.datacenter, claim) for claim in newest]
        outcomes = self.registry.lookup_surely([claim.key for _, claim in seen])
        if any(
            isinstance(judge(name, claim, outcome), Lacking)
            for (name, claim), outcome in zip(seen, outcomes, strict=True)
        ):
            self.check()
        if newest:
            self._seen[self.datacenter], self._committed = newest, ()
        self._confirmed_us = self._heard_us = self.clock.elapsed_us()

    def doubt(self) -> None:
        """The registry was away: when it is back it may be an older copy."""
        self._confirmed_us = None

    def committed(self, files: Sequence[OutputFile]) -> None:
        """These files have the newest rows of the own table from now on."""
        self._committed = files or self._committed

    # -- one table

    def _that_count(self, register: Register) -> list[str]:
        """The datacenters whose rows count, the own one first."""
        others = {*self.pipeline.datacenters} - {self.datacenter} - retired_datacenters(register.epochs)
        return [self.datacenter, *sorted(others)]

    def _lacking_of(self, datacenter: str, register: Register) -> list[Lacking]:
        if datacenter == self.datacenter:
            return self._lacking_in(self.table, datacenter, register)
        lake = self.pipeline.datacenters[datacenter].lake
        table = self._others.setdefault(datacenter, OutputTable(lake, "joined_events"))
        try:
            return self._lakes.ask(datacenter, partial(self._lacking_in_other, table, datacenter, register))
        except LakeUnavailable as error:
            log.info("whether the registry has the rows of datacenter %s is not known: %s", datacenter, error)
            return []

    def _lacking_in_other(self, table: OutputTable, datacenter: str, register: Register) -> list[Lacking]:
        """Nothing of a table that is not the one which the registry knows: its own join refuses it."""
        if not table.exists():
            return []
        known = {e.table_id for e in register.epochs.values() if e.datacenter == datacenter}
        return self._lacking_in(table, datacenter, register) if table.table_id() in known or not known else []

    def _lacking_in(self, table: OutputTable, datacenter: str, register: Register) -> list[Lacking]:
        committed, found = CommittedRows(table), list[Lacking]()
        own = {name: e for name, e in register.epochs.items() if e.datacenter == datacenter}
        for epoch in epochs_to_look_at(committed.epochs(), own):
            for rows in committed.newest(epoch, MOST_BATCHES):
                claims = self._claims(_some(rows, MOST_ROWS), datacenter)
                outcomes = self.registry.lookup_surely([claim.key for claim in claims])
                says = [judge(datacenter, *each) for each in zip(claims, outcomes, strict=True)]
                lacking = [one for one in says if isinstance(one, Lacking)]
                doubled = [one for one in lacking if self._has_row(one)]
                found += [one for one in lacking if one not in doubled]
                self._tell_doubled(doubled)
                if any(says):
                    self._seen[datacenter] = claims[:: len(claims) // MOST_CONFIRMED + 1]
                    break
        return found

    def _still_lacks(self, row: Lacking) -> bool:
        """Whether that row is still in its table, and counts, and its id is still lacking."""
        if row.datacenter not in self._that_count(self.registry.register.read()):
            return False
        table = self.table if row.datacenter == self.datacenter else self._others[row.datacenter]
        token = Token.parse(row.claim.token)
        if self._lakes.ask(row.datacenter, partial(table.row_status_of, [token]))[token] != "row":
            return False
        (outcome,) = self.registry.lookup_surely([row.claim.key])
        said = judge(row.datacenter, row.claim, outcome)
        return isinstance(said, Lacking) and not self._has_row(said)

    def _claims(self, rows: pa.Table, datacenter: str) -> list[Claim]:
        return claims_of_rows(rows, datacenter, self.pipeline.foreign)

    def _tell_doubled(self, doubled: Sequence[Lacking]) -> None:
        """Second rows of events: no reason to stop, and somebody has to know."""
        if not doubled:
            return
        log.warning(
            "%d of the newest rows of datacenter %s are second rows of their events, such as that of %r: "
            "photon verify %s says what to do",
            len(doubled), doubled[0].datacenter, doubled[0].claim.key.id, self.pipeline.typed,
        )  # fmt: skip
        state = self.pipeline.datacenters[self.datacenter].state
        with suppress(OSError):  # of a full disk: the next look notes them
            note_doubled(state, {one.claim.token: one.claim.key.id for one in doubled})

    def _has_row(self, lacking: Lacking) -> bool:
        """Whether the token that holds the id has a row: then the event has two, and gets no third one."""
        if lacking.holder is None:
            return False
        token = Token.parse(lacking.holder)
        place = self.pipeline.datacenters.get(token.plan.datacenter)
        if place is None:
            return False
        table = OutputTable(place.lake, "joined_events")
        ask = partial(table.row_status_of, [token])
        return table.exists() and self._lakes.ask(token.plan.datacenter, ask)[token] == "row"

    def _mismatch(self, lacking: Lacking) -> RegistryMismatch:
        place = self.pipeline.datacenters[lacking.datacenter].lake / "joined_events"
        by = "nobody has" if lacking.holder is None else f"{lacking.holder} has"
        of_row = f"the id {lacking.claim.key.id!r} of the row {lacking.claim.token} in the table {place}"
        return lake_is_ahead(self.pipeline, f"{by} {of_row}")


def lake_is_ahead(pipeline: Pipeline, why: str) -> RegistryMismatch:
    """The error of a registry that lacks what a lake has: both are named, and what to do."""
    places = ", ".join(map(str, endpoints_of(pipeline)))
    return RegistryMismatch(
        f"the registry of {pipeline.name} ({places}) is older than the lake: {why}. "
        "It was put back from a copy, or is another one, and events would be joined a second time; nothing "
        "is joined. Put the ids of all rows back into it, with every datacenter stopped: "
        f"photon registry refill {pipeline.typed}"
    )


def store_was_put_back(pipeline: Pipeline, slots: Sequence[int]) -> RegistryMismatch:
    """The error of endpoints that lack what they had, and what to do."""
    urls = dict(enumerate(endpoints_of(pipeline)))
    places = ", ".join(f"endpoint {slot + 1} ({urls.get(slot, 'unnamed')})" for slot in slots)
    return RegistryMismatch(
        f"the registry of {pipeline.name} is older than the lake at {places}: it has less than the others "
        "have seen there. It was put back from a copy, and events would be joined a second time; nothing is "
        "joined. Put the ids of all rows back into it, with every datacenter stopped: "
        f"photon registry refill {pipeline.typed}"
    )


def _some(rows: pa.Table, most: int) -> pa.Table:
    """At most so many of the rows, evenly."""
    step = -(-rows.num_rows // most) or 1
    return rows.take(pa.array(range(0, rows.num_rows, step)))
