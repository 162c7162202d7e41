"""Files of a log that are there and not read: all that is asked of files asks them too (protocol D11).

Each has an entry from its first sight. It ends when its file is read, or proved to be a copy of one that is;
when its file is gone, that is a loss. `follow` decides so at each look; whoever looks stores the entries. It
follows a file by its inode if it begins alike or has the size and time of before, then by its path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol, TypeVar

from photon.logs.discovery import FoundFile, Kind, Scan
from photon.logs.files import Side
from photon.process.clock import MICROSECONDS
from photon.process.readable import counted, readable

BEING_LOOKED_AT = "it is being looked at"
ENDS_EARLY = (
    "this gzip file ends early: it is read once it is whole; if nobody writes it any more, compress it again"
)
HALF_A_LINE = "its first line is not whole yet"
# A log has so many; all beyond have one entry, and a loss among them counts as bytes of other lost ranges.
MOST_ENTRIES = 10_000
MOST_KEPT_GONE = 1_000  # entries of files that are gone and acknowledged: nobody asks for older ones
THE_OTHERS = ""  # the path of the entry that stands for all beyond the bound
MOST_NAMED = 20  # files; all are counted
HEAD_BYTES = 256  # of its stored bytes: inodes are used again
AWAITED_US = 60 * MICROSECONDS  # so long a run that ends waits for one that nobody knows a reason of

Identity = tuple[str, str, int, int, int]  # side, path, inode, size, time of change


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file, link or folder that the pattern matches, or that lies before what it matches."""

    side: Side
    path: str  # as the operating system gives it: it may be no UTF-8
    kind: Kind
    inode: int
    size_bytes: int  # stored: of a gzip file, compressed
    changed_ns: int
    modified_ns: int
    head_hash: bytes  # none if it can't be opened
    reason: str
    since_us: int
    grown_us: int = 0  # when it was seen to grow; 0: never
    state: Literal["open", "missed", "gone"] = "open"
    # So far it holds only the beginning of a file that is there, and grows: a copy in the making.
    is_copy_so_far: bool = field(default=False, compare=False)
    may_pass: bool = field(default=False, compare=False)  # its store was busy: the next looks may read it

    @property
    def identity(self) -> Identity:
        """The state of the file that a person acknowledges: when it changes, the entry holds again."""
        return self.side, self.path, self.inode, self.size_bytes, self.changed_ns

    @property
    def shown(self) -> str:
        """Its path for people."""
        return readable(os.fsencode(self.path)) or "others"

    @property
    def unread_in_words(self) -> str:
        """How much of it was not read."""
        if self.kind == "file":
            return f"and {counted(self.size_bytes, 'byte')} of it were not read"
        return "and how much was not read nobody knows"

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        told = {"side": self.side, "path": self.shown, "kind": self.kind, "bytes": self.size_bytes}
        return {**told, "reason": self.reason, "since_us": self.since_us, "is_gone": self.state == "gone"}

    def holds(self, acknowledged: Iterable[Identity]) -> bool:
        return self.state != "gone" and not self.is_copy_so_far and self.identity not in acknowledged

    def is_awaited(self, now_us: int) -> bool:
        """Whether the next looks may read it: nobody knows of a reason yet, or its writer is at work."""
        is_written = self.grown_us and self.reason in (ENDS_EARLY, HALF_A_LINE)
        if is_written and now_us - self.grown_us < AWAITED_US:
            return True
        return (self.may_pass or self.reason == BEING_LOOKED_AT) and now_us - self.since_us < AWAITED_US

    def is_told(self, now_us: int) -> bool:
        """Whether somebody is to be told of it: not while its writer may be at work."""
        at_us = self.since_us if self.reason == HALF_A_LINE else self.grown_us
        return not self.is_awaited(now_us) and now_us - at_us >= AWAITED_US

    def is_same(self, other: UnreadFile) -> bool:
        """Whether this is the other one, moved."""
        if self.inode != other.inode or self.kind != other.kind:
            return False
        is_as_before = (self.size_bytes, self.modified_ns) == (other.size_bytes, other.modified_ns)
        return is_as_before or (self.head_hash == other.head_hash != b"")


