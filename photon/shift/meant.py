"""Whether a join did what anybody can have meant: it read logs, understood lines, and met keys. Else why not.

What is wrong while a datacenter runs is told by `standing` and by the health checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from photon.logs.files import Side
from photon.logs.folders import log_folder
from photon.pipeline.file import Pipeline

# What was read by wrong settings is not read again by itself.
AGAIN = "then remove the folders lake and state of all datacenters, and join again"


@dataclass(frozen=True, slots=True)
class LogSeen:
    """What there is of one log."""

    side: Side
    place: str  # its glob, below its folder
    files: int
    problem: str | None  # why its folder can't be read


def look_at_logs(pipeline: Pipeline, datacenter: str) -> tuple[LogSeen, ...]:
    """Both logs of a datacenter as they are now."""
    place = pipeline.datacenters[datacenter].logs
    folder = log_folder(place)
    problem = folder.why_not_there()
    globs: dict[Side, str] = {"primary": pipeline.primary.files, "foreign": pipeline.foreign.files}
    return tuple(
        LogSeen(side, f"{place}/{glob}", 0 if problem else len(folder.watch(glob).scan(True).files), problem)
        for side, glob in globs.items()
    )


def not_meant(pipeline_file: str, counts: Mapping[str, float], logs: tuple[LogSeen, ...]) -> list[str]:
    """What can't have been meant, each with what was seen and what to look at; none if all is well."""
    return [
        *(told for log in logs if (told := _nothing_to_read(pipeline_file, log)) is not None),
        *_nothing_understood(pipeline_file, counts),
        *_nothing_met(pipeline_file, counts),
    ]


def _nothing_to_read(pipeline_file: str, log: LogSeen) -> str | None:
    if log.problem is not None:
        where = f"`logs` of its datacenter in {pipeline_file}"
        return f"the {log.side} logs {log.place} are in what is {log.problem}; look at {where}"
    if log.files:
        return None
    return f"no file matches {log.place}; look at `{log.side}.files` in {pipeline_file}"


def _nothing_understood(pipeline_file: str, counts: Mapping[str, float]) -> list[str]:
    told = []
    if counts["primary_dead_letters"] and not counts["primary"]:
        told.append(
            f"all {counts['primary_dead_letters']:,} primary lines are dead letters; "
            f"photon dead-letters {pipeline_file} has the reasons. Mend `primary` in {pipeline_file}, {AGAIN}"
        )
    if counts["foreign"] and counts["dead_letters"] == counts["foreign"]:
        told.append(
            f"all {counts['foreign']:,} foreign lines are dead letters; "
            f"photon dead-letters {pipeline_file} has the reasons. Mend `foreign` in {pipeline_file}, {AGAIN}"
        )
    return told


def _nothing_met(pipeline_file: str, counts: Mapping[str, float]) -> list[str]:
    if counts["joined"] + counts["joined_elsewhere"] or not (counts["unjoinable"] and counts["primary"]):
        return []
    return [
        f"no key matches: {counts['unjoinable']:,} foreign events were given up, and {counts['primary']:,} "
        f"primary events were read; photon init --dry-run PRIMARY FOREIGN says which columns match. Mend "
        f"`primary.id` and `foreign.key` in {pipeline_file}, {AGAIN}"
    ]
