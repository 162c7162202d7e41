"""Writes impressions and conversions as TSV, compressed: `python examples/conversions/make_logs.py [FOLDER]`.

There are 60 impressions in two files, and a conversion of every second one. Each fifth conversion comes two
days after its impression; all others come an hour after it.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

IMPRESSIONS = 60
BEGIN_S = 1_767_607_200.0  # 2026-01-05T10:00:00Z
HOUR_S, TWO_DAYS_S = 3_600.0, 172_800.0


def make_logs(folder: Path) -> None:
    """Write the logs below `folder`/logs."""
    shown = [BEGIN_S + 60.5 * number for number in range(IMPRESSIONS)]
    impressions = [[f"i{n:03}", at, f"campaign-{n % 3}", 0.25] for n, at in enumerate(shown)]
    conversions = [
        [f"c{n:03}", f"i{n:03}", shown[n] + (TWO_DAYS_S if n % 10 == 0 else HOUR_S), 1.5]
        for n in range(0, IMPRESSIONS, 2)
    ]
    header = ["impression_id", "shown", "campaign", "price"]
    for hour, rows in enumerate((impressions[:30], impressions[30:])):
        _write(folder / "logs" / "impressions" / f"hour-{hour}.tsv.gz", header, rows)
    header = ["conversion_id", "impression_id", "at", "value"]
    _write(folder / "logs" / "conversions" / "hour-0.tsv.gz", header, conversions)


def _write(path: Path, header: list[str], rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines("\t".join(map(str, row)) + "\n" for row in [header, *rows])


if __name__ == "__main__":
    make_logs(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
