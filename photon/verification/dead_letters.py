"""Have dead letters looked at again, once what they failed on is mended (protocol E4).

Only whole records: those that the adapter, a declared type or the horizon refused. A line that is no record
stays none; a corrected line belongs into a new file of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.dataset as ds

from photon.pipeline.file import Pipeline
from photon.recovery.orders import MOST_RECORDS, OrderedRecord
from photon.state.view import open_view
from photon.storage.tables import OutputTable
from photon.tokens import Occurrence
from photon.verification.recovery import Recovered, leave_orders

COLUMNS = ["_batch", "_occurrence", "event_id", "reason"]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be joined, as its table last says."""

    occurrence: Occurrence
    event_id: str
    reason: str
    batch: int


def recover_dead_letters(
    pipeline: Pipeline, datacenters: Sequence[str], reason: str = "", dry_run: bool = False
) -> dict[str, Recovered]:
    """Leave orders for dead letters whose reason has this text. StateUnavailable, LakeUnavailable."""
    return {name: _recover_one(pipeline, name, reason, dry_run) for name in datacenters}


def _recover_one(pipeline: Pipeline, datacenter: str, reason: str, dry_run: bool) -> Recovered:
    place, done = pipeline.datacenters[datacenter], Recovered()
    with open_view(place.state) as state:
        if state is None or state.is_older:
            done.problem = f"{place.state}: no state that this Photon has written: start the datacenter first"
            return done
        epoch, completed = state.epoch or "", state.completed
        letters = letters_of(OutputTable(place.lake, "dead_letters"), epoch, completed)
        ordered_at = state.ordered_at({letter.occurrence for letter in letters})
    # One that was taken up since it was recorded is in another class by now, or waits.
    letters = [each for each in letters if each.batch > ordered_at.get(each.occurrence, -1)]
    letters = [each for each in letters if reason in each.reason]
    done.left_out = max(0, len(letters) - MOST_RECORDS)
    letters = letters[:MOST_RECORDS]
    done.kinds.update(each.reason for each in letters)
    records = [OrderedRecord(each.occurrence, each.event_id, "dead_letters") for each in letters]
    leave_orders(done, place.state, epoch, completed, records, dry_run)
    return done


def letters_of(table: OutputTable, epoch: str, completed: int) -> list[DeadLetter]:
    """The foreign records among an epoch's dead letters, each as it was last recorded. LakeUnavailable."""
    if not table.exists():
        return []
    wanted = (ds.field("_epoch") == epoch) & (ds.field("_batch") <= completed)
    wanted &= (ds.field("side") == "foreign") & ds.field("event_id").is_valid()
    with table.reading():
        rows = table.load().to_pyarrow_dataset().to_table(columns=COLUMNS, filter=wanted)
    newest = {row["_occurrence"]: row for row in rows.sort_by("_batch").to_pylist()}
    letters = (
        DeadLetter(Occurrence.parse(place), row["event_id"], row["reason"], row["_batch"])
        for place, row in newest.items()
    )
    return sorted(letters, key=lambda letter: letter.occurrence)
