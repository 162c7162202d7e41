"""Repair one endpoint of a registry while joins go on: a store that lost its data, was restored, or is new.

    members + 1, slot down -> new store -> an entry behind the end of every ledger -> decided ones are copied
    -> members + 1, slot up -> members + 1, slot counted for the register -> all stores are compared

Each step needs those before it to be chosen. A crash at any point leaves the slot down or fully up. Running
the repair again goes on where it stopped, if the new store is still there; else it begins anew, with another
store. A store is never asked again under its old name (protocol B10).

Why nothing decided is lost: what was confirmed before the slot was down, some other store has; the entry that
is appended then has a majority of the others, and so has all before it, or a copy that names it. What is
decided while the slot is down needs no vote of it: a majority of the others has it, which any later majority
meets.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from photon.pipeline.file import Pipeline
from photon.process.faults import fault_point
from photon.process.pages import page
from photon.registry.address import EndpointAddress, LedgersAddress, table_name, tables_of
from photon.registry.appending import append, everywhere
from photon.registry.entry import Entry, LedgerId
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import find_registry, open_reader, positions_at
from photon.registry.register import Members, Register, with_slot_down, with_slot_up, without_fresh_slots
from photon.registry.stores.copies import REGISTER_KEY, NoReply
from photon.registry.stores.copying import Copying
from photon.registry.stores.decisions import count_answers, majority
from photon.registry.stores.dynamo import DynamoStore
from photon.registry.stores.dynamo_directory import DynamoDirectory
from photon.registry.stores.dynamo_endpoint import DynamoEndpoint
from photon.registry.stores.endpoint import StoreSilent, new_incarnation
from photon.registry.stores.finding import ask_store
from photon.registry.stores.opening import ADMIN_TIMEOUT
from photon.registry.stores.positions import StorePositions
from photon.upkeep.plans import Say, silent

log = logging.getLogger(__name__)

SUPERSEDED = "another repair of this registry has begun since: let that one end"


class RepairSuperseded(RegistryUnavailable):
    """Another repair of this registry has begun since."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that has ended: `copied` entries, and `mended` ones that some endpoint lacked after it.

    If it `went_on` where an earlier run had stopped, that one had copied others.
    """

    endpoint: str
    table: str
    members_version: int
    copied: int
    mended: int
    went_on: bool


@dataclass
class _Repairing:
    """The repair of one slot."""

    pipeline: Pipeline
    address: LedgersAddress
    slot: int
    say: Say

    def __post_init__(self) -> None:
        self.positions: StorePositions = positions_at(self.address)
        self.directory = _server(self.address.endpoints[self.slot]).directory

    def run(self, url: str, anew: bool) -> Repair:
        members = self.positions.read_register().members
        went_on = not anew and self._is_begun(members)
        copied = 0
        if not went_on:
            members = self._take_out()
            self._make_store(members)
            fault_point("repair.after_table")
        if self.slot in members.down:
            copied = self._copy(members)
            fault_point("repair.before_up")
            self.positions.change(lambda now: _up_once(now, members, self.slot))
            fault_point("repair.after_up")
        self.positions.change(without_fresh_slots)
        fault_point("repair.after_counted")
        mended = self._compare()
        members = self.positions.read_register().members
        table = self._table(members)
        self._remove_other_tables(table)
        return Repair(url, table, members.version, copied, mended, went_on)

    def _is_begun(self, members: Members) -> bool:
        """Whether an earlier run has begun it, and the store that it was filling is there."""
        if self.slot in members.fresh:
            return True
        return self.slot in members.down and self.directory.has(self._table(members))

    def _table(self, members: Members) -> str:
        return table_name(self.pipeline.name, members.incarnations[self.slot])

    def _take_out(self) -> Members:
        """The members with the slot out of use, for a store with a new incarnation."""
        members = self.positions.change(without_fresh_slots).members
        _require_others(members, self.slot)
        self._require_answers()
        if self.slot in members.down:  # then nothing is gained by another name for its store
            self.directory.table_of(self.pipeline.name)
        incarnation = new_incarnation()
        members = self.positions.change(lambda now: _down_once(now, self.slot, incarnation)).members
        fault_point("repair.after_down")
        return members

    def _make_store(self, members: Members) -> None:
        named = self.directory.table_of(self.pipeline.name)
        # After this was read: a later repair then keeps the name that it gave.
        if self.positions.read_register().members != members:
            raise RepairSuperseded(SUPERSEDED)
        refuse_other_stores(self.pipeline, self.address, self.slot, self.directory, named)
        if not self.directory.replace_table_of(self.pipeline.name, named, self._table(members)):
            raise RepairSuperseded(SUPERSEDED)

    def _require_answers(self) -> None:
        """A majority of the others answers now.

        Without them the change that takes the slot out of use would stay half-way, and nobody could go on:
        neither without the slot nor, as that change may have been chosen, with it.
        """
        stores = self.positions.stores
        (replies,) = stores.ask(
            stores.active,
            lambda store, key: store.get(key),
            [REGISTER_KEY],
            lambda *_: False,
            self.positions.deadline(),
            slots=[slot for slot in stores.active.slots if slot != self.slot],
        )
        if count_answers(replies) < majority(stores.active.n):
            raise RegistryUnavailable(
                "too few of the other endpoints answer, so nothing was changed; is number"
                f" {self.slot + 1} the one to repair? Bring the others back, or repair the one that is lost"
            )

    @cached_property
    def reader(self) -> IdRegistry:
        """A view of all ledgers, which is read once, and then on: a day may have many small entries."""
        return open_reader(self.pipeline)

    def _copy(self, members: Members) -> int:
        registry = self.reader
        self.positions.read_register()
        active = self.positions.stores.active
        settle(registry)
        if active.members != members or registry.register.members != members:
            raise RepairSuperseded(SUPERSEDED)
        copying = Copying(self.positions, active, registry.register.incarnation, self.say)
        copying.fill(_stores(self.address, members)[self.slot], registry.view.states)
        return copying.copied

    def _compare(self) -> int:
        self.reader.read_on()
        register = self.positions.read_register()
        copying = Copying(self.positions, self.positions.stores.active, register.incarnation)
        return copying.mend(_stores(self.address, register.members), self.reader.view.states)

    def _remove_other_tables(self, table: str) -> None:
        """Remove the tables that this one has replaced, those of repairs that died among them."""
        try:
            there = self.directory.tables_of(self.pipeline.name)
        except StoreSilent:  # we may have no right to list them
            there = [self._table(self.address.members)]
        # After these were read: that of a later repair is not among them, or is in the register by now.
        if self._table(self.positions.read_register().members) != table:
            return
        for one in there:
            if one != table:
                self._remove_if_possible(one)

    def _remove_if_possible(self, table: str) -> None:
        """Remove a table. The repair has ended: if it is protected, or the endpoint fell, only say so."""
        try:
            self.directory.remove(table)
        except RegistryUnavailable as error:
            log.warning(
                "the table %s at %s is not needed any more, and could not be removed (%s); remove it by hand",
                table,
                self.address.endpoints[self.slot],
                error,
            )


def _server(endpoint: EndpointAddress) -> DynamoEndpoint:
    """One of several endpoints: a local registry is a single one."""
    return DynamoEndpoint(endpoint, ADMIN_TIMEOUT, 1)


def _stores(address: LedgersAddress, members: Members) -> list[DynamoStore]:
    tables = tables_of(address.pipeline, members)
    return [_server(one).store(table) for one, table in zip(address.endpoints, tables, strict=True)]


def settle(registry: IdRegistry) -> None:
    """Append an entry to every ledger that takes one, so that all before it has a majority of the stores.

    With a store out of use nobody can prove a seal that is a last entry, nor a genesis: appending settles
    either, and only then the ledgers behind it are known.
    """
    view, positions = registry.view, registry.positions
    settled: set[LedgerId] = set()
    while True:
        everywhere(view, positions, lambda state: None, lambda state: False)  # reads on, opens what is due
        left = [one for one, state in view.states.items() if state.takes_entries and one not in settled]
        if not left:
            return
        settled |= append(view, positions, dict.fromkeys(left, lambda state: Entry()))


def slot_of(address: LedgersAddress, url: str) -> int:
    """The slot of the endpoint with this URL; RegistryMismatch if there is none, or no other one."""
    urls = [str(endpoint).rstrip("/") for endpoint in address.endpoints]
    if url.rstrip("/") not in urls:
        raise RegistryMismatch(f"{url} is no endpoint of {address.pipeline}; there are: {', '.join(urls)}")
    if len(urls) == 1:
        raise RegistryMismatch(
            f"{url} is the only endpoint of {address.pipeline}: there is nothing to repair it from."
            f" Put its data back, or begin anew ({page('docs/operations/backups.md')})"
        )
    return urls.index(url.rstrip("/"))


def refuse_other_stores(
    pipeline: Pipeline, address: LedgersAddress, slot: int, directory: DynamoDirectory, named: str | None
) -> None:
    """Raise RegistryMismatch if this store belongs to another slot, or to another registry."""
    endpoint = address.endpoints[slot]
    others = {table for other, table in enumerate(address.tables) if other != slot}
    if any(directory.has(table) for table in sorted(others)):
        raise RegistryMismatch(
            f"{endpoint} is the store of another endpoint of this registry; name one of its own and repair it"
        )
    if named is None or not directory.has(named):
        return
    reply = ask_store(pipeline.name, endpoint)
    if isinstance(reply, NoReply):
        raise RegistryUnavailable(f"{endpoint} {reply.problem} ({reply.reason})")
    if reply.register is not None:
        known = {table_name(pipeline.name, name) for name in reply.register.members.incarnations}
        if not known & others:
            raise RegistryMismatch(
                f"{endpoint} has the data of another registry of {pipeline.name} (table {named});"
                " name a store of its own, or remove that table if nobody needs it, then repair it"
            )


def _require_others(members: Members, slot: int) -> None:
    n = len(members.incarnations)
    if n - len({*members.down, slot}) < majority(n):
        raise RegistryUnavailable(
            f"too many endpoints are out of use (number {[s + 1 for s in members.down]}): repair those first"
        )


def _down_once(register: Register, slot: int, incarnation: str) -> Register:
    members = register.members
    if slot in members.down and members.incarnations[slot] == incarnation:
        return register  # an earlier call did it, and the answer got lost
    if members.fresh:
        raise RepairSuperseded(SUPERSEDED)
    _require_others(members, slot)
    return with_slot_down(register, slot, incarnation)


def _up_once(register: Register, members: Members, slot: int) -> Register:
    if register.members == members:
        return with_slot_up(register, slot)
    if register.members == with_slot_up(replace(register, members=members), slot).members:
        return register  # an earlier call did it, and the answer got lost
    raise RepairSuperseded(SUPERSEDED)


# -- the plan


@dataclass(frozen=True)
class RepairPlan:
    """A repair to come. Another one that begins meanwhile ends it (RepairSuperseded)."""

    pipeline: Pipeline
    address: LedgersAddress
    slot: int
    anew: bool
    endpoint: str
    is_out_of_use: bool  # an earlier repair did not end
    table: str | None  # the one that its store has now; another one takes its place
    problem: str  # why the endpoint can't be filled now; empty: it answers
    silent_others: tuple[
        str, ...
    ]  # other endpoints without an answer; entries are copied from a majority of the rest

    def apply(self, say: Say = silent) -> Repair:
        """Fill a new table at the endpoint from a majority of the others.

        First take the endpoint out of use, whether or not it answers: so an operator can start a store that
        was restored from a copy after that. Can be run again after a failure: it goes on where it stopped,
        or with `anew` begins with another table. RegistryMismatch if this endpoint can't be repaired,
        RegistryUnavailable if it, or a majority of the others, does not answer, RepairSuperseded.
        """
        return _Repairing(self.pipeline, self.address, self.slot, say).run(self.endpoint, self.anew)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        told = ("endpoint", "is_out_of_use", "table", "problem")
        return {name: getattr(self, name) for name in told} | {"silent": self.silent_others}

    def sentences(self) -> list[str]:
        """For people."""
        others = [f"no answer from {one}, which a repair would do without" for one in self.silent_others]
        if self.problem:
            return [
                f"{self.endpoint} {self.problem}: a repair would take it out of use and end; start its store",
                *others,
            ]
        begin = (
            "an earlier repair did not end: this one would go on where that stopped"
            if self.is_out_of_use
            else f"{self.endpoint} would be taken out of use, and filled from a majority of the others"
        )
        there = "it has no table of this pipeline" if self.table is None else f"in the place of {self.table}"
        return [f"{begin}; it would get a new table: {there}", *others]


def plan_repair(pipeline: Pipeline, url: str, anew: bool = False) -> RepairPlan:
    """Plan the repair of the endpoint with this URL. It refuses what the repair would refuse.

    `anew`: from the beginning, whatever an earlier run has done. Raises what `find_registry` raises, too.
    """
    address = find_registry(pipeline)
    slot = slot_of(address, url)
    replies = [ask_store(pipeline.name, endpoint) for endpoint in address.endpoints]
    silent_others = tuple(
        str(endpoint)
        for other, (endpoint, reply) in enumerate(zip(address.endpoints, replies, strict=True))
        if other != slot and isinstance(reply, NoReply)
    )
    own, is_down = replies[slot], slot in address.members.down
    if isinstance(own, NoReply):
        table, problem = None, f"{own.problem} ({own.reason})"
    else:
        table, problem = own.table, ""
        refuse_other_stores(pipeline, address, slot, _server(address.endpoints[slot]).directory, table)
    return RepairPlan(pipeline, address, slot, anew, url, is_down, table, problem, silent_others)
