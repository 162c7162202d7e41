"""What the next batch holds: pure decisions over backlog and due retries.

Limits on bytes and events in flight (design, section 5), and the halving of work that could not
be carried out (protocol A11). Reading files to cut ranges is `photon.logs.tail`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from photon.dispatcher.plan import PlanContent
from photon.pipeline.file import Limits


@dataclass(frozen=True, slots=True)
class Budget:
    """How much the next batch may take of each kind."""

    primary_bytes: int
    foreign_bytes: int
    retries: int


def budget(limits: Limits, due_retries: int, waiting: int, hold_foreign: bool = False) -> Budget:
    """The next batch's budget.

    Due retries get at most half of the batch's events while there are logs to read, so that
    neither starves the other. When the store of retries is full, foreign logs pause: nothing is dropped.
    `hold_foreign`: primary logs are read first (declared-complete inputs, protocol D4).
    """
    room = max(limits.pending_events - waiting, 0)
    foreign_pauses = hold_foreign or room == 0
    most_retries = limits.batch_events if foreign_pauses else max(limits.batch_events // 2, 1)
    return Budget(
        primary_bytes=limits.batch_primary_bytes,
        foreign_bytes=0 if foreign_pauses else limits.batch_foreign_bytes,
        retries=min(due_retries, most_retries),
    )


def halves(content: PlanContent) -> list[PlanContent]:
    """Work that could not be carried out, as two pieces of half the items; one item stays whole.

    A single range has to be cut by its bytes, which the caller does.
    """
    primaries, foreigns = len(content.primary), len(content.foreign)
    items = primaries + foreigns + len(content.retries)
    if items < 2:
        return [content]
    middle = items // 2
    in_primary = min(middle, primaries)
    in_foreign = min(max(middle - primaries, 0), foreigns)
    in_retries = max(middle - primaries - foreigns, 0)
    first = replace(
        content,
        primary=content.primary[:in_primary],
        foreign=content.foreign[:in_foreign],
        retries=content.retries[:in_retries],
    )
    second = replace(
        content,
        primary=content.primary[in_primary:],
        foreign=content.foreign[in_foreign:],
        retries=content.retries[in_retries:],
    )
    return [first, second]


def spread(weights: list[int], bins: int) -> list[list[int]]:
    """Indices of `weights` in at most `bins` groups of about equal weight, none of them empty.

    Heaviest first into the lightest group: within 4/3 of the best for any number of groups.
    """
    groups: list[list[int]] = [[] for _ in range(min(bins, len(weights)))]
    loads = [0] * len(groups)
    for index in sorted(range(len(weights)), key=lambda i: -weights[i]):
        lightest = loads.index(min(loads))
        groups[lightest].append(index)
        loads[lightest] += weights[index]
    return groups
