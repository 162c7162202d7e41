"""Rows in doubt, of which the registry decides: it knows which record of which plan holds an event.

Of several rows of one event one stays. A row whose record is not at its place was altered, or its log was. It
is never given another event here: two rows of that might be the end. It goes, and the dispatcher joins its
true event again (docs/adr/0045).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from photon.pipeline.file import Pipeline
from photon.process.errors import UserError
from photon.process.readable import counted
from photon.registry.hashing import hashes_of_texts
from photon.registry.opening import open_reader
from photon.registry.origins import ClaimOrigin, origins_of
from photon.storage.tokens import Occurrence
from photon.upkeep.backfill.plan import CompetingRow, rows_to_drop
from photon.upkeep.backfill.records_at import Mask

Fate = Occurrence | Literal["goes", "stays"]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stamp:
    """The plan that a row says it is of, and the place of its record; any text may stand there."""

    epoch: str  # as `Epoch` is written, and `Claimant`
    claimant: str
    occurrence: str


def settle_misplaced(
    rows: pa.Table, ids_there: pa.Array, pipeline: Pipeline, datacenter: str
) -> tuple[Mask, pa.Array]:
    """Which of these rows go, and the true `_occurrence` of others, or null. All stay where nobody can tell.

    `rows`: Photon's own columns of rows of one datacenter. `ids_there`: the ids of the records at their
    places, null where there is none.
    """
    stamps = rows.select(["_epoch", "_batch", "_plan", "_occurrence"]).to_pylist()
    stamped = [
        Stamp(f"{datacenter}:{epoch}", f"{datacenter}:{epoch}:{batch}#{plan}", place or "")
        for epoch, batch, plan, place in (stamp.values() for stamp in stamps)
    ]
    own, there = rows["_event_id"].to_pylist(), ids_there.to_pylist()
    try:
        claims = _claims_of(pipeline, [event_id for event_id in (*own, *there) if event_id is not None])
    except UserError as error:
        log.warning(
            "%s although the record is not in its place: %s", counted(rows.num_rows, "row", "stay"), error
        )
        claims = {}
    asked = zip(stamped, own, there, strict=True)
    fates = [fate_of(stamp, claims.get(event_id), claims.get(other)) for stamp, event_id, other in asked]
    moved = [str(fate) if isinstance(fate, Occurrence) else None for fate in fates]
    return np.array([fate == "goes" for fate in fates], bool), pa.array(moved, pa.string())


def fate_of(row: Stamp, claim: ClaimOrigin | None, claim_there: ClaimOrigin | None) -> Fate:
    """The fate of a row, by the claims that hold its event and the event at its place.

    It goes if its plan holds the event at its place, for the record there: then its id was altered. So it
    does if nobody holds its own event, and another plan of its epoch holds the event there, for the record
    there: that was joined again. If its plan holds its event for another record, that is its record. Else the
    log may be what was altered, and it stays.
    """
    if claim_there is not None:
        there = _stamp_of(claim_there)
        is_same_record = (there.epoch, there.occurrence) == (row.epoch, row.occurrence)
        if there == row or (claim is None and is_same_record):
            return "goes"
    if claim is not None and _stamp_of(claim) != row and str(claim.claimant) == row.claimant:
        return claim.occurrence
    return "stays"


def _stamp_of(claim: ClaimOrigin) -> Stamp:
    return Stamp(str(claim.claimant.epoch), str(claim.claimant), str(claim.occurrence))


def _claims_of(pipeline: Pipeline, ids: list[str]) -> dict[str | None, ClaimOrigin | None]:
    """The claim that holds each id. RegistryUnavailable, RegistryMissing, RegistryMismatch."""
    distinct = [*dict.fromkeys(ids)]
    if not distinct:
        return {}
    origins = origins_of(open_reader(pipeline), hashes_of_texts(distinct))
    return dict(zip(distinct, origins, strict=True))


def second_rows_by_file(
    pipeline: Pipeline, datacenter: str, rows: Sequence[CompetingRow]
) -> dict[str, list[int]]:
    """The rows of a datacenter that go, by file. RegistryUnavailable, RegistryMissing, RegistryMismatch."""
    if not rows:
        return {}
    by_event: dict[str, list[CompetingRow]] = defaultdict(list)
    for row in rows:
        by_event[row.event_id].append(row)
    holders = open_reader(pipeline).holders(hashes_of_texts(by_event))
    going: dict[str, list[int]] = defaultdict(list)
    for index, group in enumerate(by_event.values()):
        for row in rows_to_drop(group, datacenter, holders.holder(index)):
            going[row.file].append(row.row)
    return dict(going)
