"""How much of each file a batch reads: some of all that grow, most of those that were there first."""

from __future__ import annotations

from collections.abc import Mapping

# A batch reads this much of every growing file before it reads more of any. A small batch reads less of each,
# so that it serves at least 16 files.
FILE_QUANTUM_BYTES = 2**20
LEAST_FILES = 16
FAIR_PART = 4  # one part in so many is fair among the files, the rest is for the oldest ones


def fair_shares(
    backlog: Mapping[int, int], total_bytes: int, first: int = 0, quantum_bytes: int | None = None
) -> dict[int, int]:
    """How many bytes each file may read of `total_bytes`, by file number; files that get none are left out.

    In each round every file gets what it has waiting, at most a quantum. The first is the file `first`, or
    the next number after it. So no file starves behind a big one. With `next_to_serve` none is left out
    where there are more files than quanta.
    """
    quantum_bytes = quantum_bytes or max(1, min(FILE_QUANTUM_BYTES, total_bytes // LEAST_FILES))
    shares: dict[int, int] = {}
    waiting = [number for number in _from(backlog, first) if backlog[number] > 0]
    while waiting and total_bytes > 0:
        for number in waiting:
            grant = min(quantum_bytes, backlog[number] - shares.get(number, 0), total_bytes)
            if grant > 0:
                shares[number] = shares.get(number, 0) + grant
                total_bytes -= grant
        waiting = [number for number in waiting if shares.get(number, 0) < backlog[number]]
    return shares


def shares_of(backlog: Mapping[int, int], total_bytes: int, first: int = 0) -> dict[int, int]:
    """How many bytes each file may read of `total_bytes`, by file number: some of each, most of the oldest.

    A part is fair among all, so that files which grow now are followed. The rest goes to those that were
    there first: events that belong together are near each other in time, and so are read together.
    """
    shares = fair_shares(backlog, max(1, total_bytes // FAIR_PART), first)
    left_bytes = total_bytes - sum(shares.values())
    for number in sorted(backlog):
        more_bytes = min(left_bytes, backlog[number] - shares.get(number, 0))
        if more_bytes > 0:
            shares[number] = shares.get(number, 0) + more_bytes
            left_bytes -= more_bytes
    return shares


def next_to_serve(backlog: Mapping[int, int], shares: Mapping[int, int], first: int = 0) -> int:
    """The file that the next batch starts with: the first one, from `first` on, that got nothing this time.

    If all files got something, it is the file after the one that this batch started with.
    """
    order = _from(backlog, first)
    unserved = [number for number in order if number not in shares and backlog[number] > 0]
    return unserved[0] if unserved else order[0] + 1 if order else 0


def _from(numbers: Mapping[int, int], first: int) -> list[int]:
    """The numbers in ascending order, turned so that `first` or what follows it leads."""
    return sorted(numbers, key=lambda number: (number < first, number))
