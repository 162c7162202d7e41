"""At the end of a look: which files are there that nothing has accounted for (protocol D11).

Whatever a scan saw counts as not read unless it is known to be: so no place that passes over a file has to
remember to say so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from photon.logs.discovery import FoundFile, GlobbedPaths, Scan, Unseen, strip_gz
from photon.logs.files import Side, TrackedFile
from photon.logs.source import UNREADABLE, hash_bytes
from photon.logs.tailing.contents import Contents
from photon.logs.tailing.observation import Look
from photon.logs.unread_files import BEING_LOOKED_AT, HALF_A_LINE, HEAD_BYTES, SeenFiles, UnreadFile


class UnreadFinder:
    """Sees the unread files of one log, and remembers what it found of each as it is."""

    def __init__(self, side: Side, pattern: str, contents: Contents) -> None:
        self._side: Side = side
        self._is_match = GlobbedPaths(pattern).match
        self._contents = contents
        self._heads: dict[FoundFile, bytes] = {}

    def seen_files(
        self, look: Look, found: Scan, known: Collection[str], copies: Collection[FoundFile]
    ) -> SeenFiles:
        """The unread files: all that were found, without those that this look has read or knows to be copies.

        `known`: the paths of the files that can be read on, or were read.
        """
        left = [
            file
            for file in found.files
            if not (file.path in known or file in copies or file.path in look.without_record)
        ]
        unread = [self._unseen(one, look.now_us) for one in found.unseen]
        if left:
            unread += self._unread_of(look, left)
        self._heads = {file: self._heads[file] for file in left if file in self._heads}
        return SeenFiles(
            tuple(unread), found, partial(self._is_shown, look, found), self._is_match, self._head_of
        )

    def _unread_of(self, look: Look, left: Iterable[FoundFile]) -> Iterator[UnreadFile]:
        present = {look.files[number].file.path: look.files[number] for number in look.present}
        known = {(one.file.inode, one.file.path): one for one in look.files.values() if one.state == "open"}
        reasons = dict.fromkeys(look.half, HALF_A_LINE)
        reasons |= {problem.path: problem.reason for problem in look.problems}
        passing = {problem.path for problem in look.problems if problem.may_pass}
        for file in left:
            tracked = known.get((file.inode, file.path))
            unread_bytes = file.size_bytes if tracked is None else _grown_bytes(tracked, file)
            # Bytes that wait in a known file are counted with it: so its entry has none.
            if unread_bytes or file.path in look.failed or (tracked is not None and tracked.unread_bytes):
                reason = reasons.get(file.path, BEING_LOOKED_AT)
                is_copy = self._is_copy_so_far(look, file, present.get(strip_gz(file.path)), reason)
                yield UnreadFile(
                    self._side, file.path, "file", file.inode, unread_bytes, file.changed_ns,
                    file.modified_ns, self._head_of(file), reason,
                    look.now_us, is_copy_so_far=is_copy, may_pass=file.path in passing,
                )  # fmt: skip

    def _is_shown(self, look: Look, found: Scan, path: str) -> bool:
        """Whether a file of this path would have been found. An empty folder may be no disk's at all."""
        if self._contents.folder.is_immutable:
            return found.is_whole
        folder = path.rpartition("/")[0]
        return folder in found.folders and folder in look.folders

    def _unseen(self, one: Unseen, now_us: int) -> UnreadFile:
        place = one.path, one.kind, one.inode
        return UnreadFile(self._side, *place, 0, one.changed_ns, 0, b"", one.reason, now_us)

    def _is_copy_so_far(self, look: Look, file: FoundFile, log: TrackedFile | None, reason: str) -> bool:
        """Whether it is a gzip file that is being made of the log of its name, which is there as well."""
        if log is None or not file.compressed or log.file.compressed:
            return False
        is_written = file.path in look.unfinished or reason == BEING_LOOKED_AT
        return is_written and self._contents.is_copy_so_far(file, log.file)

    def _head_of(self, file: FoundFile) -> bytes:
        """The hash of its first stored bytes; objects are known by their etags."""
        if file not in self._heads and not self._contents.folder.is_immutable:
            self._heads[file] = b""
            try:
                with self._contents.folder.open_stored(file) as stored:
                    self._heads[file] = hash_bytes(stored.read(0, HEAD_BYTES))
            except UNREADABLE:
                pass
        return self._heads.get(file, b"")


def _grown_bytes(tracked: TrackedFile, now: FoundFile) -> int:
    """The bytes of a known file beyond those that were seen of it, while it can't be read."""
    seen_bytes = tracked.disk_bytes if tracked.file.compressed else tracked.size_bytes
    return now.size_bytes if now.size_bytes < seen_bytes else now.size_bytes - seen_bytes
