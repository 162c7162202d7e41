"""Compare the content of files with what is known of log files: it tells a file from all others."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from photon.logs.discovery import FoundFile
from photon.logs.files import LogFile, TrackedFile
from photon.logs.folders import LogFolder
from photon.logs.gzips import GzipStream, NotClosedYet
from photon.logs.source import (
    UNREADABLE,
    Source,
    end_hash,
    fingerprint,
    has_head,
    has_header,
    has_seen_end,
    has_tail,
    problem_of,
    written_bytes,
)
from photon.logs.tailing.observation import Look
from photon.logs.tailing.rotation import Beginnings, is_beginning_of
from photon.logs.tailing.whole_gzips import WholeGzips

# So much of a copy in the making is compared at each look. A whole copy is compared as all files are.
PROVED_BYTES = 2**20


class Contents:
    """Compares the bytes of files with what is known of log files."""

    def __init__(self, folder: LogFolder, gzips: WholeGzips) -> None:
        self.folder = folder
        self._gzips = gzips

    def _written_bytes(self, source: Source, found: FoundFile, known_bytes: int = 0) -> int:
        """How many bytes of an uncompressed file are written; at least `known_bytes` are."""
        if self.folder.is_immutable:
            return found.size_bytes
        return written_bytes(source, found.size_bytes, known_bytes)

    def is_preallocated(self, look: Look, found: FoundFile) -> bool:
        """Whether a file has room at its end that is not written yet, as this look has measured it."""
        return not found.compressed and look.sizes[found.path] < found.size_bytes

    def like(self, look: Look, found: FoundFile, beginnings: Beginnings) -> list[TrackedFile]:
        """The files that begin as this one; while nobody can tell, all whose rotation it may be."""
        if self.folder.is_immutable:
            return []  # nothing renames an object
        try:
            with self.folder.open(found) as source:
                return beginnings.like(source, found.path, self.folder.target_of(found))
        except NotClosedYet:
            return beginnings.beside(found.path)
        except FileNotFoundError:
            return []
        except OSError as error:
            if beside := beginnings.beside(found.path):
                look.withhold(found, problem_of(found.path, error))
                look.unfinished.add(found.path)
            return beside
        except UNREADABLE:
            return []  # if it is to be read, whoever reads it says so

    def is_beginning_of(self, look: Look, found: FoundFile, whole: TrackedFile) -> bool:
        """Whether a file is only the beginning of another that is there; withhold it if nobody can tell."""
        if self.folder.is_immutable:
            return False
        try:
            with (
                self.folder.open(found) as copy,
                self.folder.open(FoundFile.of(whole.file)) as source,
            ):
                if has_head(source, whole.file):
                    return is_beginning_of(copy, look.sizes[found.path], source)
                look.withhold(found, None)  # truncated since the scan: this may be its copy
        except FileNotFoundError:
            look.withhold(found, None)  # a rotation is under way: the next look will tell
        except UNREADABLE:
            pass  # if it is to be read, whoever reads it says so
        return False

    def beginning(self, found: FoundFile, length_bytes: int) -> bytes:
        """The first bytes of a file; none if it can't be read, which whoever reads it says."""
        try:
            with self.folder.open(found) as source:
                return source.read(0, length_bytes)
        except UNREADABLE:
            return b""

    def is_prefix(self, look: Look, found: FoundFile, whole: FoundFile) -> bool:
        """Whether a file is only the beginning of another; both are known to begin alike."""
        try:
            with self.folder.open(found) as copy, self.folder.open(whole) as source:
                return is_beginning_of(copy, look.sizes[found.path], source)
        except UNREADABLE:
            return False

    def is_stranger(self, look: Look, found: FoundFile) -> bool:
        """Whether a file was there before the logs beside it were followed, even if compressed since."""
        if not look.strangers:
            return False
        with suppress(*UNREADABLE):  # if it is to be read, whoever reads it says so
            if self.fingerprint_of(found) in look.strangers:
                return True
            if found.compressed and self.is_whole(look, found):
                with self.folder.open(found) as source:
                    return fingerprint(source, look.sizes[found.path]) in look.strangers
        return False

    def note_as_log(self, look: Look, found: FoundFile) -> None:
        """Know a file as a log file, and no more as a stranger: somebody put it into the place of a log."""
        with suppress(*UNREADABLE):
            mark = self.fingerprint_of(found) if look.strangers else b""
            if mark in look.strangers:
                for file in [each for each in look.files.values() if mark in each.strangers]:
                    look.put(replace(file, strangers=file.strangers.replace(mark, b"")))
                del look.strangers  # made anew when it is asked for

    def fingerprint_of(self, found: FoundFile) -> bytes:
        """The mark that tells a file from others that begin alike. Raises what opening and reading raise."""
        with self.folder.open_stored(found) as stored:
            return fingerprint(stored, found.size_bytes)

    def is_damaged(self, look: Look, found: FoundFile, file: TrackedFile) -> bool:
        """Whether a file is in its place as it was but for its first bytes, which somebody has altered."""
        is_in_place = found.inode == file.file.inode and found.path == file.file.path
        if not is_in_place or found.compressed or look.sizes[found.path] < file.size_bytes:
            return False
        try:
            with self.folder.open(found) as source:
                ends_alike = file.tail_hash and has_tail(source, file)
                return bool(
                    ends_alike
                    and has_seen_end(source, file)
                    and has_header(source, file.file)
                    and not has_head(source, file.file)
                )
        except UNREADABLE:
            return False  # if it is to be read, whoever reads it says so

    def is_whole(self, look: Look, found: FoundFile) -> bool:
        """Note a file's decompressed size, unless it is a gzip file that is not whole: then False."""
        look.sizes[found.path] = found.size_bytes
        if not found.compressed:
            if found.size_bytes and not self.folder.is_immutable:
                with suppress(*UNREADABLE), self.folder.open(found) as source:  # whoever reads it says so
                    look.sizes[found.path] = self._written_bytes(source, found)
            return True
        known = look.gzips.get(found.inode)
        if known is not None and _is_untouched(found, known):  # the file was whole when it became a log file
            look.sizes[found.path] = known.size_bytes
            if self.same_content(look, found, known):
                return True
        verdict = self._gzips.size_bytes(found)
        if isinstance(verdict, int):
            look.sizes[found.path] = verdict
            return True
        if self._gzips.is_unfinished(found, look.now_us, look.final):
            look.unfinished.add(found.path)
        look.withhold(found, verdict)
        return False

    def is_copy_so_far(self, found: FoundFile, whole: LogFile) -> bool:
        """Whether a gzip file holds what another begins with, as far as it is written, or `PROVED_BYTES`."""
        stream = GzipStream()
        stored_whole = self.folder.open_stored(FoundFile.of(whole))
        try:
            with self.folder.open_stored(found) as stored, stored_whole as source:
                while stream.at_bytes < PROVED_BYTES:
                    at_bytes = stream.at_bytes
                    data = stream.read(stored, PROVED_BYTES)
                    if source.read(at_bytes, len(data)) != data:
                        return False
                    if not data:
                        break
        except NotClosedYet:
            return True
        except UNREADABLE:
            return False
        return True

    def same_content(self, look: Look, found: FoundFile, file: TrackedFile) -> bool:
        """Whether a file begins as `file` did, and holds what was read and seen last (protocol D1, D2)."""
        known_bytes = max(file.offset_bytes, file.size_bytes)
        size_bytes = look.sizes.get(found.path, known_bytes)  # one that merely grew is measured here
        if found in look.withheld or size_bytes < known_bytes:
            return False
        if self.folder.is_immutable:
            return found.inode == file.file.inode
        unchanged_gzip = found.inode == file.file.inode and _is_untouched(found, file)
        try:
            with self.folder.open(found) as source:
                if found.path not in look.sizes:
                    look.sizes[found.path] = size_bytes = self._written_bytes(source, found, known_bytes)
                if size_bytes < known_bytes or not has_head(source, file.file):
                    return False
                if not unchanged_gzip and not (has_tail(source, file) and has_seen_end(source, file)):
                    return False
                look.ends[found.path] = file.seen_hash if unchanged_gzip else end_hash(source, size_bytes)
                return True
        except FileNotFoundError:
            look.withhold(found, None)  # the file went since the scan: the next look will tell
        except UNREADABLE as error:
            look.withhold(found, problem_of(found.path, error))
        return False


def _is_untouched(found: FoundFile, file: TrackedFile) -> bool:
    """Whether a gzip file is as long as when it was whole: else members were appended."""
    return file.file.compressed and found.size_bytes == file.disk_bytes
