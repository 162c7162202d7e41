"""Photon as a component of a Dagster project that is anywhere on the disk.

A `defs.yaml` names pipeline files, by paths from its own folder. No variable of the environment is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagster import Component, ComponentLoadContext, Definitions, Model, Resolvable
from pydantic import Field

from photon.orchestration.code_location import defs_beside_others
from photon.resources.environment import (
    DATACENTERS,
    KEEP_RUNS_DAYS,
    PIPELINES,
    SPARK_MASTER,
    LocationSettings,
    location_settings,
)


class PhotonPipelineComponent(Component, Model, Resolvable):
    """The pipelines of these files: their assets, checks, jobs, sensors and schedules.

    One component serves all pipelines of a code location, for the job that prunes runs is there once.
    """

    pipelines: Sequence[str] = Field(
        description="Pipeline files, by their paths from the folder of this file."
    )
    datacenters: Sequence[str] = Field(
        default=(), description="The datacenters of them to run here; none: all."
    )
    keep_runs_days: float = Field(
        default=LocationSettings.keep_runs_days, description="Runs that ended longer ago are pruned."
    )
    spark_master: str | None = Field(default=None, description="In place of the pipelines' own.")

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        """Read the pipeline files; one that is wrong is left out, and a check says so."""
        said = {
            PIPELINES: ":".join(str(context.path / name) for name in self.pipelines),
            DATACENTERS: ",".join(self.datacenters),
            KEEP_RUNS_DAYS: str(self.keep_runs_days),
            SPARK_MASTER: self.spark_master or "",
        }
        return defs_beside_others(location_settings(said))
