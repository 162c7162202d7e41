"""Writes some requests and responses as CSV: `python examples/requests/make_logs.py [FOLDER]`.

Of 40 requests each has a response, and of these one is logged twice. One response names a request that is
in no log.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

REQUESTS = 40
BEGIN_MS = 1_767_607_200_000  # 2026-01-05T10:00:00Z


def make_logs(folder: Path) -> None:
    """Write the logs below `folder`/logs."""
    ids = [f"r{number:03}" for number in range(REQUESTS)]
    requests = [[one, BEGIN_MS + 250 * n, "GET", f"/item/{n % 7}"] for n, one in enumerate(ids)]
    responses = [
        [f"web-{n % 2}", n // 2, one, BEGIN_MS + 250 * n + 40, 200 if n % 10 else 503, 0.04]
        for n, one in enumerate(ids)
    ]
    responses += [responses[5], ["web-0", 900, "r999", BEGIN_MS, 200, 0.01]]
    _write(folder / "logs" / "requests" / "a.csv", ["request_id", "at", "method", "path"], requests)
    header = ["host", "number", "request_id", "at", "status", "seconds"]
    _write(folder / "logs" / "responses" / "a.csv", header, responses)


def _write(path: Path, header: list[str], rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    make_logs(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
