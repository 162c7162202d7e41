"""A history of steps made by hand from a seed, and the rows that are there after each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from photon.feed.step import Step
from tests.feed.made_steps import POSITION, row, step

Key = tuple[str, str, int, str]  # datacenter, epoch, batch, occurrence
Rows = dict[Key, tuple[int | None, str | None]]  # position and country
COUNTRY_FROM = 20  # the release with which a column comes
WEST_GONE_AT = 50
_WIDER = pa.schema([*POSITION, ("country", pa.string())])


class History:
    """Releases from 1 on: most insert some rows, others take some back or change them, or do nothing."""

    def __init__(self, seed: int, releases: int, keeps_rows: bool = False) -> None:
        self._random = random.Random(seed)
        self._changes: list[list[dict[str, Any]]] = [[]]
        self._recent: list[Key] = []  # keys of rows, of which some may be gone
        now: Rows = {}
        self.rows: list[Rows] = [{}]  # by release, none before the first; if they are kept
        for number in range(1, releases + 1):
            self._changes.append(list(self._changes_of(number, now)))
            if keeps_rows:
                self.rows.append(dict(now))

    def steps(self, after: int, up_to: int) -> list[Step]:
        """The steps behind one release up to another one."""
        return [
            step(
                number,
                self._changes[number],
                others=_WIDER if number >= COUNTRY_FROM else POSITION,
                lakes_gone=["west"] if number == WEST_GONE_AT else [],
            )
            for number in range(after + 1, up_to + 1)
        ]

    def _changes_of(self, number: int, rows: Rows) -> Iterator[dict[str, Any]]:
        if number == WEST_GONE_AT:
            yield {"_release": number, "_change_type": "delete", "_datacenter": "west"}
            for key in [key for key in rows if key[0] == "west"]:
                del rows[key]
        if self._random.random() < 0.3:
            for key in self._random.sample(self._recent, min(2, len(self._recent))):
                if key in rows:
                    yield from self._other(number, key, rows)
        names = ["east"] if number >= WEST_GONE_AT else ["east", "west"]
        for at in range(self._random.choice([0, 1, 1, 2, 5])):
            key = self._random.choice(names), "1", number, f"0:{at}"
            rows[key] = self._values(number)
            self._recent = [*self._recent[-100:], key]
            yield _change(number, "insert", key, rows[key])

    def _other(self, number: int, key: Key, rows: Rows) -> Iterator[dict[str, Any]]:
        before = rows.pop(key)
        if self._random.random() < 0.5:
            yield _change(number, "delete", key, before)
        else:
            rows[key] = self._values(number)
            yield _change(number, "update_preimage", key, before)
            yield _change(number, "update_postimage", key, rows[key])

    def _values(self, number: int) -> tuple[int, str | None]:
        country = self._random.choice(["dk", "", None]) if number >= COUNTRY_FROM else None
        return self._random.randrange(1_000_000), country


def _change(number: int, change: str, key: Key, values: tuple[int | None, str | None]) -> dict[str, Any]:
    datacenter, _, batch, occurrence = key
    country = {"country": values[1]} if number >= COUNTRY_FROM else {}
    return row(
        batch,
        0,
        change,
        _release=number,
        _datacenter=datacenter,
        _occurrence=occurrence,
        position=values[0],
        **country,
    )
