"""What a rebuild reads, in bounded pages: one page is one commit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file of a table."""

    path: str  # relative to the table's folder
    size_bytes: int
    groups: tuple[int, ...]  # rows of each row group

    @property
    def rows(self) -> int:
        return sum(self.groups)


@dataclass(frozen=True, slots=True)
class Part:
    """Row groups of one data file."""

    path: str
    groups: range


@dataclass(frozen=True)
class Piece:
    """What one task makes again."""

    parts: tuple[Part, ...]
    partial: tuple[int, ...] = ()  # the places of parts that are not all of their file
    doubled: tuple[tuple[str, int], ...] = ()  # rows that go, as file and row: another row has their event


def pages_of(files: Iterable[TableFile], page_rows: int) -> list[list[TableFile]]:
    """Files in pages of about so many rows, in order; a larger file is a page alone."""
    pages: list[list[TableFile]] = []
    rows = 0
    for file in sorted(files, key=lambda file: file.path):
        if not pages or rows + file.rows > page_rows:
            pages.append([])
            rows = 0
        pages[-1].append(file)
        rows += file.rows
    return pages


def pieces_of(
    files: Sequence[TableFile], piece_rows: int, doubled: Mapping[str, Sequence[int]]
) -> list[Piece]:
    """The pieces of a page, of about so many rows: many small files, or row groups of a big one."""
    pieces: list[Piece] = []
    small: list[Part] = []
    rows = 0

    def add(parts: Sequence[Part], partial: tuple[int, ...] = ()) -> None:
        going = [(part.path, row) for part in parts for row in doubled.get(part.path, ())]
        pieces.append(Piece(tuple(parts), partial, tuple(going)))

    for file in files:
        if file.rows > piece_rows:  # a single row group may be larger: it is read in slices
            for groups in _runs(file.groups, piece_rows):
                add([Part(file.path, groups)], (0,))
            continue
        if small and rows + file.rows > piece_rows:
            add(small)
            small, rows = [], 0
        small.append(Part(file.path, range(len(file.groups))))
        rows += file.rows
    if small:
        add(small)
    return pieces


def _runs(groups: Sequence[int], most_rows: int) -> list[range]:
    """Consecutive row groups of at most so many rows, but at least one group."""
    found: list[range] = []
    start, rows = 0, 0
    for number, count in enumerate(groups):
        if number > start and rows + count > most_rows:
            found.append(range(start, number))
            start, rows = number, 0
        rows += count
    return [*found, range(start, len(groups))]


# -- doubled events


@dataclass(frozen=True, slots=True)
class DoubledRow:
    """One of several rows of an event, over the tables of all datacenters."""

    event: tuple[str, int]  # id, and time: another event where that belongs to its identity
    datacenter: str
    file: str
    row: int
    epoch: str
    batch: int
    plan: str | None
    occurrence: str

    @property
    def place(self) -> tuple[str, str, int]:
        return self.datacenter, self.file, self.row

    @property
    def token(self) -> str:
        """The token that registered it, if it did."""
        return f"{self.datacenter}:{self.epoch}:{self.batch}#{self.plan}:{self.occurrence}"


def rows_to_drop(
    rows: Sequence[DoubledRow], datacenter: str, holder: tuple[str, str | None] | None
) -> list[DoubledRow]:
    """Those of a datacenter's rows of one event that go, so that one row of it is left.

    `holder`: the datacenter that the registry names, and the token unless it is cleared. Its row stays: of
    several the one of the token, else the earliest. Where the holder has no row, the first row of all stays.
    """
    owner, token = holder or ("", None)
    ranked = sorted(
        rows,
        key=lambda row: (row.datacenter != owner, row.token != token, row.datacenter, row.batch, row.place),
    )
    return [row for row in ranked[1:] if row.datacenter == datacenter]
