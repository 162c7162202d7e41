"""Steps as JSON lines on standard output, and the cursor in a file beside it.

Lines come first, then the cursor (G3). So lines of a step may come again after a crash, byte for byte. A
release is whole once a line of a later one has come; a reader drops what comes of it again. The cursor is of
what was written: what lies in a pipe whose reader dies is behind it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import BinaryIO

from photon.feed.cursor_file import CursorFile
from photon.feed.lines import lines
from photon.feed.step import Step
from photon.process.faults import fault_point
from photon.releases.release import Release


class StandardOutput:
    """Writes lines to an open file. Without a cursor file the cursor ends with the process."""

    def __init__(self, out: BinaryIO, cursor_file: CursorFile | None, takes_changes: bool = False) -> None:
        self._out, self._cursor_file, self.takes_changes = out, cursor_file, takes_changes
        self._last: Release | None = None
        self._is_file = stat.S_ISREG(os.fstat(out.fileno()).st_mode)
        if self._is_file and _ends_within_a_line(out.fileno()):
            out.write(b"\n")  # what a killed process left of a line stays by itself

    def cursor(self) -> Release | None:
        return self._last if self._cursor_file is None else self._cursor_file.read()

    def deliver(self, steps: Sequence[Step]) -> Release | None:
        last = self.cursor()
        for step in steps:
            if last != step.after:
                return last
            last = self._write(step)
        return last

    def replace(self, step: Step) -> None:
        self._write(step)

    def _write(self, step: Step) -> Release:
        for page in step.pages():
            self._out.write(lines(page))
        self._out.flush()
        if self._is_file:
            os.fsync(self._out.fileno())  # the cursor is on disk in a moment
        fault_point("follow.after_rows")
        self._last = step.release
        if self._cursor_file is not None:
            self._cursor_file.put(self._last)
        fault_point("follow.after_cursor")
        return self._last


def _ends_within_a_line(file: int) -> bool:
    with open(f"/dev/fd/{file}", "rb") as opened:  # it was opened for writing alone
        size_bytes = opened.seek(0, os.SEEK_END)
        opened.seek(max(size_bytes - 1, 0))
        return opened.read(1) not in (b"", b"\n")
