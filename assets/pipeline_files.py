"""The pipeline files as assets, also those that can't be read. A check of each says whether it is served."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Mapping

from dagster import (
    AssetCheckEvaluation,
    AssetCheckExecutionContext,
    AssetCheckKey,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetKey,
    AssetSpec,
    MetadataValue,
    asset_check,
)

from photon.assets.runbook import section
from photon.assets.runs import Metadata, canceled_with_a_sentence
from photon.resources.environment import EnvironmentMistake, LocationSettings, location_settings

FOLDER, GROUP, CHECK = "pipeline_files", "photon", "is_served"
REMEDY = "mend the file where the text names an error, and reload the code location; the others go on"
PROMISE = "The file can be read, and its pipeline is served as the file says now."


def file_key(name: str) -> AssetKey:
    """The asset of a file, by its name in Dagster (`LocationSettings.file_names`)."""
    return AssetKey([FOLDER, name])


def check_key(name: str) -> AssetCheckKey:
    """The check of a file."""
    return AssetCheckKey(file_key(name), CHECK)


def pipeline_file_assets(settings: LocationSettings) -> list[AssetSpec]:
    """The pipeline files, which people write."""
    return [
        AssetSpec(
            file_key(name),
            group_name=GROUP,
            kinds={"yaml"},
            metadata={"file": MetadataValue.path(path)},
            description="A pipeline file that this code location names, whether it can be read or not.",
        )
        for path, name in settings.file_names().items()
    ]


def problems_now(at_load: LocationSettings) -> dict[str, str]:
    """The problem of each file as it is now, by its name in Dagster; empty: it has none."""
    names = at_load.file_names()
    try:
        now = location_settings(at_load.said)
    except EnvironmentMistake as error:
        return dict.fromkeys(names.values(), str(error))
    found = problems(at_load, now)
    return {name: found.get(path, "") for path, name in names.items()}


def problems(at_load: LocationSettings, now: LocationSettings) -> Mapping[str, str]:
    """Why files are not served, or not as they are now, by path: a location serves what it has loaded."""
    loaded = {str(one.pipeline.file): one for one in at_load.served}
    found = {one.file: str(one) for one in now.not_served}
    for one in now.served:
        if (path := str(one.pipeline.file)) not in loaded:
            found[path] = f"{path} is right now, and not served yet: reload the code location"
        elif set(loaded[path].datacenters) != set(one.datacenters):
            found[path] = f"{path} has other datacenters than are served: reload the code location"
        elif loaded[path].landing != one.landing:
            found[path] = f"{path} has other datacenters with land than are served: reload the code location"
    return found


def evaluation(name: str, problem: str) -> AssetCheckEvaluation:
    """The result of a file's check, made without a run."""
    said, metadata = problem or "It is served.", _metadata(problem)
    return AssetCheckEvaluation(file_key(name), CHECK, not problem, metadata=metadata, description=said)


def _metadata(problem: str) -> Metadata:
    """The runbook's section and what to do: a file that can't be read names no runbook to link to."""
    what_to_do: Metadata = {"what_to_do": REMEDY} if problem else {}
    return {**section(CHECK), **what_to_do}


def file_checks(at_load: LocationSettings) -> list[AssetChecksDefinition]:
    """The checks, for people who evaluate them at once; a sensor does so when a result changes."""
    return [_file_check(at_load, name) for name in at_load.file_names().values()]


def _file_check(at_load: LocationSettings, name: str) -> AssetChecksDefinition:
    @asset_check(asset=file_key(name), name=CHECK, description=PROMISE)
    def is_served(context: AssetCheckExecutionContext) -> AssetCheckResult:
        with canceled_with_a_sentence(context):
            problem = problems_now(at_load)[name]
        said = problem or "It is served."
        return AssetCheckResult(passed=not problem, description=said, metadata=_metadata(problem))

    return is_served
