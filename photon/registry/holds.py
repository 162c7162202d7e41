"""Who holds which id: runs of claims that count, sorted by hash, newest first, merged by tiers.

Each run maps hashes to the claims that hold them, by ledger number and position, or to FREED. A newer run
hides what older ones say. Runs are kept by generation, so that one that is dropped takes its own along.
A hold takes 22 bytes. That any two of n ids have one hash has a probability of n squared / 2**129: 1.5 in
10**21 for 10**9 ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from photon.pipeline.location import Location
from photon.registry.entry import Hashes, LedgerId, Mask

FREED = 2**32 - 1  # instead of a position: nobody holds the id any more
NOBODY = -1  # instead of a generation
# A run is merged with the one before it until that is so many times as long. So there are few runs, and a
# hold is copied at most eight times in each of some six tiers until there are 10**9.
TIER = 8
FEW_LEDGERS = 4  # as a rule there are no more: to look for each of them is quicker than to sort all ids


class Refs(NamedTuple):
    """The claims that hold each id, as columns. The generation is NOBODY where the id is free."""

    generations: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.uint16]
    positions: npt.NDArray[np.uint32]

    def take(self, indices: npt.NDArray[np.intp]) -> Refs:
        """Some of them."""
        return Refs(self.generations[indices], self.numbers[indices], self.positions[indices])

    @property
    def are_held(self) -> Mask:
        """Which of the ids somebody holds."""
        held: Mask = self.generations != NOBODY
        return held

    def are(self, ledger: LedgerId, position: int) -> Mask:
        """Which of the ids the claims at this position hold."""
        same = (self.numbers == ledger.number) & (self.positions == position)
        held: Mask = same & (self.generations == ledger.generation)
        return held

    def are_any(self, claims: Iterable[tuple[LedgerId, int]]) -> Mask:
        """Which of the ids any of these claims hold."""
        positions: dict[LedgerId, list[int]] = {}
        for ledger, position in claims:
            positions.setdefault(ledger, []).append(position)
        any_of = np.zeros(len(self.generations), bool)
        for ledger, some in positions.items():
            any_of |= self.are_in(ledger) & np.isin(self.positions, np.array(some, np.uint32))
        return any_of

    def are_in(self, ledger: LedgerId) -> Mask:
        """Which of the ids claims in this ledger hold."""
        own: Mask = (self.generations == ledger.generation) & (self.numbers == ledger.number)
        return own

    def ledgers(self) -> list[LedgerId]:
        """The ledgers in which claims hold some of the ids."""
        held = self.are_held
        left = self.generations[held].astype(np.int64) << 16 | self.numbers[held]
        found: list[int] = []
        while len(left) and len(found) < FEW_LEDGERS:
            found.append(int(left[0]))
            left = left[left != found[-1]]
        found += np.unique(left).tolist()
        return [LedgerId(one >> 16, one & 0xFFFF) for one in sorted(found)]

    def claims(self) -> list[tuple[LedgerId, int]]:
        """The ledgers and positions of the claims that hold some of the ids."""
        return [
            (ledger, position)
            for ledger in self.ledgers()
            for position in np.unique(self.positions[self.are_in(ledger)]).tolist()
        ]


@dataclass(frozen=True, slots=True)
class RunFile:
    """Where a run lies as a file, and how many holds are in it."""

    folder: Location
    name: str
    holds: int


@dataclass(frozen=True, slots=True, eq=False)
class HashRun:
    """Columns of one length, ascending by `upper`; no hash is there twice.

    `file`: from which they are mapped, if it is there for as long as the run is used.
    """

    upper: npt.NDArray[np.uint64]
    lower: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.uint16]
    positions: npt.NDArray[np.uint32]
    file: RunFile | None = None

    def __len__(self) -> int:
        return len(self.upper)

    @staticmethod
    def of(hashes: Hashes, number: int, position: int) -> HashRun:
        """A run in which one entry's claims hold these distinct ids; `position` FREED: nobody does."""
        order = np.argsort(np.ascontiguousarray(hashes[:, 0]))
        length = len(hashes)
        return HashRun(
            np.ascontiguousarray(hashes[order, 0]),
            np.ascontiguousarray(hashes[order, 1]),
            np.full(length, number, np.uint16),
            np.full(length, position, np.uint32),
        )

    def find(self, hashes: Hashes) -> npt.NDArray[np.intp]:
        """For each hash its index in the run, or -1. `hashes` ascending are found several times as fast."""
        return self.find_halves(hashes[:, 0], hashes[:, 1])

    def find_halves(
        self, upper: npt.NDArray[np.uint64], lower: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.intp]:
        """`find`, by the hashes' halves."""
        if not len(self.upper):
            return np.full(len(upper), -1)
        places = np.searchsorted(self.upper, upper)
        places[places == len(self.upper)] = 0
        upper_is_there = self.upper[places] == upper
        if not upper_is_there.any():  # as of most runs, for most ids that are new
            return np.full(len(upper), -1)
        found = upper_is_there & (self.lower[places] == lower)
        indices = np.where(found, places, -1)
        for index in np.flatnonzero(upper_is_there & ~found).tolist():  # upper halves meet: 1 in 10**10 or so
            indices[index] = self._find_behind(int(places[index]), upper[index], lower[index])
        return indices

    def _find_behind(self, place: int, upper: np.uint64, lower: np.uint64) -> int:
        while place < len(self.upper) and self.upper[place] == upper:
            if self.lower[place] == lower:
                return place
            place += 1
        return -1


