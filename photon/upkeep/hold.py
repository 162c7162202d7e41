"""Keep a datacenter from running, for planned work, and let it run again.

The register says who is on hold. A process that runs the datacenter ends before its next batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from photon.dispatcher.shift.people import decisions_of
from photon.pipeline.file import Pipeline
from photon.registry.opening import find_registry, positions_at
from photon.registry.register import with_hold
from photon.registry.stores.positions import StorePositions
from photon.upkeep.plans import Say, silent


@dataclass(frozen=True)
class HoldPlan:
    """A hold to come, or its end. `expected`: all datacenters that are on hold afterwards."""

    positions: StorePositions
    datacenter: str
    is_held: bool
    expected: tuple[str, ...]

    def apply(self, say: Say = silent) -> tuple[str, ...]:
        """Write it into the register. RetiredDatacenter, RegistryUnavailable."""
        return self.positions.change(lambda now: with_hold(now, self.datacenter, self.is_held)).on_hold


def plan_hold(pipeline: Pipeline, datacenter: str, is_held: bool) -> HoldPlan:
    """Plan to hold a datacenter, or to resume it. RetiredDatacenter, RegistryUnavailable."""
    decisions_of(pipeline)  # refuses a file that lacks a datacenter
    positions = positions_at(find_registry(pipeline))
    expected = with_hold(positions.read_register(), datacenter, is_held).on_hold
    return HoldPlan(positions, datacenter, is_held, expected)
