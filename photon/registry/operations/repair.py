"""Repair one endpoint of a registry while commits go on: a store that lost its data, was restored, or is new.

    members + 1, slot down -> new store -> each id of a majority copied, shard by shard
    -> members + 1, slot up -> members + 1, slot counted for the register -> compare

Each step needs those before it to be chosen. A crash at any point leaves the slot down or fully up. Running
the repair again goes on where it stopped, as long as the members are the same and the new store still has its
position; else it begins anew, with another store. A store is never asked again under its old name (protocol
B10). Why this is safe: docs/proof.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from photon.clock import MICROSECONDS
from photon.faults import fault_point
from photon.ledger.address import table_name
from photon.ledger.errors import RegistryMismatch, RegistryUnavailable
from photon.pipeline.file import Pipeline
from photon.registry.address import RegistryAddress
from photon.registry.consensus.acceptor import NoReply, Stored
from photon.registry.consensus.decisions import majority
from photon.registry.consensus.layout import MARKS_SHARD, REGISTER_KEY, ItemKey, shards_by_config
from photon.registry.consensus.quorums import all_of_them
from photon.registry.consensus.register import (
    Members,
    Register,
    with_slot_down,
    with_slot_up,
    without_fresh_slots,
)
from photon.registry.endpoints.deadline import Unanswered, until_answered
from photon.registry.open import open_registry
from photon.registry.operations.copying import PAGE_ITEMS, SUPERSEDED, Copying, RepairSuperseded
from photon.registry.operations.directory import Directory, EndpointSilent, new_incarnation
from photon.registry.operations.init import ask_endpoint, find_registry
from photon.registry.operations.ranges import (
    ITEMS_BETWEEN_NOTES,
    AtOnce,
    HowFar,
    Position,
    PositionItem,
    Ranges,
    in_threads,
)
from photon.registry.quorum.proposer import QuorumRegistry

# A comparison that died longer ago is over: who repairs that endpoint now may have another reason.
COMPARISON_SECONDS = 86_400.0
POSITION_SECONDS = 1.0  # to read it; the table that it is in may not be there

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that has ended: `copied` ids, and `mended` ones at which endpoints still differed after it.

    If it `went_on` where an earlier run had stopped, that one had copied others.
    """

    endpoint: str
    table: str
    members_version: int
    copied: int
    mended: int
    went_on: bool


def repair_endpoint(
    pipeline: Pipeline, url: str, anew: bool = False, say: Callable[[str], None] = lambda text: None
) -> Repair:
    """Fill a new table at the endpoint with this URL from a majority of the others.

    First take the endpoint out of use, whether or not it answers: so an operator can start a store that was
    restored from a copy after that. Can be run again after a failure: it goes on where it stopped, or with
    `anew` begins with another table. RegistryMismatch if this endpoint can't be repaired, RegistryUnavailable
    if it, or a majority of the others, does not answer, RepairSuperseded, and what `find_registry` raises.
    """
    address = find_registry(pipeline)
    slot = slot_of(address, url)
    registry = open_registry(address)
    directory = Directory(address.endpoints[slot], registry.clock)
    incarnation = new_incarnation()

    def make_store() -> None:
        named = directory.table_of(pipeline.name)
        # After this was read: a later repair then keeps the name that it gave.
        if registry.register.read().members.incarnations[slot] != incarnation:
            raise RepairSuperseded(SUPERSEDED)
        refuse_other_stores(pipeline, address, slot, directory, named)
        if not directory.replace_table_of(pipeline.name, named, table_name(pipeline.name, incarnation)):
            raise RepairSuperseded(SUPERSEDED)

    if slot in address.members.down:  # then nothing is gained by another name for its store
        directory.table_of(pipeline.name)
    done = refill(
        registry,
        slot,
        incarnation,
        make_store,
        timeless_shards=not pipeline.foreign.time_in_id,
        anew=anew,
        say=say,
    )
    table = table_name(pipeline.name, done.members.incarnations[slot])
    _remove_other_tables(registry, directory, address, slot, table)
    return Repair(url, table, done.members.version, done.copied, done.mended, done.went_on)


def slot_of(address: RegistryAddress, url: str) -> int:
    """The slot of the endpoint with this URL; RegistryMismatch if there is none, or no other one."""
    urls = [str(endpoint).rstrip("/") for endpoint in address.endpoints]
    if url.rstrip("/") not in urls:
        raise RegistryMismatch(f"{url} is no endpoint of {address.pipeline}; there are: {', '.join(urls)}")
    if len(urls) == 1:
        raise RegistryMismatch(
            f"{url} is the only endpoint of {address.pipeline}: there is nothing to repair it from."
            " Put its data back, or begin anew (docs/operations.md)"
        )
    return urls.index(url.rstrip("/"))


