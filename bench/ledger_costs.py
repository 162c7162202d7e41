"""The cost of 10^9 joined events at AWS, by arithmetic from the sizes of entries as the product encodes them.

    python -m bench.ledger_costs       # the table of docs/operations/registry.md

A put is billed by the whole item, a refused one too, and so is a read, whatever part of the item it asks for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from photon.registry.entry import Claimant, Claims, Close, Entry, Epoch, Hashes
from photon.registry.form import encode

IDS = 10**9
# On demand in us-east-1, as AWS lists them since November 2024.
USD_A_WRITE, USD_A_READ, USD_A_GIB_MONTH = 0.625e-6, 0.125e-6, 0.25
WRITE_BYTES, READ_BYTES = 1_024, 4_096  # one unit
KEY_BYTES = 45  # names of attributes, ledger, position, and the checksum beside the value
ITEM_BYTES = 100  # that AWS adds to each item for its storage
REGISTER_READS = 1  # a check reads the register, which has less than 4 KiB

IDS_AN_ENTRY = (5_000, 500, 50, 5)
ENDPOINTS = (1, 3, 5)
READERS = 1  # other datacenters, which read each entry once

RECORD_BYTES = 400  # from one foreign record's offset to the next
FILES = 4  # records of these take turns
US_A_RECORD = 200


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of 10^9 ids at one endpoint, in entries of so many ids. Units are those of AWS."""

    ids_per_entry: int
    entry_bytes: int
    write_units: float  # to claim and close them
    read_units: float  # checks, looks at the entry before, and views of other datacenters
    drop_units: float  # to delete them once the boundary has passed: writes, and reads in `drop_reads`
    drop_reads: float

    @property
    def usd(self) -> float:
        """Once in the life of an id."""
        writes, reads = self.write_units + self.drop_units, self.read_units + self.drop_reads
        return writes * USD_A_WRITE + reads * USD_A_READ

    @property
    def usd_a_month(self) -> float:
        """For storage."""
        bytes_kept = IDS / self.ids_per_entry * (self.entry_bytes + KEY_BYTES + ITEM_BYTES)
        return bytes_kept / 2**30 * USD_A_GIB_MONTH


def cost_of(ids_per_entry: int, readers: int = READERS) -> Cost:
    """The cost where batches have so many ids, and each closes the one before it."""
    size_bytes = len(encode(usual_entry(ids_per_entry)))
    entries = IDS / ids_per_entry
    writes = math.ceil((size_bytes + KEY_BYTES) / WRITE_BYTES)
    reads = math.ceil((size_bytes + KEY_BYTES) / READ_BYTES)
    return Cost(
        ids_per_entry,
        size_bytes,
        write_units=entries * writes,
        read_units=entries * (REGISTER_READS + reads + readers * (REGISTER_READS + reads)),
        drop_units=entries * writes,
        drop_reads=entries * reads,
    )


def usual_entry(ids: int) -> Entry:
    """A batch's claims, of records as they follow each other in files, and the close of the one before."""
    epoch, number = Epoch("east", 1), np.arange(ids)
    order = np.random.default_rng(1).permutation(ids)  # claims are sorted by hash
    claims = Claims(
        Claimant(epoch, 1_000, "0123456789ab"),
        _sorted_hashes(ids),
        1_795_347_340_903_620 + US_A_RECORD * number[order],
        (number[order] % FILES).astype(np.uint32),
        (number[order] // FILES) * RECORD_BYTES,
    )
    return Entry("0123456789abcdef", bytes(16), closes=(Close(epoch, 999),), claims=claims)


def _sorted_hashes(ids: int) -> Hashes:
    hashes = np.random.default_rng(2).integers(0, 2**64, (ids, 2), dtype=np.uint64)
    return hashes[np.argsort(hashes[:, 0])]


def table_of(costs: Sequence[Cost]) -> Iterator[str]:
    """A table of Markdown."""
    counts = " | ".join(f"{n} endpoint{'s' if n > 1 else ''}" for n in ENDPOINTS)
    yield f"| ids in an entry | bytes an id | write units, each endpoint | USD: {counts} | a month, each |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for one in costs:
        usd = " | ".join(f"{count * one.usd:,.0f}" for count in ENDPOINTS)
        bytes_an_id = one.entry_bytes / one.ids_per_entry
        yield (
            f"| {one.ids_per_entry:,} | {bytes_an_id:.1f} | {one.write_units / 1e6:,.0f} million | {usd}"
            f" | {one.usd_a_month:,.0f} |"
        )


def measured_costs() -> list[Cost]:
    """For each size of entries."""
    return [cost_of(ids) for ids in IDS_AN_ENTRY]


if __name__ == "__main__":
    print(*table_of(measured_costs()), sep="\n")
