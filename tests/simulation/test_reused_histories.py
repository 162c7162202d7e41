"""Random histories of a device that counts anew after each boot: each row names the primary that F14 says.

More seeds: python -m tests.simulation.test_reused_histories 0 1000
"""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from photon.event_store import nearest
from photon.event_store.hashing import digests_of
from photon.event_store.interface import Around
from photon.join.joiner import Joiner
from photon.process.clock import MICROSECONDS
from photon.process.faults import FAULT_POINTS
from tests.simulation import random_steps
from tests.simulation.catching import search
from tests.simulation.random_steps import RandomSteps
from tests.simulation.world import NOON_US, World

STEPS = 12
WINDOW_US = 3 * MICROSECONDS
WRONG, MISSING, MISCOUNTED = (
    "a row names another primary",
    "an event has no row",
    "ambiguous rows are miscounted",
)


class Reuse(RandomSteps):
    """One history. `seen`: the primaries that lookups since the last whole join may have met."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.window_us = WINDOW_US if seed % 2 else None
        self.world = World(folder, ("east",), "retry: {lookup_window: 3s}" if seed % 2 else "")
        self.world.clock.advance(3_600)
        self.primaries: list[dict[str, Any]] = []
        self.clicks: dict[str, tuple[str, int]] = {}
        self.seen: list[list[dict[str, Any]]] = []
        self.checked: set[str] = set()
        self.least = self.most = 0  # ambiguous rows
        self.steps = [
            (5, self.log_primaries),
            (5, self.log_clicks),
            (5, self.join),
            (3, self.crash),
            (2, self.rotate),
        ]

    def at_us(self) -> int:
        return NOON_US + self.chance.randrange(12) * MICROSECONDS

    def log_primaries(self) -> None:
        """Some commands of one boot; now and then a copy of an earlier line."""
        for _ in range(self.chance.randrange(1, 5)):
            one = {
                "query": str(self.chance.randrange(3)),
                "at": self.at_us(),
                "text": f"t{len(self.primaries)}",
            }
            if self.primaries and self.chance.random() < 0.2:
                one = self.chance.choice(self.primaries)
            self.primaries.append(one)
            self.world.log("east", "queries", one, file=f"{self.chance.choice('abc')}.jsonl")

    def log_clicks(self) -> None:
        for _ in range(3):
            name, key, at_us = f"c{len(self.clicks)}", str(self.chance.randrange(3)), self.at_us()
            self.clicks[name] = key, at_us
            self.world.clicks((name, key), at_us=at_us)

    def rotate(self) -> None:
        """Give a log another name, by which no primary may be chosen."""
        folder = self.world.folder / "logs" / "east" / "queries"
        if files := sorted(folder.glob("?.jsonl")):
            file = self.chance.choice(files)
            file.rename(folder / f"{self.chance.randrange(10**6):06}-{file.name}")

    def join(self) -> None:
        self.seen.append(list(self.primaries))
        self.world.join()
        self.check_new_rows()
        self.seen = []

    def crash(self) -> None:
        self.seen.append(list(self.primaries))
        self.world.join_with_a_crash(f"{self.chance.choice(FAULT_POINTS)}:{self.chance.randrange(1, 3)}")

    def eligible(self, click: str, primaries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Written apart from the product: the primaries of a click, the one that F14 says first."""
        key, at_us = self.clicks[click]
        near = [one for one in primaries if one["query"] == key]
        near = [one for one in near if self.window_us is None or abs(one["at"] - at_us) <= self.window_us]

        def rank(one: dict[str, Any]) -> tuple[bool, int, int]:
            return (
                one["at"] > at_us,
                abs(one["at"] - at_us),
                int(digests_of(pa.array([json.dumps(one).encode()]))[0]),
            )

        return sorted(near, key=rank)

    def check_new_rows(self) -> None:
        for row in self.world.rows():
            if (click := row["_event_id"]) in self.checked:
                continue
            self.checked.add(click)
            chosen = [found for each in self.seen if (found := self.eligible(click, each))]
            named = row["primary_text"]
            assert named in {found[0]["text"] for found in chosen}, f"{WRONG}: {click} {named}"
            several = [len({one["text"] for one in found}) > 1 for found in chosen]
            self.least, self.most = self.least + all(several), self.most + any(several)
        with self.world.state_of("east") as state:
            counted = state.counts().ambiguous
        assert self.least <= counted <= self.most, f"{MISCOUNTED}: {counted}, not {self.least} to {self.most}"

    def check(self) -> None:
        ids = self.world.joined_ids()
        assert len(ids) == len(set(ids)), "an event was joined twice"

    def come_to_rest(self) -> None:
        self.join()
        self.world.clock.advance(3_600)
        self.join()
        joinable = {click for click in self.clicks if self.eligible(click, self.primaries)}
        assert not (missing := joinable - set(self.world.joined_ids())), f"{MISSING}: {sorted(missing)}"


problem_of = partial(random_steps.problem_of, Reuse, STEPS)


@pytest.mark.parametrize("seed", range(2))
def test_each_row_names_the_nearest_primary_whatever_crashes(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    assert problem_of(tmp_path, seed) is None


def test_who_joins_the_first_of_all_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = nearest._choose
    monkeypatch.setattr(nearest, "_choose", lambda *given: (*true(*given)[:2], true(*given)[0]))
    search(partial(problem_of, tmp_path), range(20), WRONG, "random histories")


def test_who_looks_beyond_the_window_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Around, "within", staticmethod(lambda times_us, _: Around.any_time(times_us)))
    search(partial(problem_of, tmp_path), range(20), WRONG, "random histories")


def test_who_counts_no_ambiguous_row_of_a_run_that_died_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Joiner, "_count_ambiguous", lambda *_: None)
    search(partial(problem_of, tmp_path), range(14, 60), MISCOUNTED, "random histories")


if __name__ == "__main__":
    random_steps.run_by_hand(problem_of)
