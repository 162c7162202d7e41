"""Whether there is something new for readers, and what the next release says. Pure.

A cut is made of closes: whoever closes batch N in any ledger has seen commit N on disk, and whoever closes an
epoch for ever has fenced it. The maker's own batches count once nothing that they hold is unclosed, so that
batches without claims count too. `parts` counts the rows of these places in the lakes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from photon.process.clock import in_utc
from photon.process.readable import counted
from photon.registry.entry import FOR_EVER
from photon.registry.view import View
from photon.releases.release import (
    MOST_GAP_US,
    NOT_VERIFIED,
    NOTHING,
    ROWS_LEFT,
    CleanVerification,
    Cut,
    Note,
    Part,
    Place,
    Release,
    SetBack,
    Statement,
    covers,
)
from photon.storage.changes import NO_COMMIT
from photon.storage.foreign_commits import MOST_LOOKED_AT, ForeignCommits

# Commits, also of batches without rows, make a release now and then: so who looks for those of others from
# outside has few entries to read, and no entry that is needed grows old.
LOOKED_APART = MOST_LOOKED_AT // 2


def closed_places(view: View) -> dict[str, Place]:
    """Each datacenter's last place that a ledger calls closed; FOR_EVER as its batch: the epoch is over."""
    found: dict[str, Place] = {}
    for state in view.states.values():
        places = [(name, Place(number, FOR_EVER)) for name, number in state.over.items()]
        places += [(one.datacenter, Place(one.number, batch)) for one, batch in state.void_through.items()]
        for name, place in places:
            found[name] = max(place, found.get(name, place))
    return found


@dataclass(frozen=True, slots=True)
class Said:
    """A statement of completeness: after which batch it was made, and what was known to be closed by then.

    Of a record that it calls joined elsewhere the row is in `seen`.
    """

    statement: Statement
    place: Place
    seen: Cut = field(default_factory=dict)
    unread: int = 0  # files of its logs


@dataclass(frozen=True, slots=True)
class Counted:
    """A part as its lake has it now, without a statement, and what has become of the part before.

    `lost`: why the lake lacks some of that, `lost_beyond` a place; empty if it does not. `lost_from_us`: the
    first event time of what it lacks, None: nobody knows. `verified`: with which release the last
    verification began that found nothing wrong with it.
    """

    part: Part
    notes: tuple[Note, ...] = ()
    lost: str = ""
    lost_beyond: Place = NOTHING
    lost_from_us: int | None = None
    verified: int = -1


@dataclass(frozen=True, slots=True)
class ReleaseSight:
    """All that a datacenter's process knows at one moment, to make the release behind `last` of it."""

    datacenter: str
    last: Release | None
    counted: Mapping[str, Counted]
    said: tuple[Said, ...] = ()
    lakes_gone: frozenset[str] = frozenset()
    verified: CleanVerification = NOT_VERIFIED


def next_release(sight: ReleaseSight, now_us: int) -> Release | None:
    """The next release; None if it would say nothing new."""
    last = sight.last or Release(-1, now_us - 1, sight.datacenter, {})
    gone = {*last.lakes_gone, *sight.lakes_gone}
    parts = {name: part for name, part in _parts(last, sight.counted).items() if name not in gone}
    said = _said_of(parts, sight, gone)
    is_believed = _is_believed(last.set_back, sight, said)
    if (own := parts.get(sight.datacenter)) is not None:
        is_forgotten = is_believed and sight.verified.ordered > NOTHING  # its rows had left
        statements = [*said, *([own.statement] if own.statement and not is_forgotten else [])]
        unread = sight.said[-1].unread if sight.said else own.unread  # a fact of now, whatever is covered
        statement = max(statements, key=_reach_us, default=None)
        parts[sight.datacenter] = replace(own, statement=statement, unread=unread)
    if sight.last is None and not any(part.rows or part.statement for part in parts.values()):
        return None  # the first one has something to read: a join that has just begun is none
    number, made_us = last.number + 1, max(now_us, last.made_us + 1)
    parts = {name: _numbered(part, number) for name, part in parts.items()}
    set_back = _set_back(last, sight, number, parts, gone, is_believed)
    notes = _notes(last, sight, gone, set_back)
    made = Release(
        number,
        made_us,
        sight.datacenter,
        dict(sorted(parts.items())),
        notes,
        set_back,
        tuple(sorted(gone)),
        last.elapsed_us + min(made_us - last.made_us, MOST_GAP_US),
        number if any(note.change in ROWS_LEFT for note in notes) else last.rows_left_with,
    )
    return made if made.notes or _news(made) != _news(last) else None


def _news(release: Release) -> tuple[object, ...]:
    """Everything that readers look for in a release: a batch of retries alone may bring none of it."""
    parts = {name: _news_of(part) for name, part in release.parts.items()}
    return parts, release.set_back, release.unmatched_up_to_us


