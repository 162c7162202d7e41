"""Which log files nobody needs any more, as far as joining goes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from photon.logs.files import TrackedFile
from photon.state.plan import PlanContent


def files_of(contents: Iterable[PlanContent]) -> set[int]:
    """The numbers of the files that plans are still to read."""
    return {part.file_number for content in contents for part in (*content.primary, *content.foreign)}


def deletable(
    files: Iterable[TrackedFile],
    in_plans: Collection[int],
    earliest_primary_us: int | None,
    now_us: int,
    idle_us: int,
) -> Sequence[TrackedFile]:
    """The files that are read to their ends, and have not grown for `idle_us`.

    Not those of an open or requeued plan. Nor a primary file with events as late as the earliest one that a
    waiting event may belong to: `earliest_primary_us`; None if nothing waits.
    """
    return [
        tracked
        for tracked in files
        if tracked.state == "open"
        and tracked.file.number not in in_plans
        and not tracked.unread_bytes
        and now_us - tracked.grown_us >= idle_us
        and (
            tracked.file.side == "foreign"
            or earliest_primary_us is None
            or (tracked.max_time_us is not None and tracked.max_time_us < earliest_primary_us)
        )
    ]
