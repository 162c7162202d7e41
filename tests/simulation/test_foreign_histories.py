"""Random histories in which others delete rows while two datacenters join, crash and lose states (E11, E12).

More seeds: python -m tests.simulation.test_foreign_histories 0 1000
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher import batch_tools, startup
from photon.dispatcher.recovery import holders
from photon.health import foreign_commits
from photon.jobs.verification import _tell_releases
from photon.process.faults import FAULT_POINTS
from photon.storage.foreign_commits import ForeignCommitWatch
from photon.verification.report import VerificationReport
from tests.simulation import random_steps
from tests.simulation.catching import search
from tests.simulation.hold_stories import HOME
from tests.simulation.random_steps import RandomSteps
from tests.simulation.verifying import recover_all, verify
from tests.simulation.world import World
from tests.support.shares import seeds

STEPS = 14
NAMES = ("east", "west")
BEFORE_A_CLOSE = ("close.before", "complete.before_transaction", "claim.after", "batch.after_run")
BACK = "a row that others took is back"
UNTOLD = "nobody tells that others took rows"


class ForeignHistory(RandomSteps):
    """One random history. `taken`: events whose rows others took and nobody has ordered, by datacenter."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(folder, NAMES, HOME)
        self.clicks = 0
        self.taken: dict[str, set[str]] = {name: set() for name in NAMES}
        self.steps = [
            (5, self.log),
            (3, self.join),
            (2, self.log_again),
            (3, self.crash),
            (2, self.lose_a_state),
            (4, self.others_delete),
            (1, self.others_rewrite),
            (1, self.recover),
            (1, self.wait),
            (1, self.lose_answers),
        ]
        self.log()
        self.world.join()

    def somewhere(self) -> str:
        return self.chance.choice(NAMES)

    def log(self) -> None:
        ids = [f"c{self.clicks + n}" for n in range(self.chance.randrange(1, 4))]
        self.clicks += len(ids)
        self.world.everywhere(*ids)

    def log_again(self) -> None:
        """Both read another record of one event."""
        again = f"c{self.chance.randrange(self.clicks)}"
        for name in NAMES:
            self.world.clicks((again, "q1"), datacenter=name)
        self.join()

    def join(self) -> None:
        self.world.join(self.somewhere())

    def crash(self) -> None:
        points = self.chance.choice([BEFORE_A_CLOSE, FAULT_POINTS])
        name = self.somewhere()
        self.log()
        crashed = self.world.join_with_a_crash(self.chance.choice(points), name)
        if crashed and self.chance.random() < 0.5:
            self.others_delete()

    def lose_a_state(self) -> None:
        (self.world.state(self.somewhere()) / "dispatcher.sqlite").unlink(missing_ok=True)
        self.world.forget()

    def others_delete(self) -> None:
        name = self.somewhere()
        table = self.world.table(name)
        there = sorted(row["_event_id"] for row in self.rows_of(name))
        if there:
            event = self.chance.choice(there)
            table.load().delete(f"_event_id = '{event}'")
            self.taken[name].add(event)

    def others_rewrite(self) -> None:
        table = self.world.table(self.somewhere())
        if table.exists():
            table.load().optimize.compact()

    def recover(self) -> None:
        """All are joined again, and it is verified that they are."""
        for _ in range(3):
            self.join_both()
            if not any(one.ordered for one in recover_all(self.world).values()):
                break
        self.join_both()
        self.taken = {name: set() for name in NAMES}
        _tell_releases(self.world.pipeline, VerificationReport(verify(self.world), rows=0))

    def join_both(self) -> None:
        """Twice: what one holds the other ends."""
        for name in (*NAMES, *NAMES):
            self.world.join(name)

    def rows_of(self, name: str) -> list[dict[str, Any]]:
        table = self.world.table(name)
        return list(table.load().to_pyarrow_table().to_pylist()) if table.exists() else []

    def check(self) -> None:
        ids = self.world.joined_ids()
        assert len(ids) == len(set(ids)), "an event was joined twice"
        for name, taken in self.taken.items():
            assert not (back := taken & set(ids)), f"{BACK}: {sorted(back)}"
            assert bool(taken) <= self.is_red(name), UNTOLD

    def is_red(self, name: str) -> bool:
        foreign_commits._looks_at.cache_clear()
        foreign_commits._watch.cache_clear()
        return bool(foreign_commits.look_at_foreign_commits(self.world.pipeline, name, ()))

    def come_to_rest(self) -> None:
        self.join_both()
        self.check()
        self.recover()
        ids = self.world.joined_ids()
        assert ids == sorted(f"c{n}" for n in range(self.clicks)), "an event is missing, or there twice"
        self.join_both()
        _tell_releases(self.world.pipeline, VerificationReport(verify(self.world), rows=0))
        assert not any(map(self.is_red, NAMES)), "what was recovered and verified is still red"


class AroundCloses(ForeignHistory):
    """What others do between a commit and its close, which comes seldom in the other histories."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.steps = [(3, self.crash_and_delete), (2, self.join), (1, self.log_again)]

    def crash_and_delete(self) -> None:
        """A process dies before it closes its batch; others delete a row of that, and its state may go."""
        name = self.somewhere()
        self.log()
        if not self.world.join_with_a_crash("close.before", name):
            return
        newest = max((str(row["_event_id"]) for row in self.rows_of(name)), key=lambda one: int(one[1:]))
        self.world.table(name).load().delete(f"_event_id = '{newest}'")
        self.taken[name].add(newest)
        if self.chance.random() < 0.5:
            (self.world.state(name) / "dispatcher.sqlite").unlink()
            self.world.forget()


problem_of = partial(random_steps.problem_of, ForeignHistory, STEPS)
around_closes = partial(random_steps.problem_of, AroundCloses, 6)


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_what_others_took_is_told_and_comes_back_by_recovery_alone(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    assert problem_of(tmp_path, seed) is None


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_what_others_took_before_a_close_comes_back_by_recovery_alone(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    assert around_closes(tmp_path, seed) is None


@pytest.mark.parametrize(
    ("asks", "first"), [(batch_tools, 0), (startup, 0), (holders, 1)], ids=["batch", "start", "recovery"]
)
def test_who_frees_without_asking_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: object, first: int
) -> None:
    monkeypatch.setattr(asks, "others_took_rows", lambda *_: False)
    search(partial(around_closes, tmp_path), range(first, 30), BACK, "random histories")


def test_a_look_that_passes_over_commits_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForeignCommitWatch, "_of_entry", lambda *_: ())
    search(partial(problem_of, tmp_path), range(20), UNTOLD, "random histories")


if __name__ == "__main__":
    random_steps.run_by_hand(problem_of, around_closes)
