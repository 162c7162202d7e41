"""The plan of a rebuild: bounded pages, each of which is one commit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from photon.registry.entry import Claimant


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
class RowGroups:
    """Row groups of one data file."""

    path: str
    groups: range


@dataclass(frozen=True)
class RemakePiece:
    """The rows that one task makes again."""

    parts: tuple[RowGroups, ...]
    partial: tuple[int, ...] = ()  # the places of parts that are not all of their file
    second_rows: tuple[tuple[str, int], ...] = ()  # as file and row; they go: another row has their event


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
    files: Sequence[TableFile], piece_rows: int, second_rows: Mapping[str, Sequence[int]]
) -> list[RemakePiece]:
    """The pieces of a page, of about so many rows: many small files, or row groups of a big one."""
    pieces: list[RemakePiece] = []
    small: list[RowGroups] = []
    rows = 0

    def add(parts: Sequence[RowGroups], partial: tuple[int, ...] = ()) -> None:
        going = [(part.path, row) for part in parts for row in second_rows.get(part.path, ())]
        pieces.append(RemakePiece(tuple(parts), partial, tuple(going)))

    for file in files:
        if file.rows > piece_rows:  # a single row group may be larger: it is read in slices
            for groups in _runs(file.groups, piece_rows):
                add([RowGroups(file.path, groups)], (0,))
            continue
        if small and rows + file.rows > piece_rows:
            add(small)
            small, rows = [], 0
        small.append(RowGroups(file.path, range(len(file.groups))))
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


# -- events with several rows


@dataclass(frozen=True, slots=True)
class CompetingRow:
    """One of several rows of an event, over the tables of all datacenters."""

    event_id: str
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
    def claimant(self) -> str:
        """The plan that it says it is of, as `Claimant` is written."""
        return f"{self.datacenter}:{self.epoch}:{self.batch}#{self.plan}"


def rows_to_drop(
    rows: Sequence[CompetingRow], datacenter: str, holder: Claimant | None
) -> list[CompetingRow]:
    """Choose which of a datacenter's rows of one event go, so that one row of it is left.

    `holder`: the plan that holds the event. Its row stays; else the earliest row of its datacenter. Where
    that has no row, the first row of all stays.
    """

    def rank(row: CompetingRow) -> tuple[bool, bool, str, int, tuple[str, str, int]]:
        is_elsewhere = holder is None or row.datacenter != holder.epoch.datacenter
        return is_elsewhere, row.claimant != str(holder), row.datacenter, row.batch, row.place

    return [row for row in sorted(rows, key=rank)[1:] if row.datacenter == datacenter]
