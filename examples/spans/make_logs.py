"""Writes requests and responses as lines of `span_lines`: `python examples/spans/make_logs.py [FOLDER]`.

Each of 20 requests has a response. The file of the responses ends with a line of another kind.
"""

from __future__ import annotations

import sys
from pathlib import Path

REQUESTS = 20


def make_logs(folder: Path) -> None:
    """Write the logs below `folder`/logs."""
    requests = [f'2026-01-05T10:{n:02}:00Z trace:t{n} /search?q="{n} a"' for n in range(REQUESTS)]
    responses = [
        f"2026-01-05T10:{n:02}:01Z trace:t{n} span:s{n} status:{200 if n % 5 else 503}"
        for n in range(REQUESTS)
    ]
    _write(folder / "logs" / "requests" / "a.log", requests)
    _write(folder / "logs" / "responses" / "a.log", [*responses, "-- the server was restarted --"])


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    make_logs(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