@dataclass(frozen=True)
class SeenFiles:
    """A log, as one look saw it: its `unread` files, and what the look needs to know of the others."""

    unread: tuple[UnreadFile, ...] = ()
    found: Scan = field(default_factory=Scan)
    # Whether a file of this path would have been found: an empty folder may be a disk that is not mounted.
    is_shown: Callable[[str], bool] = lambda path: False
    is_match: Callable[[str], bool] = lambda path: True
    head_of: Callable[[FoundFile], bytes] = lambda found: b""

    @cached_property
    def others(self) -> Mapping[str, FoundFile]:
        """Those that are read, are copies, or have no record yet; by path."""
        unread = {one.path for one in self.unread}
        return {file.path: file for file in self.found.files if file.path not in unread}

    @cached_property
    def others_by_inode(self) -> Mapping[int, Sequence[FoundFile]]:
        """The same by inode: those of several disks may have one."""
        return _by_inode(self.others.values())


@dataclass(frozen=True, slots=True)
class EndedEntry:
    """An entry that is over, and why."""

    entry: UnreadFile
    because: Literal["read", "replaced", "not matched any more", "gone, and empty"]


def unread_as_dict(unread: Sequence[UnreadFile]) -> dict[str, object]:
    """For JSON: some of them, and how many and how long all are."""
    sums = {"unread_file_count": len(unread), "unread_file_bytes": sum(one.size_bytes for one in unread)}
    return {**sums, "unread_files": [one.as_dict() for one in unread[:MOST_NAMED]]}


def why_held(unread: Sequence[UnreadFile]) -> str:
    """Say which unread files hold back all that they may change."""
    one = unread[0]
    return f"{counted(len(unread), 'file', 'are')} not read, such as {one.shown} ({one.reason})"


def follow(
    before: Iterable[UnreadFile], seen: SeenFiles, now_us: int
) -> tuple[tuple[UnreadFile, ...], tuple[EndedEntry, ...]]:
    """The entries of one log after a look, in the order of their paths, and those that ended with it."""
    left = {one.path: one for one in seen.unread}
    entries: list[UnreadFile] = []
    ended: list[EndedEntry] = []

    def go_on(entry: UnreadFile, now: UnreadFile) -> None:
        del left[now.path]
        entries.append(_later(entry, now, now_us))

    def is_in_place(entry: UnreadFile) -> bool:
        return entry.path in left and left[entry.path].inode == entry.inode

    known = [entry for entry in before if entry.path != THE_OTHERS]
    if not known:
        return seen.unread, ()
    for entry in filter(is_in_place, known):
        go_on(entry, left[entry.path])
    in_place = {entry.path for entry in entries}
    rest, by_inode = [], _by_inode(left.values())
    for entry in known:  # all that moved ahead of those whose place others have taken
        if entry.path in in_place:
            continue
        alike = (now for now in by_inode.get(entry.inode, ()) if now.path in left and now.is_same(entry))
        moved = next(alike, None)
        go_on(entry, moved) if moved is not None else rest.append(entry)
    for entry in rest:
        if entry.path in left:
            go_on(entry, left[entry.path])
        elif because := _why_over(entry, seen):
            ended.append(EndedEntry(entry, because))
        elif entry.state == "gone" or not seen.is_shown(entry.path):
            entries.append(entry)
        elif entry.state == "open":
            entries.append(replace(entry, state="missed"))
        elif entry.size_bytes:
            entries.append(replace(entry, state="gone"))
        else:
            ended.append(EndedEntry(entry, "gone, and empty"))
    taken = {entry.path for entry in entries}
    entries += [now for now in left.values() if now.path not in taken]
    return tuple(sorted(entries, key=lambda entry: entry.path)), tuple(ended)


