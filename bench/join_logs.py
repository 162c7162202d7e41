"""Two generated logs for the comparison of joins, and the rows that must come of them.

JSON lines of 20 columns and about 500 bytes. Every value follows from the number of its event, so the truth
is computed and not remembered. It uses no engine code, whose mistakes must not shape what is expected.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

START_MS = 1_767_607_200_000  # 2026-01-05 10:00 UTC
SPAN_MS = 4 * 3_600_000  # event time, whatever the number of events
LONGEST_LAG_MS = 300_000  # from a query to its click
LATE_MS = 3_600_000  # a late query is written this long after its time, or later
LATE_SHARE, REPEATED_SHARE = 20, 100  # every 20th query may be late; every 100th click is logged twice
IDLE_SHARE = 20  # every 20th of the first queries is in the idle file
LINES_AT_ONCE = 100_000
PREFIX = "primary_"

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64) Gecko",
    "Mozilla/5.0 (Macintosh) AppleWebKit",
    "Mozilla/5.0 (Win64)",
)
# Values of the columns that both logs have. The hash of an event's number chooses one.
COMMON: dict[str, list[str]] = {
    "user": [f"user-{n:06d}" for n in range(50_000)],
    "session": [f"{n * 2_654_435_761 % 2**32:08x}" for n in range(100_000)],
    "ip": [f"10.{n >> 8}.{n & 255}.{n * 7 % 256}" for n in range(65_536)],
    "country": ["de", "fr", "it", "at", "ch", "nl", "be", "dk", "se", "no", "fi", "pl"],
    "language": ["de", "fr", "it", "nl", "da", "sv", "no", "fi", "pl", "en"],
    "device": ["phone", "tablet", "laptop", "desktop", "watch", "tv"],
    "os": [f"system {n}" for n in range(8)],
    "agent": [f"{_AGENTS[n % 3]}/{n}" for n in range(40)],
    "page": [f"/catalogue/{n % 17}/page-{n}" for n in range(200)],
    "referrer": [f"https://site-{n}.example/from/{n * 31}" for n in range(200)],
    "experiment": [f"variant-{n:02d}" for n in range(16)],
    "server": [f"front-{n:03d}" for n in range(256)],
    "region": [f"region-{n}" for n in range(8)],
    "note": [f"note {n}, " + "as long as such texts are wont to be " * (1 + n % 2) for n in range(1_000)],
}
PRIMARY_INTEGERS = ("time", "status", "latency_us", "results")
FOREIGN_INTEGERS = ("time", "position", "dwell_ms")


@dataclass(frozen=True)
class JoinLogs:
    """`primary` queries and `foreign` clicks, each log in so many files; every click has its query.

    Logs of different seeds have no id in common.
    """

    primary: int
    foreign: int
    files: int = 20
    seed: int = 1
    some_late: bool = False  # queries that are an hour late, or more, in one more file
    one_idle: bool = (
        False  # one more file of queries has some of the first, and does not grow with the others
    )

    def write(self, folder: Path) -> None:
        """Write the files in the order of their events: `queries-000.jsonl`, `clicks-000.jsonl` and so on."""
        folder.mkdir(parents=True)
        for name, files in (("queries", self._query_files()), ("clicks", self._click_files())):
            for number, tables in enumerate(files):
                with (folder / f"{name}-{number:03d}.jsonl").open("wb") as file:
                    for table in tables:
                        file.write(lines_of(table))

    def expected(self) -> pa.Table:
        """The row of each click: its own columns, then those of its query with a prefix."""
        clicks = np.arange(self.foreign)
        queries = self.queries(self._query_of(clicks))
        prefixed = queries.rename_columns([PREFIX + name for name in queries.column_names])
        return _beside(self.clicks(clicks), prefixed)

    @property
    def records(self) -> int:
        """Lines of the foreign log, with the repeated ones."""
        return self.foreign + len(range(0, self.foreign, REPEATED_SHARE))

    def queries(self, numbers: Numbers) -> pa.Table:
        """The primary events of these numbers."""
        return pa.table(
            {
                "query_id": _ids(f"q{self.seed}", numbers),
                "time": self._query_ms(numbers),
                **_common(numbers, salt=1),
                "text": _chosen([f"words number {n} of a search" for n in range(1_000)], numbers, 100),
                "status": _mixed(numbers, 101) % 5 * 100,
                "latency_us": _mixed(numbers, 102) % 900_000,
                "results": _mixed(numbers, 103) % 5_000,
            }
        )

    def clicks(self, numbers: Numbers) -> pa.Table:
        """The foreign events of these numbers."""
        queries = self._query_of(numbers)
        return pa.table(
            {
                "click_id": _ids(f"c{self.seed}", numbers),
                "query_id": _ids(f"q{self.seed}", queries),
                "time": self._click_ms(numbers),
                **_common(numbers, salt=200),
                "position": _mixed(numbers, 301) % 50,
                "dwell_ms": _mixed(numbers, 302) % 60_000,
                "target": _chosen([f"https://shop-{n}.example/item" for n in range(5_000)], numbers, 303),
            }
        )

    def is_late(self, queries: Numbers) -> Flags:
        """Which of these queries are in the late file: one in 20 of all but the last hour's."""
        early = self._query_ms(queries) < START_MS + SPAN_MS - LATE_MS
        late: Flags = early & (_mixed(queries, 400) % LATE_SHARE == 0) & self.some_late
        return late

    def is_idle(self, queries: Numbers) -> Flags:
        """Which of these queries are in the idle file: one in 20 of the first tenth."""
        idle: Flags = (queries < self.primary // 10) & (queries % IDLE_SHARE == 0) & self.one_idle
        return idle

    def _query_of(self, clicks: Numbers) -> Numbers:
        return _mixed(clicks, 500 + self.seed) % self.primary

    def _query_ms(self, numbers: Numbers) -> Numbers:
        return START_MS + numbers * SPAN_MS // self.primary

    def _click_ms(self, numbers: Numbers) -> Numbers:
        return self._query_ms(self._query_of(numbers)) + 1 + _mixed(numbers, 600) % LONGEST_LAG_MS

    def _query_files(self) -> Iterator[Iterator[pa.Table]]:
        numbers = np.arange(self.primary)
        late, idle = self.is_late(numbers), self.is_idle(numbers)
        if self.one_idle:
            yield self._tables(numbers[idle])
        for part in np.array_split(numbers, self.files):
            yield self._tables(part[~late[part] & ~idle[part]])
        if self.some_late:
            yield self._tables(numbers[late])

    def _tables(self, queries: Numbers) -> Iterator[pa.Table]:
        for begin in range(0, len(queries), LINES_AT_ONCE):
            yield self.queries(queries[begin : begin + LINES_AT_ONCE])

    def _click_files(self) -> Iterator[list[pa.Table]]:
        """Clicks by their time; one that is logged twice comes again at the end of the next file."""
        numbers = np.arange(self.foreign)
        part = np.minimum((self._click_ms(numbers) - START_MS) * self.files // SPAN_MS, self.files - 1)
        numbers = numbers[np.argsort(self._click_ms(numbers), kind="stable")]
        repeated = np.arange(0, self.foreign, REPEATED_SHARE)
        again = np.minimum(part[repeated] + 1, self.files - 1)
        for file in range(self.files):
            yield [self.clicks(numbers[part[numbers] == file]), self.clicks(repeated[again == file])]


def place(generated: Path, folder: Path, shuffle_seed: int | None = None) -> None:
    """Hard links to all files in a new folder, each a second older than the next.

    With a seed their names and ages say another order than that of their events.
    """
    folder.mkdir(parents=True)
    now = time.time()
    for name in ("queries", "clicks"):
        files = sorted(generated.glob(f"{name}-*.jsonl"))
        order: Sequence[int] = range(len(files))
        if shuffle_seed is not None:
            order = np.random.default_rng([shuffle_seed, len(name)]).permutation(len(files)).tolist()
        for number, index in enumerate(order):
            link = folder / f"{name}-{number:03d}.jsonl"
            os.link(files[index], link)
            os.utime(link, (now, now - len(files) + number))


def lines_of(table: pa.Table) -> bytes:
    """A table's rows as JSON lines. Its texts need no escapes."""
    pieces: list[pa.Array | str] = []
    for number, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        quote = '"' if pa.types.is_string(column.type) else ""
        before = "{" if number == 0 else f"{pieces.pop()},"
        pieces += [f'{before}"{name}":{quote}', column.cast(pa.string()).combine_chunks(), quote]
    pieces[-1] = f"{pieces[-1]}}}\n"
    lines = pc.binary_join_element_wise(*pieces, "")
    return "".join(lines.to_pylist()).encode()


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table([*left.columns, *right.columns], names=[*left.column_names, *right.column_names])


def _common(numbers: Numbers, salt: int) -> dict[str, pa.Array]:
    named = enumerate(COMMON.items(), start=salt)
    return {name: _chosen(values, numbers, own) for own, (name, values) in named}


def _chosen(values: list[str], numbers: Numbers, salt: int) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(_mixed(numbers, salt) % len(values)))


def _ids(prefix: str, numbers: Numbers) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "-")


def _mixed(numbers: Numbers, salt: int) -> Numbers:
    """A hash of each number, at least 0: the finalizer of splitmix64."""
    bits = numbers.astype(np.uint64) + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((bits ^ (bits >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
