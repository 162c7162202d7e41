"""The cost of a view of many ids: the start of a join, its files, and the memory of a task that looks ids up.

A driver claims batch after batch of ledgers in memory, and stores its view as a join does. Then a process of
its own opens that view, and another one looks ids up as a task.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil

from bench.ledger_rates import EPOCH, all_have_rows, batch_of, new_hashes
from bench.timing import timed
from photon.process.lifeline import end_with
from photon.registry.appending import open_ledger
from photon.registry.closing import Closing
from photon.registry.entry import Claimant
from photon.registry.id_registry import IdRegistry
from photon.registry.lookups import Hold, ViewSnapshot
from photon.registry.register import Register
from photon.registry.view_store import ViewStore
from tests.support.memory_ledgers import MemoryLedgers

IDS = 50_000_000
IDS_PER_BATCH = 50_000
LOOKED_UP = 25_000  # at once, as a task does; half of them are held
LOOKUPS = 40
RUNS = "view"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ViewSize:
    """Sizes of a view of so many ids. Memory is a process's own, beside files that are mapped."""

    ids: int
    bytes_per_id: float  # on disk
    claims_per_second: float  # for the driver that made it, with ledgers in memory
    start_seconds: float
    start_after_crash_seconds: float  # checksums of all files are compared
    snapshot_bytes: int  # sent to each task
    task_bytes: int
    lookups_per_second: float
    lookup_cpu_us: float  # for an id: other work of the machine hardly changes it


def measure_view(folder: Path, ids: int = IDS, ids_per_batch: int = IDS_PER_BATCH) -> ViewSize:
    """Make a view of so many ids, and measure what opens it and what looks up in it."""
    batches = ids // ids_per_batch
    register, seconds = _apart(_make, folder, batches, ids_per_batch)
    start_seconds, snapshot = _apart(_start, folder, register)
    start_after_crash_seconds, _ = _apart(_start, folder, register)  # the one before did not end in order
    task_bytes, lookup_seconds, lookup_cpu_seconds = _apart(_look_up, snapshot, batches, ids_per_batch)
    files = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return ViewSize(
        ids,
        files / ids,
        ids / seconds,
        start_seconds,
        start_after_crash_seconds,
        len(snapshot),
        task_bytes,
        LOOKUPS * LOOKED_UP / lookup_seconds,
        lookup_cpu_seconds * 1e6 / (LOOKUPS * LOOKED_UP),
    )


def _apart(work: Callable[..., R], *arguments: Any) -> R:
    """Work done in a process of its own, which ends then."""
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    ) as pool:
        return pool.submit(work, *arguments).result()


def _make(folder: Path, batches: int, ids_per_batch: int) -> tuple[Register, float]:
    """A driver's batches, each with its snapshot; the register, and the seconds that all took."""
    positions, store = MemoryLedgers(), ViewStore(folder, folder / RUNS)
    registry = IdRegistry(positions, store.load(positions.register, "bench"), store)
    for ledger in registry.register.ledgers(0):
        open_ledger(registry.view, positions, ledger)
    with timed() as spent:
        for number in range(1, batches + 1):
            registry.snapshot()
            registry.claim(batch_of(number, ids_per_batch))
            registry.close(Closing(EPOCH, number, all_have_rows))
        registry.close_view()
    return registry.register, spent.seconds


def _start(folder: Path, register: Register) -> tuple[float, bytes]:
    """The seconds until a view is there, and a snapshot of it, as bytes. It does not end in order."""
    with timed() as spent:
        store = ViewStore(folder, folder / RUNS)
        view = store.load(register, "bench")
    registry = IdRegistry(MemoryLedgers(), view, store)
    return spent.seconds, pickle.dumps(registry.snapshot(Claimant(EPOCH, 2**40, "plan")))


def _look_up(snapshot: bytes, batches: int, ids_per_batch: int) -> tuple[int, float, float]:
    """Memory that a task takes for itself, and the seconds of its lookups, by the clock and of CPU."""
    found: ViewSnapshot = pickle.loads(snapshot)
    before = _own_bytes()
    lookups = found.open(Claimant(EPOCH, 2**40, "plan"))
    seconds, cpu_seconds, chance = 0.0, 0.0, np.random.default_rng(7)
    for number in range(LOOKUPS):
        held = new_hashes(ids_per_batch, int(chance.integers(batches)))[: LOOKED_UP // 2]
        asked = np.concatenate((held, new_hashes(LOOKED_UP - len(held), batches + number)))
        with timed() as spent:
            codes = lookups.look_up(asked, np.full(len(asked), 2**50)).codes
        seconds, cpu_seconds = seconds + spent.seconds, cpu_seconds + spent.cpu_seconds
        assert (codes == Hold.HERE).sum() == len(held), "what is held was not found, or more was"
    return _own_bytes() - before, seconds, cpu_seconds


def _own_bytes() -> int:
    memory = psutil.Process().memory_info()
    return int(memory.rss - memory.shared)


def lines_of(found: Mapping[str, Any]) -> Iterator[str]:
    """The measurement for people."""
    yield (
        f"a view of {found['ids']:,} ids: {found['bytes_per_id']:.1f} bytes an id, made at"
        f" {found['claims_per_second']:,.0f} claims a second; a start takes {found['start_seconds']:.2f} s,"
        f" after a crash {found['start_after_crash_seconds']:.2f} s"
    )
    yield (
        f"a task gets {found['snapshot_bytes'] / 1e3:,.0f} kB, has {found['task_bytes'] / 1e6:.1f} MB beside"
        f" mapped files, and looks up {found['lookups_per_second']:,.0f} ids a second"
        f" (CPU {found['lookup_cpu_us']:.2f} us an id)"
    )
