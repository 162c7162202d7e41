"""The state of a registry: its shards and what is in them, its endpoints with health and lag, its epochs.

It changes nothing: to see whether an endpoint takes writes, it writes what is there already. It reads a
bounded number of pages. Of a larger registry it always reads the same shards, so that two reports can be
compared.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby, zip_longest
from typing import Any, Literal, get_args

from photon.in_time import NotInTime, Question
from photon.pipeline.file import Pipeline
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
from photon.registry.consensus.register import Register
from photon.registry.dynamodb.answers import bytes_beside_key, item_bytes
from photon.registry.endpoints.deadline import Unanswered, until_answered
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.registry.operations.resharding import RANGE_WRITES_PER_SECOND, commits_per_second
from photon.registry.quorum.proposer import QuorumRegistry

Kind = Literal["held", "cleared", "tombstones", "promised"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_KIND_OF_VALUE: dict[type, Kind] = {Held: "held", Cleared: "cleared", Tombstone: "tombstones"}
Health = Literal["up", "takes no writes", "does not answer", "does not let us in", "out of use"]

PAGE_ITEMS = 1_000
PAGES_OF_A_SHARD = 20  # so that one full shard leaves pages to the others
WRITE_SECONDS = 5.0  # one that only throttles for a moment takes writes
HOT_SHARDS = (
    f"shards take nearly the {RANGE_WRITES_PER_SECOND:,} writes a second that AWS serves of one key range,"
    " and what is beyond is throttled"
)


@dataclass
class ShardState:
    """One shard. The latest of its copies says what an id is; sizes are those of one copy of each id."""

    shard: str
    boundary_us: int | None = None  # gc deletes what is below
    ids: int = 0
    key_bytes: int = 0
    value_bytes: int = 0  # all that is stored beside the key
    held: int = 0  # by a token
    cleared: int = 0  # only its owner's name is left
    tombstones: int = 0  # released
    promised: int = 0  # to somebody, and no more
    whole: bool = True  # false: it has more ids than were read

    def add(self, copies: Collection[Scanned], latest: Stored) -> None:
        """Count one id, which has these copies."""
        any_copy = next(iter(copies))
        self.ids += 1
        self.key_bytes += item_bytes(any_copy) - bytes_beside_key(any_copy)
        self.value_bytes += max(bytes_beside_key(copy) for copy in copies)
        kind = kind_of(latest)
        setattr(self, kind, getattr(self, kind) + 1)


@dataclass
class EndpointState:
    """One endpoint: how it answers, how much it has, and at how many of the ids that were read it is behind.

    Commits that are under way may count as behind.
    """

    number: int  # its place in the pipeline file, from 1
    endpoint: str
    table: str
    health: Health
    problem: str = ""  # why it is not up
    read_ms: float | None = None  # the time of one read
    items: int | None = None  # by its own count, as `bytes`
    bytes: int | None = None
    missing: int = 0  # it has no copy
    older: int = 0  # its copy is older than another endpoint's
    uncleared: int = 0  # its copy has the token, and another endpoint's is cleared

    @property
    def answers(self) -> bool:
        """Whether it can be read, and is compared."""
        return self.health in ("up", "takes no writes")

    @property
    def behind(self) -> int:
        """The ids at which it is behind."""
        return self.missing + self.older + self.uncleared

    def compare(self, own: Stored | None, latest: Stored) -> None:
        """Count it where the copy of one id here is behind the latest one."""
        if latest.value is None:
            return
        if own is None or own.value is None:
            self.missing += 1
        elif is_cleared(latest.value) and not is_cleared(own.value):
            self.uncleared += 1
        elif own.accepted < latest.accepted and not is_cleared(own.value):
            self.older += 1


@dataclass(frozen=True)
class RegistryState:
    """A registry at one time."""

    pipeline: str
    at_us: int
    register: Register
    endpoints: Sequence[EndpointState]
    shards: Sequence[ShardState]  # those that were read
    shards_in_all: int
    # Ids a second that each shard of the latest config takes; None: nobody said, or no key range has a limit.
    shard_rate: float | None = None

    @property
    def shard_load(self) -> float | None:
        """The share of what one key range bears that each shard takes; None as `shard_rate`."""
        return None if self.shard_rate is None else self.shard_rate / RANGE_WRITES_PER_SECOND

    @property
    def whole(self) -> bool:
        """Whether all ids were read, so that sums are the registry's and no sample's."""
        return len(self.shards) == self.shards_in_all and all(shard.whole for shard in self.shards)

    @property
    def coverage(self) -> str:
        """How much of the registry was read, in words."""
        if self.whole:
            return f"all {self.shards_in_all:,} shards"
        part = sum(not shard.whole for shard in self.shards)
        partly = f", {part:,} of them in part" if part else ""
        return f"a sample: {len(self.shards):,} of {self.shards_in_all:,} shards{partly}"

    def total(self, name: str) -> int:
        """The sum of a number over the shards that were read."""
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
            "shard_rate": self.shard_rate,
            **{name: self.total(name) for name in names},
            "horizon_us": self.register.horizon_us,
            "members_version": self.register.members.version,
            "configs": [asdict(config) for config in self.register.configs],
            "endpoints": [{**asdict(one), "behind": one.behind} for one in self.endpoints],
            "epochs": {name: asdict(record) for name, record in self.register.epochs.items()},
            "shards": [asdict(shard) for shard in self.shards],
        }


def how_to_reshard(state: RegistryState, pipeline: Pipeline) -> str:
    """What to do about shards that take too much."""
    twice = 2 * state.register.configs[-1].shards
    return f"photon registry reshard {pipeline.typed} {twice} makes twice as many: that takes a day or two to begin"


def registry_state(
    pipeline: Pipeline, pages: int | None = None, grace_seconds: float | None = None
) -> RegistryState:
    """The state of a pipeline's registry now. RegistryUnavailable, and what `find_registry` raises.

    From at most `pages` pages of each endpoint; 0: of the endpoints alone; None: `registry.state.pages`.
    `grace_seconds`: an endpoint that takes longer does not answer.
    """
    pages = pipeline.registry.state.pages if pages is None else pages
    address = find_registry(pipeline, grace_seconds)
    names = [(str(one), table) for one, table in zip(address.endpoints, address.tables, strict=True)]
    return state_of(open_registry(address), names, pages, grace_seconds)


def state_of(
    registry: QuorumRegistry,
    names: Sequence[tuple[str, str]],
    pages: int,
    grace_seconds: float | None = None,
) -> RegistryState:
    """The state of a registry now, from at most `pages` pages of each endpoint.

    `names`: endpoint and table of each slot, for people. RegistryUnavailable if no majority has the register.
    """
    register = registry.register.read()
    acceptors = registry.endpoints.active.acceptors
    probes = [
        partial(_probed, registry, number, names[number], acceptor)
        for number, acceptor in enumerate(acceptors)
    ]
    if grace_seconds is None:
        endpoints = [probe() for probe in probes]
    else:
        asked = [Question(probe) for probe in probes]
        endpoints = [
            _probed_within(one, number, names[number], grace_seconds) for number, one in enumerate(asked)
        ]
    config_shards = shards_by_config(register)
    shards: list[ShardState] = []
    for shard in sampled(config_shards):
        if pages <= 0:
            break
        readers = [
            _Reader(endpoint, acceptor, shard)
            for endpoint, acceptor in zip(endpoints, acceptors, strict=True)
            if acceptor is not None and endpoint.answers
        ]
        shards.append(_read_shard(ShardState(shard, register.boundary_us), readers))
        pages -= max((reader.pages for reader in readers), default=pages)
    shards.sort(key=lambda state: state.shard)
    return RegistryState(
        register.pipeline,
        registry.clock.now_us(),
        register,
        endpoints,
        shards,
        sum(map(len, config_shards)),
        _shard_rate(registry, register),
    )


def _shard_rate(registry: QuorumRegistry, register: Register) -> float | None:
    """The ids a second of one shard, of the first endpoint that answers; a local server has no key ranges."""
    if register.horizon_us is None or registry.settings.endpoints == "local":
        return None
    for acceptor in filter(None, registry.endpoints.active.acceptors):
        rate = commits_per_second(acceptor, register, registry.clock.now_us())
        if not isinstance(rate, NoReply):
            return rate / register.configs[-1].shards
    return None


def kind_of(latest: Stored) -> Kind:
    """What an id is, by the latest of its copies."""
    return "promised" if latest.value is None else _KIND_OF_VALUE[type(decode_value(latest.value))]


def latest_of(copies: Collection[Stored]) -> Stored:
    """The copy that decides later rounds: a cleared one, else the one of the highest ballot."""
    return max(
        copies, key=lambda c: (c.value is not None, c.value is not None and is_cleared(c.value), c.accepted)
    )


def sampled(shards: Sequence[Sequence[str]]) -> list[str]:
    """All shards in the order in which they are read: of each config in turn, in a mixed order.

    The order is always the same, and so are the shards of a registry's reports while it keeps its configs.
    """
    mixed = [random.Random(len(config)).sample(config, len(config)) for config in shards]
    return [shard for turn in zip_longest(*mixed) for shard in turn if shard is not None]


def _probed(
    registry: QuorumRegistry, number: int, name: tuple[str, str], acceptor: Acceptor | None
) -> EndpointState:
    if acceptor is None:
        return EndpointState(
            number + 1, *name, "out of use", "until a repair of it has ended: one runs, or died"
        )
    began_us = registry.clock.now_us()
    (reply,) = acceptor.read([REGISTER_KEY])
    if isinstance(reply, NoReply):
        return EndpointState(number + 1, *name, reply.problem, reply.reason)
    state = EndpointState(number + 1, *name, "up", read_ms=(registry.clock.now_us() - began_us) / 1_000)
    refusal = None if reply.value is None else _refused_write(registry, acceptor, reply.value)
    if refusal is not None:  # a full disk, a right that is missing: it answers, and gets behind
        state.health, state.problem = "takes no writes", refusal
    size = acceptor.size()
    if isinstance(size, StoreSize):
        state.items, state.bytes = size.items, size.bytes
    return state


def _probed_within(
    asked: Question[EndpointState], number: int, name: tuple[str, str], seconds: float
) -> EndpointState:
    try:
        return asked.answer(seconds)
    except NotInTime as error:
        return EndpointState(number + 1, *name, "does not answer", str(error))


def _refused_write(registry: QuorumRegistry, acceptor: Acceptor, text: str) -> str | None:
    """Write its own register over itself: why the endpoint does not take that; None if it does."""
    write = Replace(REGISTER_KEY, text, text)
    try:
        # Done, or somebody has changed it: either way the endpoint takes writes.
        list(until_answered(acceptor.replace, [write], registry.endpoints.deadline(WRITE_SECONDS)))
    except Unanswered as error:
        return str(error)
    return None


@dataclass
class _Reader:
    """The items of one shard at one endpoint, in the order of their keys, a page at a time."""

    endpoint: EndpointState
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
                yield self.endpoint.number, item
            if page.last is None:
                return
            after = page.last
        self.read_to = last

    def has_read(self, key: str) -> bool:
        """Whether it would have found an item of this key."""
        return self.read_to is None or key <= self.read_to


def _read_shard(state: ShardState, readers: Sequence[_Reader]) -> ShardState:
    """Count the ids of a shard, and compare the endpoints, as far as all of them were read."""
    merged = heapq.merge(*readers, key=lambda found: found[1].key.s)
    for key, group in groupby(merged, key=lambda found: found[1].key.s):
        copies = dict(group)  # by the number of the endpoint
        if any(not reader.has_read(key) and not reader.problem for reader in readers):
            state.whole = False
            break
        latest = latest_of([copy.stored for copy in copies.values()])
        state.add(copies.values(), latest)
        for reader in readers:
            if reader.has_read(key):
                own = copies.get(reader.endpoint.number)
                reader.endpoint.compare(None if own is None else own.stored, latest)
    for reader in readers:
        if reader.problem:
            reader.endpoint.health, reader.endpoint.problem = "does not answer", reader.problem
            state.whole = False
    return state
