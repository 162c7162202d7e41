"""Lines such as `2026-01-05T10:00:01Z trace:t1 span:s1 status:200`: a format of one's own.

A pipeline file names it by `format: span_lines:SpanLine`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from photon.adapters.line_format import LineFormat

LINE = re.compile(
    r"(?P<time>\S+) trace:(?P<trace>\S+)(?: span:(?P<span>\S+) status:(?P<status>\d+)| (?P<url>.+))"
)


class SpanLine(LineFormat):
    """A request names its address; its response has a span of its own, and a status."""

    def values(self, line: str) -> Mapping[str, str | None]:
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError("no TIME trace:ID in the line")
        return {name: text for name, text in found.groupdict().items() if text is not None}
