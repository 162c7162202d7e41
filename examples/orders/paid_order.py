"""One row for each payment, with what its order says; payments in the currency of tests are filtered."""

from __future__ import annotations

import json
from typing import Any

from photon.adapters import per_event

TEST_CURRENCY = "XTS"


@per_event
def paid_order(foreign: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any] | None:
    """The row, or None: no row. An object within a line comes as its JSON text."""
    if foreign["currency"] == TEST_CURRENCY:
        return None
    items = json.loads(primary["items"])
    return {
        "order_id": foreign["order_id"],
        "cents": foreign["cents"],
        "items": sum(item["count"] for item in items),
        "country": json.loads(primary["customer"])["country"],
    }
