"""The Photon papers' figures of outages, from real processes: pictures with their numbers beside them.

    make figures                                                # among others, into figures/
    python -m bench.outage_figures figures [outage|capacity]    # ten minutes on two cores; one of them: half

What is measured, and how it is drawn, is in `bench.figure_outage` and `bench.figure_capacity`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from bench import figure_capacity, figure_outage
from bench.outage_run import Load, Story, run_outage
from bench.store_servers import fastest_kind

SEED = 1
PARTS = ("outage", "capacity")
LOAD, STORY = Load(), Story()


def main(folder: Path, parts: tuple[str, ...] = PARTS, load: Load = LOAD, story: Story = STORY) -> None:
    """Make the figures in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="photon-outage-") as work:
        if "outage" in parts:
            seen = run_outage(Path(work) / "outage", load, story, SEED, lambda text: print(text, flush=True))
            numbers = figure_outage.numbers_of(seen)
            print(figure_outage.summary_of(numbers), flush=True)
            _store(folder / "outage", figure_outage.draw(seen), numbers)
        if "capacity" in parts:
            runs = figure_capacity.measure(Path(work) / "capacity", SEED)
            found = figure_capacity.numbers_of(runs)
            print(json.dumps(found), flush=True)
            _store(folder / "capacity", figure_capacity.draw(found), found)


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "store": fastest_kind(),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


MACHINE = machine()  # before the measurement is a load itself


def _store(path: Path, figure: Any, numbers: Mapping[str, Any]) -> None:
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    text = json.dumps({"machine": MACHINE, "seed": SEED, **numbers}, indent=1)
    path.with_suffix(".json").write_text(text + "\n")
    print(f"{path}.svg and {path}.json", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"), tuple(sys.argv[2:]) or PARTS)
