"""How far a datacenter has written its unmatched primaries: one document beside its tables (protocol U)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from photon.pipeline.location import Location
from photon.storage.documents import LakeDocument
from photon.storage.store import store_of

DOCUMENT = "unmatched.json"
_STORED = LakeDocument(DOCUMENT, 1)


@dataclass(frozen=True)
class UnmatchedProgress:
    """The progress that a run leaves behind, once its rows are on disk.

    Of primaries in [`since_us`, `up_to_us`) each that lies before `positions` (offsets by file number) was
    looked at. `release`: the one that it was decided by. `full_pass_us`: when all of the index was looked at.
    `counts`: of the run. `held_back`: why it did not come further, for people. `read_us`: all that had come
    to the datacenter's logs by then was looked at.
    """

    datacenter: str
    epoch: int
    run: int
    plan_id: str
    up_to_us: int
    since_us: int | None  # None: from the first primary on
    release: int
    full_pass_us: int
    positions: Mapping[int, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    held_back: str = ""
    read_us: int = 0


def publish(lake: Location, progress: UnmatchedProgress) -> None:
    """Put it in the place of what was there before. OSError."""
    positions = {str(number): offset for number, offset in progress.positions.items()}
    _STORED.put(lake, {**asdict(progress), "positions": positions})
    store_of(lake).sync()


def published(lake: Location) -> UnmatchedProgress | None:
    """Read the progress of the last run; None where there was none.

    OSError, FormatTooNew; ValueError, KeyError and TypeError if it is no such document.
    """
    if (document := _STORED.read(lake)) is None:
        return None
    fields = {name: document[name] for name in UnmatchedProgress.__dataclass_fields__}
    positions = {int(number): offset for number, offset in fields["positions"].items()}
    return UnmatchedProgress(**{**fields, "positions": positions})
