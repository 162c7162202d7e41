"""Which kept release comes behind another: nobody skips one, whenever they look (G2)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from photon.feed.step import CursorTooOld, FeedStopped
from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, microseconds
from photon.process.errors import UserError
from photon.releases import copies
from photon.releases.finding import (
    NoRelease,
    ReleaseUnreadable,
    another_under,
    asked_of_lakes,
    find_release,
    kept_releases,
)
from photon.releases.release import REFILL_GAP, Release
from photon.state.starting import what_starts_any

log = logging.getLogger(__name__)

RELEASES_AT_ONCE = 500  # as many as a lake keeps in one file
TO_READ_IT = 0.1  # a share of releases.keep: then the one behind the first release is still kept
COPIED_WITHIN_US = 5 * 60 * MICROSECONDS  # by then a maker that did not reach its lake has tried again


def release_behind(pipeline: Pipeline, number: int) -> Release:
    """The release with a number, to go on behind it. CursorTooOld, NoRelease, ReleaseUnreadable."""
    try:
        return find_release(pipeline, number)
    except NoRelease:
        oldest = next(iter(kept_releases(pipeline)), None)
        if oldest is None or number > oldest.number:
            raise
        raise CursorTooOld(_too_old(pipeline, number, oldest.number)) from None


def oldest_to_begin_with(pipeline: Pipeline, now_us: int) -> Release:
    """The oldest release that stays while its rows are read. NoRelease, ReleaseUnreadable."""
    at_us = now_us - round((1 - TO_READ_IT) * microseconds(pipeline.releases.keep))
    try:
        return find_release(pipeline, datetime.fromtimestamp(at_us / MICROSECONDS, UTC))
    except NoRelease:  # none is so old
        oldest, _ = asked_of_lakes(pipeline, copies.oldest)
        if not oldest:
            raise
        return min(oldest.values(), key=lambda one: one.number)


def following(pipeline: Pipeline, release: Release, now_us: int, passes_over: bool = False) -> list[Release]:
    """The first kept releases behind one, in order and without a gap; empty: there is none yet.

    `passes_over`: over releases that nobody keeps any more.
    ReleaseUnreadable: a lake that may have the next one does not answer, or it may be copied any moment; or
    no lake has even the release before it. CursorTooOld: nobody has the next one any more. FeedStopped: the
    release is none of this pipeline's.
    """
    by_lake, away = asked_of_lakes(
        pipeline, lambda lake: copies.following(lake, release.number - 1, RELEASES_AT_ONCE)
    )
    found: dict[int, Release] = {}
    for name, releases in by_lake.items():
        for number, one in releases.items():
            if found.setdefault(number, one) != one:
                raise another_under(pipeline, name, number)
    if not found:
        raise _lakes_are_older(pipeline, release, away)
    if found.pop(release.number, release) != release:
        raise FeedStopped(
            f"the cursor is of another release {release.number} than {pipeline.name} has: its registry and "
            f"lakes were begun anew, or it is another pipeline's; {resync(pipeline)}"
        )
    whole, behind = [release], [found[number] for number in sorted(found)]
    for one in behind:
        if is_next(whole[-1].number, one):
            whole.append(one)
        elif len(whole) > 1:
            break
        else:
            error = _why_not_next(pipeline, release.number, behind, away, now_us)
            if not (passes_over and isinstance(error, CursorTooOld)):
                raise error
            what = f"release {release.number + 1} is not kept any more"
            log.warning("%s: what it had comes with release %s", what, one.number)
            whole.append(one)
    return whole[1:]


def is_next(number: int, release: Release) -> bool:
    """Whether no release lies between: numbers are dense, but for a refill, which may know of fewer (R5)."""
    return release.number == number + 1 or (is_refilled(release) and release.number - REFILL_GAP <= number)


def is_refilled(release: Release) -> bool:
    """Whether it is an older release again, under a new number."""
    return any(note.change == "refilled" for note in release.notes)


def resync(pipeline: Pipeline) -> str:
    """Say what to do where the feed can't go on."""
    anew = f"photon follow {pipeline.typed} --resync"
    return f"{anew}, with all other options as they were, delivers all rows of the newest release anew"


def _lakes_are_older(pipeline: Pipeline, release: Release, away: Mapping[str, str]) -> ReleaseUnreadable:
    """The error where no lake has a release, nor one behind it: each keeps its newest one."""
    for name in sorted(away.keys() - {*release.lakes_gone}):
        return ReleaseUnreadable(release.number, name, away[name])
    back = "no lake has it any more: mount the lakes, or put newer copies back"
    made = f"without these the next join makes the next one: {what_starts_any(pipeline)}"
    return ReleaseUnreadable(release.number, release.by, f"{back}; {made}")


def _why_not_next(
    pipeline: Pipeline, number: int, behind: Sequence[Release], away: Mapping[str, str], now_us: int
) -> UserError:
    found = behind[0]
    for name in sorted(away.keys() - {*found.lakes_gone}):
        return ReleaseUnreadable(number + 1, name, away[name])
    is_lost = any(note.change == "lake put back" for one in behind for note in one.notes)
    if not is_lost and now_us - found.made_us < COPIED_WITHIN_US:
        why = f"no lake has it, and there is {found.number}"
        return ReleaseUnreadable(number + 1, found.by, f"{why}; its maker may be about to copy it: wait")
    return CursorTooOld(_too_old(pipeline, number + 1, found.number))


def _too_old(pipeline: Pipeline, number: int, oldest: int) -> str:
    kept = f"the oldest behind it is {oldest} (releases.keep, or lakes were put back)"
    return f"release {number} is not kept any more, {kept}; {resync(pipeline)}"
