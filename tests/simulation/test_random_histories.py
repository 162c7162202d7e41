"""Random histories of two datacenters: crashes, lost states and answers; and what must hold after each step.

The invariants are those of the protocol's section F, as far as they can be seen from outside.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from photon.faults import FAULT_POINTS
from photon.pipeline.event_key import EventKey
from photon.registry.interface import Joined
from photon.state.database import STATE_FILE, DispatcherState
from photon.storage.tables import FENCE_VERSION
from photon.tokens import Occurrence, Token
from tests.simulation.ahead_stories import SMALL_BATCHES
from tests.simulation.log_lines import FORMATS
from tests.simulation.random_steps import RandomSteps
from tests.simulation.world import World

STEPS = 25
DATACENTERS = ("east", "west")


class History(RandomSteps):
    """One random history; `steps` are what may happen, with their weights."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        more = "home: {takeover_delay: 1s, quiet_after: 20s}"
        if seed % 2:  # so that batches are indexed ahead
            more += f"\n{SMALL_BATCHES}"
        self.world = World(folder, DATACENTERS, more, FORMATS[seed % len(FORMATS)])
        self.queries = 0
        self.clicks = 0
        self.written: Counter[str] = Counter()  # foreign records by datacenter
        self.copies: dict[str, Callable[[], None]] = {}
        self.offsets: dict[tuple[str, str | None, int], int] = {}  # by datacenter, epoch and file
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
            self.offsets = {known: at for known, at in self.offsets.items() if known[0] != name}

    def check(self) -> None:
        """F1, F2 and F7 to F11, as far as they are seen from outside."""
        rows = self.world.rows()
        self.check_rows(rows)
        for name, place in self.world.pipeline.datacenters.items():
            self.check_commits(place.lake / "joined_events" / "_delta_log")
            if (place.state / STATE_FILE).exists():
                state = self.world.read_state(name)
                self.check_places(state)
                self.check_consumed(name, state)
                joined = state.counts().of("joined")
                assert joined <= sum(row["_datacenter"] == name for row in rows), "F8: joined without a row"
                state.close()

    def check_rows(self, rows: list[dict[str, Any]]) -> None:
        """F1: at most one row an id. F2: the token that holds the id is the row's own."""
        ids = [row["_event_id"] for row in rows]
        assert len(ids) == len(set(ids)), "an event was joined twice"
        for row, held in zip(rows, self.world.registry.lookup([EventKey(i) for i in ids]), strict=True):
            assert isinstance(held, Joined), f"{row['_event_id']} has a row, but nobody holds it"
            token = Token.parse(held.holder.token or "")
            plan, occurrence = token.plan, str(token.occurrence)
            of_row = tuple(row[name] for name in ("_datacenter", "_epoch", "_batch", "_plan", "_occurrence"))
            assert (*astuple(plan), occurrence) == of_row

    def check_commits(self, delta_log: Path) -> None:
        """F7: the batches of an application id have no gap; only its fence jumps."""
        committed: dict[str, list[int]] = defaultdict(list)
        for entry in sorted(delta_log.glob("*.json")):
            for action in map(json.loads, entry.read_text().splitlines()):
                if "txn" in action:
                    committed[action["txn"]["appId"]].append(action["txn"]["version"])
        for batches in committed.values():
            fence = [FENCE_VERSION] if batches[-1] == FENCE_VERSION else []
            assert batches == [*range(1, len(batches) - len(fence) + 1), *fence]

    def check_places(self, state: DispatcherState) -> None:
        """F10: one open plan, and no record in two places."""
        with sqlite3.connect(state.path) as db:
            assert db.execute("SELECT count(*) FROM plan").fetchone()[0] <= 1
        db.close()
        plan = state.open_plan()
        work = [content for number, content in state.requeued() if plan is None or number != plan.requeue_id]
        work += [plan.content] if plan is not None else []
        retries = Counter(
            place for content in work for each in content.retries for place in each.occurrences()
        )
        events = state.waiting.events()
        waiting = set(map(Occurrence, events["file"].to_pylist(), events["offset"].to_pylist()))
        assert len(waiting) == len(events)
        assert set(retries.values()) <= {1}
        assert retries.keys() <= waiting
        ranges = sorted(
            (part.file_number, part.start_bytes, part.end_bytes)
            for content in work
            for part in (*content.primary, *content.foreign)
        )
        for before, after in pairwise(ranges):
            assert before[0] != after[0] or before[2] <= after[1]
        for file, start, end in ranges:
            assert not any(each.file_number == file and start <= each.offset_bytes < end for each in waiting)

    def check_consumed(self, name: str, state: DispatcherState) -> None:
        """F9: offsets never go back. F11: each line before them is counted once, or requeued."""
        lines = 0
        for number, tracked in state.files().items():
            known = (name, state.epoch, number)
            assert tracked.offset_bytes >= self.offsets.get(known, 0)
            self.offsets[known] = tracked.offset_bytes
            if tracked.file.side == "foreign":
                path = self.world.pipeline.datacenters[name].logs / tracked.file.path
                read = slice(tracked.file.header_bytes, tracked.offset_bytes)
                lines += path.read_bytes()[read].count(b"\n")
        requeued = sum(part.lines for _, content in state.requeued() for part in content.foreign)
        counts = state.counts()
        assert counts.adds_up
        assert counts.foreign == lines - requeued

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
        clicks = self.world.records("east", "clicks")
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
