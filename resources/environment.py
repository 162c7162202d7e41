"""The settings of the code location: the only module that reads the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagster import AssetKey

from photon.pipeline.file import Pipeline, PipelineError, load_pipeline

log = logging.getLogger(__name__)

PIPELINES = "PHOTON_PIPELINES"
DATACENTERS = "PHOTON_DATACENTERS"
KEEP_RUNS_DAYS = "PHOTON_KEEP_RUNS_DAYS"
SPARK_MASTER = "PHOTON_SPARK_MASTER"


class EnvironmentMistake(Exception):
    """A variable that can't be used: its name, its value, what was expected."""

    def __init__(self, variable: str, value: str, expected: str) -> None:
        super().__init__(f"{variable}={value!r}: expected {expected}")


@dataclass(frozen=True)
class ServedPipeline:
    """A pipeline and the datacenters of it that this code location runs."""

    pipeline: Pipeline
    datacenters: tuple[str, ...]

    @property
    def name(self) -> str:
        """The pipeline's name as Dagster can write it."""
        return dagster_name(self.pipeline.name)

    def load(self) -> Pipeline:
        """The pipeline as its file says now, which may have changed since; PipelineError."""
        return load_pipeline(self.pipeline.file)

    def job_name(self, job: str) -> str:
        return dagster_name(self.pipeline.name, job)

    def asset_key(self, asset: str) -> AssetKey:
        return AssetKey([self.name, asset])


@dataclass(frozen=True)
class LocationSettings:
    """All settings of a code location."""

    served: tuple[ServedPipeline, ...] = ()
    keep_runs_days: float = 3.0  # runs that ended longer ago are pruned
    spark_master: str | None = None  # None: this machine, as `jobs.session` has it


def dagster_name(*parts: str) -> str:
    """A name that Dagster allows (letters, digits, _), of names that pipeline files allow (- as well)."""
    return "__".join(part.replace("-", "_") for part in parts)


def location_settings(environ: Mapping[str, str] = os.environ) -> LocationSettings:
    """What `environ` says; EnvironmentMistake for a bad value. An empty variable counts as not set.

    Reads the pipeline files. Dagster may reload a code location at any time: one of several files that has
    become wrong is left out with an error in the log, so that the others are served on.
    """
    files = environ.get(PIPELINES, "").strip(":")
    if not files:
        log.warning(
            "nothing is served: set %s to pipeline files, separated by ':', such as "
            "examples/search_clicks/pipeline.yaml",
            PIPELINES,
        )
    served = _served(files, environ.get(DATACENTERS, ""))
    _refuse_equal_names(files, served)
    return LocationSettings(served, _keep_runs_days(environ), environ.get(SPARK_MASTER) or None)


def _served(files: str, datacenters: str) -> tuple[ServedPipeline, ...]:
    pipelines, all_loaded = _load_all(files)
    known = {name for pipeline in pipelines for name in pipeline.datacenters}
    named = {name.strip() for name in datacenters.split(",")} if datacenters else known
    if all_loaded and not named <= known:
        expected = f"datacenters of the pipelines served, separated by ',', of: {', '.join(sorted(known))}"
        raise EnvironmentMistake(DATACENTERS, datacenters, expected)
    chosen = [
        ServedPipeline(pipeline, tuple(name for name in pipeline.datacenters if name in named))
        for pipeline in pipelines
    ]
    return tuple(served for served in chosen if served.datacenters)


def _load_all(files: str) -> tuple[list[Pipeline], bool]:
    """The pipelines whose files are right, and whether these are all."""
    paths = [path for path in files.split(":") if path]
    if len(set(paths)) < len(paths):
        raise EnvironmentMistake(PIPELINES, files, "each pipeline file once")
    pipelines: list[Pipeline] = []
    wrong: list[str] = []
    for path in paths:
        try:
            pipelines.append(load_pipeline(path))
        except PipelineError as error:
            wrong.append(str(error))
    if wrong and not pipelines:
        raise EnvironmentMistake(PIPELINES, files, "pipeline files, separated by ':':\n" + "\n".join(wrong))
    for problem in wrong:
        log.error("%s: a pipeline is not served until its file is mended:\n%s", PIPELINES, problem)
    return pipelines, not wrong


def _refuse_equal_names(files: str, served: Sequence[ServedPipeline]) -> None:
    """Names that differ only in - and _ would be one name in Dagster."""
    owners: dict[str, str] = {}
    for one in served:
        places = [dagster_name(one.pipeline.name, datacenter) for datacenter in one.datacenters]
        for name in [one.name, *places]:
            if name in owners:
                who = f"{owners[name]} and {one.pipeline.file}"
                expected = f"names that differ in more than - and _: {who} would both be {name!r} in Dagster"
                raise EnvironmentMistake(PIPELINES, files, expected)
            owners[name] = str(one.pipeline.file)


def _keep_runs_days(environ: Mapping[str, str]) -> float:
    text = environ.get(KEEP_RUNS_DAYS) or str(LocationSettings.keep_runs_days)
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 36_500:
        raise EnvironmentMistake(KEEP_RUNS_DAYS, text, "a number of days, such as 3 or 0.5")
    return days
