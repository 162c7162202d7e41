"""Formats in which times may be written that Photon does not know by itself. Pure decisions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from photon.logs.formats.time_texts import format_us

LEAST_WRITTEN = 0.9  # share of the values in a column of times
_TRIED = 20  # values that tell whether a format is worth trying on all
_DATES = (
    "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y",
    "%b %d, %Y", "%B %d, %Y", "%d %B %Y", "%b %d %Y",
)  # fmt: skip
_CLOCKS = ("", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M", "%I:%M:%S %p", "%I:%M %p", "%H:%M:%S,%f")
_BETWEEN = (" ", ", ", "T")
_ZONES = ("", " %z", "%z")
_WHOLE = (
    "%a %b %d %H:%M:%S %Y",
    "%Y%m%d%H%M%S",
    "%Y.%m.%d %H:%M:%S",
    "%a %b %d %Y %H:%M:%S",
    "%Y/%m/%d %I:%M:%S %p",
)
# Only such texts are worth some hundred tries.
_LOOKS_LIKE_ONE = re.compile(
    r"\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}\b.*|\d{4}[./]\d\d[./]\d\d.*|\d{14}|.*\b[A-Z][a-z]{2,8}\b.*\d{4}.*",
    re.DOTALL,
)


def _all_formats() -> tuple[str, ...]:
    dated = (
        date + (between + clock if clock else "") + (zone if clock else "")
        for date, between, clock, zone in itertools.product(_DATES, _BETWEEN, _CLOCKS, _ZONES)
    )
    return tuple(dict.fromkeys((*_WHOLE, *dated)))


_FORMATS = _all_formats()


def formats_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The formats in which nearly all texts are times; several if the day may be the month."""
    some = texts[:: max(1, len(texts) // _TRIED)]
    if not some or not all(map(_LOOKS_LIKE_ONE.fullmatch, some)):
        return ()
    likely = [form for form in _FORMATS if _share(some, form) >= LEAST_WRITTEN]
    return tuple(form for form in likely if _share(texts, form) >= LEAST_WRITTEN)


def _share(texts: Sequence[str], form: str) -> float:
    return sum(format_us(text, form) is not None for text in texts) / len(texts)
