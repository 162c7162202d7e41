"""Files that grow, roll over and rotate: where the generated lines of one side of a datacenter go.

A stream is what one server writes: a sequence of files. Which stream a line goes to, and when a
stream begins its next file, depends on the line's place and scheduled time only.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import BinaryIO


def stream_of(datacenter: str, place: int, streams: int) -> int:
    """The stream of a place; the datacenters cut their copies at different places."""
    return zlib.crc32(f"{datacenter}/{place}".encode()) % streams


def generation(at_s: float, changes: int, duration_s: float) -> int:
    """How often a stream has begun a new file by `at_s`, of `changes` times spread over the duration."""
    return max(0, min(changes, int(at_s * (changes + 1) / duration_s)))


class LogWriter:
    """The growing files of one side (`name`) in one datacenter's logs folder.

    Even streams roll over: `name-0.0000.jsonl`, then `name-0.0001.jsonl`. Odd streams rotate by rename:
    `name-1.jsonl` becomes `name-1.0000.jsonl`, and a new `name-1.jsonl` begins.
    """

    def __init__(
        self, folder: Path, name: str, suffix: str, header: bytes,
        streams: int, rollovers: int, rotations: int, duration_s: float,
    ) -> None:  # fmt: skip
        self._folder = folder / name
        self._name, self._suffix, self._header = name, suffix, header
        self._streams, self._duration_s = streams, duration_s
        self._changes = (rollovers, rotations)
        self._files: dict[int, tuple[int, BinaryIO]] = {}  # by stream: generation and open file
        self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def streams(self) -> int:
        return self._streams

    def append(self, stream: int, at_s: float, line: bytes) -> None:
        """Write one line (with its newline), scheduled at `at_s` seconds; on disk after `flush`."""
        now = generation(at_s, self._changes[stream % 2], self._duration_s)
        current = self._files.get(stream)
        if current is None or current[0] < now:
            current = self._next_file(stream, current, now)
        current[1].write(line)

    def flush(self) -> None:
        """Make what was appended visible to readers."""
        for _, file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Flush and close every file."""
        for _, file in self._files.values():
            file.close()
        self._files.clear()

    def _next_file(self, stream: int, old: tuple[int, BinaryIO] | None, now: int) -> tuple[int, BinaryIO]:
        rotates = stream % 2 == 1
        path = self._folder / f"{self._name}-{stream}{self._suffix}"
        if old is not None:
            old[1].close()
            if rotates:
                path.rename(self._numbered(stream, old[0]))
        # "x": appending to the logs of another run would falsify what is expected
        file = open(path if rotates else self._numbered(stream, now), "xb")  # noqa: SIM115
        file.write(self._header)
        self._files[stream] = (now, file)
        return now, file

    def _numbered(self, stream: int, number: int) -> Path:
        return self._folder / f"{self._name}-{stream}.{number:04d}{self._suffix}"
