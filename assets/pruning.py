"""Which runs of Dagster's history may go. Pure; who asks for it and deletes them is `run_history`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """What makes runs follow one another. The newest of a kind stays, so that Dagster shows how it went."""

    job: str
    assets: frozenset[str]  # chosen by hand in the asset graph, in Dagster's one job for that
    partition: str
    status: str


@dataclass(frozen=True)
class EndedRun:
    """A run that is over."""

    run_id: str
    kind: Kind
    ended_us: int


def newest_of_each(runs: Iterable[EndedRun]) -> dict[Kind, EndedRun]:
    """The run of each kind that ended last."""
    found: dict[Kind, EndedRun] = {}
    for run in runs:
        if run.kind not in found or run.ended_us > found[run.kind].ended_us:
            found[run.kind] = run
    return found


def prunable(runs: Iterable[EndedRun], before_us: int, outlived: Collection[Kind]) -> list[str]:
    """The ids of runs that may go, the oldest first: ended before `before_us`, and not the newest of a kind.

    `outlived`: kinds of which there are newer runs than these.
    """
    runs = sorted(runs, key=lambda run: run.ended_us)
    newest = newest_of_each(runs)
    return [
        run.run_id
        for run in runs
        if run.ended_us < before_us and (run.kind in outlived or newest[run.kind] is not run)
    ]
