"""How long one look at many growing files takes, with a range cut of each: the log side of planning a batch.

    python bench/plan_many_files.py [FILES]

The target is 0.2 s for 2,000 files, all of which grew (issue 3, numbers).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from photon.logs.ranges import share_bytes
from photon.logs.tail import LogTail
from photon.pipeline import Limits, PrimaryLog, Tailing

ROUNDS = 5
LINE = b'{"id": "0123456789", "time": 1700000000.123, "query": "the words of a query"}\n'


def main(count: int) -> None:
    """Measure with `count` files and print."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"server{i % 20}" / f"queries{i}.jsonl" for i in range(count)]
        for path in paths:
            path.parent.mkdir(exist_ok=True)
        limits = Limits()
        log = PrimaryLog(files="**/*.jsonl", format="jsonl", id=("id",), time="time")
        tail = LogTail(Path(folder), "primary", log, limits, Tailing())
        tracked, number = {}, 1
        for turn in range(ROUNDS):
            for i, path in enumerate(paths):
                with path.open("ab") as file:
                    file.write(f"{i}:".encode() + LINE * 10)
            start = time.perf_counter()
            look = tail.observe(tracked, number, turn)
            tracked.update(look.changed)
            number = look.next_number
            looked = time.perf_counter()
            shares = share_bytes(look.backlog_bytes, limits.batch_primary, limits.file_quantum)
            cuts = [tail.cut(tracked[number], share) for number, share in shares.items()]
            done = time.perf_counter()
            assert len(cuts) == count
            tracked.update((cut[1].file.number, cut[1]) for cut in cuts if cut is not None)
            kind = "first look" if turn == 0 else "all grew"
            print(f"{count} files, {kind}: observe {looked - start:.3f} s, cut {done - looked:.3f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
