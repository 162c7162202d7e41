"""How events look in a log file: a line of JSON, CSV or TSV, sound or broken in a named way.

Pure functions of an event and its times. Columns: query_id, time, user, text, logged_at of a query; click_id,
query_id, time, position, url, logged_at of a click. `logged_at` is in microseconds since 1970 UTC; `time`
is ISO 8601 in JSON lines and seconds with six decimals elsewhere.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta

from photon.clock import MICROSECONDS
from photon.testing.stories import Click, Fault, Line, Query

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
            # of JSON half an object, else a record that ends amid its second column
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
