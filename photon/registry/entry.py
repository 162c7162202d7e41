"""An entry, which a position of a ledger holds, and the parts that it is made of. No I/O and no meaning.

What a part means depends on the entries before it in its own ledger: `photon.registry.fold`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from photon.process import clock

Hashes = npt.NDArray[np.uint64]  # shape (n, 2): the upper and the lower half of each id's hash
Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FOR_EVER = 2**63 - 1  # closed through this batch: the epoch is over
NO_TIME_US = clock.NO_TIME_US
NO_BOUNDARY_US = -(2**63)  # below every time
NO_HASHES: Hashes = np.empty((0, 2), np.uint64)


class LedgerId(NamedTuple):
    """A ledger: the number of its generation, and its own in it."""

    generation: int
    number: int

    def __str__(self) -> str:
        return f"{self.generation}-{self.number}"


class Epoch(NamedTuple):
    """The life of a datacenter's state, numbered from 1 in each datacenter."""

    datacenter: str
    number: int

    def __str__(self) -> str:
        return f"{self.datacenter}:{self.number}"


class Claimant(NamedTuple):
    """Who claims: a plan, with its batch and epoch. A row matches a hold by this and the id (protocol A9)."""

    epoch: Epoch
    batch: int
    plan: str

    def __str__(self) -> str:
        return f"{self.epoch}:{self.batch}#{self.plan}"


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """Ids that a plan wants to hold, as columns of one length.

    `times_us`: when each event was, NO_TIME_US where nobody knows. `files` and `offsets_bytes`: the place of
    the record that would join. Of an id that occurs twice the first counts.
    """

    claimant: Claimant
    hashes: Hashes
    times_us: Times
    files: npt.NDArray[np.uint32]
    offsets_bytes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, which: npt.NDArray[np.intp] | Mask | slice) -> Claims:
        """Some of the claims, in this order."""
        return replace(
            self,
            hashes=self.hashes[which],
            times_us=self.times_us[which],
            files=self.files[which],
            offsets_bytes=self.offsets_bytes[which],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """Ids that the claims of one entry hold no longer, by their hashes.

    The hashes are named and not the claims' rows: so a fold needs no entry but its own.
    """

    ledger: LedgerId
    position: int
    hashes: Hashes


@dataclass(frozen=True, slots=True, eq=False)
class Close:
    """An epoch's claims up to a batch are decided (L4): those named by `frees` go, the others are joins.

    `through`: a batch, or FOR_EVER. `is_part`: more frees come in another entry, and nothing is a join yet;
    claims up to `through` are void all the same. `frees_all`: all its holds that are not closed go.
    """

    epoch: Epoch
    through: int
    frees: tuple[Free, ...] = ()
    is_part: bool = False
    frees_all: bool = False


@dataclass(frozen=True, slots=True)
class Genesis:
    """Opens a ledger with what its parents were at their seals (L7).

    `ledgers`: how many the generation has, so that a register that was put back is noticed (L10). `void`: by
    datacenter the last epoch that the parents closed for ever; it and all before it claim nothing here.
    """

    ledgers: int = 1
    parents: tuple[LedgerId, ...] = ()
    boundary_us: int = NO_BOUNDARY_US
    void: Mapping[str, int] = field(default_factory=dict)


class NumberedRelease(NamedTuple):
    """A release, as `photon.releases` stores it. It counts if its number is above all before it."""

    number: int
    content: bytes


NO_RELEASE = NumberedRelease(-1, b"")


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """The value of one position; with no part at all it is a no-op.

    `writer`: unique for each process, so that entries of two are never equal by chance.
    `predecessor`: the checksum of the entry before it, empty at position 0. Parts count in the order of
    the fields. `are_joins`: the claims are of rows that a refill puts back, whatever is closed (L10).
    """

    writer: str = ""
    predecessor: bytes = b""
    genesis: Genesis | None = None
    boundary_us: int | None = None
    closes: tuple[Close, ...] = ()
    frees: tuple[Free, ...] = ()  # joins that go: the epoch's owner says so, or who fenced it (L11)
    claims: Claims | None = None
    are_joins: bool = False
    release: NumberedRelease | None = None  # in the first ledger of a generation
    seals: bool = False


def told_boundary(boundary_us: int) -> int | None:
    """A boundary for people: None where there is none yet."""
    return None if boundary_us == NO_BOUNDARY_US else boundary_us


def ledger_numbers(hashes: Hashes, ledgers: int) -> npt.NDArray[np.int64]:
    """For each hash the number of its ledger, in a generation of so many: they share the range evenly."""
    upper = hashes[:, 0] >> np.uint64(32)
    return ((upper * np.uint64(ledgers)) >> np.uint64(32)).astype(np.int64)
