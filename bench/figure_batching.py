"""The paper's Figure 10 again: ids claimed against entries appended, under growing load of two datacenters.

A driver claims, in one batch, what came since the last one. So batches get larger where load grows, and
entries grow far less than ids.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from matplotlib.figure import Figure

from bench.ledger_rates import all_have_rows, claims_of, new_hashes, new_registry, positions_over
from bench.plots import panels
from photon.process.lifeline import end_with
from photon.registry.address import LedgersAddress
from photon.registry.closing import Closing
from photon.registry.entry import Claimant, Claims, Epoch, LedgerId
from photon.registry.id_registry import IdRegistry

WORK_SECONDS = 0.1  # for the rest of a live batch: it looks, plans, runs tasks, commits


@dataclass(frozen=True)
class Load:
    """How many ids a second all datacenters together get, and for how long."""

    ids_per_second: float
    seconds: float
    datacenters: int = 2


@dataclass(frozen=True)
class Tally:
    """The work of one driver."""

    ids: int
    entries: int
    seconds: float


@dataclass(frozen=True)
class Served:
    """The result of a load, in all ledgers together."""

    offered_ids_per_second: float
    ids_per_second: float
    entries_per_second: float

    @property
    def ids_per_entry(self) -> float:
        """How many ids an entry claims."""
        return self.ids_per_second / self.entries_per_second

    def as_dict(self) -> dict[str, float]:
        """For plots and tables."""
        return {
            "offered_ids_per_second": round(self.offered_ids_per_second, 2),
            "ids_per_second": round(self.ids_per_second, 2),
            "entries_per_second": round(self.entries_per_second, 2),
            "ids_per_entry": round(self.ids_per_entry, 2),
        }


def measure(address: LedgersAddress, load: Load, number: int) -> Served:
    """Put a load on the registry at `address`, from a process for each datacenter. `number`: of the load."""
    count = load.datacenters
    with ProcessPoolExecutor(
        count, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    ) as pool:
        drivers = [Epoch(f"datacenter-{datacenter}", number) for datacenter in range(count)]
        tallies = list(pool.map(_drive, [address] * count, [load] * count, drivers, range(count)))
    return served(load, tallies)


def served(load: Load, tallies: Sequence[Tally]) -> Served:
    """The result of a load, from drivers that worked at the same time."""
    return Served(
        load.ids_per_second,
        sum(one.ids / one.seconds for one in tallies),
        sum(one.entries / one.seconds for one in tallies),
    )


def _drive(address: LedgersAddress, load: Load, epoch: Epoch, home: int) -> Tally:
    with positions_over(address) as positions:
        return drive(new_registry(positions, str(epoch)), load, epoch, home)


def drive(registry: IdRegistry, load: Load, epoch: Epoch, home: int) -> Tally:
    """Claim this datacenter's share of the load, in its home ledger, where nobody else appends."""
    own = LedgerId(0, home)
    rate = load.ids_per_second / load.datacenters
    first, closes, done, batch = registry.view.states[own].next_position, None, 0, 0
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < load.seconds:
        if due := int(elapsed * rate) - done:
            batch += 1
            claims = _claims(Claimant(epoch, batch, f"plan-{batch}"), due, home, load.datacenters)
            assert registry.claim(claims, closes).are_of(claims.claimant).all(), "a new id was not won"
            closes = Closing(epoch, batch, all_have_rows)
            done += due
        time.sleep(WORK_SECONDS)
    return Tally(done, registry.view.states[own].next_position - first, time.monotonic() - began)


def _claims(claimant: Claimant, count: int, home: int, ledgers: int) -> Claims:
    """New ids of one ledger's range."""
    hashes = new_hashes(count, claimant.batch, claimant.epoch)
    share = 2.0**64 / ledgers
    hashes[:, 0] = (home * share + hashes[:, 0] / ledgers).clip(home * share, (home + 1) * share - 2**32)
    return claims_of(claimant, hashes)


def draw(points: Sequence[Served], store: str) -> Figure:
    """The figure: per second, ids and entries against what is offered."""
    rows = [point.as_dict() for point in points]
    offered = [row["offered_ids_per_second"] for row in rows]
    figure, (axes,) = panels(6.4, 4.0)
    axes.plot(offered, [row["ids_per_second"] for row in rows], "o-", label="ids claimed")
    axes.plot(offered, [row["entries_per_second"] for row in rows], "s-", label="entries appended")
    axes.set(xlabel="ids offered a second", ylabel="a second", xscale="log", yscale="log")
    axes.set_title(f"Batching: two datacenters, {store}", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure
