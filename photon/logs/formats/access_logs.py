"""Lines of access logs, as Apache and nginx write them: the common format, and the combined one.

A line may go on, as with nginx's `$request_id`: such values are `extra_1`, `extra_2` and so on. A parameter
of the request's address has the name `query.NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

from photon.logs.formats.lines import BLANK, LineReader

COMMON = ("host", "identity", "user", "time", "request", "status", "bytes")
COMBINED = (*COMMON, "referrer", "agent")
_TIME_AT, _REQUEST_AT = COMMON.index("time"), COMMON.index("request")
_PARTS_OF_REQUEST = ("method", "target", "protocol")

_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\S+')
_REQUEST = re.compile(r"(\S+) (\S.*) (HTTP/[\d.]+)")
# Bytes of other characters come as \xHH, one behind the other.
_ESCAPES = re.compile(r"((?:\\x[0-9A-Fa-f]{2})+)|\\(.)")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "v": "\v", "b": "\b", "f": "\f"}


class AccessLog(LineReader):
    """Access logs whose lines have at least these values."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def record(self, raw: bytes) -> Mapping[str, str | None]:
        line = raw.decode()
        if not line.strip():
            raise ValueError(BLANK)
        values = _VALUE.findall(line)
        if len(values) < len(self._names):
            raise ValueError(f"expected {len(self._names)} values or more, got {len(values)}")
        if values[_TIME_AT][0] != "[" or not _is_quoted(values[_REQUEST_AT]):
            raise ValueError("expected a time in [] as the fourth value, and a request in quotes behind it")
        extras = (f"extra_{number}" for number in range(1, len(values) - len(self._names) + 1))
        record = dict(zip((*self._names, *extras), map(_plain, values), strict=True))
        record["time"] = values[_TIME_AT][1:-1]
        request = _REQUEST.fullmatch(record["request"] or "")
        parts = (None,) * len(_PARTS_OF_REQUEST) if request is None else request.groups()
        return record | dict(zip(_PARTS_OF_REQUEST, parts, strict=True))

    def inner(self, record: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """The parameters of the address; of one that occurs twice the last."""
        target = record.get("target") or ""
        try:
            parameters = parse_qsl(urlsplit(target).query, keep_blank_values=True, errors="strict")
        except ValueError:  # no address, or no UTF-8
            return {}
        return {f"query.{name}": text for name, text in parameters}


def _is_quoted(value: str) -> bool:
    return len(value) > 1 and value[0] == value[-1] == '"'


def _plain(value: str) -> str | None:
    """A value without its quotes and escapes; a hyphen stands for none."""
    if _is_quoted(value):
        value = _ESCAPES.sub(_unescaped, value[1:-1])
    return None if value == "-" else value


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is None:
        return _CONTROLS.get(found[2], found[2])
    try:
        return bytes.fromhex(found[1].replace("\\x", "")).decode()
    except UnicodeDecodeError:  # no UTF-8: it stays as it is written
        return found[0]
