"""Events with several rows: which of them stays, as the registry says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from photon.pipeline.file import Pipeline
from photon.registry.hashing import hashes_of_texts
from photon.registry.opening import open_reader
from photon.upkeep.backfill.plan import DoubledRow, rows_to_drop


def drop_by_file(pipeline: Pipeline, datacenter: str, rows: Sequence[DoubledRow]) -> dict[str, list[int]]:
    """The rows of a datacenter that go, by file. RegistryUnavailable, RegistryMissing, RegistryMismatch."""
    if not rows:
        return {}
    by_event: dict[str, list[DoubledRow]] = defaultdict(list)
    for row in rows:
        by_event[row.event_id].append(row)
    holders = open_reader(pipeline).holders(hashes_of_texts(by_event))
    going: dict[str, list[int]] = defaultdict(list)
    for index, group in enumerate(by_event.values()):
        for row in rows_to_drop(group, datacenter, holders.holder(index)):
            going[row.file].append(row.row)
    return dict(going)
