"""How far unmatched primaries are written, and up to where primary logs are not needed for them any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from photon.dispatcher.shift.deletable_files import LookedForUnmatched
from photon.dispatcher.shift.people import Decisions
from photon.errors import FormatTooNew
from photon.pipeline.file import Pipeline
from photon.process.clock import in_utc
from photon.releases.release import Release
from photon.state.unmatched import DOCUMENT, Progress, published


@dataclass(frozen=True)
class UnmatchedSeen:
    """What the last run has left. `progress` None: there was none, or `problem` says why it can't be read."""

    progress: Progress | None = None
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For `photon status --json`; times are microseconds since 1970 UTC."""
        names = ("epoch", "run", "up_to_us", "since_us", "release", "counts", "held_back")
        found = {name: getattr(self.progress, name) for name in names} if self.progress is not None else {}
        return {**found, "problem": self.problem}

    def sentence(self) -> str:
        """How far primaries were looked at, and what keeps them from more; for people."""
        if self.progress is None:
            return f"unmatched primaries are written up to no event time yet{_reason(self.problem)}"
        up_to = in_utc(self.progress.up_to_us, "seconds")
        return f"unmatched primaries are written up to {up_to}{_reason(self.progress.held_back)}"


def _reason(why: str) -> str:
    return f": {why}" if why else ""


def look_at_unmatched(pipeline: Pipeline, datacenter: str, decisions: Decisions) -> UnmatchedSeen | None:
    """What the owner's last run has left; None: nobody looks for them, or another datacenter does."""
    if pipeline.unmatched is None or decisions.unmatched_owner != datacenter:
        return None
    lake = pipeline.datacenters[datacenter].lake
    try:
        return UnmatchedSeen(published(lake))
    except (OSError, FormatTooNew) as error:
        return UnmatchedSeen(problem=str(error))
    except (ValueError, KeyError, TypeError):
        return UnmatchedSeen(problem=f"{lake / DOCUMENT} is damaged, and the next run writes another one")


def looked_for_unmatched(
    pipeline: Pipeline,
    decisions: Decisions,
    release: Release | None,
    seen: UnmatchedSeen | None,
    epoch: str | None,
) -> LookedForUnmatched | None:
    """Up to where a datacenter's primary logs were looked at; None: nobody looks. `seen`: if it is the owner.

    While the registry does not say who is, no primary log may go.
    """
    if pipeline.unmatched is None:
        return None
    up_to_us = None if release is None else release.unmatched_up_to_us
    if seen is None:
        return LookedForUnmatched(up_to_us if decisions.unmatched_owner else None)
    last = seen.progress
    is_of_epoch = last is not None and str(last.epoch) == epoch
    return LookedForUnmatched(up_to_us, last.positions if last is not None and is_of_epoch else {})
