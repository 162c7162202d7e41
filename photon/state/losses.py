"""Losses of a datacenter: bytes of logs that went away unread, and waiting records that are nowhere.

A loss is an alarm until it is repaired, or until a person acknowledges it. So is too large a share of dead
letters, or of records that found no primary event: a person acknowledges those that are counted by then. The
acknowledgement is a file beside the state, since the state itself is written by its dispatcher alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from photon.logs.files import TrackedFile
from photon.logs.unread_files import UnreadFile
from photon.process.readable import counted, readable
from photon.state.database import StateUnavailable, damage_is_named
from photon.state.unread_logs import acknowledge_files, acknowledged_files
from photon.state.view import StateView, view_state
from photon.storage.sync import in_place_of

ACKNOWLEDGED_FILE = "acknowledged.json"
FORMAT = 1
# The classes of records of which a person may know, with how they are named for people.
BAD = {
    "dead_letters": "foreign records are dead letters",
    "primary_dead_letters": "primary records are dead letters",
    "unjoinable": "foreign records found no primary event",
    "too_old": "foreign records are too old to be joined",
    "conflicting": "foreign records have the id of another one, and other content",
    "ambiguous": "rows might have joined primary events of the same id and other content",
    "reused_primaries": "primary records have the id of another one, and other content",
}


@dataclass(frozen=True)
class Losses:
    """Losses of one epoch."""

    file_bytes: Mapping[int, int] = field(
        default_factory=dict
    )  # unread, of each file that went, by its number
    other_bytes: int = 0  # ranges that went after they were planned
    records: int = 0  # waiting records
    # A file may have grown before it was truncated or went. By its number: so many bytes are lost
    # at least, and how many more nobody knows (protocol D9).
    may_be_lost: Mapping[int, int] = field(default_factory=dict)
    # Files that were never read: those that are gone, and those that a person has given up.
    unread: tuple[UnreadFile, ...] = ()

    @property
    def unread_bytes(self) -> int:
        """The stored bytes of the files that were never read."""
        return sum(one.size_bytes for one in self.unread)

    @property
    def bytes(self) -> int:
        """All bytes that went unread."""
        return sum(self.file_bytes.values()) + self.other_bytes + self.unread_bytes

    @property
    def may_be_lost_bytes(self) -> int:
        """The least number of bytes that the files have lost of which nobody knows how they ended."""
        return sum(self.may_be_lost.values())

    def __bool__(self) -> bool:
        return bool(self.bytes or self.unread or self.records or self.may_be_lost)

    @property
    def is_certain(self) -> bool:
        """Whether something is lost for sure."""
        return bool(self.bytes or self.records)

    def beyond(self, known: Losses) -> Losses:
        """Leave out what is `known`. A file counts anew if it came back, or if more of it is lost now."""
        new = {n: lost for n, lost in self.file_bytes.items() if known.file_bytes.get(n) != lost}
        maybe = {n: least for n, least in self.may_be_lost.items() if known.may_be_lost.get(n) != least}
        others, records = self.other_bytes - known.other_bytes, self.records - known.records
        unread = tuple(one for one in self.unread if one not in known.unread)
        return Losses(new, max(0, others), max(0, records), maybe, unread)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: with the sums that checks and metrics tell."""
        unread = [one.as_dict() for one in self.unread]
        return {
            **asdict(self),
            "unread": unread,
            "bytes": self.bytes,
            "may_be_lost_bytes": self.may_be_lost_bytes,
        }


def losses_of(view: StateView, folder: Path) -> Losses:
    """All that is lost now. A file that comes back, or is read, is lost no more (protocol D5, D11)."""
    known = acknowledged_files(folder)
    unread = tuple(one for one in view.unread if one.state == "gone" or one.identity in known)
    gone = {
        number: tracked.unread_bytes
        for number, tracked in view.files.items()
        if tracked.state != "open" and tracked.unread_bytes
    }
    others = max(0, view.counts.lost_bytes - sum(gone.values()))
    maybe = {n: gone.get(n, 0) for n, tracked in view.files.items() if tracked.end_unknown}
    return Losses(gone, others, view.counts.of("lost"), maybe, unread)


def lost_files(lost: Losses, files: Mapping[int, TrackedFile]) -> list[str]:
    """Say of each file what it has lost, the latest first. One that is back is not named."""
    return [
        f"{name_of(files[number], files)}: {said}"
        for number in sorted({*lost.file_bytes, *lost.may_be_lost}, reverse=True)
        if (said := _lost_of(lost, number, files[number]))
    ]


def name_of(tracked: TrackedFile, files: Mapping[int, TrackedFile]) -> str:
    """A file by the path where it was seen last, and whether another one is there now."""
    path = tracked.file.path
    others = (each for each in files.values() if each.file.path == path and each.state == "open")
    is_another = any(each.file.number != tracked.file.number for each in others)
    return f"{readable(path)} (an earlier file of this name)" if is_another else readable(path)


def _lost_of(lost: Losses, number: int, tracked: TrackedFile) -> str:
    unread_bytes = lost.file_bytes.get(number, 0) if tracked.state != "open" else 0
    if not tracked.end_unknown or number not in lost.may_be_lost:
        return (
            f"{tracked.state}, and {counted(unread_bytes, 'byte', 'were')} not read" if unread_bytes else ""
        )
    if unread_bytes:
        return (
            f"{tracked.state} while it was in use: at least {counted(unread_bytes, 'byte')} may be lost "
            "unread; how many more nobody knows"
        )
    return (
        "all that was seen of it was read, and it was truncated or went while it was in use: whether "
        "more was written to it nobody knows"
    )


