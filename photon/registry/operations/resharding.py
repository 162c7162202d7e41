"""Change the number of shards of a registry while everything runs, by hand or by policy.

Nothing is moved: old shards stay until gc has emptied them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from photon.clock import MICROSECONDS
from photon.ledger.errors import RegistryUnavailable
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import MOST_SHARDS
from photon.registry.consensus.acceptor import Acceptor, NoReply, StoreSize
from photon.registry.consensus.layout import ItemKey, shards_of, sortable_time, time_of_key
from photon.registry.consensus.register import Register, with_shards
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.registry.quorum.proposer import QuorumRegistry

WINDOW_SECONDS = 600  # commits are counted over this time
SKIPPED_SECONDS = 300  # events of the last minutes may not have been registered yet
_LOOK_BACK_US = (WINDOW_SECONDS + SKIPPED_SECONDS) * MICROSECONDS
SAMPLED_SHARDS = 8  # taken for all
SAMPLED_ITEMS = 10_000  # counted in each of them
# Fewer shards only where each would be filled to no more than half: or growing and shrinking would alternate.
SHRINK_TO_FILL = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """What shards hold, at one endpoint, and the ids a second that they take."""

    ids: int
    bytes: int | None  # None: the endpoint does not count them, so that ids and commits decide
    commits_per_second: float


# AWS serves so many writes a second of one key range, however much a table may take in all. As long as events
# come in the order of time, all that is written to a shard goes to the end of it: one range.
RANGE_WRITES_PER_SECOND = 1_000
# What one shard may bear: half of that, for a range also bears rounds by ballots, and of 10 GB.
SHARD_LIMITS = Load(ids=25_000_000, bytes=4 * 2**30, commits_per_second=RANGE_WRITES_PER_SECOND / 2)


@dataclass(frozen=True, slots=True)
class Resharded:
    """The number of shards asked for before, and the one from `begins_us` on (event time; None: in force)."""

    before: int
    shards: int
    begins_us: int | None


@dataclass(frozen=True, slots=True)
class Advice:
    """What the policy says: the load of all `shards` shards, and another number of them, or None.

    With `awaits_us` this number begins with events of that time, and nothing is proposed until then.
    """

    shards: int
    load: Load
    proposed: int | None
    awaits_us: int | None = None
    applied: Resharded | None = None


def reshard(pipeline: Pipeline, shards: int) -> Resharded:
    """Have this number of shards for events from the registry's horizon on; nobody waits for it.

    Asking for the number that is in force changes nothing, or takes back a change whose time has not come.
    ReshardingRefused where ids carry no time, RegistryUnavailable, and what `find_registry` raises.
    """
    return put_in_force(open_registry(find_registry(pipeline)), shards)


def put_in_force(registry: QuorumRegistry, shards: int) -> Resharded:
    """See `reshard`."""
    before = shards

    def change(register: Register) -> Register:
        nonlocal before
        changed = with_shards(register, shards)
        if changed != register:  # called again because an answer got lost, it meets its own change
            before = register.configs[-1].shards
        return changed

    now = registry.register.change(change)
    begins_us = now.configs[-1].start_us
    return Resharded(before, shards, begins_us if begins_us == now.horizon_us else None)


# -- the policy


def follow_policy(pipeline: Pipeline) -> Advice | None:
    """Ask the policy, and put in force what it proposes if the pipeline file says so.

    None if the policy is off, or ids carry no time: their shards are fixed. RegistryUnavailable,
    ReshardingRefused, and what `find_registry` raises.
    """
    policy = pipeline.registry.resharding.policy
    if policy == "off" or not pipeline.ids_carry_time:
        return None
    registry = open_registry(find_registry(pipeline))
    advice = advise(registry, SHARD_LIMITS)
    if policy == "propose" or advice is None or advice.proposed is None:
        return advice
    return replace(advice, applied=put_in_force(registry, advice.proposed))


def advise(registry: QuorumRegistry, limits: Load) -> Advice | None:
    """What the policy says of this registry now; None where ids carry no time.

    RegistryUnavailable if no endpoint tells its load.
    """
    register, now_us = registry.register.read(), registry.clock.now_us()
    if register.horizon_us is None:
        return None
    load = _load_of(registry, register, now_us)
    present = register.configs[-1]
    if present.start_us is not None and present.start_us > now_us - _LOOK_BACK_US:
        return Advice(present.shards, load, None, awaits_us=present.start_us)
    proposed = proposed_shards(present.shards, load, limits, least=registry.settings.shards)
    return Advice(present.shards, load, proposed)


def proposed_shards(shards: int, load: Load, limits: Load, least: int = 1) -> int | None:
    """Another number of shards, where this one is too small or more than twice too large; else None. Pure.

    Double or halve: few changes, for each adds a config that is never forgotten. Never shrink below `least`,
    nor a registry that takes no ids just now: its joins may be stopped.
    """
    wanted = shards
    while wanted < min(_needed(load, limits, 1.0), MOST_SHARDS):
        wanted = min(2 * wanted, MOST_SHARDS)
    if wanted == shards and load.commits_per_second > 0:
        while wanted // 2 >= least and _needed(load, limits, SHRINK_TO_FILL) <= wanted // 2:
            wanted //= 2
    return None if wanted == shards else wanted


def _needed(load: Load, limits: Load, fill: float) -> int:
    """How many shards keep each within this part of its limits."""
    writes = load.commits_per_second / limits.commits_per_second
    full_shards = max(load.ids / limits.ids, (load.bytes or 0) / (limits.bytes or math.inf), writes)
    return max(1, math.ceil(full_shards / fill))


def _load_of(registry: QuorumRegistry, register: Register, now_us: int) -> Load:
    reason = "no endpoint is in use"
    for acceptor in filter(None, registry.endpoints.active.acceptors):
        size, rate = acceptor.size(), commits_per_second(acceptor, register, now_us)
        if isinstance(size, StoreSize) and not isinstance(rate, NoReply):
            return Load(size.items, size.bytes, rate)
        reason = next(reply.reason for reply in (size, rate) if isinstance(reply, NoReply))
    raise RegistryUnavailable(f"no endpoint of the registry tells its load: {reason}")


def commits_per_second(acceptor: Acceptor, register: Register, now_us: int) -> float | NoReply:
    """The ids a second of all shards, by their events' times, from a sample of the shards.

    Only where ids carry their time.
    """
    begin_us = now_us - _LOOK_BACK_US
    end_us = begin_us + WINDOW_SECONDS * MICROSECONDS
    shards = shards_of(len(register.configs) - 1, register.configs[-1])
    sample = shards[:: max(1, len(shards) // SAMPLED_SHARDS)][:SAMPLED_SHARDS]
    per_second = 0.0
    for shard in sample:
        # Start behind a key that need not be there: a shard is in the order of time.
        after = ItemKey(shard, sortable_time(begin_us))
        page = acceptor.scan_shard(shard, sortable_time(end_us), after, SAMPLED_ITEMS)
        if isinstance(page, NoReply):
            return page
        counted_us = end_us - begin_us if page.last is None else time_of_key(page.last) - begin_us
        per_second += len(page.items) / max(1.0, counted_us / MICROSECONDS)
    return per_second * len(shards) / len(sample)
