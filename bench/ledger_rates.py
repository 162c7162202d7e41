"""How many ids a second a process claims in ledgers and closes, and what an id costs in CPU and bytes.

Batch after batch, as a driver does it: claim, then close what was committed. `bench.registry_measurement`
chooses the stores.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench.store_servers import StoreServer, store_servers
from photon.clock import SystemClock
from photon.ledger.claiming import claim
from photon.ledger.closing import Closing, close_batches
from photon.ledger.entry import Claimant, Claims, Epoch, Hashes, Mask
from photon.ledger.fold import ClaimsAt, Unclosed
from photon.ledger.positions import Positions
from photon.ledger.register import Generation, Members, Register
from photon.ledger.rolling import open_ledger
from photon.ledger.stores.making import make_ledgers
from photon.ledger.stores.opening import open_positions
from photon.ledger.view import View, catch_up
from photon.pipeline.sections import Registry
from photon.registry.address import EndpointAddress
from photon.registry.dynamodb.local_supervisor import ServerKind

EPOCH = Epoch("east", 1)
RECORD_BYTES = 400  # from one foreign record's offset to the next
LOOKUPS = 10  # looks at a whole batch of ids that nobody has


@dataclass(frozen=True, slots=True)
class LedgerRates:
    """Of all batches together. CPU of client and stores in microseconds an id."""

    ids_per_batch: int
    claims_per_second: float
    batch_seconds: float
    client_cpu_us: float
    stores_cpu_us: float
    lookup_cpu_us: float
    read_cpu_us: float  # of a new view that reads all
    view_bytes: float  # of its runs of holds


def measure_ledgers(
    folder: Path,
    kind: ServerKind,
    count: int,
    down: int,
    ids_per_batch: int,
    batches: int,
    settings: Registry,
) -> dict[str, Any]:
    """Claims and closes over so many stores, of which `down` are killed once the ledgers are made."""
    with store_servers(kind, folder, count) as servers:
        endpoints = [EndpointAddress(server.url) for server in servers]
        clock = SystemClock()
        address = make_ledgers("bench", "settings", endpoints, settings, _first_register, clock)
        positions = open_positions(address, clock)
        try:
            view = _new_view(positions)
            for server in servers[count - down :]:
                server.kill()
            _join(view, positions, _batches(1, ids_per_batch, 0))  # whoever does not answer is known by then
            measured = _measure(view, positions, servers[: count - down], ids_per_batch, batches)
        finally:
            positions.close()
    return asdict(measured)


def _measure(
    view: View, positions: Positions, servers: Sequence[StoreServer], ids_per_batch: int, batches: int
) -> LedgerRates:
    claims = _batches(batches, ids_per_batch, 1)
    ids = ids_per_batch * batches
    began, own, stores = time.perf_counter(), time.process_time(), _cpu_seconds(servers)
    _join(view, positions, claims)
    seconds, own = time.perf_counter() - began, time.process_time() - own
    stores = _cpu_seconds(servers) - stores
    reading = time.process_time()
    other = _new_view(positions)
    catch_up(other, positions)
    reading = time.process_time() - reading
    free = _hashes(ids_per_batch, batches + 1)
    looking = time.process_time()
    for _ in range(LOOKUPS):
        assert not other.holders(free).are_held.any()
    looking = time.process_time() - looking
    runs = other.holds.runs(0)
    return LedgerRates(
        ids_per_batch,
        ids / seconds,
        seconds / batches,
        own * 1e6 / ids,
        stores * 1e6 / ids,
        looking * 1e6 / (LOOKUPS * ids_per_batch),
        reading * 1e6 / ids,
        sum(column.nbytes for run in runs for column in (run.upper, run.lower, run.numbers, run.positions))
        / sum(map(len, runs)),
    )


def _join(view: View, positions: Positions, batches: Sequence[Claims]) -> None:
    for claims in batches:
        assert claim(view, positions, claims).are_of(claims.claimant).all(), (
            "an id of nobody else was not won"
        )
        close_batches(view, positions, Closing(EPOCH, claims.claimant.batch, _all_have_rows))


def _all_have_rows(at: ClaimsAt, one: Unclosed) -> Mask:
    return np.zeros(len(one.hashes), bool)


def _batches(batches: int, ids: int, first: int) -> list[Claims]:
    return [
        Claims(
            Claimant(EPOCH, batch + 1, f"plan-{batch}"),
            _hashes(ids, batch),
            SystemClock().now_us() + np.arange(ids),
            np.zeros(ids, np.uint32),
            np.arange(ids) * RECORD_BYTES,
        )
        for batch in range(first, first + batches)
    ]


def _hashes(ids: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(0, 2**64, (ids, 2), dtype=np.uint64)


def _first_register(members: Members) -> Register:
    return Register("bench", "settings", members, generations=(Generation(2, ("east", "west")),))


def _new_view(positions: Positions) -> View:
    view = View(positions.attempt().confirm(), "bench")
    for ledger in view.register.ledgers(0):
        open_ledger(view, positions, ledger)
    return view


def _cpu_seconds(servers: Sequence[StoreServer]) -> float:
    return sum(sum(psutil.Process(server.pid).cpu_times()[:2]) for server in servers)
