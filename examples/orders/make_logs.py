"""Writes orders and payments as JSON lines: `python examples/orders/make_logs.py [FOLDER]`.

Each of 30 orders is paid once; three of the payments are tests. The file of the payments ends with a line
that is no JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ORDERS = 30
TESTS = (0, 10, 20)


def make_logs(folder: Path) -> None:
    """Write the logs below `folder`/logs."""
    orders = [
        {
            "order_id": f"o{n:03}",
            "at": f"2026-01-05T10:{n:02}:00Z",
            "items": [{"sku": "pen", "count": 1 + n % 3}, {"sku": "ink", "count": 1}],
            "customer": {"country": ("de", "jp", "us")[n % 3]},
        }
        for n in range(ORDERS)
    ]
    payments = [
        {
            "payment_id": f"p{n:03}",
            "order_id": f"o{n:03}",
            "at": f"2026-01-05T10:{n:02}:30Z",
            "cents": 100 * (n + 1),
            "currency": "XTS" if n in TESTS else "EUR",
        }
        for n in range(ORDERS)
    ]
    _write(folder / "logs" / "orders" / "a.jsonl", orders, "")
    _write(folder / "logs" / "payments" / "a.jsonl", payments, '{"payment_id": "p9\n')


def _write(path: Path, events: list[dict[str, Any]], end: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + end)


if __name__ == "__main__":
    make_logs(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
