"""The settings of the code location: the only module that reads the environment."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from dagster import AssetKey

from photon.pipeline.file import Pipeline, PipelineError, dagster_name, load_pipeline
from photon.pipeline.location import Location

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

    @property
    def landing(self) -> tuple[str, ...]:
        """Those of its datacenters whose logs are landed."""
        return tuple(name for name in self.datacenters if self.pipeline.datacenters[name].land)

    def load(self) -> Pipeline:
        """The pipeline as its file says now, which may have changed since; PipelineError."""
        return load_pipeline(self.pipeline.file)

    def job_name(self, job: str) -> str:
        return dagster_name(self.pipeline.name, job)

    def group_name(self, group: str = "") -> str:
        """A part of the pipeline's graph; empty: that of the data itself."""
        return f"{self.name}__{group}" if group else self.name

    def asset_key(self, asset: str) -> AssetKey:
        return AssetKey([self.name, asset])


@dataclass(frozen=True)
class NotServed:
    """A pipeline file that is left out, and why; the others are served."""

    file: str
    why: str

    def __str__(self) -> str:
        return f"{self.file} is not served: {self.why}"


@dataclass(frozen=True)
class LocationSettings:
    """All settings of a code location."""

    served: tuple[ServedPipeline, ...] = ()
    keep_runs_days: float = 3.0  # runs that ended longer ago are pruned
    spark_master: str | None = None  # None: this machine, as `photon.jobs.session` has it
    not_served: tuple[NotServed, ...] = ()
    files: tuple[str, ...] = ()  # files and folders, as PHOTON_PIPELINES has them
    # `location_settings` reads them again from here: the environment, or a component's attributes.
    said: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def file_names(self) -> dict[str, str]:
        """Dagster's name for each pipeline file, by its path: the same whether it can be read or not.

        A file that is added behind the others changes no name of theirs.
        """
        names: dict[str, str] = {}
        for path in self.files:
            stem = _file_name(path)
            candidates = chain([stem], (f"{stem}_{number}" for number in count(2)))
            names[path] = next(name for name in candidates if name not in names.values())
        return names


def _file_name(path: str) -> str:
    """The name `clicks` for clicks/pipeline.yaml as for clicks.yaml: the file itself may not be readable."""
    file = Path(path)
    return re.sub(r"[^A-Za-z0-9_]", "_", file.parent.name if file.stem == "pipeline" else file.stem)


def location_settings(environ: Mapping[str, str] = os.environ) -> LocationSettings:
    """The settings in `environ`; EnvironmentMistake for a bad value. An empty variable counts as not set.

    Reads the pipeline files. Dagster may reload a code location at any time, and each run loads it: a file
    that has become wrong is left out, with an error in the log, and the others are served on.
    """
    files = environ.get(PIPELINES, "").strip(":")
    if not files:
        log.warning(
            "nothing is served: set %s to pipeline files, separated by ':', such as "
            "examples/search_clicks/pipeline.yaml",
            PIPELINES,
        )
    paths = _paths(files)
    loaded, wrong = _load_all(paths)
    chosen, elsewhere = _with_datacenters(loaded, environ.get(DATACENTERS, ""), not wrong)
    served, colliding = _beside_one_another(chosen)
    not_served = (*wrong, *elsewhere, *colliding)
    for one in not_served:
        log.error("%s: %s", PIPELINES, one)
    days, master = _keep_runs_days(environ), environ.get(SPARK_MASTER) or None
    return LocationSettings(served, days, master, not_served, paths, environ)


def _paths(files: str) -> tuple[str, ...]:
    """The pipeline files, in their order."""
    paths = tuple(str(Path(path).absolute()) for path in files.split(":") if path)
    if len(set(paths)) < len(paths):
        raise EnvironmentMistake(PIPELINES, files, "each pipeline file once")
    return paths


def _load_all(paths: Sequence[str]) -> tuple[list[Pipeline], list[NotServed]]:
    """The pipelines whose files are right, and those whose are not."""
    pipelines: list[Pipeline] = []
    wrong: list[NotServed] = []
    for path in paths:
        try:
            pipelines.append(load_pipeline(path))
        except PipelineError as error:
            wrong.append(NotServed(path, f"mend the file, then reload the code location:\n{error}"))
    return pipelines, wrong


def _with_datacenters(
    pipelines: Sequence[Pipeline], datacenters: str, all_loaded: bool
) -> tuple[list[ServedPipeline], list[NotServed]]:
    """The pipelines with those of their datacenters that are named, all if none is; and those without any."""
    known = {name for pipeline in pipelines for name in pipeline.datacenters}
    named = {name.strip() for name in datacenters.split(",")} if datacenters else known
    if all_loaded and not named <= known:
        expected = f"datacenters of the pipelines served, separated by ',', of: {', '.join(sorted(known))}"
        raise EnvironmentMistake(DATACENTERS, datacenters, expected)
    chosen = [
        ServedPipeline(pipeline, tuple(name for name in pipeline.datacenters if name in named))
        for pipeline in pipelines
    ]
    elsewhere = [
        NotServed(
            str(pipeline.file),
            f"{DATACENTERS}={datacenters!r} names none of its datacenters: expected one of "
            f"{', '.join(pipeline.datacenters)}; name one, or leave the file out of {PIPELINES}",
        )
        for pipeline in pipelines
        if not named & set(pipeline.datacenters)
    ]
    return [one for one in chosen if one.datacenters], elsewhere


def _beside_one_another(
    pipelines: Sequence[ServedPipeline],
) -> tuple[tuple[ServedPipeline, ...], list[NotServed]]:
    """The pipelines that can be served together, the first of a name or folder before the others."""
    owners: dict[str | Location, str] = {}
    served: list[ServedPipeline] = []
    left_out: list[NotServed] = []
    for one in pipelines:
        file, names = str(one.pipeline.file), _names(one)
        taken = [name for name in names if name in owners or names.count(name) > 1]
        shared = [place for place in _places(one) if place in owners]
        if taken:
            other = f", as one of {owners[taken[0]]}" if taken[0] in owners else ""
            why = f"names have to differ in more than - and _: {taken[0]!r} is one in Dagster{other}"
        elif shared:
            why = (
                f"{shared[0]} is a folder of {owners[shared[0]]}: give it a lake and a state of its own, in "
                "datacenters.NAME.lake and .state"
            )
        else:
            owners.update(dict.fromkeys([*names, *_places(one)], file))
            served.append(one)
            continue
        left_out.append(NotServed(file, why))
    return tuple(served), left_out


def _names(one: ServedPipeline) -> list[str]:
    """Dagster's names for the pipeline and its datacenters."""
    return [one.name, *(dagster_name(one.pipeline.name, datacenter) for datacenter in one.datacenters)]


def _places(one: ServedPipeline) -> list[Location]:
    """The folders that nobody else may write."""
    return [place for each in one.pipeline.datacenters.values() for place in (each.lake, each.state)]


def _keep_runs_days(environ: Mapping[str, str]) -> float:
    text = environ.get(KEEP_RUNS_DAYS) or str(LocationSettings.keep_runs_days)
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 <= days < 36_500:
        raise EnvironmentMistake(KEEP_RUNS_DAYS, text, "a number of days, such as 3 or 0.5")
    return days
