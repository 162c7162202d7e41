"""Texts for people: counted things, escapes for what does not show, commands to type, tables that line up."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from photon.process.errors import without_passwords


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


# A terminal obeys control characters, and turns text around at marks of direction.
# Lone surrogates can't be written.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    r"""Text of several lines in which a terminal obeys nothing: `\x1b` stands for such a character."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), without_passwords(text))


# Other verbs end with an s: one event waits.
_OF_ONE = {"are": "is", "have": "has", "were": "was", "would be": "would be", "go": "goes", "": ""}


def counted(count: int, thing: str, verb: str = "") -> str:
    """A number of things: 1 dead letter, 2 dead letters. With the verb "are": 1 entry is, 2 entries are."""
    things, verb = (thing, _OF_ONE.get(verb, f"{verb}s")) if count == 1 else (_plural(thing), verb)
    return f"{count:,} {things} {verb}".rstrip()


def _plural(thing: str) -> str:
    if re.search("[^aeiou]y$", thing):
        return f"{thing[:-1]}ies"
    return f"{thing}es" if thing.endswith(("ch", "s", "x")) else f"{thing}s"


def typed(remedy: str, pipeline_file: Path | str, datacenter: str) -> str:
    """Return a remedy whose commands can be typed: they name this pipeline file and datacenter."""
    said = re.sub(r"\bPIPELINE\b", lambda _: shlex.quote(str(pipeline_file)), remedy)
    return re.sub(r"\bDATACENTER\b", lambda _: datacenter, said)


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay rows of cells out as lines, with numbers below the names of their columns."""
    width = max(14, *(len(cell) + 2 for row in rows for cell in row[1:]))
    return [f"{first:20}" + "".join(f"{cell:>{width}}" for cell in others) for first, *others in rows]
