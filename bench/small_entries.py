"""The cost of a day of small entries: a view made from nothing, looks at what is new, a repair, and a drop.

Two entries a second, as of a live datacenter with ten events a second: one ledger, on three dynoxides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.ledger_rates import EPOCH, claims_of, cpu_seconds, new_hashes, new_registry, registry_pipeline
from bench.timing import Spent, timed
from infra.servers.stores import StoreServer, store_servers
from photon.dispatcher.recovery.registry_watch import LOOK_US
from photon.pipeline.sections import Registry
from photon.process.clock import MICROSECONDS, SystemClock
from photon.registry.address import LedgersAddress
from photon.registry.entry import Claimant, Close, Entry, Genesis, LedgerId
from photon.registry.form import checksum, encode
from photon.registry.generations import drop, raise_boundary, roll
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import init_registry, positions_at
from photon.registry.stores.copies import Copy, Key, NoReply, ledger_key
from photon.registry.stores.dynamo import WRITTEN_AT_ONCE
from photon.registry.stores.dynamo_endpoint import DynamoEndpoint
from photon.registry.stores.opening import ADMIN_TIMEOUT
from photon.upkeep.repair import plan_repair

ENTRIES = 172_800  # two a second
IDS_AN_ENTRY = 5
STORES = 3
LOOKS = 100
R = TypeVar("R")
DAY_US = 86_400 * MICROSECONDS


@dataclass(frozen=True, slots=True)
class SmallEntries:
    """Seconds by the clock; CPU is that of client and stores together."""

    entries: int
    view_seconds: float
    view_cpu_seconds: float
    polling: float  # the share of a core that looks of an idle join take
    repair_seconds: float
    drop_seconds: float


def measure_small_entries(folder: Path, settings: Registry, count: int = ENTRIES) -> SmallEntries:
    """Put the entries of a day into stores, and do what is done with them."""
    with store_servers("dynoxide", folder, STORES) as servers:
        pipeline = registry_pipeline(servers, settings)
        address = init_registry(pipeline, SystemClock())
        _fill(address, entries(count))
        positions = positions_at(address)
        registry, viewed = _timed(servers, lambda: new_registry(positions))
        assert len(registry.view.claimants) == count, "the view lacks claims"
        _, looked = _timed(servers, lambda: _look(registry))
        repaired, repairing = _timed(servers, plan_repair(pipeline, servers[-1].url).apply)
        assert repaired.copied > count, "the repair has left entries out"
        roll(registry.view, registry.positions, 1)
        raise_boundary(registry.view, registry.positions, SystemClock().now_us() + DAY_US)
        dropped, dropping = _timed(servers, lambda: drop(registry.view, registry.positions))
        assert dropped == [0], "nothing was dropped"
        polling = looked.cpu_seconds / LOOKS / (LOOK_US / MICROSECONDS)
        return SmallEntries(
            count, viewed.seconds, viewed.cpu_seconds, polling, repairing.seconds, dropping.seconds
        )


def _look(registry: IdRegistry) -> None:
    """Read on, as an idle join does now and then."""
    for _ in range(LOOKS):
        registry.read_on()


def entries(count: int) -> Iterator[bytes]:
    """A ledger's entries: its genesis, then batches, each of which closes the one before."""
    value = encode(Entry("bench", genesis=Genesis()))
    yield value
    hashes = new_hashes(count * IDS_AN_ENTRY, 0).reshape(count, IDS_AN_ENTRY, 2)
    hashes[:, :, 0].sort(axis=1)  # as claims are appended
    for batch in range(1, count + 1):
        closes = (Close(EPOCH, batch - 1),) if batch > 1 else ()
        claims = claims_of(Claimant(EPOCH, batch, f"plan-{batch}"), hashes[batch - 1])
        value = encode(Entry("bench", checksum(value), closes=closes, claims=claims))
        yield value


def _fill(address: LedgersAddress, values: Iterable[bytes]) -> None:
    """Have all stores keep these values, as a fast round leaves them."""
    copies = [(Key(ledger_key(1, LedgerId(0, 0)), at), Copy(value)) for at, value in enumerate(values)]
    for endpoint, table in zip(address.endpoints, address.tables, strict=True):
        store = DynamoEndpoint(endpoint, ADMIN_TIMEOUT, 1).store(table)
        for first in range(0, len(copies), WRITTEN_AT_ONCE):
            some = copies[first : first + WRITTEN_AT_ONCE]
            stored = store.fill(some)
            assert stored == len(some), stored.reason if isinstance(stored, NoReply) else "not all are stored"


def _timed(servers: Sequence[StoreServer], work: Callable[[], R]) -> tuple[R, Spent]:
    """The work's result, and the time that client and stores took."""
    with timed(lambda: time.process_time() + cpu_seconds(servers)) as spent:
        done = work()
    return done, spent


def lines_of(found: Mapping[str, Any]) -> Iterator[str]:
    """The measurement for people."""
    yield (
        f"{found['entries']:,} entries in a ledger on {STORES} dynoxide: a view from nothing"
        f" {found['view_seconds']:.0f} s (CPU {found['view_cpu_seconds']:.0f} s), repair"
        f" {found['repair_seconds']:.0f} s, drop {found['drop_seconds']:.0f} s,"
        f" idle polling {found['polling']:.2%} of a core"
    )
