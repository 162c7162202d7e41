"""Texts as messages show them: what users' logs hold, and counted things."""

from __future__ import annotations

import pytest

from photon.process.readable import counted, readable


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


@pytest.mark.parametrize(
    ("count", "thing", "verb", "said"),
    [
        (0, "file", "", "0 files"),
        (1, "file", "", "1 file"),
        (1_200, "dead letter", "", "1,200 dead letters"),
        (2, "entry", "", "2 entries"),
        (2, "day", "", "2 days"),
        (2, "batch", "", "2 batches"),
        (1, "event", "wait", "1 event waits"),
        (2, "event", "wait", "2 events wait"),
        (1, "record", "are", "1 record is"),
        (1, "record", "would be", "1 record would be"),
        (1, "byte", "were", "1 byte was"),
    ],
)
def test_a_number_of_things_agrees_with_its_noun_and_verb(
    count: int, thing: str, verb: str, said: str
) -> None:
    assert counted(count, thing, verb) == said
