"""Find a release among the copies in all lakes: no registry is asked, and no lock taken.

The greatest number in any lake is the newest release (R10). An error names the lake that does not answer, or
lacks what it should have, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from photon.pipeline.file import Pipeline
from photon.pipeline.location import Location, OutsideFolder
from photon.process.clock import MICROSECONDS, in_utc
from photon.process.errors import UserError
from photon.releases import copies
from photon.releases.release import Release
from photon.state.starting import what_starts_any
from photon.storage.delta import LakeForbidden, LakeUnavailable, lake_errors
from photon.storage.store_errors import is_away, reason_of

Answer = TypeVar("Answer")
Wanted = int | Literal["latest"] | datetime  # a time: the newest release that was made by then


class NoRelease(UserError):
    """There is no such release, not yet or not any more; the message says which are there."""


class ReleaseUnreadable(UserError):
    """A lake does not hold what a release says of it; the message says what was expected and what to do."""

    def __init__(self, number: int | None, datacenter: str, why: str) -> None:
        what = "no release can" if number is None else f"release {number} can't"
        super().__init__(f"{what} be read, for the lake of datacenter {datacenter}: {why}")
        self.datacenter = datacenter


def find_release(pipeline: Pipeline, wanted: Wanted = "latest") -> Release:
    """The release of a number or a time, or the latest one. ReleaseUnreadable, NoRelease, FormatTooNew."""
    found, away = asked_of_lakes(pipeline, lambda lake: _copy(lake, wanted))
    if not found:
        for name, why in away.items():
            raise ReleaseUnreadable(None, name, why)
        raise NoRelease(_none_there(pipeline, wanted))
    release = max(found.values(), key=lambda one: one.number)
    if not isinstance(wanted, int):  # a lake that does not answer may have a newer one
        for name in sorted(away.keys() & release.parts.keys()):
            raise ReleaseUnreadable(release.number, name, away[name])
        if (without := _without_its_copies(pipeline, release, found)) is not None:
            folder = pipeline.datacenters[without].lake / copies.FOLDER
            why = f"{folder} has none, and releases were made there: a newer one may be missing"
            do = f"put the folder back; {_next(pipeline)}"
            raise ReleaseUnreadable(release.number, without, f"{why}; {do}")
    same, _ = asked_of_lakes(pipeline, lambda lake: copies.release(lake, release.number))
    for name, one in same.items():
        if one != release:
            raise another_under(pipeline, name, release.number)
    return release


def _without_its_copies(pipeline: Pipeline, release: Release, found: Collection[str]) -> str | None:
    """A datacenter that has made a release, and whose lake keeps none: a newer one may be missing there."""
    silent = [name for name in sorted(release.parts) if name in pipeline.datacenters and name not in found]
    makers = {one.by for one in kept_releases(pipeline)} if silent else set()
    from photon.storage.tables import OutputTable  # a status does without it

    tables = ((name, OutputTable(pipeline.datacenters[name].lake, "joined_events")) for name in silent)
    return next((name for name, table in tables if name in makers and table.exists()), None)


def kept_releases(pipeline: Pipeline) -> list[Release]:
    """All releases that any lake keeps, the oldest first. LakeUnavailable: no lake answers; FormatTooNew."""
    kept, away = asked_of_lakes(pipeline, copies.kept)
    if not kept and away:
        raise LakeUnavailable("; ".join(away.values()))
    found = {one.number: one for releases in kept.values() for one in releases}
    return [found[number] for number in sorted(found)]


def another_under(pipeline: Pipeline, name: str, number: int) -> ReleaseUnreadable:
    """The error where two lakes have two releases of one number."""
    why = f"{pipeline.datacenters[name].lake} has another release under this number"
    return ReleaseUnreadable(number, name, f"{why}; {_mismatch(pipeline)}")


def _copy(lake: Location, wanted: Wanted) -> Release | None:
    if isinstance(wanted, int):
        return copies.release(lake, wanted)
    if isinstance(wanted, datetime):
        return copies.as_of(lake, _microseconds_at(wanted))
    return copies.latest(lake)


def _microseconds_at(moment: datetime) -> int:
    """A time, in UTC unless it says otherwise, as microseconds since 1970."""
    at = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(at.timestamp() * MICROSECONDS)


def asked_of_lakes(
    pipeline: Pipeline, ask: Callable[[Location], Answer | None]
) -> tuple[dict[str, Answer], dict[str, str]]:
    """The lakes' answers by datacenter, and why others gave none, with what to do."""
    answers: dict[str, Answer] = {}
    away: dict[str, str] = {}
    for name, place in pipeline.datacenters.items():
        what = f"cannot read the releases in {place.lake}"
        try:
            try:
                answer = ask(place.lake)
            except FileNotFoundError:  # a copy was packed between a look and the read
                answer = ask(place.lake)
        except OSError as error:
            away[name] = f"{what}: {reason_of(error)}{remedy(pipeline, name, error)}"
        except (ValueError, KeyError, TypeError):
            away[name] = f"{what}: one of the copies is damaged; remove it, another lake may have it"
        else:
            if answer:
                answers[name] = answer
    return answers, away