def _remove_other_tables(
    registry: QuorumRegistry, directory: Directory, address: RegistryAddress, slot: int, table: str
) -> None:
    """Remove the tables that this one has replaced, those of repairs that died among them."""
    try:
        there = directory.tables_of(address.pipeline)
    except EndpointSilent:  # we may have no right to list them
        there = [address.tables[slot]]
    # After these were read: that of a later repair is not among them, or its name is in the register by now.
    if table_name(address.pipeline, registry.register.read().members.incarnations[slot]) != table:
        return
    for one in there:
        if one != table:
            _remove_if_possible(directory, one)


def refuse_other_stores(
    pipeline: Pipeline, address: RegistryAddress, slot: int, directory: Directory, named: str | None
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
    reply = ask_endpoint(pipeline.name, endpoint)
    if isinstance(reply, NoReply):
        raise RegistryUnavailable(f"{endpoint} {reply.problem} ({reply.reason})")
    if reply.register is not None:
        known = {table_name(pipeline.name, name) for name in reply.register.members.incarnations}
        if not known & others:
            raise RegistryMismatch(
                f"{endpoint} has the data of another registry of {pipeline.name} (table {named});"
                " name a store of its own, or remove that table if nobody needs it, then repair it"
            )


def _remove_if_possible(directory: Directory, table: str) -> None:
    """Remove a table. The repair has ended: if it is protected, or the endpoint fell since, only say so."""
    try:
        directory.remove(table)
    except RegistryUnavailable as error:
        log.warning(
            "the table %s at %s is not needed any more, and could not be removed (%s); remove it by hand",
            table,
            directory.endpoint,
            error,
        )


# -- over any acceptors


@dataclass(frozen=True, slots=True)
class Refilled:
    """What a repair did: ids copied to the new store, and ids at which endpoints differed afterwards.

    `went_on`: an earlier run had begun it, and did a part of it.
    """

    members: Members
    copied: int
    mended: int
    went_on: bool


def refill(
    registry: QuorumRegistry,
    slot: int,
    incarnation: str,
    make_store: Callable[[], None],
    page_items: int = PAGE_ITEMS,
    items_between_notes: int = ITEMS_BETWEEN_NOTES,
    timeless_shards: bool = True,
    anew: bool = False,
    run: AtOnce = in_threads,
    say: Callable[[str], None] = lambda text: None,
) -> Refilled:
    """Go on with the repair of a slot, unless there is none or `anew` is wanted; else begin one.

    A new one puts a new store with this incarnation, which `make_store` makes empty, into the slot.
    RegistryUnavailable if no majority of the other endpoints answers, RepairSuperseded if another repair has
    begun since. Either way the slot stays down, and the repair can be run again. `timeless_shards`, `say`: as
    of `gc_pass`.
    """
    register = registry.register
    limits = _Limits(page_items, items_between_notes, timeless_shards, run, say)
    members = register.read().members
    item = _position_item(registry, slot)
    position = None if anew else _read(item, registry)
    is_copied = not anew and _is_copied(members, slot, position, registry.clock.now_us())
    goes_on = is_copied or (position is not None and position.work == _copying(members, slot))
    copied = 0
    if not is_copied:
        if not goes_on:
            members = _take_out(registry, slot, incarnation)
            make_store()
            fault_point("repair.after_table")
            item = _position_item(registry, slot)
        copied = _copy(registry, slot, members, _Progress(item, position), limits)
        fault_point("repair.before_up")
        register.change(lambda now: _up_once(now, members, slot))
        fault_point("repair.after_up")
    mended = _count_and_compare(registry, slot, _Progress(item, position), limits)
    return Refilled(register.read().members, copied, mended, goes_on)


@dataclass(frozen=True)
class _Limits:
    page_items: int
    items_between_notes: int
    timeless_shards: bool
    run: AtOnce
    say: Callable[[str], None]


@dataclass(frozen=True)
class _Progress:
    """Where a repair notes its position, and what was noted when it began."""

    item: PositionItem
    found: Position | None


def _copying(members: Members, slot: int) -> str:
    """The work of copying. What was copied under other members may not be what is chosen now (B11)."""
    return f"copying to {members.incarnations[slot]} under members {members.version}"


def _comparing(members: Members, slot: int) -> str:
    return f"comparing after {members.incarnations[slot]} was filled"


def _is_copied(members: Members, slot: int, position: Position | None, now_us: int) -> bool:
    """Whether a repair of the slot died after its store had come up: only the comparison is left."""
    if slot in members.down:
        return False
    if slot in members.fresh:
        return True
    if position is None or position.work != _comparing(members, slot):
        return False
    return now_us - position.at_us < COMPARISON_SECONDS * MICROSECONDS


def _position_item(registry: QuorumRegistry, slot: int) -> PositionItem:
    """In the store that is being filled: lost with what was copied."""
    return PositionItem(registry.endpoints.alone(registry.endpoints.acceptors[slot]), "repair")


def _read(item: PositionItem, registry: QuorumRegistry) -> Position | None:
    """How far a repair has come; None if there is no such store."""
    try:
        return item.read(registry.endpoints.deadline(POSITION_SECONDS))
    except Unanswered:
        return None


def _take_out(registry: QuorumRegistry, slot: int, incarnation: str) -> Members:
    """The members with the slot out of use, for a store with this incarnation."""
    registry.register.change(without_fresh_slots)
    _require_others(registry.register.read().members, slot)
    _require_answers(registry, slot)
    members = registry.register.change(lambda now: _down_once(now, slot, incarnation)).members
    fault_point("repair.after_down")
    return members


def _copy(registry: QuorumRegistry, slot: int, members: Members, progress: _Progress, limits: _Limits) -> int:
    active, store = registry.endpoints.active, registry.endpoints.acceptors[slot]
    if active.members != members:
        raise RepairSuperseded(SUPERSEDED)
    ranges = _ranges(registry, "copies ids", _copying(members, slot), progress, limits)
    return Copying(registry, active, limits.page_items).copy_to(store, ranges, limits.run)


def _count_and_compare(registry: QuorumRegistry, slot: int, progress: _Progress, limits: _Limits) -> int:
    work = _comparing(registry.register.read().members, slot)
    ranges = _ranges(registry, "compares the endpoints", work, progress, limits)
    ranges.note()  # soon nothing else says that the comparison is left to do
    registry.register.change(without_fresh_slots)
    fault_point("repair.after_counted")
    mended = Copying(registry, registry.endpoints.active, limits.page_items).compare(ranges, limits.run)
    progress.item.forget()
    return mended


def _ranges(registry: QuorumRegistry, what: str, work: str, progress: _Progress, limits: _Limits) -> Ranges:
    """All shards, in an order in which those of a later resharding come last."""
    *timed, fixed = shards_by_config(registry.register.read())
    shards = [
        MARKS_SHARD,
        *(fixed if limits.timeless_shards else ()),
        *(shard for config in timed for shard in config),
    ]
    now_us, between = registry.clock.now_us, limits.items_between_notes
    how_far = HowFar(what, limits.say, registry.clock.elapsed_us)
    return Ranges(shards, work, progress.item, now_us, progress.found, between, how_far)


def _require_others(members: Members, slot: int) -> None:
    n = len(members.incarnations)
    if n - len({*members.down, slot}) < majority(n):
        raise RegistryUnavailable(
            f"too many endpoints are out of use (number {[s + 1 for s in members.down]}): repair those first"
        )


def _require_answers(registry: QuorumRegistry, slot: int) -> None:
    """A majority of the others answers now.

    Without them the change that takes the slot out of use would stay half-way, and nobody could go on:
    neither without the slot nor, as that change may have been chosen, with it.
    """
    endpoints = registry.endpoints

    def ask(keys: Sequence[ItemKey]) -> list[bool | NoReply]:
        (replies,) = endpoints.read(keys, all_of_them)
        answers = [isinstance(reply, Stored) for other, reply in enumerate(replies) if other != slot]
        return [True if sum(answers) >= majority(endpoints.n) else NoReply("too few")]

    try:
        list(until_answered(ask, [REGISTER_KEY], registry.deadline()))
    except Unanswered as error:
        raise RegistryUnavailable(
            f"too few of the other endpoints answer, so nothing was changed; is number {slot + 1} the one"
            " to repair? Bring the others back, or repair the one that is lost"
        ) from error


def _down_once(register: Register, slot: int, incarnation: str) -> Register:
    members = register.members
    if slot in members.down and members.incarnations[slot] == incarnation:
        return register  # it was done, and the answer got lost
    if members.fresh:
        raise RepairSuperseded(SUPERSEDED)
    _require_others(members, slot)
    return with_slot_down(register, slot, incarnation)


def _up_once(register: Register, members: Members, slot: int) -> Register:
    if register.members == members:
        return with_slot_up(register, slot)
    if register.members == with_slot_up(replace(register, members=members), slot).members:
        return register  # it was done, and the answer got lost
    raise RepairSuperseded(SUPERSEDED)