def acknowledged(folder: Path, epoch: str | None) -> Losses:
    """Losses that people have said they know of; none where they said it of another epoch.

    Nothing, too, where it can't be read or has another format: then somebody is asked for once more.
    """
    try:
        stored = _stored(folder, epoch)
        return Losses(
            _by_number(stored["file_bytes"]),
            _count(stored["other_bytes"]),
            _count(stored["records"]),
            _by_number(stored["may_be_lost"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Losses()


def acknowledged_counts(folder: Path, epoch: str | None) -> dict[str, int]:
    """Return what was `gained` when a person acknowledged it; nothing as in `acknowledged`."""
    try:
        return {str(name): _count(count) for name, count in _stored(folder, epoch)["counts"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _stored(folder: Path, epoch: str | None) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((folder / ACKNOWLEDGED_FILE).read_text())
    if (stored["format"], stored["epoch"]) != (FORMAT, epoch):
        raise ValueError("it is of another epoch or format")
    return stored


def _by_number(stored: Mapping[str, object]) -> dict[int, int]:
    return {int(number): _count(lost) for number, lost in stored.items()}


def _count(stored: object) -> int:
    if not isinstance(stored, int):
        raise TypeError(f"expected a number, got {stored!r}")
    return stored


def _state_here(folder: Path, now_us: int) -> StateView:
    """Read the state whose losses a person may acknowledge. StateUnavailable, StateDamaged, FormatTooNew.

    Where there is none, "nothing is lost" would be true of another machine's datacenter, and wrong.
    """
    with damage_is_named(folder):
        view = view_state(folder, now_us)
    if view.epoch is None:
        raise StateUnavailable(
            f"{folder}: there is no state, so what is lost is not known here; run it on the machine that has "
            "the datacenter's state folder"
        )
    return view


def open_losses(folder: Path, view: StateView) -> Losses:
    """Losses that nobody has said he knows of."""
    lost = losses_of(view, folder)
    known = acknowledged_files(folder)
    said = replace(
        acknowledged(folder, view.epoch), unread=tuple(o for o in lost.unread if o.identity in known)
    )
    return lost.beyond(said)


def open_counts(folder: Path, view: StateView) -> dict[str, int]:
    """How many records of each bad class there are that nobody has acknowledged; none of them is left out."""
    known = acknowledged_counts(folder, view.epoch)
    return {name: more for name in BAD if (more := in_class_since(known, name, view)) > 0}


def in_class_since(known: Mapping[str, int], name: str, view: StateView) -> int:
    """How many records of a class came into it since these were `gained`, and are in it now."""
    return max(0, min(view.counts.as_dict()[name], view.gained[name] - known.get(name, 0)))


def _named(losses: Losses, counts: Mapping[str, int], view: StateView) -> list[str]:
    """List what a person may acknowledge, a line each."""
    lines = lost_files(losses, view.files)
    lines += [f"{one.shown}: {one.reason}, {one.unread_in_words}" for one in losses.unread]
    if losses.other_bytes:
        lines.append(f"{counted(losses.other_bytes, 'byte')} of logs that went while a plan named them")
    if losses.records:
        lines.append(f"{counted(losses.records, 'waiting record', 'are')} lost")
    return lines + [f"{count:,} {BAD[name]}" for name, count in counts.items()]


@dataclass(frozen=True)
class Acknowledgement:
    """The things that a person may acknowledge, as they are now: all that a dry run tells."""

    folder: Path
    view: StateView
    losses: Losses
    counts: Mapping[str, int]  # records by bad class
    names: list[str]  # a line each, for people

    def __bool__(self) -> bool:
        return bool(self.losses or self.counts)

    def as_dict(self) -> dict[str, Any]:
        return {**self.losses.as_dict(), "counts": dict(self.counts)}

    @property
    def expected(self) -> Acknowledgement:
        return self

    def apply(self, say: Callable[[str], None] = lambda text: None) -> Acknowledgement:
        """Acknowledge just what is named here: what comes later is told. OSError."""
        if self:
            acknowledge(self.folder, self.view, self.losses.unread)
        return self


def plan_acknowledgement(folder: Path, now_us: int) -> Acknowledgement:
    """Name what is lost or of a bad class by now. StateUnavailable, StateDamaged, FormatTooNew, OSError."""
    view = _state_here(folder, now_us)
    losses, counts = open_losses(folder, view), open_counts(folder, view)
    known = acknowledged_files(folder)
    unread = tuple(one for one in view.unread if one.identity not in known and not one.is_copy_so_far)
    losses = replace(losses, unread=unread)  # those too that are there, and are to be given up
    return Acknowledgement(folder, view, losses, counts, _named(losses, counts, view))


def acknowledge(folder: Path, view: StateView, unread: Iterable[UnreadFile] = ()) -> None:
    """Note that a person knows of all that is lost, of all counts of now, and gives up these files. OSError.

    Nothing is synced: where a power cut takes the note, somebody is asked for once more.
    """
    acknowledge_files(folder, unread, view.unread)
    known = {**asdict(replace(losses_of(view, folder), unread=())), "counts": view.gained}
    with in_place_of(folder / ACKNOWLEDGED_FILE) as unfinished:
        unfinished.write_text(json.dumps({"format": FORMAT, "epoch": view.epoch, **known}))
