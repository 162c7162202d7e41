"""How long a process takes to load the code location, and which packages' imports take most of it.

    python bench/load_location.py [PIPELINE ...]

The target is 5 s. Each load is a process of its own, as a code server or a run is.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict

LOADS = 5
LOAD = "from orchestration.definitions import defs; defs.get_repository_def()"
MOST_SHOWN = 10


def main(pipelines: list[str]) -> None:
    """Measure and print."""
    environ = {**os.environ, "PHOTON_PIPELINES": ":".join(pipelines)}
    seconds = []
    for _ in range(LOADS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", LOAD], check=True, env=environ, stderr=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - began)
    print(f"loads in {statistics.median(seconds):.2f} s (median of {LOADS}; slowest {max(seconds):.2f} s)")
    command = [sys.executable, "-X", "importtime", "-c", LOAD]
    timed = subprocess.run(command, check=True, env=environ, capture_output=True, text=True)
    own_seconds: defaultdict[str, float] = defaultdict(float)
    for line in timed.stderr.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[0].strip().isdigit():
            own_seconds[parts[2].strip().partition(".")[0]] += int(parts[0]) / 1_000_000
    for package, taken in sorted(own_seconds.items(), key=lambda one: -one[1])[:MOST_SHOWN]:
        print(f"  {package:24}{taken:8.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:] or ["examples/search_clicks/pipeline.yaml"])
