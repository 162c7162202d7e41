"""Texts in messages: what of users' logs does not show becomes an escape, and commands can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path


def readable(text: str | bytes) -> str:
    r"""The text on one line: `\x1b` for a control character, `\xe9` for a byte that is no UTF-8. Tabs stay.

    A terminal obeys control characters, and `click` leaves out the colours that they set.
    """
    text = text.decode(errors="backslashreplace") if isinstance(text, bytes) else text
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def typed(remedy: str, pipeline_file: Path | str, datacenter: str) -> str:
    """Return a remedy whose commands can be typed: they name this pipeline file and datacenter."""
    said = re.sub(r"\bPIPELINE\b", lambda _: shlex.quote(str(pipeline_file)), remedy)
    return said.replace("-d DATACENTER", f"-d {datacenter}")
