"""Photon's join of the generated logs on a standalone cluster, as one more contender of the comparison.

Each part of it may have a slow core of its own: the driver, each worker and the registry.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.join_contenders import PHOTON, JoinFailed, Photon, Place
from bench.join_logs import JoinLogs
from bench.process_family import cpu_seconds_of, family_of
from bench.spark_cluster import SparkCluster


class PhotonElsewhere(Photon):
    """`photon join` of one datacenter with a registry that is no part of it, on a Spark master or here."""

    def __init__(
        self, name: str, folder: Path, registry_url: str, master: str | None, bound: Sequence[str] = ()
    ) -> None:
        """`master`: of a cluster; None: the cores of this machine. `bound`: words before its command."""
        super().__init__(name, folder, ["one"])
        self._registry_url, self._master, self._bound = registry_url, master, list(bound)

    def begin(self, warm_up: JoinLogs, place_warm_up: Place, place_logs: Place) -> float:
        self.folder.mkdir(parents=True)
        self._write_pipeline()
        made = subprocess.run(
            [*PHOTON, "registry", "init", str(self.pipeline)], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise JoinFailed(f"{self.name}: no registry: {made.stderr}")
        return super().begin(warm_up, place_warm_up, place_logs)

    def _pipeline(self) -> dict[str, Any]:
        spark: dict[str, Any] = {}
        if self._master is not None:
            settings = {"spark.driver.host": "127.0.0.1", "spark.pyspark.python": sys.executable}
            spark = {"spark": {"master": self._master, "settings": settings}}
        return {**super()._pipeline(), "registry": {"endpoints": [{"url": self._registry_url}]}, **spark}


def workers_cpu_seconds(cluster: SparkCluster) -> float:
    """What the workers of a cluster and their executors have used."""
    return sum(cpu_seconds_of(family_of(worker.pid)) for worker in cluster.workers)
