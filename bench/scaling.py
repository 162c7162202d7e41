"""How the throughput of a join grows with cores, and what binds it: a pure model of its parts.

Its costs are measured elsewhere (`bench.scaling_measurement`).
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_CORES = 64
DISK_BYTES_PER_SECOND = 500_000_000  # of a plain SSD that reads logs in a row


@dataclass(frozen=True)
class Costs:
    """What one event of both logs costs on average, in microseconds of a core; and its bytes."""

    task_us: float
    driver_us: float
    registry_us: float
    bytes: float

    def bounds(self, cores: int) -> dict[str, float]:
        """Events a second at which each part is busy all the time, by part.

        Tasks have `cores` cores. Driver, registry's server and disk are one each.
        """
        return {
            "tasks": cores * 1e6 / self.task_us,
            "driver": 1e6 / self.driver_us,
            "registry": 1e6 / self.registry_us,
            "disk": DISK_BYTES_PER_SECOND / self.bytes,
        }

    def binds(self, cores: int) -> tuple[str, float]:
        """The part that binds with so many cores, and the events a second that it allows."""
        bounds = self.bounds(cores)
        part = min(bounds, key=lambda each: bounds[each])
        return part, bounds[part]

    def cores_until(self, part: str) -> float:
        """With how many cores tasks are as fast as another part."""
        return self.bounds(1)[part] / self.bounds(1)["tasks"]
