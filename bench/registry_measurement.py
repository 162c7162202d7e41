"""All that `python -m bench registry` measures: rates on servers of its own, distance, costs, views at size.

One process claims in ledgers, over each kind of stores (`bench.ledger_rates`). Distance is in virtual time
(`distant_clients`). What AWS would ask for is arithmetic (`ledger_costs`). A view of 50 million ids:
`view_sizes`; a day of small entries: `small_entries`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench import distant_clients, ledger_costs, small_entries, view_sizes
from bench.ledger_rates import LedgerRates, measure_ledgers
from infra.servers.dynamodb import ServerKind
from infra.servers.stores import is_available
from photon.pipeline.sections import Registry

# The speed of answers is measured, not when a busy machine gives them up.
PATIENT = Registry(total_timeout=timedelta(seconds=100))
# Ids in a batch, and batches for each second that a rate is to take: catching up, between, and live.
BATCHES = ((25_000, 8), (5_000, 30), (500, 40))

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of a registry: servers of one kind; some may be down."""

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


def rates(folder: Path, stores: Stores, seconds: float) -> Iterator[LedgerRates]:
    """The rates of a process over these stores, by size of batches; `seconds` for each on a usual machine."""
    for ids_per_batch, batches_a_second in BATCHES:
        where = folder / str(ids_per_batch)
        batches = max(1, round(batches_a_second * seconds))
        yield measure_ledgers(where, stores.kind, stores.count, stores.down, ids_per_batch, batches, PATIENT)


def measure_registry(
    folder: Path, parts: tuple[str, ...], seconds: float, progress: Progress
) -> Mapping[str, Any]:
    """The parts that are asked for: `rates`, `distance`, `costs`, `size`, `small`."""
    found: dict[str, Any] = {}
    if "rates" in parts:
        found["rates"] = []
        for number, stores in enumerate(available()):
            progress(f"rates of {stores}")
            measured = rates(folder / str(number), stores, seconds)
            found["rates"] += [{"stores": str(stores), **asdict(one)} for one in measured]
    if "distance" in parts:
        progress("drivers far away")
        found["distance"] = distant_clients.measure_distant_clients()
    if "costs" in parts:
        found["costs"] = [asdict(one) | {"usd": one.usd} for one in ledger_costs.measured_costs()]
    if "size" in parts:
        progress(f"a view of {view_sizes.IDS:,} ids")
        found["size"] = asdict(view_sizes.measure_view(folder / "size"))
    if "small" in parts:
        progress(f"{small_entries.ENTRIES:,} small entries")
        found["small"] = asdict(small_entries.measure_small_entries(folder / "small", PATIENT))
    return found


def lines_of(found: Mapping[str, Any]) -> Iterator[str]:
    """The measurement as tables for people."""
    if "rates" in found:
        yield f"{'':26}{'ids a':>8}{'claims':>10}{'a batch':>10}{'CPU of an id in us':>32}{'a view':>16}"
        columns = f"{'client':>10}{'stores':>8}{'lookup':>8}{'read':>6}{'bytes an id':>16}"
        yield f"{'':26}{'batch':>8}{'a second':>10}{'ms':>10}{columns}"
    for one in found.get("rates", []):
        yield (
            f"{one['stores']:26}{one['ids_per_batch']:8,}{one['claims_per_second']:10,.0f}"
            f"{one['batch_seconds'] * 1e3:10.1f}{one['client_cpu_us']:10.1f}{one['stores_cpu_us']:8.1f}"
            f"{one['lookup_cpu_us']:8.2f}{one['read_cpu_us']:6.2f}{one['view_bytes']:16.1f}"
        )
    if "distance" in found:
        yield from distant_clients.table_of(found["distance"])
    if "costs" in found:
        yield from ledger_costs.table_of(ledger_costs.measured_costs())
    if "size" in found:
        yield from view_sizes.lines_of(found["size"])
    if "small" in found:
        yield from small_entries.lines_of(found["small"])