def _none_there(pipeline: Pipeline, wanted: Wanted) -> str:
    there = kept_releases(pipeline)
    if not there:
        return none_yet(pipeline)
    first, last = (f"{one.number}, made {in_utc(one.made_us, 'seconds')}" for one in (there[0], there[-1]))
    what = f"number {wanted}" if isinstance(wanted, int) else f"that was made by {wanted}"
    kept = f"kept are {first}, to {last}: photon releases {pipeline.typed} lists them"
    return f"{pipeline.name} has no release {what}; {kept}"


def none_yet(pipeline: Pipeline) -> str:
    """Say that no lake has a release, and what to do; a folder that is not there may only not be mounted."""
    lakes = [place.lake for place in pipeline.datacenters.values()]
    gone = [str(lake) for lake in lakes if isinstance(lake, Path) and not lake.is_dir()]
    mount = f"if it has joined before, mount {' and '.join(gone)} or put it back; else " if gone else ""
    return f"{pipeline.name} has no release yet; {mount}{_next(pipeline)}"


def _next(pipeline: Pipeline) -> str:
    return f"a join makes one: {what_starts_any(pipeline)}"


def remedy(pipeline: Pipeline, name: str, error: Exception) -> str:
    """Say what to do where a lake does not answer; some errors have said it themselves."""
    says_so = isinstance(error, PermissionError | LakeForbidden) or isinstance(error.__cause__, OutsideFolder)
    if is_away(error) and not says_so:
        return f"; it is not lost: ask again once the store of {pipeline.datacenters[name].lake} answers"
    return "" if says_so else f"; {bring_back(pipeline, name)}"


def bring_back(pipeline: Pipeline, name: str) -> str:
    """Say what to do where a lake, or its table, is not there."""
    return f"mount the lake or put it back; {pipeline.if_lake_is_lost(name)}"


def _mismatch(pipeline: Pipeline) -> str:
    return f"put the newest copy of that lake back, or else: photon registry refill {pipeline.typed}"


def least_rebuilt(pipeline: Pipeline, datacenter: str) -> int | None:
    """The last replacement that every kept release shows: readers undo later ones, by their lists (R8).

    0 while a lake does not answer; None: there is no release. LakeUnavailable, FormatTooNew.
    """
    lake = pipeline.datacenters[datacenter].lake
    with lake_errors(f"read the releases in {lake}"):
        newest = copies.latest(lake)
    oldest, away = asked_of_lakes(pipeline, copies.oldest)
    gone = () if newest is None else newest.lakes_gone
    if away.keys() - set(gone):
        return 0
    parts = [one.parts.get(datacenter) for one in oldest.values()]
    return min((0 if part is None else part.rebuilt for part in parts), default=None)
