"""Who claimed at which position of which ledger: columns, since a day has some 100,000 such entries.

A position takes some 36 bytes. A snapshot says of a position no more than the datacenter (`Owners`).
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from photon.registry.entry import Claimant, Epoch, LedgerId
from photon.registry.fold import ClaimsAt

BLOCK = 2**16  # positions that are compressed together, once all of them are known
MOST_DATACENTERS = 255  # that a byte tells apart
_LEVEL = 1  # of compression: a block is made while a batch waits for it


@dataclass(slots=True)
class _OfLedger:
    """One ledger's columns, by ascending position. `plans`: their texts, one behind another."""

    positions: array[int] = field(default_factory=lambda: array("I"))
    epochs: array[int] = field(default_factory=lambda: array("I"))
    batches: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("Q"))  # where each plan's text ends
    plans: bytearray = field(default_factory=bytearray)
    blocks: list[bytes] = field(default_factory=list)  # of `Owners`, full ones


@dataclass(frozen=True, slots=True)
class Owners:
    """By ledger and position the datacenter that claims there: a byte each, 0 for nobody, else its place + 1.

    `blocks`: full ones, compressed; `tails`: what is behind them, compressed too.
    """

    datacenters: tuple[str, ...]
    blocks: dict[LedgerId, tuple[bytes, ...]]
    tails: dict[LedgerId, bytes]

    def columns(self) -> dict[LedgerId, npt.NDArray[np.uint8]]:
        """By ledger the bytes, by position."""
        return {
            ledger: np.frombuffer(
                b"".join(map(zlib.decompress, (*blocks, self.tails[ledger]))),
                np.uint8,
            )
            for ledger, blocks in self.blocks.items()
        }


