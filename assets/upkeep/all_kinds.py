"""All kinds of upkeep of a pipeline: verbs, and evaluations, which are assets."""

from __future__ import annotations

from collections.abc import Sequence

from assets.evaluations import Evaluation
from assets.garbage_collection import GARBAGE_COLLECTION
from assets.resharding import RESHARDING
from assets.upkeep.datacenters import ACKNOWLEDGEMENT, RETIREMENT
from assets.upkeep.kinds import Upkeep
from assets.upkeep.recovery import RECOVERY
from assets.upkeep.repair import REPAIR
from assets.upkeep.tables import COMPACTION

UPKEEP: Sequence[Upkeep] = (RECOVERY, COMPACTION, REPAIR, RETIREMENT, ACKNOWLEDGEMENT)
EVALUATIONS: Sequence[Evaluation] = (GARBAGE_COLLECTION, RESHARDING)
