"""Ledgers keep their rules in random schedules of kills, sleepers, copies, rolls and collections (L1-L12)."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.registry.simulation import simulate

SEEDS = 10  # `make soak` has 20,000


def test_the_rules_hold_in_random_schedules() -> None:
    problems = {seed: simulate(seed) for seed in range(SEEDS)}
    wrong = {seed: problem for seed, problem in problems.items() if problem is not None}
    assert not wrong, f"again: python -m tests.registry.simulation --seed {min(wrong)}"


def test_a_seed_tells_the_same_story_in_whatever_order_python_has_the_texts_of_a_set() -> None:
    command = [sys.executable, "-m", "tests.registry.simulation", "--seed", "7"]
    environments = [{**os.environ, "PYTHONHASHSEED": hash_seed} for hash_seed in ("1", "4")]
    stories = [subprocess.check_output(command, env=environment) for environment in environments]
    assert stories[0].strip()
    assert stories[0] == stories[1]
