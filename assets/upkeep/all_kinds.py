"""All kinds of upkeep of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from assets.upkeep.datacenters import ACKNOWLEDGEMENT, RETIREMENT
from assets.upkeep.kinds import Upkeep
from assets.upkeep.recovery import RECOVERY
from assets.upkeep.registry import REGISTRY_VERBS
from assets.upkeep.tables import COMPACTION

UPKEEP: Sequence[Upkeep] = (RECOVERY, COMPACTION, *REGISTRY_VERBS, RETIREMENT, ACKNOWLEDGEMENT)