class Claimants:
    """By ledger and position who claims there. Those of a ledger come in the order of positions."""

    def __init__(self) -> None:
        self._ledgers: dict[LedgerId, _OfLedger] = {}
        self._epochs: list[Epoch] = []
        self._numbers: dict[Epoch, int] = {}
        self._datacenters: dict[str, int] = {}  # and its byte

    def put(self, at: ClaimsAt, claimant: Claimant) -> None:
        """Note who claims at a position behind all that are known of its ledger."""
        ledger, position = at
        columns = self._ledgers.setdefault(ledger, _OfLedger())
        if columns.positions and position <= columns.positions[-1]:
            raise ValueError(f"position {position} of ledger {ledger} comes behind {columns.positions[-1]}")
        columns.positions.append(position)
        columns.epochs.append(self._number(claimant.epoch))
        columns.batches.append(claimant.batch)
        columns.plans += claimant.plan.encode()
        columns.ends.append(len(columns.plans))

    def get(self, at: ClaimsAt) -> Claimant | None:
        """Who claims at a position, if anybody does."""
        ledger, position = at
        columns = self._ledgers.get(ledger)
        if columns is None:
            return None
        row = bisect_left(columns.positions, position)
        if row == len(columns.positions) or columns.positions[row] != position:
            return None
        return self._claimant(columns, row)

    def __getitem__(self, at: ClaimsAt) -> Claimant:
        claimant = self.get(at)
        if claimant is None:
            raise KeyError(at)
        return claimant

    def __len__(self) -> int:
        return sum(len(columns.positions) for columns in self._ledgers.values())

    def items(self, ledger: LedgerId, first: int = 0) -> Iterator[tuple[int, Claimant]]:
        """The positions of a ledger from `first` on at which somebody claims, and who does."""
        columns = self._ledgers.get(ledger)
        if columns is not None:
            for row in range(bisect_left(columns.positions, first), len(columns.positions)):
                yield columns.positions[row], self._claimant(columns, row)

    def pack(self, ledger: LedgerId, first: int) -> bytes:
        """Who claims in a ledger from a position on, as bytes; nothing if nobody does."""
        columns = self._ledgers.get(ledger)
        row = 0 if columns is None else bisect_left(columns.positions, first)
        if columns is None or row == len(columns.positions):
            return b""
        start = columns.ends[row - 1] if row else 0
        numbers, epochs = np.unique(np.array(columns.epochs[row:], np.uint32), return_inverse=True)
        parts = (
            json.dumps([self._epochs[number] for number in numbers.tolist()]).encode(),
            np.array(columns.positions[row:], "<u4").tobytes(),
            epochs.astype("<u4").tobytes(),
            np.array(columns.batches[row:], "<i8").tobytes(),
            (np.array(columns.ends[row:], "<u8") - np.uint64(start)).astype("<u8").tobytes(),
            bytes(columns.plans[start:]),
        )
        return zlib.compress(b"".join(len(one).to_bytes(8, "little") + one for one in parts), _LEVEL)

    def unpack(self, ledger: LedgerId, packed: bytes) -> None:
        """Note what `pack` gave, behind all that is known of the ledger."""
        names, positions, epochs, batches, ends, plans = _parts(zlib.decompress(packed))
        columns = self._ledgers.setdefault(ledger, _OfLedger())
        numbers = np.array([self._number(Epoch(*one)) for one in json.loads(names)], np.uint32)
        start = len(columns.plans)
        columns.positions.extend(np.frombuffer(positions, "<u4").tolist())
        columns.epochs.extend(numbers[np.frombuffer(epochs, "<u4")].tolist())
        columns.batches.extend(np.frombuffer(batches, "<i8").tolist())
        columns.ends.extend((np.frombuffer(ends, "<u8") + np.uint64(start)).tolist())
        columns.plans += plans

    def ledgers(self) -> list[LedgerId]:
        """The ledgers in which anybody claims."""
        return sorted(self._ledgers)

    def drop(self, generation: int) -> None:
        """Forget all of a generation."""
        for ledger in [one for one in self._ledgers if one.generation == generation]:
            del self._ledgers[ledger]

    def owners(self) -> Owners:
        """Whose claims there are, for a snapshot. Full blocks are made once."""
        if len(self._datacenters) > MOST_DATACENTERS:
            raise ValueError(f"{len(self._datacenters)} datacenters; a byte tells {MOST_DATACENTERS} apart")
        of_epochs = np.array([self._datacenters[one.datacenter] for one in self._epochs], np.uint8)
        tails = {}
        for ledger, columns in self._ledgers.items():
            last = columns.positions[-1] if columns.positions else -1
            while (len(columns.blocks) + 1) * BLOCK <= last:
                columns.blocks.append(_block(columns, of_epochs, len(columns.blocks), BLOCK))
            length = last + 1 - len(columns.blocks) * BLOCK
            tails[ledger] = _block(columns, of_epochs, len(columns.blocks), length)
        return Owners(
            tuple(self._datacenters),
            {ledger: tuple(columns.blocks) for ledger, columns in self._ledgers.items()},
            tails,
        )

    def _number(self, epoch: Epoch) -> int:
        number = self._numbers.get(epoch)
        if number is None:
            number = self._numbers[epoch] = len(self._epochs)
            self._epochs.append(epoch)
            self._datacenters.setdefault(epoch.datacenter, len(self._datacenters) + 1)
        return number

    def _claimant(self, columns: _OfLedger, row: int) -> Claimant:
        start = columns.ends[row - 1] if row else 0
        plan = columns.plans[start : columns.ends[row]].decode()
        return Claimant(self._epochs[columns.epochs[row]], columns.batches[row], plan)


def _block(columns: _OfLedger, of_epochs: npt.NDArray[np.uint8], number: int, length: int) -> bytes:
    """The owners of so many positions from a block's first on, compressed."""
    first = number * BLOCK
    start, end = (bisect_left(columns.positions, one) for one in (first, first + length))
    block = np.zeros(length, np.uint8)
    positions = np.array(columns.positions[start:end], np.int64) - first
    block[positions] = of_epochs[np.array(columns.epochs[start:end], np.int64)]
    return zlib.compress(block.tobytes(), _LEVEL)


def _parts(content: bytes) -> Iterator[bytes]:
    """The parts of what was packed, each behind its length."""
    at = 0
    while at < len(content):
        end = at + 8 + int.from_bytes(content[at : at + 8], "little")
        yield content[at + 8 : end]
        at = end
