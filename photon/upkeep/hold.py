"""Keep a datacenter from running, for planned work, and let it run again.

The register says who is on hold. A process that runs the datacenter ends before its next batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from photon.dispatcher.shift.people import decisions_of
from photon.pipeline.file import Pipeline
from photon.registry.opening import find_registry, positions_at
from photon.registry.positions import Positions
from photon.registry.register import with_hold
from photon.state.points import mark
from photon.upkeep.plans import Say, silent


@dataclass(frozen=True)
class HoldPlan:
    """A hold to come, or its end. `expected`: all datacenters that are on hold afterwards."""

    pipeline: Pipeline
    positions: Positions
    datacenter: str
    is_held: bool
    is_new: bool  # else it was so before
    expected: tuple[str, ...]

    def apply(self, say: Say = silent) -> tuple[str, ...]:
        """Write it into the register. RetiredDatacenter, RegistryUnavailable."""
        on_hold = self.positions.change(lambda now: with_hold(now, self.datacenter, self.is_held)).on_hold
        if self.is_new and self.is_held:
            mark(self.pipeline, [self.datacenter], "hold", "kept from running until it is resumed")
        elif self.is_new:
            mark(self.pipeline, [self.datacenter], "resume", "may run again")
        return on_hold


def plan_hold(pipeline: Pipeline, datacenter: str, is_held: bool) -> HoldPlan:
    """Plan to hold a datacenter, or to resume it. RetiredDatacenter, RegistryUnavailable."""
    decisions_of(pipeline)  # refuses a file that lacks a datacenter
    positions = positions_at(find_registry(pipeline))
    register = positions.read_register()
    expected = with_hold(register, datacenter, is_held).on_hold
    return HoldPlan(pipeline, positions, datacenter, is_held, expected != register.on_hold, expected)
