"""Writes queries, clicks and conversions: `python examples/three_streams/make_logs.py [FOLDER]`.

Two datacenters get the same logs as JSON lines. Of 60 queries 40 are clicked on, and a conversion follows on
every second click. Two more clicks have no query, so that the conversion of one has no joined click. One more
conversion names a click that nobody made, and one comes twice.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

DATACENTERS = ("east", "west")
QUERIES, CLICKS = 60, 40
BEGIN_S = 1_767_607_200  # 2026-01-05T10:00:00Z
MINUTE_S = 60

Event = Mapping[str, object]


@dataclass(frozen=True)
class Streams:
    """The events of all three streams, by the time of each."""

    queries: list[Event]
    clicks: list[Event]
    conversions: list[Event]


def streams() -> Streams:
    """All events, in the order in which they are logged."""
    queries: list[Event] = [
        {"query_id": f"q{n:03}", "at": BEGIN_S + 10 * n, "text": f"shoes of size {n}"} for n in range(QUERIES)
    ]
    clicks = [_click(f"k{n:03}", f"q{n:03}", n) for n in range(CLICKS)]
    clicks += [_click(f"k{n:03}", f"never-{n}", n) for n in (CLICKS, CLICKS + 1)]
    conversions = [_conversion(f"c{n:03}", f"k{n:03}", n) for n in range(0, CLICKS, 2)]
    conversions += [
        _conversion("c100", f"k{CLICKS:03}", CLICKS),  # its click has no query
        _conversion("c101", "never", CLICKS),
        conversions[-1],
    ]
    return Streams(queries, clicks, conversions)


def _click(click_id: str, query_id: str, n: int) -> Event:
    return {
        "click_id": click_id,
        "query_id": query_id,
        "at": BEGIN_S + 10 * n + MINUTE_S,
        "position": 1 + n % 5,
    }


def _conversion(conversion_id: str, click_id: str, n: int) -> Event:
    return {
        "conversion_id": conversion_id,
        "click_id": click_id,
        "at": BEGIN_S + 10 * n + 2 * MINUTE_S,
        "cents": 100 * (n + 1),
    }


def make_logs(folder: Path) -> None:
    """Write the logs below `folder`/logs."""
    made = streams()
    for name in DATACENTERS:
        for kind, events in vars(made).items():
            _write(folder / "logs" / name / kind / "a.jsonl", events)


def _write(path: Path, events: Iterable[Event]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


if __name__ == "__main__":
    make_logs(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
