"""Random histories of two lakes: whatever happens to tables, a kept release shows what it showed at first."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from photon.process import faults
from photon.releases.finding import ReleaseUnreadable
from photon.storage.delta import open_table
from tests.releases.lakes import LATER, Lakes, joined_in, new_lakes
from tests.support.crashes import SimulatedCrash, raise_simulated_crash
from tests.support.shares import seeds

STEPS, MOST_KEPT = 18, 4


def killed_rebuild(lakes: Lakes, name: str) -> None:
    faults.arm("rebuild.after_listed", raise_simulated_crash)
    try:
        lakes.rebuild(name, drops=True)
    except SimulatedCrash:
        pass
    finally:
        faults.disarm()


def step(lakes: Lakes, rng: random.Random) -> str:
    """Have something happen to a lake; its name."""
    name = rng.choice(("east", "west"))
    steps = {
        "batch": lambda: lakes.append(name, rng.randint(0, 3)),
        "release": lambda: lakes.release(lags=rng.randint(0, 1), into=rng.choice((["east", "west"], [name]))),
        "rebuild": lambda: lakes.rebuild(name, drops=rng.random() < 0.3),
        "killed rebuild": lambda: killed_rebuild(lakes, name),
        "compaction": lambda: lakes.compact(name, later=rng.choice((LATER * 0, LATER, LATER))),
        "epoch": lambda: lakes.begin_epoch(name),
        "others": lambda: open_table(lakes.table(name).folder).optimize.compact(),
    }
    kind = rng.choices(list(steps), weights=[6, 3, 4, 1, 5, 1, 0.2])[0]
    steps[kind]()
    if len(lakes.made) > MOST_KEPT:
        lakes.forget_before(lakes.made[-MOST_KEPT].release.number)
    return kind


def history(lakes: Lakes, seed: int) -> int:
    """Go through a random history; how often a release was read."""
    rng, read, were_there_others = random.Random(seed), 0, False
    happened: list[str] = []
    for name in ("east", "east", "west", "west"):
        lakes.append(name)
    lakes.release()
    for _ in range(STEPS):
        happened.append(step(lakes, rng))
        were_there_others |= happened[-1] == "others"
        for made in lakes.made:
            try:
                assert joined_in(lakes, made.release.number) == made.joined, (seed, happened)
                read += 1
            except ReleaseUnreadable:  # never because of Photon's own work
                assert were_there_others, (seed, happened)
    return read


@pytest.mark.parametrize("seed", seeds(1, 40))
def test_a_release_shows_what_it_showed_at_first_or_is_refused(tmp_path: Path, seed: int) -> None:
    assert history(new_lakes(tmp_path / "lakes", tmp_path, seed), seed) > 0
