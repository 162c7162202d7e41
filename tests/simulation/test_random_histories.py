"""Random histories of two datacenters: crashes, lost states and answers; and what must hold after each step.

The invariants are those of the protocol's section F, as far as they can be seen from outside.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from photon.faults import FAULT_POINTS
from photon.pipeline.event_key import EventKey
from photon.registry.interface import Joined
from tests.simulation.world import World

STEPS = 25
DATACENTERS = ("east", "west")


class History:
    """One random history; `steps` are what may happen, with their weights."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(folder, DATACENTERS, "home: {takeover_delay: 1s, quiet_after: 20s}")
        self.queries = 0
        self.clicks = 0
        self.written: Counter[str] = Counter()  # foreign records by datacenter
        self.copies: dict[str, Callable[[], None]] = {}
        self.steps: list[tuple[int, Callable[[], None]]] = [
            (6, self.log),
            (4, self.join),
            (5, self.crash),
            (1, self.lose_state),
            (1, self.restore_state),
            (2, self.lose_answers),
            (2, self.wait),
        ]

    def log(self) -> None:
        """Both datacenters get the same lines, some of them in another order or another file."""
        new_queries = [f"q{self.queries + n}" for n in range(self.chance.randrange(4))]
        self.queries += len(new_queries)
        pairs = []
        for _ in range(self.chance.randrange(5)):
            late = self.chance.random() < 0.3  # its query is logged in a later step
            query = (
                self.queries + self.chance.randrange(3) if late else self.chance.randrange(self.queries + 1)
            )
            pairs.append((f"c{self.clicks}", f"q{query}"))
            self.clicks += 1
        if pairs and self.chance.random() < 0.3:
            pairs.append(self.chance.choice(pairs))
        for name in DATACENTERS:
            shuffled = self.chance.sample(pairs, len(pairs))
            file = self.chance.choice(["a.jsonl", "b.jsonl"])
            self.world.clicks(*shuffled, datacenter=name, file=file)
            self.world.queries(*new_queries, datacenter=name, file=file)
            self.written[name] += len(pairs)

    def somewhere(self) -> str:
        return self.chance.choice(DATACENTERS)

    def join(self) -> None:
        self.world.join(self.somewhere())

    def crash(self) -> None:
        point = f"{self.chance.choice(FAULT_POINTS)}:{self.chance.randrange(1, 3)}"
        self.world.join_with_a_crash(point, self.somewhere(), self.chance.choice(["until_idle", "complete"]))

    def lose_state(self) -> None:
        name = self.somewhere()
        if self.world.state(name).exists():
            if self.chance.random() < 0.5 and name not in self.copies:
                self.copies[name] = self.world.copy_state(name)
            else:
                shutil.rmtree(self.world.state(name))

    def restore_state(self) -> None:
        name = self.somewhere()
        if name in self.copies and self.world.state(name).exists():
            self.copies[name]()

    def lose_answers(self) -> None:
        """Some requests of a join are lost, or their answers."""

        def maybe(_kind: str, _batch: object) -> None:
            if self.chance.random() < 0.2:
                self.world.store.fail(self.chance.choice(["lost_request", "lost_answer", "unprocessed"]))

        self.world.store.on_request = maybe
        self.world.join(self.somewhere())
        self.world.store.on_request = lambda kind, batch: None
        self.world.store.mend()

    def wait(self) -> None:
        self.world.clock.advance(self.chance.choice([0.5, 5, 60]))

    def step(self) -> None:
        weights, choices = zip(*self.steps, strict=True)
        self.chance.choices(choices, weights)[0]()

    def check(self) -> None:
        """F1: at most one row an id. F8: a row's token holds its id."""
        rows = self.world.rows()
        ids = [row["_event_id"] for row in rows]
        assert len(ids) == len(set(ids)), "an event was joined twice"
        for row, held in zip(rows, self.world.registry.lookup([EventKey(i) for i in ids]), strict=True):
            assert isinstance(held, Joined), f"{row['_event_id']} has a row, but nobody holds it"
            assert held.holder.datacenter == row["_datacenter"]
            assert f":{row['_epoch']}:{row['_batch']}#" in (held.holder.token or "")

    def come_to_rest(self) -> None:
        """F13: at rest everything that can be joined is, and the classes add up."""
        for name in (*DATACENTERS, *DATACENTERS):
            self.world.join(name, "complete")
        expected = {f"c{n}" for n in range(self.clicks)} & self.joinable_clicks()
        assert set(self.world.joined_ids()) == expected
        for name in DATACENTERS:
            counts = self.world.read_state(name).counts()
            assert counts.adds_up
            assert counts.foreign == self.written[name]
            assert counts.of("pending") == 0

    def joinable_clicks(self) -> set[str]:
        known = {f"q{n}" for n in range(self.queries)}
        lines = [
            line
            for path in (self.world.folder / "logs" / "east" / "clicks").iterdir()
            for line in path.read_text().splitlines()
        ]

        clicks = [json.loads(line) for line in lines]
        return {click["click"] for click in clicks if click["query"] in known}


@pytest.mark.parametrize("seed", range(12))
def test_no_history_joins_an_event_twice_or_loses_one(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    history = History(tmp_path, seed)
    for _ in range(STEPS):
        history.step()
        history.check()
    history.come_to_rest()
    history.check()
