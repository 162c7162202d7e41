"""How many ids a second a process claims in ledgers and closes, and what an id costs in CPU and bytes.

Batch after batch, as a driver does it: the claims of a batch, and with them the close of the one before.
`bench.registry_measurement` chooses the stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from bench.timing import timed
from infra.servers.dynamodb import ServerKind
from infra.servers.stores import StoreServer, store_servers
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Datacenter, Endpoint, ForeignLog, PrimaryLog, Registry
from photon.process.clock import SystemClock
from photon.registry.address import LedgersAddress
from photon.registry.closing import Closing, Rowless
from photon.registry.entry import Claimant, Claims, Epoch, Hashes, Mask
from photon.registry.fold import ClaimsAt, Unclosed
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import init_registry
from photon.registry.stores.opening import open_positions
from photon.registry.stores.positions import StorePositions
from photon.registry.view import View

EPOCH = Epoch("east", 1)
RECORD_BYTES = 400  # from one foreign record's offset to the next
LOOKUPS = 10  # looks at a whole batch of ids that nobody has


@dataclass(frozen=True, slots=True)
class LedgerRates:
    """Rates over all batches. CPU of client and stores is in microseconds an id."""

    ids_per_batch: int
    claims_per_second: float
    batch_seconds: float
    client_cpu_us: float
    stores_cpu_us: float
    lookup_cpu_us: float
    read_cpu_us: float  # for a new view that reads all
    view_bytes: float  # in its runs of holds


def measure_ledgers(
    folder: Path,
    kind: ServerKind,
    count: int,
    down: int,
    ids_per_batch: int,
    batches: int,
    settings: Registry,
) -> LedgerRates:
    """Claims and closes over so many stores, of which `down` are killed once the ledgers are made."""
    with (
        store_servers(kind, folder, count) as servers,
        positions_over(new_ledgers(servers, settings)) as positions,
    ):
        registry = new_registry(positions)
        join(registry, batches_of(1, ids_per_batch, 0))  # connections are made
        for server in servers[count - down :]:
            server.kill()
        join(registry, batches_of(1, ids_per_batch, 1))  # who does not answer is known by then
        return _measure(registry, positions, servers[: count - down], ids_per_batch, batches)


def registry_pipeline(
    servers: Sequence[StoreServer], settings: Registry, datacenters: Sequence[str] = ("east",)
) -> Pipeline:
    """A pipeline that is nothing but its registry, over these servers."""
    nowhere = Path("/nowhere")
    endpoints = tuple(Endpoint(url=server.url) for server in servers)
    return Pipeline(
        name="bench",
        file=nowhere / "events.yaml",
        datacenters={
            one: Datacenter(logs=nowhere / one, lake=nowhere / f"{one}-lake", state=nowhere / f"{one}-state")
            for one in datacenters
        },
        primary=PrimaryLog(files="*", format="csv", id=("id",), time=("t",)),
        foreign=ForeignLog(files="*", format="csv", id=("id",), key=("key",), time=("t",)),
        registry=settings.model_copy(update={"endpoints": endpoints}),
    )


def new_ledgers(
    servers: Sequence[StoreServer], settings: Registry, datacenters: Sequence[str] = ("east",)
) -> LedgersAddress:
    """The address of a new registry over these servers."""
    return init_registry(registry_pipeline(servers, settings, datacenters), SystemClock())


@contextmanager
def positions_over(address: LedgersAddress) -> Iterator[StorePositions]:
    """The positions of a registry, until the end of the block."""
    positions = open_positions(address, SystemClock())
    try:
        yield positions
    finally:
        positions.close()


def new_registry(positions: StorePositions, writer: str = "bench") -> IdRegistry:
    """A registry with a view that is made by reading."""
    registry = IdRegistry(positions, View(positions.attempt().confirm(), writer))
    registry.catch_up()
    return registry


def join(registry: IdRegistry, batches: Iterable[Claims]) -> None:
    """Claim one batch after the other, with the close of the one before; all have to be won."""
    closes = None
    for claims in batches:
        epoch, batch, _ = claims.claimant
        won = registry.claim(claims, closes).are_of(claims.claimant)
        assert won.all(), "an id of nobody else was not won"
        closes = Closing(epoch, batch, all_have_rows)
    if closes is not None:
        registry.close(closes)


def _all_have_rows(at: ClaimsAt, one: Unclosed) -> Mask:
    return np.zeros(len(one.hashes), bool)


all_have_rows: Rowless = _all_have_rows


def batches_of(batches: int, ids: int, first: int, epoch: Epoch = EPOCH) -> list[Claims]:
    """Batches of new ids, numbered from `first` + 1 on."""
    return [batch_of(number, ids, epoch) for number in range(first + 1, first + batches + 1)]


def batch_of(number: int, ids: int, epoch: Epoch = EPOCH) -> Claims:
    """The batch with this number, of new ids."""
    return claims_of(Claimant(epoch, number, f"plan-{number - 1}"), new_hashes(ids, number - 1, epoch))


def claims_of(claimant: Claimant, hashes: Hashes, first_us: int | None = None) -> Claims:
    """Claims of records that follow each other in a file, a microsecond apart from `first_us` (None: now)."""
    numbers = np.arange(len(hashes))
    times_us = numbers + (SystemClock().now_us() if first_us is None else first_us)
    return Claims(claimant, hashes, times_us, np.zeros(len(hashes), np.uint32), numbers * RECORD_BYTES)


def new_hashes(ids: int, seed: int, epoch: Epoch = EPOCH) -> Hashes:
    """Hashes of so many ids; others for each seed and epoch."""
    chance = np.random.default_rng([seed, epoch.number, *epoch.datacenter.encode()])
    return chance.integers(0, 2**64, (ids, 2), dtype=np.uint64)


def _measure(
    registry: IdRegistry,
    positions: StorePositions,
    servers: Sequence[StoreServer],
    ids_per_batch: int,
    batches: int,
) -> LedgerRates:
    claims = batches_of(batches, ids_per_batch, 2)
    ids = ids_per_batch * batches
    with timed() as client, timed(lambda: cpu_seconds(servers)) as stores:
        join(registry, claims)
    with timed() as reading:
        view = new_registry(positions).view
    free = new_hashes(ids_per_batch, batches + 2)
    with timed() as looking:
        for _ in range(LOOKUPS):
            assert not view.holders(free).are_held.any()
    runs = view.holds.runs(0)
    return LedgerRates(
        ids_per_batch,
        ids / client.seconds,
        client.seconds / batches,
        client.cpu_seconds * 1e6 / ids,
        stores.cpu_seconds * 1e6 / ids,
        looking.cpu_seconds * 1e6 / (LOOKUPS * ids_per_batch),
        reading.cpu_seconds * 1e6 / ids,
        sum(column.nbytes for run in runs for column in (run.upper, run.lower, run.numbers, run.positions))
        / sum(map(len, runs)),
    )


def cpu_seconds(servers: Sequence[StoreServer]) -> float:
    """Seconds of CPU that the servers have used so far."""
    return sum(sum(psutil.Process(server.pid).cpu_times()[:2]) for server in servers)
