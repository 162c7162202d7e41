"""Work of a pipeline: each kind has a job, a bound and a pool, and what is an asset has a time too.

What it does belongs to `reports` (things that people look at), to `evaluations` or to `upkeep` (verbs).
"""

# Annotations must be types here, not strings: Dagster reads that of `context`.
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dagster import (
    AssetExecutionContext,
    Config,
    OpExecutionContext,
    colored_console_logger,
    in_process_executor,
    mem_io_manager,
)
from pydantic import Field

from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock
from photon.process.pace import seldom
from photon.resources.environment import ServedPipeline

# A run is one process: a shift's Spark session and its lock belong to the process that reports. Configured
# here, so that the Launchpad does not offer what nobody has to set: retries, log levels, folders of outputs.
IN_ONE_PROCESS = in_process_executor.configured({}, name="in_process")
LOGGERS = {"console": colored_console_logger.configured({})}
REGISTRY = "dynamodb"  # the technology of work on the registry, unless that is local
NO_OUTPUTS = {"io_manager": mem_io_manager}

# Each pool has as many runs at once as the instance says (orchestration/dagster.yaml: one). Those in one wait
# in line, and yield processors (`photon.resources.launching`). Shifts are in none: they wait for nobody. The
# names are the same in all pipelines, which share the machine.
UPKEEP_POOL = "photon_upkeep"
RECOVERY_POOL = "photon_recovery"  # rows are missing: it waits for no compaction
VERIFICATION_POOL = "photon_verification"
BACKFILL_POOL = "photon_backfill"
REPAIR_POOL = "photon_repair"  # may take days: nothing else waits for it
# A run says so seldom how far it is: each line is a row in Dagster's storage, and a repair may take days.
TOLD_EVERY_SECONDS = 60.0


@dataclass(frozen=True)
class WorkRun:
    """The things that one run works with."""

    context: AssetExecutionContext | OpExecutionContext
    served: ServedPipeline
    pipeline: Pipeline  # as its file says now
    config: Any  # an instance of the class that its kind names
    clock: Clock
    began_us: int

    @property
    def is_dry(self) -> bool:
        """Whether to say only what would be done."""
        return isinstance(self.config, DryRunConfig) and self.config.dry_run

    def progress(self) -> Callable[[str], None]:
        """Something that writes into the run's log, now and then, how far it is."""
        return seldom(self.context.log.info, TOLD_EVERY_SECONDS, self.clock)

    def seconds(self) -> float:
        """Since the run began, as it is shown."""
        return round((self.clock.now_us() - self.began_us) / MICROSECONDS, 1)


@dataclass(frozen=True, kw_only=True)
class Work:
    """One kind of work of a pipeline."""

    name: str  # name of the job
    job_description: str
    config: type[Config] | None = None  # settings that a person may choose
    can_work: Callable[[Pipeline], bool] = lambda pipeline: True  # else nobody is offered it
    pool: str | None = UPKEEP_POOL  # None: it waits for nobody
    asks_registry: bool = True  # its runs fail soon where that hangs
    # Dagster does not notice a killed process. After this time it fails the run, and the next one can begin.
    # A verification of 160,000 lines of each of two datacenters takes less than a minute.
    max_runtime_seconds: int = 6 * 3_600


@dataclass(frozen=True, kw_only=True)
class AssetWork(Work):
    """One kind of work whose result is an asset."""

    asset: str
    description: str
    goes_by: Sequence[str]  # the assets that it goes by
    cron: Callable[[Pipeline], str]


def technology_of(technology: str, pipeline: Pipeline) -> str:
    """The technology as Dagster shows it: a registry on this machine is one file of SQLite."""
    is_local = pipeline.registry.endpoints == "local"
    return "sqlite" if technology == REGISTRY and is_local else technology


class DryRunConfig(Config):
    """Whether to change anything: a run does what its job is called, as a command does, unless it is told."""

    dry_run: bool = Field(default=False, description="Only say what would be done, and change nothing.")
