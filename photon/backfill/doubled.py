"""Events with several rows: which of them stays, as the registry says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from photon.backfill.plan import DoubledRow, rows_to_drop
from photon.pipeline.event_key import event_key
from photon.pipeline.file import Pipeline
from photon.registry.interface import Joined
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry


def drop_by_file(pipeline: Pipeline, datacenter: str, rows: Sequence[DoubledRow]) -> dict[str, list[int]]:
    """The rows of a datacenter that go, by file. RegistryUnavailable, RegistryMissing, RegistryMismatch."""
    if not rows:
        return {}
    by_event: dict[tuple[str, int], list[DoubledRow]] = defaultdict(list)
    for row in rows:
        by_event[row.event].append(row)
    keys = [event_key(event_id, time_us, pipeline.foreign) for event_id, time_us in by_event]
    answers = open_registry(find_registry(pipeline)).lookup(keys)
    going: dict[str, list[int]] = defaultdict(list)
    for group, answer in zip(by_event.values(), answers, strict=True):
        holder = (answer.holder.datacenter, answer.holder.token) if isinstance(answer, Joined) else None
        for row in rows_to_drop(group, datacenter, holder):
            going[row.file].append(row.row)
    return dict(going)
