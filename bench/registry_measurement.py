"""What `photon bench registry` measures: rates, bytes, memory and outages, on servers of its own.

`bench.registry_load` puts a load on it, `bench.registry_outage` kills its servers. Distance is measured in
virtual time, by `bench.distant_clients`.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from bench.distant_clients import measure_distant_clients
from bench.ledger_rates import measure_ledgers
from bench.registry_load import Load, Rates, mean_rates, measure_rates
from bench.registry_outage import measure_outage
from bench.store_servers import StoreServer, fastest_kind, is_available, registry_pipeline, store_servers
from bench.stored_items import stored_items
from photon.clock import SystemClock
from photon.lifeline import end_with
from photon.pipeline.event_key import EventKey
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Registry
from photon.registry.address import RegistryAddress
from photon.registry.consensus.layout import fixed_shards
from photon.registry.dynamodb.answers import bytes_beside_key
from photon.registry.dynamodb.local_supervisor import ServerKind
from photon.registry.interface import Claim
from photon.registry.open import close_registries, open_registry
from photon.registry.operations.init import init_registry
from photon.registry.quorum.proposer import QuorumRegistry
from photon.tokens import Occurrence, PlanKey

# What is measured is how fast answers are, not when a busy machine gives them up.
PATIENT = Registry(request_timeout=timedelta(seconds=20), total_timeout=timedelta(seconds=60))
# Near and far in turn, so that a machine that gets slower, and a store that grows, cost both the same.
TURNS = ("near", "far", "far", "near")
MEMORY_SHARDS = 1_000
MEMORY_LOOKS = 10
BYTES_IDS = 1_000
IDS_PER_CALL = 2_000
LEDGER_BATCHES = ((25_000, 40), (500, 100))  # ids in a batch, and batches: of a catch-up, and live

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stores:
    """What a registry is made of: servers of one kind; some may be down."""

    kind: ServerKind
    count: int
    down: int = 0

    def __str__(self) -> str:
        return f"{self.count} {self.kind}" + (f", {self.down} down" if self.down else "")


ALL_STORES = (
    Stores("dynoxide", 1),
    Stores("dynoxide", 3),
    Stores("dynoxide", 3, down=1),
    Stores("dynamodb-local", 1),
)


def available() -> tuple[Stores, ...]:
    """The kinds that have a server on this machine."""
    return tuple(stores for stores in ALL_STORES if is_available(stores.kind))


@contextmanager
def _registry(
    folder: Path, stores: Stores, settings: Registry, timed: bool = False
) -> Iterator[tuple[Pipeline, RegistryAddress, list[StoreServer]]]:
    """A new registry; servers that are to be down are killed after it is made."""
    with store_servers(stores.kind, folder, stores.count) as servers:
        pipeline = registry_pipeline("bench", [server.url for server in servers], settings)
        if timed:
            foreign = pipeline.foreign.model_copy(update={"time_in_id": True})
            pipeline = pipeline.model_copy(update={"foreign": foreign})
        address = init_registry(pipeline, SystemClock())
        for server in servers[stores.count - stores.down :]:
            server.kill()
        try:
            yield pipeline, address, servers
        finally:
            close_registries()


def rates(folder: Path, stores: Stores, load: Load, delay_seconds: float) -> dict[str, Any]:
    """Commits and lookups a second, beside the endpoints and so far away from each."""
    measured: dict[str, list[Rates]] = {"near": [], "far": []}
    half = replace(load, seconds=load.seconds / 2)
    with _registry(folder, stores, PATIENT) as (_, address, _servers):
        for turn in TURNS:
            away = replace(half, delay_seconds=delay_seconds if turn == "far" else 0.0)
            measured[turn].append(measure_rates(address, away))
    return {"stores": str(stores)} | {turn: asdict(mean_rates(rates)) for turn, rates in measured.items()}


def stored_bytes(folder: Path) -> dict[str, dict[str, float]]:
    """Bytes an id beside its key, by DynamoDB's rule, before and after clearing.

    `fast`: as the fast round leaves it; `ballot`: where it took a ballot, one of three endpoints being down.
    """
    found: dict[str, dict[str, float]] = {}
    for name, count, down in (("fast", 1, 0), ("ballot", 3, 1)):
        stores = Stores(fastest_kind(), count, down)
        with _registry(folder / name, stores, Registry()) as (_, address, _servers):
            registry = open_registry(address)
            claims = _claims("east", range(BYTES_IDS), timed=False)
            registry.commit(claims)
            before = _mean_bytes(registry)
            registry.clear(claims)
            found[name] = {"before_clearing": before, "after_clearing": _mean_bytes(registry)}
    return found


def _mean_bytes(registry: QuorumRegistry) -> float:
    items = stored_items(registry.endpoints.acceptors[0], fixed_shards())
    return statistics.mean(map(bytes_beside_key, items))


def memory(folder: Path, ids: int) -> dict[str, Any]:
    """Resident bytes of a client process, after each tenth of `ids` that it has committed."""
    settings = PATIENT.model_copy(update={"shards": MEMORY_SHARDS})
    with (
        _registry(folder, Stores(fastest_kind(), 1), settings, timed=True) as (_, address, _servers),
        ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
        ) as pool,
    ):
        looks = pool.submit(_memory_of_a_client, address, ids).result()
    return {"ids": ids, "shards": MEMORY_SHARDS, "resident_bytes": looks}


def _memory_of_a_client(address: RegistryAddress, ids: int) -> list[int]:
    looks: list[int] = []
    registry = open_registry(address)
    per_look = max(ids // MEMORY_LOOKS, 1)
    try:
        for start in range(0, ids, IDS_PER_CALL):
            registry.commit(_claims("east", range(start, min(start + IDS_PER_CALL, ids)), timed=True))
            if (start + IDS_PER_CALL) // per_look > len(looks):
                looks.append(psutil.Process().memory_info().rss)
    finally:
        close_registries()
    return looks


def outages(folder: Path, seconds: float) -> dict[str, Any]:
    """One of three and two of five killed under load."""
    found: dict[str, Any] = {}
    for name, count, down in (("one_of_three", 3, 1), ("two_of_five", 5, 2)):
        stores = Stores(fastest_kind(), count)
        with _registry(folder / name, stores, Registry()) as (pipeline, _, servers):
            found[name] = asdict(measure_outage(pipeline, servers, down, seconds))
    return found


def _claims(datacenter: str, numbers: range, timed: bool) -> list[Claim]:
    plan = PlanKey(datacenter, "0" * 16, 1, "0" * 16)
    now_us = SystemClock().now_us()
    return [
        Claim(
            EventKey(f"{number:032d}", now_us if timed else None, now_us), plan.token(Occurrence(1, number))
        )
        for number in numbers
    ]


def measure_registry(
    folder: Path, parts: tuple[str, ...], load: Load, delay_seconds: float, ids: int, progress: Progress
) -> Mapping[str, Any]:
    """The parts that are asked for: `rates`, `ledgers`, `bytes`, `memory`, `outages`, `distance`."""
    found: dict[str, Any] = {}
    if "rates" in parts:
        found["rates"] = []
        for number, stores in enumerate(available()):
            progress(f"rates of {stores}")
            found["rates"].append(rates(folder / f"rates-{number}", stores, load, delay_seconds))
    if "ledgers" in parts:
        found["ledgers"] = {}
        for number, stores in enumerate(available()):
            for ids_per_batch, batches in LEDGER_BATCHES:
                progress(f"ledgers on {stores}, batches of {ids_per_batch:,}")
                where = folder / f"ledgers-{number}-{ids_per_batch}"
                one = (stores.kind, stores.count, stores.down, ids_per_batch, batches, PATIENT)
                found["ledgers"][f"{stores}, batches of {ids_per_batch:,}"] = measure_ledgers(where, *one)
    if "bytes" in parts:
        progress("bytes")
        found["bytes"] = stored_bytes(folder / "bytes")
    if "memory" in parts:
        progress(f"memory over {ids} ids")
        found["memory"] = memory(folder / "memory", ids)
    if "outages" in parts:
        progress("outages")
        found["outages"] = outages(folder / "outages", 3 * load.seconds)
    if "distance" in parts:
        progress("clients far away")
        found["distance"] = measure_distant_clients()
    return found
