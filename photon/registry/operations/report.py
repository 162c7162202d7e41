"""How a registry stands: its shards and what is in them, its endpoints with health and lag, its epochs.

Looks at stores and counts, within bounds; decides nothing, and changes nothing: what it writes, to see
whether it may, is there already. A registry that is too large to be looked at whole is sampled, always by the
same shards, so that two reports can be compared. Who shows it is `photon.cli.registry` and
`assets.registry_state`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, zip_longest
from typing import Any, Literal, get_args

from photon.clock import Clock
from photon.pipeline.file import Pipeline, StateReport
from photon.registry.consensus.acceptor import Acceptor, NoReply, Replace, Scanned, Stored, StoreSize
from photon.registry.consensus.layout import (
    REGISTER_KEY,
    Cleared,
    Held,
    Tombstone,
    decode_value,
    is_cleared,
    shards_by_config,
)
from photon.registry.consensus.proposer import QuorumRegistry
from photon.registry.consensus.register import Members, Register
from photon.registry.dynamodb.answers import bytes_beside_key, item_bytes
from photon.registry.endpoints.endpoints import Deadline
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry

Kind = Literal["held", "cleared", "tombstones", "promised"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Health = Literal["up", "takes no writes", "does not answer", "out of use"]

PAGE_ITEMS = 1_000
PAGES_OF_A_SHARD = 20  # so that one full shard leaves pages to the others
WRITE_SECONDS = 5.0  # one that only throttles for a moment takes writes


@dataclass
class ShardState:
    """One shard, collected up to `boundary_us`. Sizes are those at an endpoint that has all of its ids.

    Ids are `held` by a token, `cleared` to their owner's name, released (`tombstones`), or only `promised` to
    somebody, as the latest of their copies says. With `whole` false there are more ids than were looked at.
    """

    shard: str
    boundary_us: int | None = None
    ids: int = 0
    key_bytes: int = 0
    value_bytes: int = 0  # all that is stored beside the key
    held: int = 0
    cleared: int = 0
    tombstones: int = 0
    promised: int = 0
    whole: bool = True

    def add(self, copies: Sequence[Scanned]) -> None:
        """Count one id, of which there are these copies."""
        beside = max(bytes_beside_key(copy) for copy in copies)
        self.ids += 1
        self.key_bytes += item_bytes(copies[0]) - bytes_beside_key(copies[0])
        self.value_bytes += beside
        kind = kind_of([copy.stored for copy in copies])
        setattr(self, kind, getattr(self, kind) + 1)


@dataclass
class EndpointState:
    """One endpoint: how it answers, how much it has by its own count, and how far it is behind.

    Of the ids that were looked at it has no copy (`missing`), an `older` one, or one that still has the token
    where another endpoint is cleared (`uncleared`). Commits that are under way may be among them.
    """

    number: int
    endpoint: str
    table: str
    health: Health
    problem: str = ""
    read_ms: float | None = None
    items: int | None = None
    bytes: int | None = None
    missing: int = 0
    older: int = 0
    uncleared: int = 0

    @property
    def answers(self) -> bool:
        """Whether it can be read, and is compared."""
        return self.health in ("up", "takes no writes")

    @property
    def behind(self) -> int:
        """The ids at which it is behind."""
        return self.missing + self.older + self.uncleared


@dataclass(frozen=True)
class RegistryState:
    """A registry at one time. `shards_in_all` is how many there are; not all of them need be in `shards`."""

    pipeline: str
    at_us: int
    register: Register
    endpoints: Sequence[EndpointState]
    shards: Sequence[ShardState]
    shards_in_all: int

    @property
    def whole(self) -> bool:
        """Whether all ids were looked at, so that sums are the registry's and no sample's."""
        return len(self.shards) == self.shards_in_all and all(shard.whole for shard in self.shards)

    @property
    def looked_at(self) -> str:
        """How much of the registry sums are about, in words."""
        if self.whole:
            return f"all {self.shards_in_all:,} shards"
        part = sum(not shard.whole for shard in self.shards)
        partly = f", {part:,} of them in part" if part else ""
        return f"a sample: {len(self.shards):,} of {self.shards_in_all:,} shards{partly}"

    def total(self, name: str) -> int:
        """The sum of a number over the shards that were looked at."""
        return sum(getattr(shard, name) for shard in self.shards)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        names = ("ids", "key_bytes", "value_bytes", *KINDS)
        return {
            "pipeline": self.pipeline,
            "at_us": self.at_us,
            "whole": self.whole,
            "shards_in_all": self.shards_in_all,
            "shards_looked_at": len(self.shards),
            **{name: self.total(name) for name in names},
            "horizon_us": self.register.horizon_us,
            "members_version": self.register.members.version,
            "configs": [asdict(config) for config in self.register.configs],
            "endpoints": [{**asdict(one), "behind": one.behind} for one in self.endpoints],
            "epochs": {name: asdict(record) for name, record in self.register.epochs.items()},
            "shards": [asdict(shard) for shard in self.shards],
        }


def look_at_registry(pipeline: Pipeline, clock: Clock) -> RegistryState:
    """How the registry of a pipeline stands now. RegistryUnavailable, and what `find_registry` raises."""
    address = find_registry(pipeline)
    names = [(str(one), table) for one, table in zip(address.endpoints, address.tables, strict=True)]
    return state_of(open_registry(address), names, pipeline.registry.state, clock)


def state_of(
    registry: QuorumRegistry,
    names: Sequence[tuple[str, str]],
    settings: StateReport,
    clock: Clock,
) -> RegistryState:
    """How the registry stands now. `names`: endpoint and table of each slot, for people.

    RegistryUnavailable if no majority has the register.
    """
    register = registry.register.read()
    acceptors = registry.endpoints.active.acceptors
    endpoints = [
        _probed(number, names[number], acceptor, register.members, clock)
        for number, acceptor in enumerate(acceptors)
    ]
    look = _Look(acceptors, endpoints, register, settings)
    shards = look.at_shards()
    in_all = sum(len(config) for config in shards_by_config(register))
    return RegistryState(register.pipeline, clock.now_us(), register, endpoints, shards, in_all)


def kind_of(copies: Sequence[Stored]) -> Kind:
    """What an id is, from its copies at the endpoints that have one."""
    value = latest_of(copies).value
    match decode_value(value) if value is not None else None:
        case Held():
            return "held"
        case Cleared():
            return "cleared"
        case Tombstone():
            return "tombstones"
    return "promised"


def sampled(shards: Sequence[Sequence[str]]) -> list[str]:
    """All shards in the order in which they are looked at: of each config in turn, in a mixed order.

    Always the same one, so that a registry's reports are about the same shards as long as there are these.
    """
    mixed = [random.Random(len(config)).sample(config, len(config)) for config in shards]
    return [shard for turn in zip_longest(*mixed) for shard in turn if shard is not None]


def _probed(
    number: int, name: tuple[str, str], acceptor: Acceptor | None, members: Members, clock: Clock
) -> EndpointState:
    if acceptor is None or number in members.down:
        return EndpointState(
            number + 1, *name, "out of use", "until a repair of it has ended: one runs, or died"
        )
    began_us = clock.now_us()
    (reply,) = acceptor.read([REGISTER_KEY])
    if isinstance(reply, NoReply):
        return EndpointState(number + 1, *name, "does not answer", reply.reason)
    state = EndpointState(number + 1, *name, "up", read_ms=(clock.now_us() - began_us) / 1_000)
    refusal = _refused_write(acceptor, reply, clock)
    if refusal is not None:  # a full disk, a right that is missing: it answers, and gets behind
        state.health, state.problem = "takes no writes", refusal.reason
    size = acceptor.size()
    if isinstance(size, StoreSize):
        state.items, state.bytes = size.items, size.bytes
    return state


def _refused_write(acceptor: Acceptor, register: Stored, clock: Clock) -> NoReply | None:
    """What it says to its own register being written over itself, if that is not done; None if it is."""
    if register.value is None:
        return None
    deadline = Deadline(clock, WRITE_SECONDS)
    while True:
        (reply,) = acceptor.replace([Replace(REGISTER_KEY, register.value, register.value)])
        if not isinstance(reply, NoReply):  # done, or it was changed meanwhile
            return None
        if not deadline.pause():
            return reply


@dataclass
class _Reader:
    """The items of one shard at one endpoint, in the order of their keys, a page at a time."""

    slot: int
    acceptor: Acceptor
    shard: str
    pages: int = 0
    problem: str = ""  # why it stopped early, if the endpoint did not answer
    read_to: str | None = None  # None: to the end of the shard

    def __iter__(self) -> Iterator[tuple[int, Scanned]]:
        last, after = "", None
        while self.pages < PAGES_OF_A_SHARD:
            page = self.acceptor.scan_shard(self.shard, "", after, PAGE_ITEMS)
            self.pages += 1
            if isinstance(page, NoReply):
                self.problem = page.reason
                break
            for item in page.items:
                last = item.key.s
                yield self.slot, item
            if page.last is None:
                return
            after = page.last
        self.read_to = last

    def has_read(self, key: str) -> bool:
        """Whether it would have found an item of this key."""
        return self.read_to is None or key <= self.read_to


@dataclass
class _Look:
    """A look at as many items as the settings allow, at all endpoints that answer."""

    acceptors: Sequence[Acceptor | None]
    endpoints: Sequence[EndpointState]
    register: Register
    settings: StateReport
    pages: int = 0  # read so far at the endpoint that was asked most

    def at_shards(self) -> list[ShardState]:
        """Shard after shard until the pages are used up, in the order of their names."""
        found = []
        for shard in sampled(shards_by_config(self.register)):
            if self.pages >= self.settings.pages:
                break
            found.append(self._at(shard))
        return sorted(found, key=lambda state: state.shard)

    def _at(self, shard: str) -> ShardState:
        state = ShardState(shard, self.register.boundary_us)
        readers = [
            _Reader(slot, acceptor, shard)
            for slot, acceptor in enumerate(self.acceptors)
            if acceptor is not None and self.endpoints[slot].answers
        ]
        merged = heapq.merge(*readers, key=lambda found: found[1].key.s)
        for key, group in groupby(merged, key=lambda found: found[1].key.s):
            copies = dict(group)
            if any(not reader.has_read(key) and not reader.problem for reader in readers):
                state.whole = False
                break
            state.add(list(copies.values()))
            for reader in readers:
                if reader.has_read(key):
                    compare(self.endpoints[reader.slot], copies.get(reader.slot), list(copies.values()))
        for reader in readers:
            if reader.problem:
                one = self.endpoints[reader.slot]
                one.health, one.problem, state.whole = "does not answer", reader.problem, False
        self.pages += max((reader.pages for reader in readers), default=self.settings.pages)
        return state


def compare(endpoint: EndpointState, own: Scanned | None, copies: Sequence[Scanned]) -> None:
    """Count it where an endpoint is behind the others at one id, of which these copies are everywhere."""
    latest = latest_of([copy.stored for copy in copies])
    if latest.value is None:
        return
    if own is None or own.stored.value is None:
        endpoint.missing += 1
    elif is_cleared(latest.value) and not is_cleared(own.stored.value):
        endpoint.uncleared += 1
    elif own.stored.accepted < latest.accepted and not is_cleared(own.stored.value):
        endpoint.older += 1


def latest_of(copies: Sequence[Stored]) -> Stored:
    """The copy that later rounds go by: a cleared one, else the one of the highest ballot."""
    return max(
        copies, key=lambda c: (c.value is not None, c.value is not None and is_cleared(c.value), c.accepted)
    )
