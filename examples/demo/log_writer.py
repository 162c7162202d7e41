"""How generated events look in a log file, and which files they go to: those grow, roll over and rotate.

`logged_at` is in microseconds since 1970 UTC; `time` is ISO 8601 in JSON lines and seconds with six decimals
elsewhere. Which stream of files a line goes to, and when a stream begins its next file, depends on the line's
place and scheduled time only.
"""

from __future__ import annotations

import csv
import io
import json
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from examples.demo.stories import Click, Fault, Line, Query
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS, Clock
from photon.storage.store import content, store_of

QUERY_COLUMNS = ("query_id", "time", "user", "text", "logged_at")
CLICK_COLUMNS = ("click_id", "query_id", "time", "position", "url", "logged_at")
TIME_UNITS = {"jsonl": "iso8601", "csv": "s", "tsv": "s"}
OVERSIZED_BYTES = 2**20 + 1  # just beyond the default of `limits.line`

_NOT_UTF8 = b"\xff\xfe"
_NOT_UTF8_MARK = "NOT-UTF8"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Value = str | int | None


def header(columns: tuple[str, ...], format: str) -> bytes:
    """The first line of a file of this format; empty for JSON lines."""
    return b"" if format == "jsonl" else _separated(columns, format)


def render(line: Line, format: str, start_us: int, logged_at_us: int) -> bytes:
    """The bytes of a line with its newline; `start_us` is the time of day at the start of the traffic."""
    time_us = start_us + round(line.event.time_s * MICROSECONDS)
    record = _record(line.event, _time_text(time_us, format), logged_at_us)
    if line.fault is not None:
        return _break(record, line.fault, format)
    return _encode(record, format)


def _record(event: Query | Click, time: str, logged_at_us: int) -> dict[str, Value]:
    if isinstance(event, Query):
        return dict(zip(QUERY_COLUMNS, (event.id, time, event.user, event.text, logged_at_us), strict=True))
    values = (event.id, event.query_id, time, event.position, event.url, logged_at_us)
    return dict(zip(CLICK_COLUMNS, values, strict=True))


def _time_text(time_us: int, format: str) -> str:
    if TIME_UNITS[format] == "iso8601":
        moment = _EPOCH + timedelta(microseconds=time_us)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    seconds, rest_us = divmod(time_us, MICROSECONDS)
    return f"{seconds}.{rest_us:06d}"


def _encode(record: dict[str, Value], format: str) -> bytes:
    if format == "jsonl":
        present = {name: value for name, value in record.items() if value is not None}
        return json.dumps(present, ensure_ascii=False).encode() + b"\n"
    return _separated(["" if value is None else value for value in record.values()], format)


def _separated(values: tuple[str, ...] | list[str | int], format: str) -> bytes:
    if format == "tsv":  # TSV has no quotes
        return "\t".join(map(str, values)).encode() + b"\n"
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()


def _break(record: dict[str, Value], fault: Fault, format: str) -> bytes:
    id_column = next(iter(record))
    free_text = "url" if "url" in record else "text"
    match fault:
        case "broken_line":
            whole = _encode({**record, free_text: "broken"}, format)
            # half an object of JSON; else a record that ends inside its second column
            return whole[: len(whole) // 2 if format == "jsonl" else len(str(record[id_column])) + 4] + b"\n"
        case "missing_id":
            return _encode({**record, id_column: None}, format)
        case "bad_time":
            return _encode({**record, "time": "the day before yesterday"}, format)
        case "not_utf8":
            marked = _encode({**record, free_text: _NOT_UTF8_MARK}, format)
            return marked.replace(_NOT_UTF8_MARK.encode(), _NOT_UTF8)
        case "oversized_line":
            return _encode({**record, free_text: "x" * OVERSIZED_BYTES}, format)


def stream_of(datacenter: str, place: int, streams: int) -> int:
    """The stream of a place; the datacenters cut their copies at different places."""
    return zlib.crc32(f"{datacenter}/{place}".encode()) % streams


def generation(at_s: float, changes: int, duration_s: float) -> int:
    """How often a stream has begun a new file by `at_s`, of `changes` times spread over the duration."""
    return max(0, min(changes, int(at_s * (changes + 1) / duration_s)))


OBJECT_BYTES = 2**16  # an object of a log on S3 holds no more than that and a line
OBJECT_SECONDS = 0.25  # so long lines wait at most for the others of their object


class Stream(Protocol):
    """The output of one server."""

    def append(self, number: int, line: bytes) -> None:
        """Write one line (with its newline) to the file of this number; to be seen after `flush`."""

    def flush(self) -> None:
        """Have the lines seen, now or soon."""

    def close(self) -> None:
        """Have all lines seen."""


class ObjectStream:
    """The same as objects of a bucket: each has the lines of a moment, and its name sorts behind the last."""

    def __init__(
        self, folder: Location, name: str, header: bytes, clock: Clock, seconds: float = OBJECT_SECONDS
    ) -> None:
        name, _, self._format = name.partition(".")
        self._folder, self._store, self._clock = folder / name, store_of(folder / name), clock
        self._run = clock.now_us()  # so that a later run's names are other ones, and sort behind
        self._header, self._seconds = header, seconds
        self._lines = bytearray()
        self._number = self._objects = 0
        self._since_us = 0

    def append(self, number: int, line: bytes) -> None:
        if number > self._number or len(self._lines) > OBJECT_BYTES:
            self.close()
            self._number = number
        if not self._lines:
            self._since_us = self._clock.now_us()
        self._lines += line

    def flush(self) -> None:
        if self._clock.now_us() - self._since_us >= self._seconds * MICROSECONDS:
            self.close()

    def close(self) -> None:
        if not self._lines:
            return
        name = f"{self._run}-{self._number:04d}-{self._objects:06d}.{self._format}"
        self._create(name, self._header + self._lines)
        self._lines.clear()
        self._objects += 1

    def _create(self, name: str, data: bytes) -> None:
        self._store.create(name, content(data))


class WholeFileStream(ObjectStream):
    """Writes the same as files of a folder. Each file appears whole."""

    def _create(self, name: str, data: bytes) -> None:
        assert isinstance(self._folder, Path)
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / f".{name}.unfinished"
        unfinished.write_bytes(data)
        unfinished.rename(self._folder / name)


class LogStream:
    """The files of one server, one after the other, the last of them open; `number` says which it is.

    A stream that rotates writes to `path` (clicks-1.jsonl), then renames it: clicks-1.0000.jsonl.
    Another one names each file at once: clicks-0.0000.jsonl, then clicks-0.0001.jsonl.
    """

    def __init__(self, path: Path, header: bytes, rotates: bool) -> None:
        self._path, self._header, self._rotates = path, header, rotates
        self._number = -1
        self._file: BinaryIO | None = None
        path.parent.mkdir(parents=True, exist_ok=True)

    def append(self, number: int, line: bytes) -> None:
        """Write one line (with its newline) to the file of this number; on disk after `flush`."""
        if self._file is None or self._number < number:
            self._file = self._next_file(number)
        self._file.write(line)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _next_file(self, number: int) -> BinaryIO:
        if self._file is not None:
            self._file.close()
            if self._rotates:
                self._path.rename(self._numbered(self._number))
        self._number = number
        # "x": appending to the logs of another run would falsify what is expected
        file = open(self._path if self._rotates else self._numbered(number), "xb")  # noqa: SIM115
        file.write(self._header)
        return file

    def _numbered(self, number: int) -> Path:
        return self._path.with_suffix(f".{number:04d}{self._path.suffix}")
