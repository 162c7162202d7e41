"""Verbs that find out by themselves what is due: assets, each materialization of which is one evaluation.

Any of them may be materialized at any time, also by "Materialize all": where nothing is due, it says why.
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from dagster import AssetExecutionContext, AssetObservation, AssetsDefinition, MaterializeResult, asset

from assets.runs import Metadata, canceled_with_a_sentence, pipeline_of_run
from assets.work import AssetWork, DryRunConfig, WorkRun
from photon.process.clock import SystemClock
from resources.environment import ServedPipeline

if TYPE_CHECKING:
    from photon.upkeep.registry_state import RegistrySize


@dataclass(frozen=True, kw_only=True)
class Evaluation(AssetWork):
    """One such verb. `work` imports what it needs when it runs, so that the location loads fast."""

    work: Callable[[WorkRun], Metadata]
    config: type[DryRunConfig]


def evaluation_asset(kind: Evaluation, served: ServedPipeline) -> AssetsDefinition:
    """The asset of one kind of evaluation of a pipeline."""
    key, clock = served.asset_key(kind.asset), SystemClock()

    @asset(
        key=key,
        group_name=served.group_name("upkeep"),
        deps=[served.asset_key(name) for name in kind.of],
        kinds={"dynamodb"},
        pool=kind.pool,
        config_schema=cast("Any", kind.config.to_config_schema()),
        output_required=False,  # a dry run makes nothing
        description=kind.description,
    )
    def evaluate(context: AssetExecutionContext) -> Iterator[MaterializeResult[None] | AssetObservation]:
        began_us = clock.now_us()
        config = kind.config(**context.op_execution_context.op_config)
        with canceled_with_a_sentence(context), pipeline_of_run(served) as pipeline:
            run = WorkRun(context, served, pipeline, config, clock, began_us)
            metadata = {**kind.work(run), "seconds": run.seconds()}
        if run.is_dry:
            yield AssetObservation(key, metadata={**metadata, "dry_run": True})
        else:
            yield MaterializeResult(metadata=metadata)

    return evaluate


def sizes(of: "RegistrySize", when: str) -> Metadata:
    """Generations, ledgers, ids and bytes of a registry, each with `when` behind its name."""
    return {f"{name}_{when}": number for name, number in asdict(of).items()}
