"""How far the last run for unmatched primaries has looked, for a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location
from photon.process.readable import counted
from photon.registry.register import Register
from photon.releases import copies
from photon.releases.unmatched_runs import last_run
from photon.state.unmatched import UnmatchedProgress
from photon.state.view import ReadOffsets
from photon.storage.delta import lake_errors

# The terms of the identity: each id in the owner's primary logs is in one of them.
PRIMARY_TERMS = ("matched", "unmatched", "open", "missing")


@dataclass(frozen=True)
class UnmatchedScope:
    """The owner of unmatched primaries, and which of its records the last run has looked at.

    Records of times in [`since_us`, `up_to_us`) that begin before `positions`, by number of their file.
    """

    owner: str
    up_to_us: int = 0
    since_us: int | None = None
    positions: Mapping[int, int] = field(default_factory=dict)


def unmatched_scope(
    pipeline: Pipeline, register: Register, read: Mapping[str, ReadOffsets]
) -> UnmatchedScope | None:
    """The scope as of now; None: nobody looks for unmatched primaries. LakeUnavailable, FormatTooNew.

    Read behind states and before tables: rows that a document speaks of are in tables that are read then.
    """
    owner = register.unmatched_owner
    if pipeline.unmatched is None or owner not in pipeline.datacenters:
        return None
    lake = pipeline.datacenters[owner].lake
    with lake_errors(f"read how far unmatched primaries are written in {lake}"):
        last = last_run(lake)
        if last is None or str(last.epoch) != read[owner].epoch or _have_rows_left(lake, last):
            return UnmatchedScope(owner)
    return UnmatchedScope(owner, last.up_to_us, last.since_us, last.positions)


def _have_rows_left(lake: Location, last: UnmatchedProgress) -> bool:
    """Whether joined rows may have left since the release that a run went by. OSError."""
    newest = copies.latest(lake)
    return newest is not None and last.release < newest.rows_left_with


def identity_sentence(primaries: Mapping[str, int]) -> str:
    """The identity of primaries in words."""
    terms = " + ".join(f"{primaries[name]:,} {name}" for name in PRIMARY_TERMS)
    lines = counted(primaries["dead_letter_lines"], "line", "are")
    return f"{primaries['primaries']:,} primary ids = {terms}; {lines} no record"
