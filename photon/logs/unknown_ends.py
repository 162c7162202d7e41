"""Whether a log may have ended otherwise than anybody saw: what it got last may be lost (protocol D9)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from photon.logs.files import TrackedFile


@dataclass(frozen=True, slots=True)
class Ends:
    """What one look knows of how files ended."""

    inodes: Collection[int]  # of all files that the look saw
    latest_us: int  # when a file of this log grew last, as far as anybody saw
    idle_us: int  # a file that did not grow for so long before is at rest

    @classmethod
    def of(cls, files: Iterable[TrackedFile], inodes: Collection[int], idle_us: int) -> Ends:
        return cls(inodes, max((file.grown_us for file in files), default=0), idle_us)

    def was_cut_off(self, before: TrackedFile) -> bool:
        """Whether a file that is not in its place was truncated there, as copytruncate does it.

        What came between the copy and the truncation is in neither, and nobody can count it.
        """
        return before.file.inode in self.inodes

    def went_in_use(self, before: TrackedFile, is_held: bool, was_named: bool) -> bool:
        """Whether a file that went may have grown since it was seen: nobody held it, and it was the log.

        `was_named`: the pattern matched its name, so that it was not rotated yet.
        """
        return not is_held and was_named and before.grown_us >= self.latest_us - self.idle_us
