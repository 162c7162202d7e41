"""How many events a second one core parses: id and time of generated CSV and JSON lines.

python bench/parse_logs.py [MEGABYTES]
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Literal

from photon.logs.files import ByteRange, LogFile
from photon.logs.parse import read_events
from photon.pipeline.sections import Limits, PrimaryLog

HEADER = b"id,time,query,session,status,score"


def main(size_bytes: int) -> None:
    """Measure both formats at `size_bytes` and print."""
    seed = random.Random(1)
    print("seed 1")
    measure("csv", size_bytes, lambda i: _csv_line(i, seed))
    measure("jsonl", size_bytes, lambda i: _json_line(i, seed))


def _csv_line(i: int, seed: random.Random) -> str:
    time_s = 1_700_000_000 + i / 1000
    return f'{i:016x},{time_s:.3f},"words, of a query {seed.random()}",{seed.getrandbits(32)},ok,{i % 7}\n'


def _json_line(i: int, seed: random.Random) -> str:
    time_s = 1_700_000_000 + i / 1000
    words, session = f"words of a query {seed.random()}", seed.getrandbits(32)
    ends = f'"query": "{words}", "session": {session}, "score": {i % 7}}}\n'
    return f'{{"id": "{i:016x}", "time": {time_s:.3f}, {ends}'


def measure(kind: Literal["csv", "jsonl"], size_bytes: int, line: Callable[[int], str]) -> None:
    """Parse `size_bytes` of lines and print events and megabytes per second."""
    sample = [line(i) for i in range(100_000)]
    data = "".join(sample).encode()
    data *= max(1, size_bytes // len(data))
    header = HEADER if kind == "csv" else b""
    file = LogFile(1, "primary", f"log.{kind}", 1, False, header, 0, 0, b"")
    log = PrimaryLog(files="*", format=kind, id=("id",), time="time")
    start = time.perf_counter()
    parsed = read_events(data, file, ByteRange(1, 0, len(data), 0, 0), log, Limits())
    seconds = time.perf_counter() - start
    assert parsed.dead_letters.num_rows == 0
    events = parsed.events.num_rows
    print(
        f"{kind}: {events / seconds:,.0f} events/s, {len(data) / seconds / 1e6:,.0f} MB/s ({events:,} events)"
    )


if __name__ == "__main__":
    main(1_000_000 * (int(sys.argv[1]) if len(sys.argv) > 1 else 50))
