"""One look at a log: what it has noticed so far, and what it tells in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from photon.logs.discovery import FileProblem, FoundFile
from photon.logs.files import TrackedFile
from photon.logs.source import HASH_BYTES
from photon.logs.tailing.rotation import names_of
from photon.logs.unread_files import SeenFiles


@dataclass
class Look:
    """One look under way: the known files as they become, and what it has noticed."""

    files: dict[int, TrackedFile]
    next_number: int
    now_us: int
    final: bool
    problems: list[FileProblem]
    matched: frozenset[str] = frozenset()  # paths that the pattern matches
    shown: frozenset[str] = frozenset()  # these, and those of the other files in the same folders
    before: Mapping[int, TrackedFile] = field(default_factory=dict)  # as the look before has left them
    changed: set[int] = field(default_factory=set)
    present: set[int] = field(default_factory=set)  # numbers of the files that were found again
    altered: set[int] = field(default_factory=set)  # inodes of files that changed and did not grow
    # They can't be read, or are no whole gzip file.
    withheld: dict[FoundFile, None] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # decompressed, by path
    ends: dict[str, bytes] = field(default_factory=dict)  # `seen_hash` of a file of that size, by path
    cut_off: set[str] = field(default_factory=set)  # paths of copies whose logs were written anew in place
    # Paths of possible rotations that can't be opened, or read to their ends, and may be later.
    unfinished: set[str] = field(default_factory=set)
    others_in: dict[str, list[str]] = field(default_factory=dict)  # paths that do not match, by folder
    without_record: set[str] = field(default_factory=set)  # paths of files that hold none yet: all is read
    failed: set[str] = field(default_factory=set)  # paths of known files that can't be read on, or again
    half: set[str] = field(default_factory=set)  # paths of files whose first line is not whole yet
    awaited: set[int] = field(default_factory=set)  # numbers of files that are being compressed
    missing: set[int] = field(default_factory=set)
    vanished: list[TrackedFile] = field(default_factory=list)

    @cached_property
    def folders(self) -> set[str]:
        """Those of the files that this look has found again, asked for at its end."""
        return {self.files[number].file.path.rpartition("/")[0] for number in self.present}

    @cached_property
    def called(self) -> set[str]:
        """The names that known files have or have had, asked for when new ones are numbered."""
        return {name for tracked in self.files.values() for name in names_of(tracked)}

    @cached_property
    def gzips(self) -> dict[int, TrackedFile]:
        """The compressed files that are known, by inode."""
        return {file.file.inode: file for file in self.files.values() if file.file.compressed}

    @cached_property
    def strangers(self) -> frozenset[bytes]:
        """Fingerprints of the files that were there before any log was followed beside them."""
        noted = (file.strangers for file in self.files.values())
        return frozenset(
            each[at : at + HASH_BYTES] for each in noted for at in range(0, len(each), HASH_BYTES)
        )

    def put(self, file: TrackedFile) -> None:
        if self.files.get(file.file.number) != file:
            self.files[file.file.number] = file
            self.changed.add(file.file.number)

    def withhold(self, found: FoundFile, problem: FileProblem | None) -> None:
        if problem is not None and (found not in self.withheld or problem not in self.problems):
            self.problems.append(problem)
        self.withheld[found] = None


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of one look at a log."""

    changed: Mapping[int, TrackedFile]  # new and changed files, by number
    backlog_bytes: Mapping[int, int]  # file number -> bytes that wait to be cut; no entry: nothing to do
    problems: tuple[FileProblem, ...]  # files that can't be read now
    vanished: tuple[TrackedFile, ...]  # gone or replaced since the last look; an alarm if unread
    checks_pending: bool = False  # the next look will know more: not idle, though the backlog may be empty
    is_away: bool = False  # the store of the logs can't be asked now: nothing is known of them
    seen_files: SeenFiles | None = None  # of files that are not read; None: the look came to no end
    passed_over: tuple[FileProblem, ...] = ()  # what matches and is no plain file
    listed_us: int | None = None  # files that were there at this time are found; None: a listing is under way
    listed_looks_ago: int = 0  # the same in looks: 0 is this one
