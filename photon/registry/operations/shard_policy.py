"""How many shards a registry ought to have, from what each shard holds and takes: pure.

Measuring that, and putting another number in force, belongs in `photon.registry.operations.resharding`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from photon.pipeline.file import MOST_SHARDS, Resharding

# Fewer shards only where each would be filled to no more than half: or growing and shrinking would alternate.
SHRINK_TO_FILL = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """What all shards together hold, at one endpoint, and the ids a second that they take of late."""

    ids: int
    bytes: int
    commits_per_second: float


def proposed_shards(shards: int, load: Load, limits: Resharding) -> int | None:
    """Another number of shards, where this one is too small or more than twice too large; else None.

    Doubled or halved as often as it takes: few changes, each of which costs a config that is never forgotten.
    A registry that takes no ids just now may be standing still: it is never shrunk.
    """
    wanted = shards
    while wanted < min(_needed(load, limits, 1.0), MOST_SHARDS):
        wanted = min(2 * wanted, MOST_SHARDS)
    if wanted == shards and load.commits_per_second > 0:
        while wanted > 1 and _needed(load, limits, SHRINK_TO_FILL) <= wanted // 2:
            wanted //= 2
    return None if wanted == shards else wanted


def _needed(load: Load, limits: Resharding, fill: float) -> int:
    """How many shards keep each within this part of its limits."""
    wholes = (
        load.ids / limits.ids_per_shard,
        load.bytes / limits.bytes_per_shard,
        load.commits_per_second / limits.commits_per_second_per_shard,
    )
    return max(1, math.ceil(max(wholes) / fill))