def _news_of(part: Part) -> tuple[object, ...]:
    sides = {name: min(batch, part.place_in(name).batch) for name, batch in part.side_batches.items()}
    looked = {table: one.version // LOOKED_APART for table, one in part.looked.items()}
    rows = (part.place.epoch, sides, part.rows, looked, part.foreign)
    return *rows, part.statement, part.unmatched_up_to_us, part.unread


def _numbered(part: Part, number: int) -> Part:
    """The part; what others have done that no release has shown is of this one."""
    new = [replace(one, release=number) if one.release == NO_COMMIT else one for one in part.foreign]
    return replace(part, foreign=tuple(new))


def open_after(facts: Iterable[ForeignCommits], verified: int) -> tuple[ForeignCommits, ...]:
    """Those that a verification leaves open: it began before they were shown (E11)."""
    return tuple(one for one in facts if one.release == NO_COMMIT or one.release > verified)


def _parts(last: Release, counted: Mapping[str, Counted]) -> dict[str, Part]:
    """The parts as they were counted; a place goes back only where the lake lost something (R2)."""
    parts = dict(last.parts)
    for name, one in counted.items():
        before = last.parts.get(name)
        if before is None:
            parts[name] = one.part
        elif one.part.place >= before.place or one.lost:
            foreign, said = open_after(one.part.foreign, one.verified), before.statement
            parts[name] = replace(one.part, statement=said, unread=before.unread, foreign=foreign)
    return parts


def _said_of(parts: Mapping[str, Part], sight: ReleaseSight, gone: Collection[str]) -> list[Statement]:
    """The own statements that the cut covers, of those made since what was missing was ordered.

    One that was covered before is true for ever, as cuts grow: an epoch that reads all logs again, and says
    less, takes none back.
    """
    cut = {name: part.place for name, part in parts.items()}
    since = (one for one in sight.said if one.place > sight.verified.ordered)
    return [one.statement for one in since if is_covered(one, sight, cut, gone)]


def _is_believed(old: SetBack | None, sight: ReleaseSight, said: Collection[Statement]) -> bool:
    """Whether the datacenter has verified since rows left: its statements count in full again (R4)."""
    if old is None or sight.datacenter not in old.awaits or sight.verified.release < old.number:
        return False
    return bool(said) or sight.verified.ordered == NOTHING


def is_covered(said: Said, sight: ReleaseSight, cut: Cut, gone: Collection[str]) -> bool:
    """Whether all rows that a statement speaks of are in a cut (R3); of lakes that are gone none is.

    All of an epoch that is over was counted if its lake was: its table says how far it came.
    """
    places = {sight.datacenter: said.place}
    for name, place in said.seen.items():
        if name not in gone and name != sight.datacenter:
            is_whole = place.batch == FOR_EVER and name in sight.counted
            places[name] = Place(place.epoch, 0) if is_whole else place
    return covers(cut, places)


def _reach_us(statement: Statement) -> tuple[int, int]:
    complete_us, mostly_us = (
        -(2**63) if time_us is None else time_us
        for time_us in (statement.complete_up_to_us, statement.mostly_up_to_us)
    )
    return complete_us, mostly_us


def _notes(
    last: Release, sight: ReleaseSight, gone: Collection[str], set_back: SetBack | None
) -> tuple[Note, ...]:
    retired = [
        Note(
            "retired",
            name,
            f"its lake is gone, and {counted(part.rows, 'row')} with it; {_goes_back(set_back)}",
        )
        for name, part in sorted(last.parts.items())
        if name in gone
    ]
    lost = [
        Note("lake put back", name, f"{one.lost}; {_goes_back(set_back)}")
        for name, one in sight.counted.items()
        if one.lost
    ]
    return (*retired, *lost, *(note for one in sight.counted.values() for note in one.notes))


def _goes_back(set_back: SetBack | None) -> str:
    if set_back is None or set_back.to_us is None:
        return "nothing counts as complete for now, as nobody knows the event times of the rows that left"
    day = in_utc(set_back.to_us, "minutes").removesuffix(" 00:00 UTC")
    return f"completeness goes back to {day}, the first day of the rows that left (files tell days alone)"


def _set_back(
    last: Release,
    sight: ReleaseSight,
    number: int,
    parts: Mapping[str, Part],
    gone: Collection[str],
    is_believed: bool,
) -> SetBack | None:
    """How far statements count while rows may be missing (R4): see `SetBack`."""
    old = last.set_back
    if old is not None and is_believed:
        old = replace(old, awaits=tuple(name for name in old.awaits if name != sight.datacenter))
    left = {name: "is gone" for name in gone if name in last.parts}
    left |= {name: "was put back" for name, one in sight.counted.items() if one.lost and name in last.parts}
    changed = _newly_changed(last, parts, number)
    left |= {name: "was changed by others" for name in changed if name not in left}
    if not left:
        return old if old is not None and old.awaits else None
    why = [f"the lake of datacenter {name} {what}" for name, what in sorted(left.items())]
    times_us = [_left_from_us(last.parts[name], sight.counted.get(name)) for name in left]
    if old is not None:  # the rows of both losses are to be looked for
        times_us, why = [*times_us, old.to_us], [old.why, *why]
    known_us = [time_us for time_us in times_us if time_us is not None]
    to_us = min(known_us) if len(known_us) == len(times_us) else None
    return SetBack(to_us, number, tuple(sorted(parts)), "; ".join(why))


def _newly_changed(last: Release, parts: Mapping[str, Part], number: int) -> list[str]:
    """The datacenters of which a release first shows that others took joined rows."""
    return [
        name
        for name, part in parts.items()
        if name in last.parts and any(one.release == number and one.took_joined_rows for one in part.foreign)
    ]


def _left_from_us(before: Part, counted: Counted | None) -> int | None:
    """The first event time of rows that may have left."""
    known_us = None if counted is None or not counted.lost else counted.lost_from_us
    return before.first_us if known_us is None else known_us


def lost_from_us(name: str, place: Place, last: Release, kept: Mapping[int, Release]) -> int | None:
    """The first event time of a datacenter's rows beyond a place, by the releases that have added them.

    `kept`: the copies of releases that there are, by number. None if one of those needed is not among them.
    """
    found_us: list[int] = []
    release: Release | None = last
    while release is not None and (part := release.parts.get(name)) is not None and part.place > place:
        found_us += [] if part.new_from_us is None else [part.new_from_us]
        release = kept.get(release.number - 1)
    return min(found_us, default=None) if release is not None else None
