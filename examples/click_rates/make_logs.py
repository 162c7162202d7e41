"""Writes queries and clicks of a day as JSON lines: `python examples/click_rates/make_logs.py [FOLDER]`.

Both datacenters have a full copy. Each of 48 queries is asked half an hour after the one before; the queries
of every third are clicked twice, of every third once, and of the others not at all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DAY = "2026-01-05"
QUERIES = 48
COUNTRIES = ("de", "jp", "jp", "us")
DATACENTERS = ("east", "west")


def queries() -> list[dict[str, Any]]:
    """The queries of the day."""
    return [
        {"query_id": f"q{n:02}", "time": f"{_time(n)}:00Z", "country": COUNTRIES[n % len(COUNTRIES)]}
        for n in range(QUERIES)
    ]


def clicks() -> list[dict[str, Any]]:
    """Their clicks, some seconds later."""
    return [
        {"click_id": f"q{n:02}-{click}", "query_id": f"q{n:02}", "time": f"{_time(n)}:{10 + click}Z"}
        for n in range(QUERIES)
        for click in range(n % 3)
    ]


def _time(n: int) -> str:
    return f"{DAY}T{n // 2:02}:{30 * (n % 2):02}"


def make_logs(folder: Path) -> None:
    """Write the logs below `folder`/logs."""
    for datacenter in DATACENTERS:
        for kind, events in (("queries", queries()), ("clicks", clicks())):
            path = folder / "logs" / datacenter / kind / "a.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(event) + "\n" for event in events))


if __name__ == "__main__":
    make_logs(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
