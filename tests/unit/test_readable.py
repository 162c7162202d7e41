"""Texts of users' logs as messages show them."""

from __future__ import annotations

import pytest

from photon.process.readable import readable


@pytest.mark.parametrize("text", ["clicks/a.log", "caf\u00e9 \u691c\u7d22", "a\tb", "C:\\logs", ""])
def test_what_shows_as_it_is_stays_so(text: str) -> None:
    assert readable(text) == readable(text.encode()) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[7m", "a\\x1b[7m"),
        ("a\nb\0", "a\\nb\\x00"),
        (b"caf\xe9", "caf\\xe9"),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_what_a_terminal_would_obey_or_not_show_is_an_escape(text: str | bytes, shown: str) -> None:
    assert readable(text) == shown
