"""Rebuilds of a simulated world's rows: the product's own, with its tasks in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from photon.pipeline.file import Pipeline
from photon.upkeep.backfill.messages import REMOVED, TABLE, Remade, RemakeContext
from photon.upkeep.backfill.plan import CompetingRow, RemakePiece
from photon.upkeep.backfill.rebuild import PIECE_ROWS, Rebuild, Rebuilt
from photon.upkeep.backfill.remaking import remake
from photon.verification.days import Window, utc_day
from tests.simulation.reading import asking
from tests.simulation.world import NOON_US, World
from tests.support.crashes import crash_at

DAY = utc_day(datetime.fromtimestamp(NOON_US / 1e6, UTC).date())


def all_removed(pipeline: Pipeline, datacenter: str) -> pa.Table:
    """All records of rows that rebuilds took out."""
    return DeltaTable(str(pipeline.datacenters[datacenter].lake / REMOVED)).to_pyarrow_table()


@dataclass
class HereProgram:
    """Runs the tasks in this process, one after the other. `meanwhile`: called before their results are."""

    meanwhile: list[Any] = field(default_factory=list)
    pieces: int = 0

    def remake(self, pieces: Sequence[RemakePiece], context: RemakeContext) -> list[Remade]:
        self.pieces += len(pieces)
        made = [remake(piece, context) for piece in pieces]
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return made

    def competing_rows(self, pipeline: Pipeline, files: Mapping[str, Sequence[str]]) -> list[CompetingRow]:
        rows = []
        for name, paths in files.items():
            for path in paths:
                table = pq.read_table(pipeline.datacenters[name].lake / TABLE / path)
                values = table.select(["_event_id", "_epoch", "_batch", "_plan", "_occurrence"]).to_pylist()
                rows += [
                    CompetingRow(
                        one["_event_id"],
                        name,
                        path,
                        place,
                        one["_epoch"],
                        one["_batch"],
                        one["_plan"],
                        one["_occurrence"],
                    )
                    for place, one in enumerate(values)
                ]
        counts = Counter(row.event_id for row in rows)
        return [row for row in rows if counts[row.event_id] > 1]


def rebuild(
    world: World,
    datacenter: str = "east",
    window: Window = DAY,
    dry_run: bool = False,
    program: HereProgram | None = None,
    page_rows: int = 3,
    piece_rows: int = PIECE_ROWS,
) -> Rebuilt:
    """Rebuild rows in this process, of a few rows at a time."""
    with asking(world):
        plan = Rebuild(
            world.pipeline,
            datacenter,
            window,
            program or HereProgram(),
            clock=world.clock,
            page_rows=page_rows,
            piece_rows=piece_rows,
        )
        return plan.expected if dry_run else plan.apply()


def rebuild_with_a_crash(world: World, spec: str, datacenter: str = "east") -> bool:
    """Run a rebuild that dies at a fault point, and say whether it came to that."""
    with crash_at(spec) as crash:
        rebuild(world, datacenter)
    return crash.has_happened


def set_adapter(world: World, name: str, text: str) -> None:
    """Give the pipeline an adapter of this text; a module is imported only once, so each has its own name."""
    (world.folder / f"{name}.py").write_text(text)
    world.pipeline = world.pipeline.model_copy(update={"adapter": f"{name}:adapter"})


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows)
