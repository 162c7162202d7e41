"""What one pipeline brings into the code location: its assets, jobs, sensors, schedules and checks.

One place for each pipeline to be put together; the parts come from `assets` and the modules beside this one.
"""

from __future__ import annotations

from dagster import AssetSelection, Definitions, define_asset_job, in_process_executor

from assets.joined_events import joined_events_asset, joined_events_key
from assets.logs import log_assets
from assets.verification import verification_asset
from orchestration.maintenance import UPKEEP, upkeep_job, upkeep_schedules
from orchestration.partitions import datacenters_of
from orchestration.schedules import verification_job, verification_schedule
from orchestration.sensors import shift_job_name, shift_sensor
from resources.environment import Served


def definitions_of(served: Served) -> Definitions:
    """All that belongs to one pipeline and the datacenters of it that are served here."""
    datacenters = datacenters_of(served)
    shift = define_asset_job(
        shift_job_name(served),
        selection=AssetSelection.assets(joined_events_key(served)),
        executor_def=in_process_executor,
        description="Joins one datacenter's logs for some time; its sensor starts it.",
    )
    return Definitions(
        assets=[
            *log_assets(served, datacenters),
            joined_events_asset(served, datacenters),
            verification_asset(served),
            *(kind.asset(served) for kind in UPKEEP),
        ],
        jobs=[shift, verification_job(served), *(upkeep_job(kind, served) for kind in UPKEEP)],
        sensors=[shift_sensor(served, name) for name in served.datacenters],
        schedules=[verification_schedule(served), *upkeep_schedules(served)],
    )
