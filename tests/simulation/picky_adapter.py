"""An adapter that skips, drops and fails as the clicks' own values ask it to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import Adapter, PerEventAdapter

NAME = "tests.simulation.picky_adapter"


def _join(foreign: dict[str, Any], primary: dict[str, Any]) -> dict[str, Any] | None:
    match foreign.get("asks"):
        case "drop":
            return None
        case "fail":
            raise ValueError("it was asked to")
    return {"query": foreign["query"], "text": primary["text"], "note": foreign.get("note")}


class _Picky(PerEventAdapter):
    def skip(self, foreign: pa.Table) -> pa.BooleanArray | None:
        if "asks" not in foreign.column_names:
            return None
        skipped = pc.fill_null(pc.equal(foreign["asks"].cast(pa.string()), "skip"), False)
        return skipped.combine_chunks() if isinstance(skipped, pa.ChunkedArray) else skipped


join: Adapter = _Picky(_join)