class HashSet:
    """Some distinct ids, among which others are looked for: many at once, and again and again."""

    def __init__(self, hashes: Hashes) -> None:
        self._order = np.argsort(np.ascontiguousarray(hashes[:, 0]))
        self._run = HashRun.of(hashes[self._order], 0, 0)

    def has(self, some: Hashes) -> Mask:
        """Which of these are among them."""
        return self._run.find(some) >= 0

    def rows(self, some: Hashes) -> npt.NDArray[np.intp]:
        """For each of these its row among them, or -1."""
        indices = self._run.find(some)
        return np.where(indices >= 0, self._order[indices], -1) if len(self._run) else indices


def merged(newer: HashRun, older: HashRun) -> HashRun:
    """Both runs as one: of a hash that is in both, what the newer one says."""
    hidden = older.find_halves(newer.upper, newer.lower)
    kept = np.ones(len(older), bool)
    kept[hidden[hidden >= 0]] = False
    upper = np.concatenate((newer.upper, older.upper[kept]))
    order = np.argsort(upper, kind="stable")  # timsort: two ascending parts are merged, not sorted

    def column(name: str) -> npt.NDArray[np.generic]:
        both = np.concatenate((getattr(newer, name), getattr(older, name)[kept]))
        return both[order]

    return HashRun(upper[order], column("lower"), column("numbers"), column("positions"))  # type: ignore[arg-type]


class Holds:
    """The runs of all generations. One thread changes it; others may read what `runs` gave them."""

    def __init__(self) -> None:
        self._runs: dict[int, list[HashRun]] = {}  # those of each generation, oldest first

    def runs(self, generation: int) -> Sequence[HashRun]:
        """The runs of a generation, oldest first."""
        return tuple(self._runs.get(generation, ()))

    def replace(self, generation: int, runs: Sequence[HashRun]) -> None:
        """Have exactly these runs in a generation, oldest first."""
        self._runs[generation] = list(runs)

    @property
    def generations(self) -> list[int]:
        """The generations that have runs, oldest first."""
        return sorted(self._runs)

    @property
    def files(self) -> list[RunFile]:
        """The files of the runs that have one."""
        return [run.file for runs in self._runs.values() for run in runs if run.file is not None]

    @property
    def in_memory(self) -> int:
        """How many holds have no file."""
        return sum(len(run) for runs in self._runs.values() for run in runs if run.file is None)

    def hold(self, ledger: LedgerId, position: int, hashes: Hashes) -> None:
        """The claims at this position hold these distinct ids, whoever did before."""
        self._add(ledger.generation, HashRun.of(hashes, ledger.number, position))

    def free(self, generation: int, hashes: Hashes) -> None:
        """Nobody holds these distinct ids; an entry of this generation says so."""
        self._add(generation, HashRun.of(hashes, 0, FREED))

    def drop(self, generation: int) -> None:
        """Forget all holds of a generation (L12)."""
        self._runs.pop(generation, None)

    def held(self) -> Iterator[tuple[int, HashRun, Mask]]:
        """Each run, newest first, with its generation, and which of its ids no newer run hides."""
        newer: list[HashRun] = []
        for generation in reversed(self.generations):
            for run in reversed(self._runs[generation]):
                held: Mask = run.positions != FREED
                for other in newer:
                    hidden = run.find_halves(other.upper, other.lower)
                    held[hidden[hidden >= 0]] = False
                yield generation, run, held
                newer.append(run)

    def count_by_ledger(self) -> Counter[LedgerId]:
        """How many ids are held in each ledger, by the claims that hold them."""
        counts: Counter[LedgerId] = Counter()
        for generation, run, held in self.held():
            numbers, found = np.unique(run.numbers[held], return_counts=True)
            for number, count in zip(numbers.tolist(), found.tolist(), strict=True):
                counts[LedgerId(generation, number)] += count
        return counts

    def find(self, hashes: Hashes) -> Refs:
        """Who holds each of these ids."""
        length = len(hashes)
        refs = Refs(
            np.full(length, NOBODY, np.int32), np.zeros(length, np.uint16), np.zeros(length, np.uint32)
        )
        left = np.argsort(np.ascontiguousarray(hashes[:, 0]))
        upper, lower = hashes[left, 0], hashes[left, 1]
        for generation in reversed(self.generations):
            for run in reversed(self._runs[generation]):
                if not len(left):
                    return refs
                indices = run.find_halves(upper, lower)
                is_there = indices >= 0
                if is_there.any():
                    self._take(refs, left[is_there], generation, run, indices[is_there])
                    is_left = ~is_there
                    left, upper, lower = left[is_left], upper[is_left], lower[is_left]
        return refs

    @staticmethod
    def _take(
        refs: Refs, where: npt.NDArray[np.intp], generation: int, run: HashRun, indices: npt.NDArray[np.intp]
    ) -> None:
        held = run.positions[indices] != FREED
        where, indices = where[held], indices[held]
        refs.generations[where] = generation
        refs.numbers[where] = run.numbers[indices]
        refs.positions[where] = run.positions[indices]

    def _add(self, generation: int, run: HashRun) -> None:
        if not len(run):
            return
        runs = self._runs.setdefault(generation, [])
        while runs and len(runs[-1]) < TIER * len(run):
            run = merged(run, runs.pop())
        runs.append(run)
