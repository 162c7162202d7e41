"""From a plan to tasks: which task gets what.

The split is a function of the plan and the number of workers. A re-run may have another number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow.compute as pc

from photon.join.messages import IndexTask, JoinTask, ReindexTask
from photon.logs.files import ByteRange, LogFile, TrackedFile
from photon.logs.ranges import stretches_of
from photon.state.plan import Plan
from photon.state.waiting.retries import count, part

REINDEX_BYTES = 2**25  # a task that indexes a log again holds the events of as much in memory
TASK_BYTES = 2**20  # a task with less to do costs more to start than it saves
RETRY_BYTES = 200  # a waiting record weighs as much when work is spread over tasks
PIECE_RETRIES = 1024  # so many waiting records stay together


def index_tasks(
    plan: Plan, files: Mapping[int, TrackedFile], workers: int, segment_of: Callable[[int], str]
) -> tuple[IndexTask, ...]:
    """The index tasks of a plan. `segment_of` names the segment that each task makes, by its number."""
    ranges = plan.content.primary
    groups = _groups([r.end_bytes - r.start_bytes for r in ranges], workers)
    return tuple(
        IndexTask(_with_files([ranges[i] for i in group], files), segment_of(number))
        for number, group in enumerate(groups)
    )


def reindex_tasks(files: Iterable[TrackedFile], segment_of: Callable[[int], str]) -> tuple[ReindexTask, ...]:
    """Tasks that index again what was read of primary files."""
    stretches = [s for tracked in files for s in stretches_of(tracked, REINDEX_BYTES)]
    bins = -(-sum(s.length_bytes for s in stretches) // REINDEX_BYTES)
    groups = spread([s.length_bytes for s in stretches], bins)
    return tuple(
        ReindexTask(tuple(stretches[i] for i in group), segment_of(number))
        for number, group in enumerate(groups)
    )


def join_tasks(plan: Plan, files: Mapping[int, TrackedFile], workers: int) -> tuple[JoinTask, ...]:
    """The join tasks of a plan."""
    ranges, retries = plan.content.foreign, plan.content.retries
    weights = [r.end_bytes - r.start_bytes for r in ranges]
    # Retries go in pieces: a task that reads neighbours reads less of their segment.
    pieces = [(at, min(at + PIECE_RETRIES, count(retries))) for at in range(0, count(retries), PIECE_RETRIES)]
    weights += [RETRY_BYTES * (end - start) for start, end in pieces]
    tasks = []
    for task, group in enumerate(_groups(weights, workers)):
        own_ranges = [ranges[i] for i in group if i < len(ranges)]
        own = (pieces[i - len(ranges)] for i in sorted(group) if i >= len(ranges))
        own_retries = tuple(each for start, end in own for each in part(retries, start, end))
        numbers = {number for each in own_retries for number in pc.unique(each.files).to_pylist()}
        retry_files = tuple(files[number].file for number in sorted(numbers))
        tasks.append(JoinTask(_with_files(own_ranges, files), own_retries, retry_files, task))
    return tuple(tasks)


def _groups(weights: list[int], workers: int) -> list[list[int]]:
    """Indices of `weights`, in bytes, for as many tasks as are worth their cost."""
    return spread(weights, min(workers, sum(weights) // TASK_BYTES + 1))


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


def _with_files(
    ranges: list[ByteRange], files: Mapping[int, TrackedFile]
) -> tuple[tuple[LogFile, ByteRange], ...]:
    in_order = sorted(ranges, key=lambda r: (r.file_number, r.start_bytes))
    return tuple((files[r.file_number].file, r) for r in in_order)
