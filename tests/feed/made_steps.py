"""Steps made by hand: what a sink makes of them depends on nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from photon.adapters import ROW_COLUMNS
from photon.feed.sink import Fed
from photon.feed.step import FEED_COLUMNS, Step
from photon.releases.release import Part, Place, Release, Statement

FED = Fed(Path("/logs/clicks.yaml"), "clicks")
POSITION = pa.schema([("position", pa.int64())])


def release(number: int, complete_up_to_us: int | None = None) -> Release:
    said = None if complete_up_to_us is None else Statement(complete_up_to_us)
    part = Part(Place(1, number), "table-of-east", number, number, statement=said)
    return Release(number, made_us=number, by="east", parts={"east": part})


def row(number: int, occurrence: int = 0, change: str = "insert", **values: Any) -> dict[str, Any]:
    """A change of a row of east's batch `number`, as release `_release` shows it, else that number."""
    return {
        "_release": number, "_change_type": change, "_datacenter": "east", "_epoch": "1", "_batch": number,
        "_plan": f"plan {number}", "_occurrence": f"0:{occurrence}", "_event_id": f"{number}-{occurrence}",
        **values,
    }  # fmt: skip


def step(
    number: int,
    rows: Iterable[dict[str, Any]] | None = None,
    *,
    after: int | None = -1,
    others: pa.Schema = POSITION,
    page_rows: int = 2,
    lakes_gone: Sequence[str] = (),
    complete_up_to_us: int | None = None,
) -> Step:
    """The step to a release from the one before it, or from another one; of one row unless it is told."""
    found = [row(number, position=number)] if rows is None else list(rows)
    schema = pa.schema([*FEED_COLUMNS, *ROW_COLUMNS, *others])
    table = pa.Table.from_pylist(found, schema)
    kinds = [each["_change_type"] for each in found]
    before = number - 1 if after == -1 else after
    return Step(
        release(number, complete_up_to_us),
        None if before is None or before < 1 else release(before),
        schema,
        lambda: (table[start : start + page_rows] for start in range(0, table.num_rows, page_rows)),
        inserts=kinds.count("insert"),
        deletes=kinds.count("delete") - len(lakes_gone),
        updates=kinds.count("update_preimage"),
        lakes_gone=tuple(lakes_gone),
    )
