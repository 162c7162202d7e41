"""Steps on standard output, as JSON lines or as Arrow, and the cursor in a file beside it.

Rows come first, then the cursor (G3). So rows of a step may come again after a crash, as lines byte for byte.
A release is whole once a row of a later one has come; a reader drops what comes of it again. The cursor is of
what was written: what lies in a pipe whose reader dies is behind it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import BinaryIO, Literal

import pyarrow as pa

from photon.feed.cursor_file import CursorFile
from photon.feed.sink import in_turn
from photon.feed.step import Step
from photon.process.faults import fault_point
from photon.releases.release import Release
from photon.storage.json_lines import lines

Form = Literal["jsonl", "arrow"]


class StandardOutput:
    """Writes to an open file. Without a cursor file the cursor ends with the process.

    Arrow is a stream of Arrow's IPC. One of other columns follows where columns change.
    """

    is_log = is_table = False

    def __init__(
        self,
        out: BinaryIO,
        cursor_file: CursorFile | None,
        takes_changes: bool = False,
        form: Form = "jsonl",
    ) -> None:
        self._out, self._cursor_file, self.takes_changes, self._form = out, cursor_file, takes_changes, form
        self._stream: pa.RecordBatchStreamWriter | None = None
        self._columns: pa.Schema | None = None  # the stream's
        self._last: Release | None = None
        self._is_file = stat.S_ISREG(os.fstat(out.fileno()).st_mode)
        if self._is_file and form == "jsonl" and _ends_within_a_line(out.fileno()):
            out.write(b"\n")  # half a line of a killed process stays by itself

    def close(self) -> None:
        """End the stream of Arrow."""
        if self._stream is not None:
            self._stream.close()
            self._out.flush()

    def cursor(self) -> Release | None:
        return self._last if self._cursor_file is None else self._cursor_file.read()

    def deliver(self, steps: Sequence[Step]) -> Release | None:
        return in_turn(self.cursor(), steps, self._take)

    def replace(self, step: Step) -> None:
        self._take(step)

    def _take(self, step: Step) -> Release:
        for page in step.pages():
            if self._form == "jsonl":
                self._out.write(lines(page))
            elif page.num_rows:
                self._stream_of(page.schema).write_table(page)
        self._out.flush()
        if self._is_file:
            os.fsync(self._out.fileno())  # the cursor is on disk in a moment
        fault_point("follow.after_rows")
        self._last = step.release
        if self._cursor_file is not None:
            self._cursor_file.put(self._last)
        fault_point("follow.after_cursor")
        return self._last

    def _stream_of(self, columns: pa.Schema) -> pa.RecordBatchStreamWriter:
        if self._columns != columns:
            self.close()
            self._stream, self._columns = pa.ipc.new_stream(self._out, columns), columns
        return self._stream


def _ends_within_a_line(file: int) -> bool:
    with open(f"/dev/fd/{file}", "rb") as opened:  # the other handle only writes
        size_bytes = opened.seek(0, os.SEEK_END)
        opened.seek(max(size_bytes - 1, 0))
        return opened.read(1) not in (b"", b"\n")
