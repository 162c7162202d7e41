"""How the throughput of a join grows with cores, and what binds it: a model, its lines and its picture.

`bench.scaling_measurement` measures the costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from bench.plots import panels, save

MOST_CORES = 64
DISK_BYTES_PER_SECOND = 500_000_000  # a plain SSD that reads logs in a row
KINDS = {"one_store": "registry on one core", "elastic_store": "registry that never binds"}
COLORS = {"one_store": "#3b6fb6", "elastic_store": "#e08a2c"}
BOUND_COLORS = {"tasks": "#6f9d5c", "driver": "#9a5fb0", "registry": "#3b6fb6", "disk": "#b8bfc9"}
SHOWN_CORES = (1, 2, 4, 8, 16, 32, 64)
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Costs:
    """The cost of one event of both logs on average, in microseconds of a core; and its bytes."""

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


def lines_of(found: Numbers) -> Iterator[str]:
    """The measurement for people."""
    for run in found["pairs"]:
        rate = f"{run['events_per_second']:>10,} events/s"
        yield f"{run['name']:18}{run['seconds']:8.1f} s {rate}  {_right(run)}"
    if (ratio := ratio_to_local(found)) is not None:
        yield f"two workers of one core: {ratio} times the throughput of two local cores"
    for kind, runs in found["simulated"].items():
        for run in runs:
            yield (
                f"{run['cores']:>2} simulated cores, {KINDS[kind]:26}{run['seconds']:8.1f} s "
                f"{run['events_per_second']:>10,} events/s  {_right(run)}"
            )
    costs = Costs(**found["costs"])
    yield (
        f"an event costs {costs.task_us:.1f} us in tasks, {costs.driver_us:.1f} in the driver, "
        f"{costs.registry_us:.1f} in the registry's server, and {costs.bytes:.0f} bytes"
    )
    for cores in SHOWN_CORES:
        part, most = costs.binds(cores)
        yield f"{cores:>2} cores: at most {most:>10,.0f} events/s, bound by {part}"
    for part in ("registry", "driver", "disk"):
        yield f"{part} alone would bind from {costs.cores_until(part):.1f} cores on"
    for name, why in found["left_out"].items():
        yield f"left out: {name}: {why}"


def _right(run: Numbers) -> str:
    faults = [f"{count} {name}" for name, count in run["found"].items() if name != "rows" and count]
    return ", ".join(faults) or "each event once"


def draw(found: Numbers, path: Path) -> None:
    """Write the measured points, and the bound that each part sets up to 64 cores."""
    figure, (axes,) = panels(7.2, 4.4)
    costs, cores = Costs(**found["costs"]), range(1, MOST_CORES + 1)
    for part, color in BOUND_COLORS.items():
        rates = [costs.bounds(each)[part] for each in cores]
        axes.plot(cores, rates, "--", color=color, linewidth=1)
        axes.annotate(part, (MOST_CORES, rates[-1]), xytext=(4, 0), textcoords="offset points", color=color)
    for kind, runs in found["simulated"].items():
        points = [(run["cores"], run["events_per_second"]) for run in runs]
        axes.plot(*zip(*points, strict=True), "o-", color=COLORS[kind], label=KINDS[kind])
    axes.set(xscale="log", yscale="log", xlabel="cores of the workers", ylabel="events a second")
    axes.set_xticks(SHOWN_CORES, labels=[str(each) for each in SHOWN_CORES])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="lower right")
    save(figure, path)


def ratio_to_local(found: Numbers) -> float | None:
    """The throughput of two workers, as a share of that of two local cores; the mean of the rounds."""
    rates = {
        kind: [run["events_per_second"] for run in found["pairs"] if run["name"].startswith(kind)]
        for kind in ("local", "cluster")
    }
    if not all(rates.values()):
        return None
    return round(float(mean(rates["cluster"]) / mean(rates["local"])), 2)
