"""The last run for unmatched primaries, as a release takes it over (protocol U7). Pure but for `last_run`.

The table may have rows that no document speaks of, and that no disk has yet: so the document says which
count. Once an epoch was fenced nobody adds to its rows, and all are on disk.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew
from photon.releases.release import Part
from photon.state.unmatched import DOCUMENT, UnmatchedProgress, published
from photon.storage.tables import FENCE_VERSION, batch_of

log = logging.getLogger(__name__)


def last_run(lake: Location) -> UnmatchedProgress | None:
    """Read the document of the last run in a lake; None where there was none. OSError, FormatTooNew.

    A document that is damaged says nothing: the next run writes another one.
    """
    try:
        return published(lake)
    except FormatTooNew:
        raise
    except (ValueError, KeyError, TypeError) as error:
        log.warning("%s is damaged, and says nothing of unmatched primaries: %r", lake / DOCUMENT, error)
        return None


def with_last_run(
    part: Part, before: Part | None, datacenter: str, last: UnmatchedProgress | None, version: int
) -> tuple[Part, str]:
    """The part with the rows and the time that the last run stands for, and why that is less than before.

    `version`: of the part's epoch in the table `unmatched`. Empty: it is not less.
    """
    if version >= FENCE_VERSION:
        run = batch_of(version)
    else:
        is_of_epoch = last is not None and (last.datacenter, last.epoch) == (datacenter, part.place.epoch)
        run = last.run if last is not None and is_of_epoch else 0
    if last is None and not run and (before is None or "unmatched" not in before.side_batches):
        return part, ""
    found = replace(part, side_batches={**part.side_batches, "unmatched": run})
    if last is not None:
        found = replace(
            found,
            unmatched_up_to_us=last.up_to_us,
            unmatched_release=last.release,
            unmatched_read_us=last.read_us,
        )
    if before is None:
        return found, ""
    said = before.unmatched_up_to_us
    is_gone = last is None and said is not None
    if is_gone or found.place_in("unmatched") < before.place_in("unmatched"):
        says = f"{DOCUMENT} is gone" if is_gone else f"{DOCUMENT} is of {_run(found)}"
        return found, f"{says}, and was of {_run(before)}: the next run looks at all primaries"
    return found, ""


def _run(part: Part) -> str:
    place = part.place_in("unmatched")
    return f"epoch {place.epoch}, run {place.batch}"
