"""The registry's state as an asset: shards, sizes, endpoints, epochs; a check that all endpoints are well."""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    MaterializeResult,
    MetadataValue,
    asset,
)

from assets.clearing import clearing_key
from assets.engine import pipeline_of_run
from assets.joined_events import joined_events_key
from assets.registry_state_metadata import state_metadata
from photon.clock import Clock, SystemClock
from photon.registry.consensus.decisions import majority
from photon.registry.operations.report import RegistryState
from resources.environment import Served
from resources.pipelines import PipelineFiles

CHECK = "endpoints_up"


def registry_state_key(served: Served) -> AssetKey:
    """The asset that a look at a pipeline's registry materializes."""
    return AssetKey([served.name, "registry_state"])


def registry_state_asset(served: Served, clock: Clock | None = None) -> AssetsDefinition:
    """The asset `registry_state` of a pipeline."""
    key = registry_state_key(served)
    clock = clock or SystemClock()

    @asset(
        key=key,
        group_name=served.name,
        deps=[joined_events_key(served), clearing_key(served)],
        kinds={"dynamodb"},
        check_specs=[
            AssetCheckSpec(
                CHECK, asset=key, description="Every endpoint answers, takes writes and is in use."
            )
        ],
        description=(
            "How the registry of joined ids stands: ids, bytes and tokens by shard, boundaries of collection;"
            " how endpoints answer and how far they are behind; epochs of datacenters."
        ),
    )
    def registry_state(context: AssetExecutionContext, pipelines: PipelineFiles) -> MaterializeResult:  # type: ignore[type-arg]  # with checks Dagster knows it only like this
        # Late: what a code location need not load to be served.
        from photon.registry.operations.report import look_at_registry

        with pipeline_of_run(served, pipelines) as pipeline:
            state = look_at_registry(pipeline, clock)
        return MaterializeResult(metadata=state_metadata(state), check_results=[endpoints_check(key, state)])

    return registry_state


def endpoints_check(key: AssetKey, state: RegistryState) -> AssetCheckResult:
    """An error if one endpoint more may not fail, a warning if one is not well."""
    n = len(state.endpoints)
    unwell = [one for one in state.endpoints if one.health != "up"]
    says = "; ".join(f"{one.endpoint}: {one.health} ({one.problem})" for one in unwell)
    remedy = (
        "What to do: bring it back with its data, or make room there; if its data is lost, repair it"
        " (docs/operations.md). "
        f"{n - len(unwell) - majority(n)} more may go down."
    )
    return AssetCheckResult(
        asset_key=key,
        check_name=CHECK,
        passed=not unwell,
        severity=AssetCheckSeverity.ERROR if n - len(unwell) <= majority(n) else AssetCheckSeverity.WARN,
        description=f"{says}. {remedy}" if unwell else f"All {n} answer and take writes.",
        metadata={"unwell": MetadataValue.int(len(unwell))},
    )
