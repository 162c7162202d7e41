"""Hold growing log files of this machine open, to read them to their ends wherever they go (protocol D8).

A file that is open keeps its bytes, whatever becomes of its name. The system says what it is called now,
and tasks read it by that name. Where it has no name any more, its bytes are copied, and tasks read the
copy.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from photon.logs.discovery import FoundFile, is_text, stat_file, strip_gz
from photon.logs.files import TrackedFile
from photon.logs.source import FileBytes, Source, end_hash, has_head, has_seen_end, written_bytes
from photon.process.clock import MICROSECONDS
from photon.storage.sync import UNFINISHED, sync

MOST_HELD = 256  # files held; a process may have 1,024 open where nobody has changed that
LINGERS_US = 60 * MICROSECONDS  # a file without a name may have a writer for so long since it grew last
KEPT_FOLDER = "kept_logs"  # below the folder with the datacenter's work
KEPT_US = 7 * 86_400 * MICROSECONDS  # verification reads a copy again; then it is gone like its file
_STEP_BYTES = 2**20

log = logging.getLogger(__name__)


@dataclass
class _Held:
    descriptor: int
    inode: int
    nameless_since_us: int | None = None  # when it was first seen without its place

    @property
    def size_bytes(self) -> int:
        return os.fstat(self.descriptor).st_size

    def text(self) -> tuple[Source, int]:
        """A file that is not compressed, and its length."""
        source = FileBytes(self.descriptor)
        return source, written_bytes(source, self.size_bytes)


class OpenFiles:
    """The open files of one datacenter, by file number. Used by the dispatcher's thread alone."""

    def __init__(self, logs: Path, work: Path, epoch: str) -> None:
        """`work`: where copies go, into a folder of their own; copies of other epochs are removed."""
        self._logs, self._epoch = logs, epoch
        self._kept_in = work / KEPT_FOLDER
        self._held: dict[int, _Held] = {}
        self._left: dict[int, _Held] = {}  # files that copies were found of, without names
        self._doubled: set[int] = set()  # files of which `files` matches another copy, compressed or not
        self._ended: set[int] = set()  # without names, and let go when they did not grow any more
        for path in self._kept_in.glob("*"):
            if not path.name.startswith(f"{epoch}-") or path.name.endswith(UNFINISHED):
                with suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        """Let go of all files."""
        for held in (*self._held.values(), *self._left.values()):
            os.close(held.descriptor)
        self._held.clear()
        self._left.clear()

    def hold(self, files: Iterable[TrackedFile], known: Mapping[int, TrackedFile]) -> None:
        """Open these files where they are not; beyond the limit, those that grew longest ago are let go.

        `known`: all files of the datacenter.
        """
        for tracked in files:
            number, file = tracked.file.number, tracked.file
            held = self._held.get(number)
            if tracked.state != "open" or self.is_kept(file.path):
                continue
            if held is None or held.inode != file.inode:
                self._leave(number)
                self._open(number, file.path, file.inode)
        while self._left and len(self._held) + len(self._left) > MOST_HELD:
            os.close(self._left.pop(next(iter(self._left))).descriptor)
        while len(self._held) > MOST_HELD:
            self._let_go(min(self._held, key=lambda number: known[number].grown_us))

    def _open(self, number: int, path: str, inode: int) -> None:
        try:
            descriptor = os.open(self._logs / path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return  # a look says so
        if os.fstat(descriptor).st_ino != inode:  # moved since it was seen: the next look finds it
            os.close(descriptor)
            return
        self._let_go(number)
        self._held[number] = _Held(descriptor, inode)

    def _leave(self, number: int) -> None:
        """Watch a file without a name for some time whose copy was found: its writer may have it open."""
        held = self._held.get(number)
        if held is not None and os.fstat(held.descriptor).st_nlink == 0:
            if (before := self._left.pop(number, None)) is not None:
                os.close(before.descriptor)
            self._left[number] = replace(self._held.pop(number), nameless_since_us=None)

    def gone_on(self, known: Mapping[int, TrackedFile]) -> list[TrackedFile]:
        """Files whose writers went on after copies of them, compressed or not, were found in their places.

        They are held as before: without names, and with more than the copies have.
        """
        found = []
        for number in self._left.keys() & known.keys():
            tracked, left = known[number], self._left[number]
            plain = replace(
                tracked.file, inode=left.inode, compressed=False, path=strip_gz(tracked.file.path)
            )
            now = replace(tracked, file=plain, state="open")
            source, size_bytes = left.text()
            if size_bytes > tracked.size_bytes and has_head(source, plain) and has_seen_end(source, now):
                self._let_go(number)
                self._held[number] = self._left.pop(number)
                found.append(now)
        return found

    def _let_go(self, number: int) -> None:
        if (held := self._held.pop(number, None)) is not None:
            os.close(held.descriptor)

    def tend(self, known: Mapping[int, TrackedFile], now_us: int) -> None:
        """Let go of files that have no name and do not grow; remove copies that nobody reads any more."""
        for number, held in list(self._held.items()):
            tracked = known[number]
            if tracked.state == "open" and tracked.file.inode == held.inode:
                held.nameless_since_us = None
            elif held.nameless_since_us is None:
                held.nameless_since_us = now_us
            elif now_us - max(held.nameless_since_us, tracked.grown_us) > LINGERS_US:
                self._let_go(number)
                self._ended.add(number)
        for number, left in list(self._left.items()):
            if left.nameless_since_us is None:
                left.nameless_since_us = now_us
            elif now_us - left.nameless_since_us > LINGERS_US:
                os.close(self._left.pop(number).descriptor)
        for tracked in known.values():
            is_read = not tracked.unread_bytes and now_us - tracked.grown_us > KEPT_US
            is_read = is_read and tracked.file.number not in self._doubled
            if is_read and tracked.state == "open" and self.is_kept(tracked.file.path):
                with suppress(OSError):
                    self._copy_of(tracked).unlink()

    def note_doubled(self, known: Collection[int], doubled: Collection[int]) -> None:
        """Note those of the `known` files that have a copy among the logs, which is not read.

        Without what is kept of such a file its copy would be read as a file of its own.
        """
        self._doubled = self._doubled.difference(known) | {*doubled}

    def is_kept(self, path: str) -> bool:
        """Whether this is the path of a copy."""
        return f"/{KEPT_FOLDER}/{self._epoch}-" in path

    def path_of(self, tracked: TrackedFile) -> str | None:
        """Return the present path of a file, from the logs folder; None: it is not held, or has no name."""
        held = self._held.get(tracked.file.number)
        if held is None or held.inode != tracked.file.inode:
            return None
        path = _name_of(held.descriptor)
        return None if path is None else self._relative(path)

    def keep(self, tracked: TrackedFile) -> FoundFile | None:
        """The copy of a file without a name, up to date and safe on the disk; None if there is none.

        A new one is made only of a file with bytes that were not read. What was written in the place of a
        file that was truncated is none of it. OSError: what the disk says.
        """
        held, copy = self._held.get(tracked.file.number), self._copy_of(tracked)
        copied_bytes = _size_of(copy)
        if held is not None and held.size_bytes > copied_bytes:
            # Offsets are of decompressed bytes, and sizes on the disk are not.
            is_gzip = tracked.file.compressed
            is_unread = tracked.unread_bytes if is_gzip else held.size_bytes > tracked.offset_bytes
            if is_unread and not self._is_truncated(held, tracked):
                self._copy(held, copy)
        return stat_file(self._logs, self._relative(str(copy)))

    def moved(self, tracked: TrackedFile) -> TrackedFile | None:
        """The file where it is now, if that is another place than is known. OSError of a copy."""
        held = self._held.get(tracked.file.number)
        known = stat_file(self._logs, tracked.file.path)
        if (
            held is None
            or held.inode != tracked.file.inode
            or (known is not None and known.inode == held.inode)
        ):
            return None
        path = self.path_of(tracked)
        now = stat_file(self._logs, path) if path is not None else self.keep(tracked)
        if now is None:
            return None
        return replace(tracked, file=replace(tracked.file, path=now.path, inode=now.inode))

    def as_it_ended(self, tracked: TrackedFile) -> TrackedFile:
        """A file that has lost its name, with what it got since it was seen: others may begin as it does."""
        held = self._held.get(tracked.file.number)
        if held is None or tracked.file.compressed or self.path_of(tracked) is not None:
            return tracked
        source, size_bytes = held.text()
        is_it = (
            size_bytes > max(tracked.size_bytes, tracked.offset_bytes) and held.inode == tracked.file.inode
        )
        if is_it and has_head(source, tracked.file) and has_seen_end(source, tracked):
            return replace(tracked, size_bytes=size_bytes, seen_hash=end_hash(source, size_bytes))
        return tracked

    def was_truncated(self, tracked: TrackedFile) -> bool:
        """Whether a file that is held does not have the bytes any more that were seen of it."""
        held = self._held.get(tracked.file.number)
        if held is None or held.inode != tracked.file.inode:
            return False
        return self._is_truncated(held, tracked)

    def _is_truncated(self, held: _Held, tracked: TrackedFile) -> bool:
        if tracked.file.compressed:
            return False
        source, size_bytes = held.text()
        is_shorter = size_bytes < max(tracked.size_bytes, tracked.offset_bytes)
        return is_shorter or not (has_head(source, tracked.file) and has_seen_end(source, tracked))

    def was_left(self, tracked: TrackedFile) -> bool:
        """Whether nobody has a file without a name open any more, for the process that had it has ended."""
        is_open = tracked.file.number in self._held or tracked.file.number in self._ended
        return self.is_kept(tracked.file.path) and not is_open

    def holds(self, tracked: TrackedFile) -> bool:
        """Whether the bytes of a file are all known, for it is open."""
        return tracked.file.number in self._held

    def may_have(self, tracked: TrackedFile) -> bool:
        """Whether a file is held, or may have been by a process that ended before it could say so."""
        return tracked.file.number in self._held or tracked.state == "open"

    def _copy(self, held: _Held, copy: Path) -> None:
        """Write what the copy lacks; a new one appears as a whole."""
        is_new = not copy.exists()
        target = copy.with_name(copy.name + UNFINISHED) if is_new else copy
        if is_new:
            self._kept_in.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
        try:
            with target.open("ab") as sink:
                at = sink.tell()
                while data := os.pread(held.descriptor, _STEP_BYTES, at):
                    sink.write(data)
                    at += len(data)
                sink.flush()
                os.fsync(sink.fileno())
        except OSError:
            if is_new:  # half of a copy takes the room that others need
                target.unlink(missing_ok=True)
            raise
        if is_new:
            target.replace(copy)
            sync(self._kept_in)
            log.info("a log file has lost its name: its %d bytes are copied to %s", at, copy)

    def _copy_of(self, tracked: TrackedFile) -> Path:
        end = ".gz" if tracked.file.compressed else ""
        return self._kept_in / f"{self._epoch}-{tracked.file.number}{end}"

    def _relative(self, path: str) -> str:
        """A path as the logs folder leads to it, which may itself be a link."""
        folder = os.path.realpath(self._logs)
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return os.path.relpath(real, folder)


def kept_bytes(work: Path) -> int:
    """How much disk the copies of a datacenter take."""
    return sum(_size_of(path) for path in (work / KEPT_FOLDER).glob("*"))


def _name_of(descriptor: int) -> str | None:
    """The path of an open file, if it has one by which others can open it."""
    try:
        path, status = os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
        now = os.stat(path, follow_symlinks=False)
    except OSError:  # the file was deleted, lies where nobody may look, or this system does not tell
        return None
    is_same = (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino)
    return path if is_same and is_text(path) else None


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
