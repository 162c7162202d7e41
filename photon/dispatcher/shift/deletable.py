"""Which log files nobody needs any more, as far as joining goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from photon.logs.files import TrackedFile
from photon.state.completeness.estimate import Completeness
from photon.state.plan import PlanContent


def files_of(contents: Iterable[PlanContent]) -> set[int]:
    """The numbers of the files that plans are still to read."""
    return {part.file_number for content in contents for part in (*content.primary, *content.foreign)}


def deletable(
    files: Iterable[TrackedFile],
    needed: Collection[int],
    said: Completeness | None,
    now_us: int,
    idle_us: int,
) -> Sequence[TrackedFile]:
    """The files that are read to their ends, have not grown for `idle_us`, and whose time is complete.

    Not those that are `needed`, by number: of an open or requeued plan, with a waiting record or the primary
    of one. That is known, whatever the clocks say. `said`: of this epoch; without it nothing is.
    """
    return [
        tracked
        for tracked in files
        if tracked.state == "open"
        and tracked.file.number not in needed
        and not tracked.unread_bytes
        and now_us - (grown_us := _last_grown_us(tracked, now_us)) >= idle_us
        and said is not None
        and _is_complete(tracked, said, grown_us)
    ]


def _last_grown_us(tracked: TrackedFile, now_us: int) -> int:
    """When the file grew: as it was seen, or as its store says if that is later. One clock may be wrong.

    What the store says of a time that is yet to come says nothing.
    """
    modified_us = tracked.modified_ns // 1_000
    return max(tracked.grown_us, modified_us) if modified_us <= now_us else tracked.grown_us


def _is_complete(tracked: TrackedFile, said: Completeness, grown_us: int) -> bool:
    """Whether rows are complete up to the latest event of a file; one without any holds nobody back."""
    if tracked.max_time_us is None:
        return True
    # No line is written before its event: a wild time does not keep a file for ever.
    latest_us = min(tracked.max_time_us, grown_us)
    if said.complete_up_to_us is None:
        return False
    nothing_waits = said.complete_up_to_us == said.read_up_to_us and not said.waiting
    return latest_us < said.complete_up_to_us or (nothing_waits and latest_us == said.read_up_to_us)
