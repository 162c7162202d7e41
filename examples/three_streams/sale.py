"""One row for each conversion, with what its click and the click's query say."""

from __future__ import annotations

from typing import Any

from photon.adapters import per_event


@per_event
def sale(foreign: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any]:
    """The row. `primary` is a joined row of the first pipeline, with its columns of click and query."""
    return {
        "click_id": primary["click_id"],
        "cents": foreign["cents"],
        "position": primary["position"],
        "query_id": primary["query_id"],
        "query": primary["primary_text"],
    }
