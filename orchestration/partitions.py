"""How assets are partitioned: each datacenter is a static partition of its pipeline's assets."""

from __future__ import annotations

from dagster import StaticPartitionsDefinition

from resources.environment import Served


def datacenters_of(served: Served) -> StaticPartitionsDefinition:
    """One partition for each datacenter that the code location runs."""
    return StaticPartitionsDefinition(list(served.datacenters))
