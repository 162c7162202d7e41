"""Whether a log may have ended otherwise than anybody saw: what it got last may be lost (protocol D9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from photon.logs.discovery import FoundFile
from photon.logs.files import TrackedFile
from photon.logs.tailing.open_files import OpenFiles
from photon.logs.tailing.rotation import TELLING_BYTES


@dataclass(frozen=True, slots=True)
class Ends:
    """All that one look knows of how files ended."""

    inodes: Collection[int]  # inodes of all files that the look saw
    latest_us: int  # when a file of this log had grown last, as far as anybody had seen before
    idle_us: int  # a file that did not grow for so long before is at rest
    held: OpenFiles | None = None

    @classmethod
    def of(
        cls,
        before: Iterable[TrackedFile],
        inodes: Collection[int],
        idle_us: int,
        held: OpenFiles | None = None,
    ) -> Ends:
        """`before`: the files as they were known before the look."""
        return cls(inodes, latest_growth_us(before), idle_us, held)

    def beside(self, inodes: Collection[int]) -> Ends:
        """The same for a look that saw other files too."""
        return replace(self, inodes={*self.inodes, *inodes})

    def was_cut_off(self, before: TrackedFile) -> bool:
        """Whether a file that is not in its place was truncated there, as copytruncate does it.

        What came between the copy and the truncation is in neither, and nobody can count it.
        """
        is_cut = self.held is not None and self.held.was_truncated(before)
        return is_cut or before.file.inode in self.inodes

    def was_left(self, before: TrackedFile) -> bool:
        """Whether a deleted file, of which a copy is kept, may have grown since its process has ended."""
        return self.held is not None and self.held.was_left(before) and self.grew_lately(before)

    def may_be_another(self, before: TrackedFile, found: FoundFile) -> bool:
        """Whether so little was seen of a file that another one, in its place, may merely begin as it did.

        Or a copy was put into its place, and it was truncated: what came between them is in neither.
        """
        if found.inode != before.file.inode and self.held is not None and self.held.was_truncated(before):
            return True
        is_seen_again = (
            found.inode == before.file.inode or found.compressed or before.size_bytes >= TELLING_BYTES
        )
        return not is_seen_again and self.went_in_use(before)

    def may_be_written_anew(self, before: TrackedFile, found: FoundFile) -> bool:
        """Whether a short file was written to and has the bytes that it had, as logs that begin alike do.

        It may have been truncated and begun anew. Nobody can know what it got before that.
        """
        is_as_long = found.size_bytes == before.size_bytes
        return is_as_long and was_written(before, found) and before.size_bytes < TELLING_BYTES

    def was_copied(self, before: TrackedFile, found: FoundFile) -> bool:
        """Whether a copy alone is left of a file, which may have grown behind it."""
        is_copy = found.inode != before.file.inode and not found.compressed
        return self.was_cut_off(before) or (is_copy and self.went_in_use(before))

    def went_in_use(self, before: TrackedFile, latest_us: int | None = None) -> bool:
        """Whether a file that went may have grown since it was seen: nobody held it, and it was in use.

        `latest_us`: the same as of these ends, of the look that missed it first.
        """
        is_held = self.held is not None and self.held.holds(before)
        return not is_held and before.in_use and self.grew_lately(before, latest_us)

    def grew_lately(self, before: TrackedFile, latest_us: int | None = None) -> bool:
        """Whether a file was not at rest when somebody looked last."""
        return before.grown_us >= (self.latest_us if latest_us is None else latest_us) - self.idle_us


def was_written(before: TrackedFile, found: FoundFile) -> bool:
    """Whether a file in its place was written to since it was seen, as far as its time says."""
    is_in_place = (before.file.path, before.file.inode) == (found.path, found.inode)
    return is_in_place and 0 < before.modified_ns != found.modified_ns


def latest_growth_us(files: Iterable[TrackedFile]) -> int:
    """When one of these files was last seen to grow."""
    return max((file.grown_us for file in files), default=0)
