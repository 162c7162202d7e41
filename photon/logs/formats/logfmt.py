"""Lines of logfmt: pairs such as `at=info method=GET path="/a b"`, with blanks between them.

A value in quotes has JSON's escapes. A name without `=` has no value. Of a name that occurs twice the last
value counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from photon.logs.formats.lines import BLANK, LineReader

_PAIR = re.compile(r'\s*([^\s="]+)(?:=("(?:[^"\\]|\\.)*"|[^\s"]*))?(?=\s|$)')
_SHOWN_CHARACTERS = 40


class Logfmt(LineReader):
    """Pairs of names and values."""

    def record(self, raw: bytes) -> Mapping[str, str | None]:
        line = raw.decode().rstrip()
        if not line:
            raise ValueError(BLANK)
        record: dict[str, str | None] = {}
        at = 0
        while at < len(line):
            pair = _PAIR.match(line, at)
            if pair is None:
                where = line[at:].lstrip()[:_SHOWN_CHARACTERS]
                raise ValueError(f"expected name=value, got {where!r} at character {at + 1}")
            record[pair[1]] = _unquoted(pair[2])
            at = pair.end()
        return record


def _unquoted(value: str | None) -> str | None:
    if value is None or not value.startswith('"'):
        return value
    try:
        text = str(json.loads(value, strict=False))
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair in a value") from None
    except ValueError:
        raise ValueError(f"no value in JSON's quotes: {value[:_SHOWN_CHARACTERS]}") from None
    return text
