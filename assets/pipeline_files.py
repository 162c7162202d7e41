"""Whether all pipeline files are served: one that is left out has no asset that could tell."""

from __future__ import annotations

from collections.abc import Sequence

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetKey,
    AssetSpec,
    asset_check,
)

from resources.environment import EnvironmentMistake, LocationSettings, location_settings

KEY, CHECK = AssetKey("pipeline_files"), "all_served"
PROMISE = "Every pipeline file that the environment names is served as it is now."


def pipeline_files_asset() -> AssetSpec:
    """The pipeline files, which people write."""
    return AssetSpec(
        KEY,
        group_name="photon",
        kinds={"yaml"},
        description="The files that PHOTON_PIPELINES names. One that is wrong is left out; the others go on.",
    )


def told_now(at_load: LocationSettings) -> list[str]:
    """What is to tell of the files as they are now."""
    try:
        return told(at_load, location_settings())
    except EnvironmentMistake as error:
        return [str(error)]


def told(at_load: LocationSettings, now: LocationSettings) -> list[str]:
    """Which files are not served, and which would be: a code location serves what it has loaded."""
    loaded = {one.pipeline.file for one in at_load.served}
    mended = [one.pipeline.file for one in now.served if one.pipeline.file not in loaded]
    return [
        *map(str, now.not_served),
        *(f"{file} is right now, and not served yet: reload the code location" for file in mended),
    ]


def evaluation(problems: Sequence[str]) -> AssetCheckEvaluation:
    """The check's result without a run."""
    said = _description(problems)
    return AssetCheckEvaluation(KEY, CHECK, passed=not problems, description=said, metadata={})


def _description(problems: Sequence[str]) -> str:
    return "\n".join(problems) or "All are served."


def all_served_check(at_load: LocationSettings) -> AssetChecksDefinition:
    """The check as people may have it evaluated now; else its sensor does when it changes."""

    @asset_check(asset=KEY, name=CHECK, description=PROMISE)
    def all_served() -> AssetCheckResult:
        problems = told_now(at_load)
        return AssetCheckResult(passed=not problems, description=_description(problems))

    return all_served
