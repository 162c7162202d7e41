"""How far unmatched primaries are written, and up to where primary logs are not needed for them any more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from photon.dispatcher.shift.deletable_files import LookedForUnmatched
from photon.dispatcher.shift.people import Decisions
from photon.health.verdict import Verdict, level_after
from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Durations
from photon.process.clock import in_utc, microseconds
from photon.process.errors import FormatTooNew
from photon.releases import copies
from photon.releases.release import Release
from photon.state.completeness.published import last_said
from photon.state.unmatched import DOCUMENT, UnmatchedProgress, published
from photon.state.view import StateView

# A run each hour is late when it missed several turns: it may wait for logs, or for a lake.
LATE = Durations(warn=timedelta(hours=3), error=timedelta(days=1))


@dataclass(frozen=True)
class UnmatchedSeen:
    """The last run's document. `progress` None: there was none, or `problem` says why it can't be read."""

    progress: UnmatchedProgress | None = None
    problem: str = ""
    due_since_us: int | None = None  # a run would come further, by a release of then; None: none would

    def as_dict(self) -> dict[str, Any]:
        """For `photon status --json`; times are microseconds since 1970 UTC."""
        names = ("epoch", "run", "up_to_us", "since_us", "release", "counts", "held_back")
        found = {name: getattr(self.progress, name) for name in names} if self.progress is not None else {}
        return {**found, "due_since_us": self.due_since_us, "problem": self.problem}

    def sentence(self) -> str:
        """How far primaries were looked at, and what keeps them from more; for people."""
        if self.progress is None:
            why = f": {self.problem}" if self.problem else ""
            return f"unmatched primaries are written up to no event time yet{why}"
        up_to, why = in_utc(self.progress.up_to_us, "seconds"), self.progress.held_back
        return f"unmatched primaries are written up to {up_to}" + (f"; no more for now: {why}" if why else "")


def look_at_unmatched(
    pipeline: Pipeline, datacenter: str, decisions: Decisions, state: StateView, now_us: int
) -> UnmatchedSeen | None:
    """Read how far the owner's last run came; None: nobody looks for them, or another datacenter does."""
    if pipeline.unmatched is None or decisions.unmatched_owner != datacenter:
        return None
    lake = pipeline.datacenters[datacenter].lake
    try:
        last = published(lake)
        return UnmatchedSeen(last, due_since_us=_due_since_us(pipeline, datacenter, last, state, now_us))
    except (OSError, FormatTooNew) as error:
        return UnmatchedSeen(problem=str(error))
    except (ValueError, KeyError, TypeError):
        return UnmatchedSeen(problem=f"{lake / DOCUMENT} is damaged, and the next run writes another one")


def _due_since_us(
    pipeline: Pipeline, owner: str, last: UnmatchedProgress | None, state: StateView, now_us: int
) -> int | None:
    """When a release came by which a run would come further, as far back as `LATE` asks; None: none would.

    OSError, FormatTooNew.
    """
    if pipeline.unmatched is None or state.epoch is None:
        return None
    # The import takes long, and most pipelines look for no unmatched primaries.
    from photon.unmatched.deciding import UnmatchedSight, due

    lake, epoch, after_us = (
        pipeline.datacenters[owner].lake,
        int(state.epoch),
        microseconds(pipeline.unmatched.after),
    )
    said = last_said(lake)
    has_run = last is not None and last.epoch == epoch
    done_us = last.up_to_us if last is not None and has_run else -(2**63)
    # Before the first run nobody knows how old primaries are: those of a release are due so much later.
    young_us = 0 if has_run else after_us

    def is_due(release: Release | None, at_us: int) -> bool:
        if release is None:
            return False
        sight = UnmatchedSight(owner, epoch, at_us, after_us, release, said, state.watermark_us)
        up_to_us = due(sight).up_to_us
        return up_to_us is not None and up_to_us > done_us

    newest = copies.latest(lake)
    if newest is None or not is_due(newest, now_us):
        return None
    for age in (LATE.error, LATE.warn):
        older = copies.as_of(lake, now_us - microseconds(age) - young_us)
        if older is not None and is_due(older, older.made_us):
            return older.made_us + young_us
    return newest.made_us


def judge_unmatched(
    datacenter: str, seen: UnmatchedSeen | None, now_us: int, pipeline: Pipeline
) -> Verdict | None:
    """The verdict on runs that are due and do not happen; else None."""
    if seen is None or seen.due_since_us is None:
        return None
    level = level_after(now_us - seen.due_since_us, LATE)
    if level == "ok":
        return None
    since = in_utc(seen.due_since_us, "minutes")
    remedy = f"run it each hour: photon unmatched {pipeline.typed}, or Dagster's schedule unmatched"
    says = f"{datacenter}: unmatched primaries are due since {since} at least, and no run has written them"
    return Verdict(level, says, remedy, "has not written unmatched primaries for long")


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
    part = None if release is None else release.parts.get(decisions.unmatched_owner)
    if release is None or part is None:
        return LookedForUnmatched()
    up_to_us = release.unmatched_up_to_us_of(decisions.unmatched_owner)
    if seen is None:
        return LookedForUnmatched(up_to_us, None, part.unmatched_read_us)
    last = seen.progress
    if last is None or str(last.epoch) != epoch:
        return LookedForUnmatched(up_to_us, {})
    # The run that has read so far may have come less far in time than one before it.
    both_us = None if up_to_us is None else min(up_to_us, last.up_to_us)
    return LookedForUnmatched(both_us, last.positions)
