"""The formats whose lines name their own values: Photon's, and users' (`photon.adapters.line_format`).

CSV and TSV are none of them: there a header names the values (`photon.logs.formats.dialect`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from photon.adapters.line_format import LineFormat
from photon.adapters.user_modules import load_module
from photon.logs.formats.access_logs import COMBINED, COMMON, AccessLog
from photon.logs.formats.json_lines import JsonLines
from photon.logs.formats.lines import BLANK, LineReader
from photon.logs.formats.logfmt import Logfmt
from photon.pipeline.sections import Log
from photon.pipeline.values import OWN_FORMATS, TEXT_TABLES
from photon.process.errors import WrongUsage

OWN: Mapping[str, LineReader] = {  # each an `OwnFormat`
    "jsonl": JsonLines(),
    "combined": AccessLog(COMBINED),
    "common": AccessLog(COMMON),
    "logfmt": Logfmt(),
}
REASON_CHARACTERS = 500  # kept of a user's own message: a dead letter's reason is for people to read


class FormatNotFound(WrongUsage):
    """The `format` of a log can't be had; the message says why and what was expected."""


def reader_of(log: Log) -> LineReader | None:
    """The reader of a log's lines; None for CSV and TSV. FormatNotFound."""
    if log.format in TEXT_TABLES:
        return None
    return OWN[log.format] if log.format in OWN_FORMATS else _readers_of_users(log.format, log.folder)


def format_of(log: Log) -> LineFormat | None:
    """The user's own format of a log; None where it has one of Photon's. FormatNotFound."""
    reader = reader_of(log)
    return reader.form if isinstance(reader, UsersLines) else None


class UsersLines(LineReader):
    """Lines of a user's format: whatever its class does with one of them costs that line alone."""

    def __init__(self, form: LineFormat, name: str) -> None:
        self.form = form
        self._name = name

    def record(self, raw: bytes) -> Mapping[str, str | None]:
        text = raw.decode()
        if not text.strip():
            raise ValueError(BLANK)
        try:
            values = dict(self.form.values(text))
        except ValueError as error:
            raise ValueError(f"not {self._name}: {error}"[:REASON_CHARACTERS]) from None
        except (Exception, SystemExit) as error:  # or a task would end with the format
            what = f"format {self._name}: {type(error).__name__}: {error}"
            raise ValueError(what[:REASON_CHARACTERS]) from None
        for name, value in values.items():
            _check_text(name, value, self._name)
        return values


def _check_text(name: object, value: object, form: str) -> None:
    """ValueError if a name or value is no text that a table can hold."""
    if not isinstance(name, str) or not (value is None or isinstance(value, str)):
        got = f"{type(name).__name__} {name!r}: {type(value).__name__}"
        raise ValueError(f"format {form}: expected texts, or None as a value, got {got}"[:REASON_CHARACTERS])
    try:
        f"{name}{value or ''}".encode()
    except UnicodeEncodeError:
        raise ValueError(f"format {form}: half a surrogate pair in {name!r}") from None


@lru_cache(64)
def _readers_of_users(spec: str, folder: Path | None) -> LineReader:
    module_name, _, attribute = spec.partition(":")
    module = load_module(module_name, folder, "format", FormatNotFound)
    found = getattr(module, attribute, None)
    if not (isinstance(found, type) and issubclass(found, LineFormat)):
        where = f"module {module_name} ({module.__file__})"
        raise FormatNotFound(
            f"format {spec}: expected a subclass of photon.adapters.line_format.LineFormat in {where}, "
            f"got {found!r}"
        )
    try:
        return UsersLines(found(), spec)
    except Exception as error:
        raise FormatNotFound(
            f"format {spec}: {attribute}() raised {type(error).__name__}: {error}"
        ) from error
