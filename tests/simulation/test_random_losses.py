"""Random histories of a datacenter that loses logs and waiting records, and crashes (protocol A14, A17, A19).

Unread lines are gone with their log. A registered id must have its row, whatever went since.
"""

from __future__ import annotations

import random
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import get_args

import pytest

from photon.process.faults import FAULT_POINTS
from photon.state.waiting import segments
from photon.state.waiting.segments import INDEX, RECORDS
from tests.simulation import random_steps
from tests.simulation.ahead_stories import SMALL_BATCHES
from tests.simulation.batch_stories import Harm, harm_waiting
from tests.simulation.log_lines import FORMATS
from tests.simulation.random_steps import RandomSteps
from tests.simulation.runners import DiesOnce
from tests.simulation.world import World
from tests.support.shares import seeds

STEPS = 25
CLAIMED = ("claim.after", "task.after_rows_written", "batch.after_run", "commit.before_main")


class Losses(RandomSteps):
    """One random history; `steps` are what may happen, with their weights."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        more = SMALL_BATCHES if seed % 2 else ""
        self.world = World(folder, more=more, format_=FORMATS[seed % len(FORMATS)])
        self.clicks = 0
        self.queries = 0
        self.files = 0
        self.steps = [
            (6, self.log),
            (2, self.join),
            (4, self.crash),
            (1, self.lose_a_log),
            (4, self.crash_and_lose_a_log),
            (1, self.harm_what_waits),
            (1, self.lose_answers),
            (1, self.lose_the_worker),
            (2, self.wait),
        ]

    def log(self) -> None:
        """Some clicks in a file of their own, or at the end of the last one. Their queries may come later."""
        self.files += self.chance.random() < 0.5
        file = f"{self.files}.jsonl"
        ids = [f"c{self.clicks + n}" for n in range(self.chance.randrange(1, 5))]
        self.clicks += len(ids)
        new = self.chance.randrange(3)
        self.world.queries(*(f"q{self.queries + n}" for n in range(new)), file=file)
        self.queries += new
        self.world.clicks(*((i, f"q{self.chance.randrange(self.queries + 2)}") for i in ids), file=file)

    def join(self) -> None:
        self.world.join()

    def crash(self) -> None:
        point = f"{self.chance.choice(FAULT_POINTS)}:{self.chance.randrange(1, 3)}"
        self.world.join_with_a_crash(point, mode=self.chance.choice(["until_idle", "complete"]))

    def crash_and_lose_a_log(self) -> None:
        """The process dies with ids claimed, and before it is back a log goes."""
        self.log()
        self.world.join_with_a_crash(self.chance.choice(CLAIMED))
        self.lose_a_log()

    def lose_a_log(self) -> None:
        """A log is deleted, or copied and truncated."""
        side = self.chance.choice(["clicks", "clicks", "queries"])
        logs = sorted((self.world.folder / "logs" / "east" / side).iterdir(), key=lambda log: int(log.stem))
        if logs:
            log = self.chance.choice([logs[-1], self.chance.choice(logs)])
            log.unlink() if self.chance.random() < 0.5 else log.write_text("")

    def harm_what_waits(self) -> None:
        if (self.world.state() / segments.FOLDER).is_dir():
            suffix = self.chance.choice([RECORDS, INDEX])
            harm_waiting(self.world, self.chance.choice(get_args(Harm)), suffix)

    def lose_the_worker(self) -> None:
        self.world.clicks((f"poison{self.clicks}", "q0"), file=f"{self.files}.jsonl")
        self.world.join(runner=DiesOnce(self.world))

    def check(self) -> None:
        """No event has two rows, each row's plan holds its id, and the classes add up."""
        rows = self.world.rows()
        ids = [row["_event_id"] for row in rows]
        assert len(ids) == len(set(ids)), "an event was joined twice"
        held = self.world.holders(*ids)
        for row in rows:
            holder = held.get(row["_event_id"])
            assert holder is not None, f"{row['_event_id']} has a row, but nobody holds it"
            assert (holder.plan, holder.batch) == (row["_plan"], row["_batch"])
        if self.world.state().exists():
            with closing(self.world.read_state()) as state:
                assert state.epoch is None or state.counts().adds_up
                assert state.epoch is None or state.counts().of("joined") <= len(rows)

    def come_to_rest(self) -> None:
        """Join the rest, and check that each id that is held has a row."""
        for _ in range(2):
            self.world.join(mode="complete")
        self.check()
        joined = set(self.world.joined_ids())
        ids = [*(f"c{n}" for n in range(self.clicks)), *(f"poison{n}" for n in range(self.clicks + 1))]
        assert set(self.world.holders(*ids)) <= joined, "an id is claimed and has no row"
        with closing(self.world.read_state()) as state:
            counts = state.counts()
        assert counts.of("pending") == 0
        assert counts.of("joined") == len(joined)


problem_of = partial(random_steps.problem_of, Losses, STEPS)


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_whatever_logs_and_waiting_records_go_what_is_claimed_has_its_row(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    assert problem_of(tmp_path, seed) is None
