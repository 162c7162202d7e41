"""Rows at whose places their records are not: somebody altered the row, or the log.

The registry knows which record registered an event, and no row tells it. A row is never given another event
here: two rows of it might be the end. It goes, and the dispatcher joins its true event again (docs/adr/0058).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from photon.backfill.records_at import Mask
from photon.errors import UserError
from photon.pipeline.event_key import EventKey, event_key
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import ForeignLog
from photon.registry.interface import Joined, LookupOutcome
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.tokens import Occurrence, PlanKey, Token

Fate = Occurrence | Literal["goes", "stays"]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The plan that a row says it is of, and the place of its record; any text may stand there."""

    plan: PlanKey
    occurrence: str


def settle(
    rows: pa.Table, ids_there: pa.Array, times_us_there: pa.Array, pipeline: Pipeline, datacenter: str
) -> tuple[Mask, pa.Array]:
    """Which of these rows go, and the true `_occurrence` of others, or null. All stay where nobody can tell.

    `rows`: Photon's own columns of rows of one datacenter. What is at their places: null where no record is.
    """
    foreign = pipeline.foreign
    stamps = rows.select(["_epoch", "_batch", "_plan", "_occurrence"]).to_pylist()
    stamped = [
        Stamp(PlanKey(datacenter, epoch, batch, plan), place or "")
        for epoch, batch, plan, place in (stamp.values() for stamp in stamps)
    ]
    own = _keys(rows["_event_id"], rows["_event_time"].cast(pa.int64()), foreign)
    there = _keys(ids_there, times_us_there, foreign)
    try:
        answers = _ask(pipeline, [key for key in (*own, *there) if key is not None])
    except UserError as error:
        log.warning("%d rows stay whose records are not at their places: %s", rows.num_rows, error)
        answers = {}
    asked = zip(stamped, own, there, strict=True)
    fates = [fate_of(stamp, answers.get(mine), answers.get(other)) for stamp, mine, other in asked]
    moved = [str(fate) if isinstance(fate, Occurrence) else None for fate in fates]
    return np.array([fate == "goes" for fate in fates], bool), pa.array(moved, pa.string())


def fate_of(row: Stamp, answer: LookupOutcome | None, answer_there: LookupOutcome | None) -> Fate:
    """What becomes of a row, as the registry answers for its event and for the one at its place.

    It goes if its token holds the event at its place: then its id was altered. If its plan holds its event
    for another record, that is its record. Else the log may be what was altered, and it stays.
    """
    holds, holds_there = _token_of(answer), _token_of(answer_there)
    if holds_there is not None and Stamp(holds_there.plan, str(holds_there.occurrence)) == row:
        return "goes"
    if holds is not None and holds.plan == row.plan and str(holds.occurrence) != row.occurrence:
        return holds.occurrence
    return "stays"


def _token_of(answer: LookupOutcome | None) -> Token | None:
    """The token that holds an event; None: nobody does, or it was cleared."""
    token = answer.holder.token if isinstance(answer, Joined) else None
    return None if token is None else Token.parse(token)


def _ask(pipeline: Pipeline, keys: list[EventKey]) -> dict[EventKey | None, LookupOutcome]:
    """RegistryUnavailable, RegistryMissing, RegistryMismatch."""
    distinct = [*dict.fromkeys(keys)]
    answers = open_registry(find_registry(pipeline)).lookup(distinct) if distinct else []
    return dict(zip(distinct, answers, strict=True))


def _keys(ids: pa.Array, times_us: pa.Array, log: ForeignLog) -> list[EventKey | None]:
    each = zip(ids.to_pylist(), times_us.to_pylist(), strict=True)
    return [
        None if event_id is None or (us is None and log.time_in_id) else event_key(event_id, us, log)
        for event_id, us in each
    ]
