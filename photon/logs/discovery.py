"""Find log files below a datacenter's logs folder, and recognise known ones (protocol D1, D2, D3).

`files` of the pipeline file is a glob: `*`, `?` and `[..]` stay within one name, `**` is any number of
folders. Every pattern also matches its names with `.gz` behind them; names that begin with a dot only if
it does so too. An unknown file whose name the glob does not match is not read. A known one that was
renamed to such a name (access.log -> access.log.1) is followed there, through `Scan.others`.
"""

from __future__ import annotations

import errno
import fnmatch
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from photon.logs.files import LogFile, TrackedFile
from photon.process.readable import readable

Kind = Literal["file", "link", "folder"]
NO_PLAIN_FILE = "it is no plain file: a folder, a pipe or a device is not read"
LEADS_OUT = (
    "it is a link that leads out of the logs folder; put its file there, or let links lead anywhere by "
    "`tailing: {links_lead_out: true}` in the pipeline file"
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A log file as one scan saw it."""

    path: str  # relative to the logs folder, with `/`
    inode: int  # for an object: a number by its key and etag
    size_bytes: int  # on disk: of a compressed file, compressed
    modified_ns: int
    compressed: bool  # the name ends in .gz
    changed_ns: int = 0  # when it was changed in any way: who changes a file can set the other time

    @classmethod
    def of(cls, file: LogFile) -> FoundFile:
        """A known file where it was seen last; without its size."""
        return cls(file.path, file.inode, 0, 0, file.compressed)


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Something that is wrong with one file or folder now; the rest goes on."""

    path: str  # relative to the logs folder; "." is the folder itself
    reason: str
    may_pass: bool = False  # a store was busy or did not answer: a later look may find nothing wrong


@dataclass(frozen=True, slots=True)
class Unseen:
    """A place that a scan met and could not look at: there may be log files behind it."""

    path: str  # bytes that are no UTF-8 as the operating system gives them: halves of surrogate pairs
    kind: Kind
    inode: int
    changed_ns: int
    reason: str

    @property
    def is_refused(self) -> bool:
        """Whether it is there, as a link that the settings refuse."""
        return self.reason == LEADS_OUT


@dataclass(frozen=True, slots=True)
class Scan:
    """The files that one pass over a logs folder found, in the order of their paths."""

    files: tuple[FoundFile, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)  # path -> inode, where the pattern did not match
    folders: frozenset[str] = frozenset()  # the folders passed, relative; "" is the logs folder itself
    is_whole: bool = True  # False: there may be more, which another scan will find
    # A listing that ends with this scan may have begun before it.
    took_seconds: float = 0.0
    began_scans_ago: int = 0
    due_in_seconds: float = 0.0  # a listing, after this scan; until then another scan asks the store nothing
    is_away: bool = False  # the store of the logs can't be asked now: a problem says why
    unseen: tuple[Unseen, ...] = ()
    passed_over: tuple[FileProblem, ...] = ()  # what the pattern matches and is no plain file

    @property
    def inodes(self) -> set[int]:
        """Those of all files."""
        return {*(file.inode for file in self.files), *self.others.values()}


def scan(logs_folder: Path, pattern: str, before: Scan | None = None, links_lead_out: bool = False) -> Scan:
    """The files below `logs_folder` that `pattern` matches; never raises for what the disk says.

    `before`: an earlier scan, whose objects stand for files that have not changed: that saves a third.
    A file that has two names (a hard link, a symbolic link) is seen once, by its real name.
    `**` does not follow symbolic links to folders, so that a loop ends. `links_lead_out`: others are followed
    also where they leave the logs folder.
    """
    scanner = _Scanner(os.fspath(logs_folder), () if before is None else before.files, links_lead_out)
    scanner.walk("", _matchers(pattern))
    files = tuple(sorted(scanner.found.values(), key=lambda file: file.path))
    return Scan(
        files,
        tuple(FileProblem(readable(os.fsencode(one.path)), one.reason) for one in scanner.unseen.values()),
        scanner.others,
        frozenset(scanner.folders),
        unseen=tuple(scanner.unseen.values()),
        passed_over=tuple(scanner.passed_over),
    )


def stat_file(logs_folder: Path, path: str) -> FoundFile | None:
    """A file as it is now; None if it can't be looked at."""
    try:
        status = os.stat(logs_folder / path)
    except OSError:
        return None
    return _found_file(path, status)


def _is_as_before(file: FoundFile, status: os.stat_result) -> bool:
    return (
        file.modified_ns == status.st_mtime_ns
        and file.changed_ns == status.st_ctime_ns
        and file.size_bytes == status.st_size
        and file.inode == status.st_ino
    )


def _status_of(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _found_file(path: str, status: os.stat_result) -> FoundFile:
    times_ns = status.st_mtime_ns, status.st_ctime_ns
    return FoundFile(path, status.st_ino, status.st_size, times_ns[0], path.endswith(".gz"), times_ns[1])


def signature_of(scans: Iterable[Scan]) -> str:
    """A hash (hex) of the log files of these scans. While it stays the same, nothing was logged."""
    digest = blake2b(digest_size=16)
    for found in scans:
        for file in found.files:
            # The time of change too: who lets a file be read changes neither its size nor the other time.
            times = f"{file.modified_ns}\0{file.changed_ns}"
            digest.update(f"{file.path}\0{file.size_bytes}\0{times}\n".encode())
        digest.update(b"\0")
    return digest.hexdigest()


def strip_gz(path: str) -> str:
    """The path that a compressed log file had before it was compressed."""
    return path.removesuffix(".gz")


def reason_of(error: OSError) -> str:
    """The operating system's own words, and what to do about a link that nobody can follow."""
    if error.errno == errno.ELOOP:
        return f"cannot be read: its links lead in a circle ({error.strerror}); remove the link"
    return f"cannot be read: {error.strerror or error}"


class GlobbedPaths:
    """Tells of whole paths whether a scan with this pattern would find them."""

    def __init__(self, pattern: str) -> None:
        self._matchers = _matchers(pattern)
        above = [part for part in pattern.split("/")[:-1] if part not in ("", ".")]
        tame = itertools.takewhile(lambda part: not _WILD.search(part), above)
        self.folder = "".join(f"{part}/" for part in tame)  # that all of them are below

    def match(self, path: str) -> bool:
        return _matches(path.split("/"), self._matchers)


def nearly_matching(pattern: str, paths: Iterable[str]) -> list[str]:
    """The paths that a pattern matches but for capital letters, or a compression that is not read."""
    small = GlobbedPaths(pattern.lower())
    return sorted(path for path in paths if small.match(_COMPRESSED.sub("", path.lower())))


def _matches(parts: Sequence[str], matchers: _Matchers) -> bool:
    first, below = matchers[0], matchers[1:]
    if first is None:
        inside = len(parts) > 1 and not parts[0].startswith(".") and _matches(parts[1:], matchers)
        return inside or _matches(parts, below)
    if not below:
        return len(parts) == 1 and bool(first(parts[0]))
    return len(parts) > 1 and bool(first(parts[0])) and _matches(parts[1:], below)


_COMPRESSED = re.compile(r"\.(bz2|zst|xz|lz4|lzma|z|zip|7z|br)$")
_WILD = re.compile(r"[*?\[]")
_Matcher = Callable[[str], object]
_Matchers = Sequence[_Matcher | None]  # one for each part of a pattern; None is `**`, never the last


def _matchers(pattern: str) -> _Matchers:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or parts[-1] == "**":
        parts.append("*")
    return [None if part == "**" else _matcher(part, part is parts[-1]) for part in parts]


@cache  # each look asks for the few parts of its pipeline
def _matcher(part: str, last: bool) -> _Matcher:
    names = (part, f"{part}.gz") if last and not part.endswith(".gz") else (part,)
    body = "|".join(map(fnmatch.translate, names))
    return re.compile(f"(?:{body})" if part.startswith(".") else rf"(?!\.)(?:{body})").match


class _Scanner:
    """One pass under way."""

    def __init__(self, root: str, before: Iterable[FoundFile], links_lead_out: bool) -> None:
        self._root, self._links_lead_out = root, links_lead_out
        self._before = {file.path: file for file in before}
        self.found: dict[tuple[int, int], FoundFile] = {}  # files by device and inode
        self.unseen: dict[str, Unseen] = {}
        self.passed_over: list[FileProblem] = []
        self.others: dict[str, int] = {}
        self.folders: set[str] = set()

    def walk(self, folder: str, matchers: _Matchers) -> None:
        """Match the rest of the pattern below `folder`."""
        any_depth = matchers[0] is None
        rest = matchers
        while rest[0] is None:  # `**/**` is `**`
            rest = rest[1:]
        for entry, path in self._entries(folder):
            try:
                if not is_text(entry.name):
                    self._name_nameless(entry, path, rest[0], leads_on=any_depth or len(rest) > 1)
                    continue
                self._visit(entry, path, rest[0], rest[1:])
                if any_depth and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    self.walk(path, matchers)
            except OSError as error:
                self._miss(entry, path, reason_of(error))

    def _entries(self, folder: str) -> Iterator[tuple[os.DirEntry[str], str]]:
        """The entries of a folder, each with its path; a folder that can't be listed to its end is unseen."""
        prefix = folder + "/" if folder else ""
        place = os.path.join(self._root, folder) if folder else self._root
        try:
            with os.scandir(place) as listing:
                self.folders.add(folder)
                for entry in listing:
                    yield entry, prefix + entry.name
        except OSError as error:
            self.folders.discard(folder)  # nobody knows what is missing in the half that it gave
            if not folder or not isinstance(error, FileNotFoundError):  # else it went since it was seen
                what = "the logs folder " if not folder else ""
                self._miss_at(folder or ".", "folder", _status_of(place), what + reason_of(error))

    def _visit(self, entry: os.DirEntry[str], path: str, matches: _Matcher, below: _Matchers) -> None:
        if entry.is_symlink() and matches(entry.name) and self._leads_out(entry, bool(below)):
            self._miss_at(path, "link", entry.stat(follow_symlinks=False), LEADS_OUT)
        elif below:
            if matches(entry.name) and entry.is_dir():
                self.walk(path, below)
            elif matches(entry.name) and entry.is_symlink():
                entry.stat()  # raises where it leads to nothing, as to a disk that is not mounted
        elif matches(entry.name):
            self._see(entry, path, entry.stat(), matches)
        elif entry.is_file(follow_symlinks=False):
            self.others[path] = entry.inode()

    def _name_nameless(self, entry: os.DirEntry[str], path: str, matches: _Matcher, leads_on: bool) -> None:
        """Report what would be read if it had a name that can be stored and said."""
        is_folder = entry.is_dir(follow_symlinks=False)
        if (is_folder and leads_on) or (entry.is_file() and matches(entry.name)):
            self._miss(entry, path, "its name is not UTF-8; rename it")

    def _miss(self, entry: os.DirEntry[str], path: str, reason: str) -> None:
        """Note what can't be looked at, but for a file that went since its folder was listed."""
        kind: Kind = "folder" if entry.is_dir(follow_symlinks=False) else "file"
        status: os.stat_result | None = None
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError:
            pass
        if entry.is_symlink():
            kind, reason = "link", f"{reason}; it is a link: mount what it leads to, or remove it"
        self._miss_at(path, kind, status, reason)

    def _miss_at(self, path: str, kind: Kind, status: os.stat_result | None, reason: str) -> None:
        inode, changed_ns = (0, 0) if status is None else (status.st_ino, status.st_ctime_ns)
        self.unseen.setdefault(path, Unseen(path, kind, inode, changed_ns, reason))

    def _see(self, entry: os.DirEntry[str], path: str, status: os.stat_result, matches: _Matcher) -> None:
        if not stat.S_ISREG(status.st_mode):
            is_meant = not (stat.S_ISDIR(status.st_mode) and matches("?"))  # `*` matches every folder
            if is_meant:
                self.passed_over.append(FileProblem(path, NO_PLAIN_FILE))
            return
        key = status.st_dev, status.st_ino
        known = self.found.get(key)
        if known is None or (not entry.is_symlink() and path < known.path) or self._is_link(known.path):
            before = self._before.get(path)
            same = before is not None and _is_as_before(before, status)
            self.found[key] = before if before is not None and same else _found_file(path, status)

    def _leads_out(self, link: os.DirEntry[str], is_for_folder: bool) -> bool:
        """Tell whether a link has to stay in the logs folder and does not. OSError: it leads nowhere."""
        if self._links_lead_out or stat.S_ISDIR(link.stat().st_mode) != is_for_folder:
            return False
        return os.path.commonpath([self._real_root, os.path.realpath(link.path)]) != self._real_root

    @cached_property
    def _real_root(self) -> str:
        return os.path.realpath(self._root)

    def _is_link(self, path: str) -> bool:
        return os.path.islink(os.path.join(self._root, path))


def is_text(name: str) -> bool:
    """Whether a name is UTF-8; the operating system's other bytes come as halves of surrogate pairs."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


@dataclass(frozen=True, slots=True)
class Matches:
    """Which found files are known, and which are new."""

    same: Mapping[int, FoundFile]  # file number -> where it is now
    fresh: tuple[FoundFile, ...]  # never seen before
    copies: Mapping[FoundFile, int]  # the other form of a file that is there as well -> its number
    missing: tuple[int, ...]  # numbers of the files that were not found


def match(
    tracked: Mapping[int, TrackedFile],
    found: Sequence[FoundFile],
    same_content: Callable[[FoundFile, TrackedFile], bool],
    taken: frozenset[int] = frozenset(),
) -> Matches:
    """Match found files to known ones: first by inode, then by path, both only where the content agrees.

    `access.log` and `access.log.gz` are one path. Where both are there with the same content, one is a copy
    of the other in the making, or kept on purpose. It gets no number, or all its records would be read twice.
    `taken` are the numbers of `tracked` that were found already.
    """
    same: dict[int, FoundFile] = {}

    def claim(file: FoundFile, candidates: Iterable[int]) -> bool:
        for number in candidates:
            if number not in same and number not in taken and same_content(file, tracked[number]):
                same[number] = file
                return True
        return False

    sought = tracked if found else {}  # mostly all files are as they were
    by_inode = _numbers_by(sought, lambda file: file.file.inode)
    by_path = _numbers_by(sought, lambda file: strip_gz(file.file.path))
    left = [file for file in found if not claim(file, by_inode.get(file.inode, ()))]
    left = [file for file in left if not claim(file, by_path.get(strip_gz(file.path), ()))]

    copies: dict[FoundFile, int] = {}
    for file in left:
        for number in by_path.get(strip_gz(file.path), ()):
            present = number in taken or number in same
            other_form = tracked[number].file.compressed != file.compressed
            if present and other_form and same_content(file, tracked[number]):
                copies[file] = number
    fresh = tuple(file for file in left if file not in copies)
    missing = tuple(number for number in tracked if number not in same and number not in taken)
    return Matches(same, fresh, copies, missing)


def _numbers_by(
    tracked: Mapping[int, TrackedFile], key: Callable[[TrackedFile], int | str]
) -> dict[int | str, list[int]]:
    """File numbers by a property, latest first: a path that is used again belongs to the younger file."""
    numbers: dict[int | str, list[int]] = {}
    for number in sorted(tracked, reverse=True):
        numbers.setdefault(key(tracked[number]), []).append(number)
    return numbers
