"""Who claimed at which position of which ledger: columns, since a day has some 100,000 such entries.

A position takes some 36 bytes. A snapshot says of a position no more than the datacenter (`Owners`).
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from photon.registry.entry import Claimant, Epoch, LedgerId
from photon.registry.fold import ClaimsAt

NOBODY = 0  # instead of the number of an epoch
BLOCK = 2**16  # positions that are compressed together, once all of them are known
MOST_DATACENTERS = 255  # that a byte tells apart
_LEVEL = 1  # quick compression: a batch waits while a block is made


@dataclass(slots=True)
class _OfLedger:
    """One ledger's columns, by position. `epochs`: numbers, NOBODY where nobody claims; `plans`: texts."""

    epochs: array[int] = field(default_factory=lambda: array("I"))
    batches: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("Q"))  # where each plan's text ends
    plans: bytearray = field(default_factory=bytearray)
    blocks: list[bytes] = field(default_factory=list)  # the full ones of `Owners`

    def reach(self, position: int) -> None:
        """Have nobody claim before this position, as far as nothing is known."""
        missing = position - len(self.epochs)
        self.epochs.extend([NOBODY] * missing)
        self.batches.extend([0] * missing)
        self.ends.extend([len(self.plans)] * missing)


@dataclass(frozen=True, slots=True)
class Owners:
    """The datacenter that claims at each position of each ledger: a byte, 0 for nobody, else its place + 1.

    `blocks`: compressed, all but the last of one length.
    """

    datacenters: tuple[str, ...]
    blocks: dict[LedgerId, tuple[bytes, ...]]

    def columns(self) -> dict[LedgerId, npt.NDArray[np.uint8]]:
        """The bytes of each ledger, by position."""
        return {
            ledger: np.frombuffer(b"".join(map(zlib.decompress, blocks)), np.uint8)
            for ledger, blocks in self.blocks.items()
        }


class Claimants:
    """Who claims at each position of each ledger. Those of a ledger come in the order of positions."""

    def __init__(self) -> None:
        self._ledgers: dict[LedgerId, _OfLedger] = {}
        self._epochs: list[Epoch] = []  # the first has the number 1
        self._numbers: dict[Epoch, int] = {}
        self._datacenters: dict[str, int] = {}  # and its byte

    def put(self, at: ClaimsAt, claimant: Claimant) -> None:
        """Note who claims at a position behind all that are known of its ledger."""
        ledger, position = at
        columns = self._ledgers.setdefault(ledger, _OfLedger())
        if position < len(columns.epochs):
            known = len(columns.epochs) - 1
            raise ValueError(f"position {position} of ledger {ledger} comes behind {known}")
        columns.reach(position)
        columns.epochs.append(self._number(claimant.epoch))
        columns.batches.append(claimant.batch)
        columns.plans += claimant.plan.encode()
        columns.ends.append(len(columns.plans))

    def get(self, at: ClaimsAt) -> Claimant | None:
        """Who claims at a position, if anybody does."""
        ledger, position = at
        columns = self._ledgers.get(ledger)
        if columns is None or position >= len(columns.epochs) or columns.epochs[position] == NOBODY:
            return None
        start = columns.ends[position - 1] if position else 0
        plan = columns.plans[start : columns.ends[position]].decode()
        return Claimant(self._epochs[columns.epochs[position] - 1], columns.batches[position], plan)

    def __getitem__(self, at: ClaimsAt) -> Claimant:
        claimant = self.get(at)
        if claimant is None:
            raise KeyError(at)
        return claimant

    def __len__(self) -> int:
        return sum(sum(number != NOBODY for number in one.epochs) for one in self._ledgers.values())

    def items(self, ledger: LedgerId) -> Iterator[tuple[int, Claimant]]:
        """The positions of a ledger at which somebody claims, and who does."""
        columns = self._ledgers.get(ledger, _OfLedger())
        for position in range(len(columns.epochs)):
            if (claimant := self.get((ledger, position))) is not None:
                yield position, claimant

    def pack(self, ledger: LedgerId, first: int) -> bytes:
        """Who claims in a ledger from a position on, as bytes; nothing if nobody does."""
        columns = self._ledgers.get(ledger, _OfLedger())
        if first >= len(columns.epochs):
            return b""
        start = columns.ends[first - 1] if first else 0
        parts = (
            json.dumps([first, self._epochs]).encode(),
            np.array(columns.epochs[first:], "<u4").tobytes(),
            np.array(columns.batches[first:], "<i8").tobytes(),
            (np.array(columns.ends[first:], "<u8") - np.uint64(start)).astype("<u8").tobytes(),
            bytes(columns.plans[start:]),
        )
        return zlib.compress(b"".join(len(one).to_bytes(8, "little") + one for one in parts), _LEVEL)

    def unpack(self, ledger: LedgerId, packed: bytes) -> None:
        """Note what `pack` gave, behind all that is known of the ledger."""
        head, epochs, batches, ends, plans = _parts(zlib.decompress(packed))
        first, names = json.loads(head)
        numbers = np.array([NOBODY, *(self._number(Epoch(*one)) for one in names)], np.uint32)
        columns = self._ledgers.setdefault(ledger, _OfLedger())
        columns.reach(first)
        start = len(columns.plans)
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
        """Say for a snapshot whose claims there are. Full blocks are made once."""
        if len(self._datacenters) > MOST_DATACENTERS:
            raise ValueError(f"{len(self._datacenters)} datacenters; a byte tells {MOST_DATACENTERS} apart")
        of_epochs = np.array([0, *(self._datacenters[one.datacenter] for one in self._epochs)], np.uint8)

        def block(columns: _OfLedger) -> bytes:
            first = len(columns.blocks) * BLOCK
            numbers = np.array(columns.epochs[first : first + BLOCK], np.int64)
            return zlib.compress(of_epochs[numbers].tobytes(), _LEVEL)

        for columns in self._ledgers.values():
            while (len(columns.blocks) + 1) * BLOCK <= len(columns.epochs):
                columns.blocks.append(block(columns))
        return Owners(
            tuple(self._datacenters),
            {ledger: (*columns.blocks, block(columns)) for ledger, columns in self._ledgers.items()},
        )

    def _number(self, epoch: Epoch) -> int:
        number = self._numbers.get(epoch)
        if number is None:
            self._epochs.append(epoch)
            number = self._numbers[epoch] = len(self._epochs)
            self._datacenters.setdefault(epoch.datacenter, len(self._datacenters) + 1)
        return number


def _parts(content: bytes) -> Iterator[bytes]:
    """The parts of what was packed, each behind its length."""
    at = 0
    while at < len(content):
        end = at + 8 + int.from_bytes(content[at : at + 8], "little")
        yield content[at + 8 : end]
        at = end