class _HasInode(Protocol):
    @property
    def inode(self) -> int: ...


_Any = TypeVar("_Any", bound=_HasInode)


def _by_inode(files: Iterable[_Any]) -> dict[int, list[_Any]]:
    found: dict[int, list[_Any]] = {}
    for file in files:
        found.setdefault(file.inode, []).append(file)
    return found


def bounded(
    entries: Sequence[UnreadFile], before: Iterable[UnreadFile], acknowledged: Container[Identity]
) -> tuple[tuple[UnreadFile, ...], tuple[UnreadFile, ...]]:
    """So many entries of one log as are kept, those that are known ahead; and the entries that end by that.

    All that are there and have no entry of their own hold as one, which tells how many they are. Those that
    are gone end: a loss that nobody has acknowledged is to be counted elsewhere.
    """
    known = {one.path: one for one in before}
    over = [one for one in entries if one.state == "gone" and one.identity in acknowledged]
    over = sorted(over, key=lambda one: one.since_us)[: max(0, len(over) - MOST_KEPT_GONE)]
    if not over and len(entries) <= MOST_ENTRIES:
        return tuple(entries), ()
    ends = {one.path for one in over}
    left = sorted((one for one in entries if one.path not in ends), key=lambda one: one.path not in known)
    kept, others = left[:MOST_ENTRIES], left[MOST_ENTRIES:]
    over += [one for one in others if one.state == "gone"]
    others = [one for one in others if one.state != "gone"]
    if others:
        kept.append(_as_one(others, known.get(THE_OTHERS)))
    return tuple(sorted(kept, key=lambda one: one.path)), tuple(over)


def _as_one(others: Sequence[UnreadFile], before: UnreadFile | None) -> UnreadFile:
    size_bytes, count = sum(one.size_bytes for one in others), len(others)
    since_us = min(one.since_us for one in (before or others[0], *others))
    latest_ns = max(one.changed_ns for one in others)
    reason = (
        f"{counted(count, 'more file', 'are')} not read: mend those that are named, and these have their turn"
    )
    return UnreadFile(
        others[0].side, THE_OTHERS, "file", count, size_bytes, latest_ns, 0, b"", reason, since_us,
        may_pass=any(one.may_pass or one.reason == BEING_LOOKED_AT for one in others),
    )  # fmt: skip


def _later(entry: UnreadFile, now: UnreadFile, now_us: int) -> UnreadFile:
    is_same = entry.inode == now.inode
    grown_us = now_us if is_same and now.size_bytes > entry.size_bytes else entry.grown_us
    is_told = now.reason == BEING_LOOKED_AT and entry.identity == now.identity
    reason = entry.reason if is_told else now.reason
    return replace(now, since_us=min(entry.since_us, now_us), grown_us=grown_us, reason=reason)


def _why_over(
    entry: UnreadFile, seen: SeenFiles
) -> Literal["read", "replaced", "not matched any more"] | None:
    if entry.kind != "file":
        is_listed = ("" if entry.path == "." else entry.path) in seen.found.folders
        return "read" if is_listed or entry.path in seen.others else None
    here = seen.others.get(entry.path)
    if here is not None and here.inode == entry.inode:
        return "read"
    if any(_is_moved(entry, found, seen) for found in seen.others_by_inode.get(entry.inode, ())):
        return "read"
    if entry.state == "gone":  # another file at its path brings nothing of it back, unless it begins alike
        return "replaced" if here is not None and seen.head_of(here) == entry.head_hash != b"" else None
    if here is not None:
        return "replaced"
    return None if seen.is_match(entry.path) else "not matched any more"


def _is_moved(entry: UnreadFile, found: FoundFile, seen: SeenFiles) -> bool:
    is_as_before = (found.size_bytes, found.modified_ns) == (entry.size_bytes, entry.modified_ns)
    return is_as_before or seen.head_of(found) == entry.head_hash != b""
