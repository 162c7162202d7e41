"""Finding log files: one pass over a datacenter's logs folder.

What is there, by name, inode and size, and what could not be looked at. Reading a file's bytes belongs
in `source`, telling one file from another in `identity`. Design, section 5 (log tailing).

`files` of the pipeline file decides what belongs to a log: a glob whose `*`, `?` and `[..]` stay within
one name and whose `**` stands for any number of folders. Every pattern also matches its names with
`.gz` behind them. Names that begin with a dot are matched only by a pattern that does so too.
A file that is known already and was renamed to a name the glob does not match (access.log ->
access.log.1) is still found, through `Scan.others`; an unknown file of such a name is not read.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

Matcher = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Sighting:
    """A log file as one scan saw it."""

    path: str  # relative to the logs folder, with `/`
    inode: int
    size_bytes: int  # on disk: of a compressed file, compressed
    modified_ns: int
    compressed: bool  # the name ends in .gz


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with one file or folder now; the rest goes on."""

    path: str  # relative to the logs folder; "." is the folder itself
    reason: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over a logs folder found, in the order of the paths."""

    sightings: tuple[Sighting, ...]
    problems: tuple[Problem, ...]
    others: Mapping[str, int]  # path -> inode of what the pattern did not match, in the folders passed
    folders: frozenset[str]  # the folders passed, relative; "" is the logs folder itself


@dataclass(slots=True)
class _Pass:
    """One pass under way."""

    root: str
    found: dict[tuple[int, int], Sighting] = field(default_factory=dict)  # by device and inode
    problems: list[Problem] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)


def scan(logs_folder: Path, pattern: str) -> Scan:
    """The files below `logs_folder` that `pattern` matches; never raises for what the disk says.

    A file that has two names (a hard link, a symbolic link) is seen once, by its real name.
    `**` does not follow symbolic links to folders, so that a loop ends.
    """
    this = _Pass(os.fspath(logs_folder))
    _walk(this, "", _compile(pattern))
    sightings = tuple(sorted(this.found.values(), key=lambda sighting: sighting.path))
    return Scan(sightings, tuple(this.problems), this.others, frozenset(this.folders))


def signature_of(scans: Iterable[Scan]) -> str:
    """A hash (hex) of the log files as they were seen: as long as it is the same, nothing was logged."""
    digest = blake2b(digest_size=16)
    for found in scans:
        for sighting in found.sightings:
            digest.update(f"{sighting.path}\0{sighting.size_bytes}\0{sighting.modified_ns}\n".encode())
        digest.update(b"\0")
    return digest.hexdigest()


def strip_gz(path: str) -> str:
    """The path that a compressed log file had before it was compressed."""
    return path.removesuffix(".gz")


def reason_of(error: OSError) -> str:
    """What the operating system said, in its own words."""
    return f"cannot be read: {error.strerror or error}"


def _compile(pattern: str) -> tuple[Matcher | None, ...]:
    """One matcher for each part of the pattern; None stands for `**`, which is never the last."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or parts[-1] == "**":
        parts.append("*")
    return tuple(None if part == "**" else _matcher(part, part is parts[-1]) for part in parts)


def _matcher(part: str, last: bool) -> Matcher:
    body = fnmatch.translate(part)
    if last and not part.endswith(".gz"):
        body = f"(?:{body}|{fnmatch.translate(part + '.gz')})"
    return re.compile(body if part.startswith(".") else r"(?!\.)" + body).match


def _walk(this: _Pass, folder: str, matchers: tuple[Matcher | None, ...]) -> None:
    """Match the rest of the pattern below `folder`."""
    if matchers[0] is not None:
        for entry, path in _entries(this, folder):
            _visit(this, entry, path, matchers)
        return
    rest = tuple(matchers[1:])
    while rest[0] is None:  # `**/**` is `**`
        rest = rest[1:]
    for entry, path in _entries(this, folder):
        _visit(this, entry, path, rest)
        if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
            _walk(this, path, matchers)


def _entries(this: _Pass, folder: str) -> Iterator[tuple[os.DirEntry[str], str]]:
    """What is in a folder, each with its path; a folder that can't be listed is a problem."""
    prefix = folder + "/" if folder else ""
    try:
        with os.scandir(os.path.join(this.root, folder) if folder else this.root) as listing:
            this.folders.add(folder)
            for entry in listing:
                yield entry, prefix + entry.name
    except OSError as error:
        what = "the logs folder " if not folder else ""
        problem = Problem(folder or ".", what + reason_of(error))
        if problem not in this.problems:
            this.problems.append(problem)


def _visit(this: _Pass, entry: os.DirEntry[str], path: str, matchers: tuple[Matcher | None, ...]) -> None:
    matcher = matchers[0]
    assert matcher is not None
    if len(matchers) > 1:
        if matcher(entry.name) and entry.is_dir():
            _walk(this, path, matchers[1:])
    elif matcher(entry.name):
        _see(this, entry, path)
    elif entry.is_file(follow_symlinks=False):
        this.others[path] = entry.inode()


def _see(this: _Pass, entry: os.DirEntry[str], path: str) -> None:
    try:
        status = entry.stat()
    except FileNotFoundError:  # it went since the folder was listed, or is a link to nothing
        return
    except OSError as error:
        this.problems.append(Problem(path, reason_of(error)))
        return
    if not stat.S_ISREG(status.st_mode):
        return
    sighting = Sighting(path, status.st_ino, status.st_size, status.st_mtime_ns, path.endswith(".gz"))
    known = this.found.get((status.st_dev, status.st_ino))
    if known is None or (not entry.is_symlink() and path < known.path) or _is_link(this, known.path):
        this.found[status.st_dev, status.st_ino] = sighting


def _is_link(this: _Pass, path: str) -> bool:
    return os.path.islink(os.path.join(this.root, path))
