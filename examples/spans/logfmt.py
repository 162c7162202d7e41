"""Lines of `key=value key="a value"`, known as logfmt: a format of one's own, by `format: logfmt:Logfmt`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from photon.adapters.line_format import LineFormat

PAIR = re.compile(r'([\w.@-]+)=("(?:[^"\\]|\\.)*"|\S*)')


class Logfmt(LineFormat):
    """The last value counts of a key that occurs twice. An empty value is no value."""

    def values(self, line: str) -> Mapping[str, str | None]:
        pairs = {key: _unquoted(text) or None for key, text in PAIR.findall(line)}
        if not pairs:
            raise ValueError("no key=value in the line")
        return pairs


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
