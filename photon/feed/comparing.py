"""How a release differs from the one before it, as far as the two say so themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from photon.feed.kept import is_next, is_refilled
from photon.feed.new_rows import PAGE_ROWS
from photon.feed.step import FedTable
from photon.releases.release import Part, Release, covers

SIDE_STOPS = ("side rows changed by others",)


def is_again(before: Release, release: Release) -> bool:
    """Whether a release was delivered already, and has only the number that a refill gave it."""
    return is_refilled(release) and covers(before.cut, release.cut)


def has_news(before: Part, part: Part) -> bool:
    """Whether a datacenter's lake has to be looked at."""
    return (part.place, part.rows, part.rebuilt) != (before.place, before.rows, before.rebuilt)


def why_stopped(before: Release, release: Release, table: FedTable = "joined") -> str:
    """Say why nobody can tell how a table differs between two releases (G5); empty: it can be told."""
    stops = ("changed by others", "lake put back", *(SIDE_STOPS if table != "joined" else ()))
    for note in release.notes:
        if note.change in stops:
            return str(note)
    for name, old in before.parts.items():
        new = release.parts.get(name)
        if new is None and name not in release.lakes_gone:
            return f"datacenter {name} has no rows in it"
        if new is not None and new.table_id != old.table_id:
            return f"datacenter {name} has another table"
        if new is not None and (new.place < old.place or new.rebuilt < old.rebuilt):
            return f"datacenter {name} is at {new.place} in it, and was at {old.place}"
    return ""


def is_plain(before: Release, release: Release) -> bool:
    """Whether a release is the next one, and has all rows of the one before, as they were."""
    return _is_whole(before, release) and all(
        release.parts[name].rebuilt == part.rebuilt for name, part in before.parts.items()
    )


def _is_whole(before: Release, release: Release) -> bool:
    """Whether it is the next one, and only rebuilds have taken away or changed rows of the one before."""
    has_all = before.parts.keys() <= release.parts.keys()
    return has_all and is_next(before.number, release) and not why_stopped(before, release)


def first_to_begin_with(releases: Sequence[Release], takes_changes: bool) -> Release:
    """The first of these from which a feed comes to the last one, and reads it all. They are not empty.

    `takes_changes`: it goes on where a rebuild has taken rows back.
    """
    goes_on = _is_whole if takes_changes else is_plain
    breaks = [one for before, one in pairwise(releases) if not goes_on(before, one)]
    return breaks[-1] if breaks else releases[0]


def runs(before: Release, releases: Sequence[Release]) -> Iterator[tuple[Release, Sequence[Release]]]:
    """Releases with the one before them: plain ones with few new rows together, any other by itself."""
    run: list[Release] = []
    for one in releases:
        if run:
            is_small = one.rows - before.rows <= PAGE_ROWS
            if not (is_small and is_plain(before, run[-1]) and is_plain(run[-1], one)):
                yield before, run
                before, run = run[-1], []
        run.append(one)
    if run:
        yield before, run
