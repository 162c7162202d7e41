"""Random histories in which ids occur in several records: with other keys, without primaries, late (A9)."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from photon.join.deciding import JoinDecisions
from photon.process.faults import FAULT_POINTS
from tests.simulation import random_steps
from tests.simulation.ahead_stories import SMALL_BATCHES
from tests.simulation.catching import search
from tests.simulation.log_lines import FORMATS
from tests.simulation.random_steps import RandomSteps
from tests.simulation.verifying import recover_all, verify
from tests.simulation.whole.variants import the_leader_decides
from tests.simulation.world import NOON_US, World
from tests.support.shares import seeds

STEPS = 14
NAMES = ("east", "west")
SOON = "home: {takeover_delay: 1s}\nrecovery: {silent_after: 20s}\n"
LATER_US = 3  # the times of one id's records may differ by so much


class Records(RandomSteps):
    """One random history of two datacenters, whose logs have the same records in other files and orders."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        more = SOON + (SMALL_BATCHES if seed % 2 else "")
        self.world = World(folder, NAMES, more, FORMATS[seed % len(FORMATS)])
        self.keys: dict[str, set[str]] = {}  # the queries that an event's records name
        self.logged: list[str] = []  # queries that are in the logs
        self.promised: list[str] = []  # queries that may still come
        self.steps = [
            (5, self.log_clicks),
            (3, self.log_queries),
            (5, lambda: self.world.join(self.somewhere())),
            (1, lambda: self.world.join(self.somewhere(), "complete")),
            (3, self.crash),
            (1, self.lose_answers),
            (2, self.wait),
        ]

    def somewhere(self) -> str:
        return self.chance.choice(NAMES)

    def log_clicks(self) -> None:
        """Records of some ids; each names a query that is there, may come, or never does."""
        self.promised += [f"q{len(self.logged) + len(self.promised)}" for _ in range(2)]
        ids = [f"c{self.chance.randrange(len(self.keys) + 2)}" for _ in range(4)]
        records = []
        for click in (each for each in ids for _ in range(self.chance.choice((1, 1, 2, 4)))):
            query = self.chance.choice([*self.logged[-4:], *self.promised[-4:], "never", "never"])
            self.keys.setdefault(click, set()).add(query)
            records.append((click, query, NOON_US + self.chance.randrange(LATER_US)))
        for name in NAMES:
            self.chance.shuffle(records)
            for click, query, at_us in records:
                file = f"{self.chance.choice('abc')}.jsonl"
                self.world.clicks((click, query), datacenter=name, at_us=at_us, file=file)

    def log_queries(self) -> None:
        """Some of the queries that were promised."""
        self.chance.shuffle(self.promised)
        new, self.promised = self.promised[:2], self.promised[2:]
        self.logged += new
        for name in NAMES:
            self.world.queries(*new, datacenter=name)

    def crash(self) -> None:
        point = f"{self.chance.choice(FAULT_POINTS)}:{self.chance.randrange(1, 3)}"
        self.world.join_with_a_crash(point, self.somewhere(), self.chance.choice(("until_idle", "complete")))

    def check(self) -> None:
        """F1, F11: one row an id, of a record whose primary is there; the classes add up."""
        rows = self.world.rows()
        ids = [row["_event_id"] for row in rows]
        assert len(ids) == len(set(ids)), "an event was joined twice"
        for row in rows:
            assert row["query"] in self.keys[row["_event_id"]].intersection(self.logged), "a row of no pair"
        for name in NAMES:
            if self.world.state(name).exists():
                with self.world.state_of(name) as state:
                    assert state.epoch is None or state.counts().adds_up

    def come_to_rest(self) -> None:
        """Join the rest; check that each event with a joinable record has its row, as verification says."""
        for _ in range(3):
            for name in NAMES:
                self.world.join(name, "complete")
            self.world.clock.advance(30)
        self.check()
        joinable = {click for click, queries in self.keys.items() if not queries.isdisjoint(self.logged)}
        missing = joinable - set(self.world.joined_ids())
        assert not missing, f"an event has no row though a record of it has a primary: {sorted(missing)}"
        for name, report in verify(self.world).items():
            assert not report.findings, f"verification: {report.as_dict()}"
            with self.world.state_of(name) as state:
                counts = state.counts()
                is_first_epoch = not state.follows_an_epoch
            counted = {each: count for each, count in counts.classes.items() if count}
            # A later epoch takes the first record that it meets for the one that had joined.
            is_alike = counted == dict(report.classes) or not is_first_epoch
            assert is_alike, f"verification counts otherwise: {counted}"
        assert not any(each.ordered for each in recover_all(self.world).values()), "something is recovered"


problem_of = partial(random_steps.problem_of, Records, STEPS)


@pytest.mark.parametrize("seed", seeds(1, 4))
def test_no_history_of_records_of_one_id_joins_an_event_twice_or_loses_one(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    assert problem_of(tmp_path, seed) is None


def test_random_records_find_that_the_first_record_decides_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # A9
    monkeypatch.setattr(JoinDecisions, "undecided", the_leader_decides)
    because = "an event has no row though a record of it has a primary"
    search(lambda seed: problem_of(tmp_path, seed), range(2, 20), because, "random records")
