"""Signs of a wrong key: no foreign record has one, or none meets a primary event.

A join tells them at its end (`misconfigured`), `photon.health` while a datacenter runs. All of it is pure but
two looks, which are worth it only where something is wrong: at the newest lines, and at waiting records.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from photon.logs.file_kinds import LOOKED_AT_BYTES
from photon.logs.files import TrackedFile
from photon.logs.folders import log_folder
from photon.logs.formats.dialect import dialect_of, header_names
from photon.logs.formats.line_formats import FormatNotFound, reader_of
from photon.logs.source import UNREADABLE
from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.pipeline.sections import Log
from photon.process.clock import microseconds
from photon.process.readable import counted
from photon.state.view import open_view

JOIN_AGAIN = "then join again: all logs are read anew"  # a new epoch begins (A24)
# Classes of records whose primary event was found, here or elsewhere.
MET = ("joined", "joined_elsewhere", "duplicates", "filtered")
# A log of which one record in thousands has a key is legitimate, so is an adapter that drops the others.
# So no share of records is a sign, but that not one has a key where so many were to be expected.
LEAST_EXPECTED = 100
MOST_COLUMNS_NAMED = 20  # they fit two lines of a terminal
Counts = Mapping[str, float]


def has_met(counts: Counts) -> bool:
    """Whether any foreign record has found its primary event."""
    return any(counts[name] for name in MET)


def none_has_a_key(counts: Counts) -> bool:
    """Whether each record that could be read was skipped, for lack of a key or by the adapter."""
    return bool(counts["skipped"]) and counts["skipped"] + counts["dead_letters"] == counts["foreign"]


def keyless_of_late(gained: Counts, before: Counts) -> float:
    """How many records were skipped of late, if none came with a key though many were to be expected; else 0.

    `gained` counts the records that ever came into each class, `before` those until the latest window began.
    """
    latest = {name: gained[name] - before.get(name, 0) for name in ("foreign", "skipped", "dead_letters")}
    read_before = before.get("foreign", 0) - before.get("dead_letters", 0)
    if latest["skipped"] + latest["dead_letters"] < latest["foreign"] or read_before <= 0:
        return 0
    share_with_a_key = 1 - before.get("skipped", 0) / read_before
    return latest["skipped"] if latest["skipped"] * share_with_a_key >= LEAST_EXPECTED else 0


def no_key_matches(counts: Counts, overdue: float) -> str:
    """Say that no foreign event has met a primary one, though there are some of both; empty: it is not so."""
    given_up = counts["unjoinable"]
    if has_met(counts) or not (given_up + overdue and counts["primary"]):
        return ""
    unmet = [
        counted(round(count), "foreign event", verb) + what
        for count, verb, what in (
            (given_up, "were", " given up"),
            (overdue, "wait", ", though primary logs are read beyond"),
        )
        if count
    ]
    read = counted(round(counts["primary"]), "primary event", "were")
    return f"no key matches: {' and '.join(unmet)}; {read} read"


def overdue_records(pipeline: Pipeline, datacenter: str) -> int:
    """How many records wait for a primary event although primary logs are read far beyond them.

    StateUnavailable, FormatTooNew.
    """
    with open_view(pipeline.datacenters[datacenter].state) as state:
        if state is None or state.watermark_us is None:
            return 0
        lateness_us = microseconds(pipeline.retry.allowed_lateness)
        return state.waiting.count_for_primary(state.watermark_us - lateness_us)


def columns_of_newest(logs: Location, log: Log, files: Iterable[TrackedFile]) -> tuple[str, ...]:
    """The columns that lines of the newest of these files have; none where it can't be read."""
    there = [tracked for tracked in files if tracked.state == "open"]
    if not there:
        return ()
    file = max(there, key=lambda tracked: tracked.grown_us).file
    dialect = dialect_of(log)
    if dialect is not None:
        return tuple(header_names(file.first_header, dialect))
    try:
        reader = reader_of(log)
        with log_folder(logs).open_at(file.path, file) as source:
            lines = source.read(file.header_bytes, LOOKED_AT_BYTES).split(b"\n")
    except (*UNREADABLE, FormatNotFound):
        return ()
    assert reader is not None, "a format without a dialect has a reader"
    names: dict[str, None] = {}
    for line in lines[:-1]:  # the last one may be cut off
        try:
            names.update(dict.fromkeys(reader.record(line)))
        except ValueError:
            continue
    return tuple(names)


def columns_in_words(columns: Iterable[str]) -> str:
    """Name the columns that lines have; empty where nobody knows them."""
    first = tuple(columns)
    more = len(first) - MOST_COLUMNS_NAMED
    beyond = f" and {more:,} more" if more > 0 else ""
    return f"the newest lines have {', '.join(first[:MOST_COLUMNS_NAMED])}{beyond}" if first else ""


def which_match(*places: str) -> str:
    """Name the command that finds out which columns of the logs at these places match."""
    return f"photon init --dry-run {shlex.join(places)} says which columns match"
