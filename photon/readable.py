"""Texts of users' logs in messages (names, ids, lines): what does not show as it is becomes an escape."""

from __future__ import annotations


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
